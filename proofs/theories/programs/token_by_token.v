(* A drafted block, standard speculative decoding: the first rejection of the maximal coupling ends
   it.  Python: draftproof.reference.verifiers.token_by_token.                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section TokenByToken.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Variables (pd qt : seq V -> V -> R).
Notation draft := (draft pd).

Fixpoint token_by_token_scan c xs : prog (seq V) :=
  if xs is x :: xs' then
    Flip (acc (pd c) (qt c) x)
      (token_by_token_scan (rcons c x) xs')
      (emit (res vs (pd c) (qt c)) c)
  else emit (qt c) c.
Definition token_by_token L c : prog (seq V) := bind (draft L c) (token_by_token_scan c).
End TokenByToken.

(* Recursive rejection without replacement on drafts that may repeat: a token that was rejected before
   is owed nothing, so its coin has bias 0, and it changes neither row.
   Python: draftproof.reference.couplings.without_replacement.
   theorems/skip_repetitions.v, theorems/distinct_paths.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting traversal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SkipRepetitions.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).

(* h: the tokens rejected so far; p: the draft row without them; q: what is owed. *)
Fixpoint skip_scan (h : seq V) (p q : V -> R) xs : prog V :=
  if xs is x :: xs' then
    Flip (acc p q x) (Ret x)
      (if x \in h then skip_scan h p q xs'
       else skip_scan (x :: h) (masked vs p x) (res vs p q) xs')
  else Draw q (fun y => Ret y).
Definition node_skip (pd qt : seq V -> V -> R) c xs : prog V := skip_scan [::] (pd c) (qt c) xs.
End SkipRepetitions.

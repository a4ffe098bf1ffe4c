(* One token, K drafts tested against a residual that is updated (SpecInfer 2305.09781; without
   replacement: Sequoia 2402.12374).  The drafter may be adaptive: d h is the law of the next draft
   after the drafts h.  Python: draftproof.reference.couplings.recursive_rejection and
   .without_replacement.                                                        *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RecursiveRejection.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).

Fixpoint recursive_rejection_scan (d : seq V -> V -> R) (h : seq V) (q : V -> R) xs : prog V :=
  if xs is x :: xs' then
    Flip (acc (d h) q x) (Ret x) (recursive_rejection_scan d (rcons h x) (res vs (d h) q) xs')
  else Draw q (fun y => Ret y).

Definition recursive_rejection d n q : prog V := bind (draws d n [::]) (recursive_rejection_scan d [::] q).
End RecursiveRejection.

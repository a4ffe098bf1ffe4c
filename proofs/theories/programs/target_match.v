(* One token drawn from the target row; a draft is kept if it is that token: lossless for any set of
   drafts.  Python: draftproof.reference.couplings.target_match.                 *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section TargetMatch.
Variables (R : realFieldType) (V : eqType) (qt : seq V -> V -> R).
Definition node_match c (xs : seq V) : prog R V V := Draw (qt c) (fun y => Ret y).
End TargetMatch.

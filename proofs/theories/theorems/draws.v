(* Drawing the drafts for one position.                                         *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Draws.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation dist := (is_dist vs).
Notation prog := (prog R V).

Lemma draws_wf (d : seq V -> V -> R) n h : (forall h, dist (d h)) -> wf vs (draws d n h).
Proof.
move=> dd; elim: n h => [|n IH] h //=; split=> // x; exact: wf_bind.
Qed.
End Draws.

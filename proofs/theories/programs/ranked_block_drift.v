(* Ranked block verification with a coupling whose column sums need not be right: the rows of the
   selected path are normalised over the vocabulary; and the error that is made at a context.
   theorems/ranked_block_drift.v.                                                           *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting block scan spectr_gbv greedy_block
   selection ranked_block drift.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RankedRobustCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Variables (J : nat) (pi0 : nat -> R) (post : seq V -> seq V -> nat -> R).
Notation prog := (prog R V).

(* The rows of the selected path, normalised over the vocabulary. *)
Definition rmass K c x : R := sumf vs (fun v => pd x v * label_weight J pi0 post K c (rcons x v)).
Definition nrow K c x v : R :=
  if rmass K c x == 0 then pd x v else pd x v * label_weight J pi0 post K c
    (rcons x v) / rmass K c x.
Definition ranked_block_normalised K L c : prog (seq V) :=
  bind (selected pd J post K L c) (fun xs =>
  bind (block_scan vs (nrow K c) qt c 1 xs (c, 1, xs == [::])) (block_emit vs (nrow K c) qt)).

Definition ranked_greedy_block_normalised K L (D : seq V -> V -> R) c
  : prog (seq V * (seq V -> V -> R)) :=
  bind (bind (selected pd J post K L c) (fun xs =>
    scan (joint_ratio (nrow K c) D) (greedy_bias vs (nrow K c) D) c 1 xs None))
  (greedy_block_out vs (nrow K c) L D c).

(* By how much the label law of x is not the mean of its children's. *)
Definition colmean c x l : R := \sum_(v <- vs) pd x v * post c (rcons x v) l.
Definition defect c x : R := tv (index_iota 0 J) (colmean c x) (post c x).
(* The expected sum of e over the contexts of depth 0 .. n-1 of a draft below x. *)
Fixpoint along (e : seq V -> R) n x : R :=
  if n is n'.+1 then e x + \sum_(v <- vs) pd x v * along e n' (rcons x v) else 0.
End RankedRobustCode.

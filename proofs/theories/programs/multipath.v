(* Any scores: whatever law over J labels is attached to each whole path, its
   conditional expectations along the path are a family with the column sums, so
   selecting the highest score and block-verifying is exact.  Instance: a fixed
   order of the paths (greedy multi-path).
   Python: draftproof.reference.verifiers.multipath.  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting block selection ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section ScoresCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R) (J L : nat).
Notation prog := (prog R V).
(* score c x : law of the label of a draft below c whose whole context is x. *)
Variable score : seq V -> seq V -> nat -> R.
(* ... and of one that passes through x. *)
Definition cond c x l : R :=
  E vs (draft pd (size c + L - size x)%N x) (fun s => score c (take (size c + L)%N (x ++ s)) l).
Definition post_at c : seq V -> seq V -> nat -> R := fun c' x => if c' == c then cond c x else cond c c.
Definition scored K c : prog (seq V) := ranked_block vs pd qt J (cond c c) (post_at c) K L c.

(* A fixed order: the path with the highest key, the first one among equals. *)
Variable key : seq V -> seq V -> nat.
Definition top K c : prog (seq V) :=
  bind (drafts pd K L c) (fun ps =>
    Ret (if ps is s :: ps' then champion (fun s => key c (c ++ s)) s ps' else [::])).
Definition multipath K c : prog (seq V) :=
  let r := selected_row pd J (cond c c) (post_at c) K c in
  bind (top K c) (fun xs =>
  bind (block_scan vs r qt c 1 xs (c, 1, xs == [::])) (block_emit vs r qt)).
End ScoresCode.

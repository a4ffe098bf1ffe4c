(* Ranked block verification: every draft gets a label whose law is coupled to
   its path; the first draft with the highest label is selected; that path alone
   is block-verified with the rows of the selected law in place of the draft's.
   Exact for every coupling with the right column sums.
   Python: draftproof.reference.verifiers.ranked_block.  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting block selection.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RankedCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
(* J labels; pi0 their law; post c x : the law of the label of a draft below the
   root c that passes through the context x.                                  *)
Variables (J : nat) (pi0 : nat -> R) (post : seq V -> seq V -> nat -> R).
Notation prog := (prog R V).

(* T_x = sum_l pi_x(l) u(l), and the rows of the selected path. *)
Definition label_weight K c x : R := let pi := post c x in csum (fun l => pi l * boost K pi0 l) J.
Definition selected_row K c x v : R :=
  if label_weight K c x == 0 then pd x v else pd x v * label_weight K c (rcons x v) / label_weight K c x.

(* A label for every path, from the law at its leaf. *)
Fixpoint labels c (ps : seq (seq V)) : prog (seq (seq V * nat)) :=
  if ps is s :: ps' then
    bind (draw_label V J (post c (c ++ s))) (fun l =>
    bind (labels c ps') (fun r => Ret ((s, l) :: r)))
  else Ret [::].
Definition winner (r : seq (seq V * nat)) : seq V :=
  if r is a :: r' then (champion snd a r').1 else [::].

(* The path that is selected, and the block verification of it. *)
Definition selected K L c : prog (seq V) :=
  bind (drafts pd K L c) (fun ps => bind (labels c ps) (fun r => Ret (winner r))).
Definition ranked_block K L c : prog (seq V) :=
  bind (selected K L c) (fun xs =>
  bind (block_scan vs (selected_row K c) qt c 1 xs (c, 1, xs == [::])) (block_emit vs (selected_row K c) qt)).
End RankedCode.

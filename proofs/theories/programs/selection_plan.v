(* A draft chosen among K paths with the probabilities of a plan over all paths of length L, and
   block verification of that path. theorems/selection_plan.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting block selection.
From Draftproof.theorems Require Import block_optimal selection_optimal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SelExistCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Notation prog := (prog R V).

(* All strings of length n. *)
Fixpoint strings n : seq (seq V) :=
  if n is n'.+1 then flatten [seq [seq x :: s | s <- strings n'] | x <- vs] else [:: [::]].
(* Choose a draft with the probabilities of a plan over the strings of length L;
   the answer is its number.                                                   *)
Definition choose (pl : seq (seq V) -> seq V -> R) L (ps : seq (seq V)) : prog nat :=
  bind (draw_label V (size (strings L)) (fun i => pl ps (nth [::] (strings L) i))) (fun i =>
    Ret (minn (index (nth [::] (strings L) i) ps) (size ps).-1)).
(* Select by sel, then block-verify the selected path with the rows r. *)
Definition select_block (sel : seq (seq V) -> prog nat) (r : seq V -> V -> R) c : kverifier R V :=
  fun ps => bind (sel ps) (fun k => bind (block_verifier vs r qt c (nth [::] ps k)) (fun o =>
    Ret (k, o))).
End SelExistCode.

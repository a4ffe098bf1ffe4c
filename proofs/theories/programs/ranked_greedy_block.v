(* The stateful form: select a path by labels, then greedy block verification of
   it with the rows of the selected law; the target chain is carried along.   *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import block scan spectr_gbv greedy_block selection ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RankedGreedy.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
(* The label laws may depend on the chain that is carried. *)
Variables (J : nat) (pi0 : nat -> R) (post : chain -> seq V -> seq V -> nat -> R).

Definition ranked_greedy_block_mark K L (D : chain) c : prog (option (mark R V)) :=
  let r := selected_row pd J pi0 (post D) K c in
  bind (selected pd J (post D) K L c) (fun xs => scan (joint_ratio r D) (greedy_bias vs r D) c 1 xs None).
Definition ranked_greedy_block K L (D : chain) c : prog (seq V * chain) :=
  bind (ranked_greedy_block_mark K L D c) (greedy_block_out vs (selected_row pd J pi0 (post D) K c) L D c).
End RankedGreedy.

(* Greedy block verification with carry (Sun et al., arXiv:2403.10444, appendix):
   one draft, unclipped joint ratios, the literal coins min(1, D+/D-).
   Python: draftproof.reference.verifiers.greedy_block.  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting block scan spectr_gbv.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section GreedyCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation min1 := (Order.min 1).

(* h_i = min(1, D+_i/D-_i), 1 when D-_i = 0;  h_L = min(1, r_L). *)
Definition greedy_deficit (D : chain) w c : R := sumf vs (fun v => Order.max (pd c v - w * D c v) 0).
Definition greedy_bias (D : chain) w c (last : bool) : R :=
  if last then min1 w else
  if greedy_deficit D w c == 0 then 1 else min1 (block_surplus vs pd D w c / greedy_deficit D w c).

(* The carry: at x the row (r_x D - p)+ normalised, r_x the joint ratio from the
   start a of the round; the plain row where p = 0, and from depth e on.      *)
Definition greedy_carry (D : chain) a e : chain := fun x =>
  if (size x < e)%N then block_residual vs pd D (wfold (joint_ratio pd D) 1 a (drop (size a) x)) x else D x.

Definition greedy_block_mark L (D : chain) c : prog (option (mark R V)) :=
  bind (draft pd L c) (fun xs => scan (joint_ratio pd D) (greedy_bias D) c 1 xs None).
Definition greedy_block_out L (D : chain) c (o : option (mark R V)) : prog (seq V * chain) :=
  let c' := if o is Some k then k.1.1 else c in
  let D' := greedy_carry D c (size c + L)%N in
  Draw (D' c') (fun y => Ret (rcons c' y, D')).
Definition greedy_block L D c : prog (seq V * chain) := bind (greedy_block_mark L D c) (greedy_block_out L D c).
End GreedyCode.

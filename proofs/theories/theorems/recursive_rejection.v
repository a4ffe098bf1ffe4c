(* Recursive rejection is exact for every adaptive drafter.                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection.
From Draftproof.theorems Require Import maximal draws.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RecursiveRejection.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation dist := (is_dist vs).
Notation prog := (prog R V).

Local Notation recursive_rejection := (recursive_rejection vs).

Theorem recursive_rejection_law (d : seq V -> V -> R) n q f : (forall h, dist (d h)) -> dist q ->
  E vs (recursive_rejection d n q) f = \sum_(y <- vs) q y * f y.
Proof.
move=> dd; rewrite /recursive_rejection E_bind; move: [::] => h.
elim: n h q => [|n IH] h q dq; first exact: sumfE.
rewrite [LHS]E_Draw.
transitivity (E vs (maximal vs (d h) q) (fun o => f o.2)); last exact: maximal_law.
rewrite E_Draw; apply: eq_sum => x; congr (_ * _).
rewrite E_bind /= E_lin E_cst; last exact: draws_wf.
by rewrite IH ?sumfE //; apply: res_dist.
Qed.
End RecursiveRejection.

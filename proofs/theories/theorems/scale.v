(* The computed, rounded-up scale is valid.                                       *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq target_match
   spectr scale.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq spectr.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorem ------------------------------------------------------------------- *)
Theorem rho_grid_ok (R : realFieldType) (V : eqType) (vs : seq V) g :
  rho_ok vs (@rho_grid R V vs g).
Proof.
move=> p q [|n] dp dq; rewrite /rho_grid /=; first by rewrite ltr01 ler01.
set ok := fun r : R => _; set cs := map _ _.
have [h|h] := boolP (has ok cs).
  by have /andP[-> ->] := nth_find n.+1%:R h.
have n0 : (0 : R) < n.+1%:R by rewrite ltr0Sn.
rewrite nth_default; first by rewrite n0; split=> //; exact: (geo_leK dp dq n0 n.+1).
by move: h; rewrite has_find -leqNgt.
Qed.

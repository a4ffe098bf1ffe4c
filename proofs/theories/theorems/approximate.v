(* A selection that misses the law it aims at: the chosen token has law s, but is coupled with the target
   as if its law were r (Global Resolution).  The emitted law is off by at most the total variation
   between s and r.                                                                                *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting contract drift.
From Draftproof.theorems Require Import maximal draws selection contract drift.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Approximate.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (s r q : V -> R).
Hypotheses (vs_uniq : uniq vs) (ds : is_dist vs s) (dr : is_dist vs r) (dq : is_dist vs q).

(* Draw the chosen token, then couple it as if it had law r. *)
Definition coupled_as_if : prog R V V :=
  Draw s (fun x => Flip (acc r q x) (Ret x) (Draw (res vs r q) (fun y => Ret y))).

Theorem coupled_as_if_bound f : (forall y, 0 <= f y <= 1) ->
  `|E vs coupled_as_if f - \sum_(y <- vs) q y * f y| <= tv vs s r.
Proof.
move=> f01; have a01 x : 0 <= acc r q x <= 1 by apply: acc01; [exact: dr.1 | exact: dq.1].
have rd : is_dist vs (res vs r q) by apply: res_dist.
pose g x := E vs (Flip (acc r q x) (Ret x) (Draw (res vs r q) (fun y => Ret y))) f.
have g01 x : 0 <= g x <= 1 by apply: E_01.
have -> : \sum_(y <- vs) q y * f y = \sum_(x <- vs) r x * g x.
  by rewrite -(maximal_law f dr dq) E_Draw.
rewrite E_Draw -sumrB (eq_bigr (fun x => (s x - r x) * g x)) => [|x _]; last by rewrite mulrBl.
by apply: tv_test => //; rewrite ds.2 dr.2.
Qed.
End Approximate.

(* As the code runs it: one test of each candidate in order. *)
Section Chosen.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (d : seq V -> V -> R) (K : nat).
Variables (ch : seq V -> V -> R) (r q : V -> R).
Hypotheses (vs_uniq : uniq vs) (dd : forall h, is_dist vs (d h)) (dc : forall xs, is_dist vs (ch xs)).
Hypotheses (dr : is_dist vs r) (dq : is_dist vs q).

Theorem choose_as_if_bound f : (forall y, 0 <= f y <= 1) ->
  `|E vs (bind (draws d K [::]) (fun xs => answer vs (verified vs ch q r xs) xs)) f
    - \sum_(y <- vs) q y * f y| <= tv vs (chosen_law vs d K ch) r.
Proof.
move=> f01; set s := chosen_law vs d K ch; have ds : is_dist vs s by exact: chosen_dist.
pose law y := E vs (draws d K [::]) (fun xs => verified vs ch q r xs y).
rewrite (answer_exact (q := law)) // => [|xs]; last exact: verified_dist.
have -> : \sum_(y <- vs) law y * f y = E vs (coupled_as_if vs s r q) f.
  rewrite E_Draw /=.
  transitivity (\sum_(y <- vs) s y * acc r q y * f y
    + (\sum_(x <- vs) s x * (1 - acc r q x)) * (\sum_(y <- vs) res vs r q y * f y)).
    rewrite big_distrr -big_split /=; apply: eq_sum => y; rewrite mulrA -mulrDl; congr (_ * _).
    rewrite /law -[LHS]mul1r -E_scale; transitivity (E vs (draws d K [::]) (fun xs =>
      acc r q y * ch xs y + res vs r q y * \sum_(x <- vs) ch xs x * (1 - acc r q x))).
      by apply: E_ext => xs; rewrite mul1r /verified sumfE; congr (_ + _); exact: mulrC.
    rewrite E_lin mulrC; congr (_ + _); rewrite mulrC; congr (_ * _).
    by rewrite E_sum; apply: eq_sum => x; rewrite E_scaler.
  rewrite big_distrl -big_split /=; apply: eq_sum => x.
  by rewrite sumfE [RHS]mulrDr !mulrA.
exact: coupled_as_if_bound.
Qed.
End Chosen.

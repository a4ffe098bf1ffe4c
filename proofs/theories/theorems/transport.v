(* One token, any law of the drafts: the transport value 1 + min_H [q(H) - P(all drafts in H)] is
   attained, also in two steps; and the two-step scheme is exact for every selection. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting transport.
From Draftproof.theorems Require Import maximal draws running block_optimal selection kseq_bound
  drift
   flow plan.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Transport.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Hypothesis vs_uniq : uniq vs.
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation mass := (mass vs).
Notation dist := (is_dist vs).

Variable D : prog (seq V).
Hypothesis D_wf : wf vs D.
(* P(all drafts in H) *)
Definition inside (H : pred V) : R := E vs D (fun xs => (all H xs)%:R).

Lemma offered_inside H : offered vs D id (predC H) = 1 - inside H.
Proof.
rewrite /inside -[X in X - _](E_cst 1 D_wf) E_sub.
apply: E_ext => xs; rewrite has_predC; by case: (all H xs); rewrite /= ?subrr ?subr0.
Qed.

(* No exact verifier keeps a draft more often. *)
Theorem transport_bound (ver : seq V -> prog V) (q : V -> R) (H : pred V) :
  (forall xs, wf vs (ver xs)) ->
  (forall f, E vs (bind D ver) f = \sum_(y <- vs) q y * f y) ->
  E vs D (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R)) <= 1 + mass q H - inside H.
Proof.
move=> wv vq.
have -> : mass q H = E vs D (fun xs => E vs (ver xs) (fun y => (H y)%:R)).
  by rewrite -E_bind vq; apply: eq_sum => y; rewrite mulrC.
rewrite -[X in _ <= X + _ - _](E_cst 1 D_wf) -E_add E_sub.
apply: (E_le D_wf (always_true _)) => xs _.
rewrite -[X in _ <= X + _ - _](E_cst 1 (wv xs)) -E_add -[X in _
  <= _ - X](E_cst (all H xs)%:R (wv xs)) E_sub.
apply: (E_le (wv xs) (always_true _)) => y _.
case: (boolP (y \in xs)) => yx; case: (boolP (all H xs)) => ha; case: (boolP (H y)) => hy;
  rewrite /= ?subr0 ?addr0 ?subrr ?addrK ?lexx ?ler01 ?ler_addl ?ler01 ?addr_ge0 ?ler01 //.
by case/negP: hy; exact: (allP ha).
Qed.

Section Target.
Variable q : V -> R.
Hypothesis dq : dist q.
Let q0 v : 0 <= q v. Proof. exact: dq.1. Qed.

Section FromPlan.
Variables (pl : seq V -> V -> R) (x : V -> R).
Hypothesis plx : is_plan vs vs D id pl x.
Hypothesis xq : forall v, 0 <= x v <= q v.

Let pl0 xs v : 0 <= pl xs v. Proof. by case: plx. Qed.
Let pl1 xs : sumf vs (pl xs) <= 1. Proof. by rewrite sumfE; case: plx. Qed.
Let plE v : v \in vs -> E vs D (fun xs => pl xs v) = x v. Proof. by case: plx => _ _ _; apply. Qed.
Let miss : E vs D (fun xs => 1 - sumf vs (pl xs)) = 1 - \sum_(v <- vs) x v.
Proof.
rewrite -E_sub (E_cst _ D_wf); congr (_ - _).
under E_ext => xs do rewrite sumfE.
by rewrite E_sum big_seq [RHS]big_seq; apply: eq_bigr => v vv; rewrite plE.
Qed.
Let exE v : excess x q v = q v - x v.
Proof. by rewrite excessE (min_idPl (andP (xq v)).2). Qed.

Lemma plan_row_dist xs : dist (plan_row vs pl x q xs).
Proof.
have [r0 r1] := res_dist x dq; split=> [v|].
  by rewrite addr_ge0 // mulr_ge0 // subr_ge0.
rewrite big_split /= -big_distrr /= r1 mulr1 -sumfE addrC subrK //.
Qed.

Theorem planned_exact f : E vs (bind D (planned vs pl x q)) f = \sum_(y <- vs) q y * f y.
Proof.
rewrite E_bind; under E_ext => xs do rewrite /planned E_Draw /=.
rewrite E_sum.
transitivity (\sum_(v <- vs) x v * f v
   + (\sum_(v <- vs) excess x q v) * (\sum_(v <- vs) res vs x q v * f v)).
  have -> : \sum_(v <- vs) excess x q v = 1 - \sum_(v <- vs) x v.
    by rewrite -dq.2 -sumrB; apply: eq_sum => v; exact: exE.
  rewrite big_distrr -big_split /= big_seq [RHS]big_seq; apply: eq_bigr => v vv.
  rewrite E_scaler mulrA -mulrDl; congr (_ * _).
  by rewrite E_add plE // E_scaler miss.
rewrite res_repay -big_split /=; apply: eq_sum => v.
by rewrite -mulrDl exE addrC subrK.
Qed.

Lemma planned_keeps : \sum_(v <- vs) x v
  <= E vs D (fun xs => E vs (planned vs pl x q xs) (fun y => (y \in xs)%:R)).
Proof.
rewrite big_seq (eq_bigr (fun v => E vs D (fun xs => pl xs v))) => [|v vv]; last by rewrite plE.
rewrite -big_seq -E_sum; apply: (E_le D_wf (always_true _)) => xs _.
rewrite E_Draw; apply: ler_sum => v _; rewrite /=.
have r0 : 0 <= (1 - sumf vs (pl xs)) * res vs x q v.
  by rewrite mulr_ge0 ?subr_ge0 // (res_dist x dq).1.
case: (boolP (v \in xs)) => vx; first by rewrite mulr1 ler_addl.
have [_ ps _ _] := plx; rewrite ps ?mulr0 //; by rewrite negb_and vx orbT.
Qed.
End FromPlan.

(* Strong duality: some exact verifier attains 1 + q(H) - P(all drafts in H) for
   some H, so both are the optimum.                                            *)
Theorem transport_attained : exists (ver : seq V -> prog V) (H : pred V),
  [/\ forall xs, wf vs (ver xs),
      forall f, E vs (bind D ver) f = \sum_(y <- vs) q y * f y
    & E vs D (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R)) = 1 + mass q H - inside H].
Proof.
have [pl [x [H [plx xq xH]]]] := plan_most vs_uniq id D_wf q0.
have wv xs : wf vs (planned vs pl x q xs) by split=> //; exact: plan_row_dist.
exists (planned vs pl x q), H; split=> //; first exact: planned_exact.
apply/eqP; rewrite eq_le transport_bound //=; last exact: planned_exact.
by move: (planned_keeps plx); rewrite xH offered_inside addrAC.
Qed.

(* --- Two steps ------------------------------------------------------------------------- *)
(* Exact for every selection, whatever the law of the drafts. *)
Theorem two_step_exact (sel : seq V -> prog V) r f : dist r ->
  (forall g, E vs (bind D sel) g = \sum_(x <- vs) r x * g x) ->
  E vs (two_step vs D sel r q) (fun o => f o.2) = \sum_(y <- vs) q y * f y.
Proof.
move=> dr selr; rewrite -(maximal_law f dr dq) E_bind.
under E_ext => xs do rewrite E_bind.
by rewrite -E_bind selr E_Draw.
Qed.

Theorem two_step_accept (sel : seq V -> prog V) r : dist r ->
  (forall g, E vs (bind D sel) g = \sum_(x <- vs) r x * g x) ->
  E vs (two_step vs D sel r q) (fun o => o.1%:R) = \sum_(x <- vs) Order.min (q x) (r x).
Proof.
move=> dr selr; transitivity (E vs (maximal vs r q) (fun o => o.1%:R)).
  rewrite E_bind; under E_ext => xs do rewrite E_bind.
  by rewrite -E_bind selr E_Draw.
by rewrite maximal_acceptance //; apply: eq_sum => v; rewrite minC.
Qed.

(* A law of the selected draft covers every set of which all drafts are members. *)
Lemma select_bound r (H : pred V) : dist r -> (forall H : pred V, inside H <= mass r H) ->
  \sum_(x <- vs) Order.min (q x) (r x) <= 1 + mass q H - inside H.
Proof.
move=> dr rH; apply: (@le_trans _ _ (1 + mass q H - mass r H)); last by rewrite ler_add2l ler_opp2.
rewrite /kseq_bound.mass -[X in _ <= X + _ - _]dr.2 -big_split /= -sumrB; apply: ler_sum => v _ /=.
case: (H v); rewrite /= ?mul1r ?mul0r ?addr0 ?subr0.
  by rewrite addrAC subrr add0r le_minl lexx.
by rewrite le_minl lexx orbT.
Qed.

(* ... and the optimum is also attained in two steps: the drafts are never empty
   and hold tokens of the vocabulary only.                                     *)
Theorem two_step_attained : always (fun xs => (xs != [::]) && all (mem vs) xs) D ->
  exists (sel : seq V -> prog V) (r : V -> R) (H : pred V),
  [/\ forall xs, (xs != [::]) && all (mem vs) xs ->
    wf vs (sel xs) /\ E vs (sel xs) (fun y => (y \in xs)%:R) = 1,
      dist r, forall g, E vs (bind D sel) g = \sum_(x <- vs) r x * g x,
      forall H : pred V, inside H <= mass r H
    & \sum_(x <- vs) Order.min (q x) (r x) = 1 + mass q H - inside H].
Proof.
move=> D_in; have [pl [x [H [plx xq xH]]]] := plan_most vs_uniq id D_wf q0.
have [pl0 ps pl1 plE] := plx.
have fr0 xs v : 0 <= first_row vs pl xs v.
  by rewrite addr_ge0 // mulr_ge0 ?ler0n // subr_ge0 sumfE.
have frs (xs : seq V) v : v \notin xs -> xs != [::] -> first_row vs pl xs v = 0.
  move=> vx xn; rewrite /first_row ps ?negb_and ?vx ?orbT // add0r.
  case: xs vx xn => //= a t; rewrite inE negb_or => /andP[/negPf-> _] _.
  by rewrite mulr0.
have fr1 xs : (xs != [::]) && all (mem vs) xs -> \sum_(v <- vs) first_row vs pl xs v = 1.
  case: xs => //= a t /andP[av _]; rewrite big_split -big_distrr /=.
  rewrite [X in _ + _ * X](eq_bigr (fun v => 1 * (v == a)%:R)) => [|v _]; last by rewrite mul1r.
  by rewrite (sum_eq_mem vs_uniq (fun=> 1) av) mulr1 sumfE addrC subrK.
pose r v := E vs D (fun xs => first_row vs pl xs v).
have rE g : E vs D (fun xs => \sum_(v <- vs) first_row vs pl xs v * g v) = \sum_(v <- vs) r v * g v.
  by rewrite E_sum; apply: eq_sum => v; rewrite E_scaler.
have dr : dist r.
  split=> [v|]; first exact: E_ge0.
  rewrite -(E_cst 1 D_wf) -E_sum; apply: (E_always _ D_in) => xs; exact: fr1.
have rH H' : inside H' <= mass r H'.
  rewrite /kseq_bound.mass (eq_sum _ (g := fun v => r v * (H' v)%:R)) => [|v];
    last by rewrite mulrC.
  rewrite -rE; apply: (E_le D_wf D_in) => xs xin; case: (boolP (all H' xs)) => ha; last first.
    by apply: sumr_ge0 => v _; rewrite mulr_ge0 ?ler0n.
  rewrite [X in X <= _](_ : _ = 1) // -[X in X <= _](fr1 xs xin); apply: ler_sum => v _;
    case: (boolP (v \in xs)) => vx.
    by rewrite (allP ha _ vx) mulr1.
  by case/andP: xin => xn _; rewrite frs // mul0r.
exists (chosen vs pl), r, H; split=> //.
- move=> xs xin; split; first by split=> //; split=> //; exact: fr1.
  rewrite E_Draw -[RHS](fr1 xs xin); apply: eq_sum => v /=; case: (boolP (v \in xs)) => vx.
    by rewrite mulr1.
  by case/andP: xin => xn _; rewrite frs // mul0r.
- move=> g; rewrite E_bind -rE; apply: E_ext => xs; by rewrite E_Draw.
apply/eqP; rewrite eq_le select_bound //=.
have -> : 1 + mass q H - inside H = \sum_(v <- vs) x v by rewrite xH offered_inside addrAC.
rewrite big_seq [X in _ <= X]big_seq; apply: ler_sum => v vv.
rewrite le_minr (andP (xq v)).2 /= -plE //; apply: (E_le D_wf (always_true _)) => xs _.
by rewrite ler_addl mulr_ge0 ?ler0n // subr_ge0 sumfE.
Qed.
End Target.
End Transport.

(* --- I.i.d. drafts: the best set is a prefix of the tokens sorted by q/p ------------------- *)
Section Iid.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Variables (p q : V -> R).
Hypotheses (dp : is_dist vs p) (dq : is_dist vs q).
Add Ring Rring : (ring_th R).
Notation mass := (mass vs).

(* The tokens with q/p < lam. *)
Definition threshold (lam : R) : pred V := fun v => q v < lam * p v.

Lemma tangent n (s t : R) : 0 <= s -> 0 <= t -> s ^+ n + n%:R * s ^+ n.-1 * (t - s) <= t ^+ n.
Proof.
move=> s0 t0; elim: n => [|n IH]; first by rewrite !expr0 mul0r mul0r addr0.
rewrite [t ^+ n.+1]exprS; apply: le_trans (ler_wpmul2l t0 IH); rewrite -subr_ge0 mulrS exprS /=.
case: n {IH} => [|n] /=.
  by rewrite !expr0 !mul0r; have -> : t * (1 + 0) - (s * 1 + (1 + 0) * 1 * (t - s)) = 0 by rng R.
rewrite exprS; set e := s ^+ n; set k := n.+1%:R.
have -> : t * (s * e + k * e * (t - s)) - (s * (s * e) + (1 + k) * (s * e) * (t - s))
    = k * e * ((t - s) * (t - s)) by rng R.
by apply: mulr_ge0; [rewrite mulr_ge0 ?ler0n ?exprn_ge0 | rewrite -expr2 sqr_ge0].
Qed.

Lemma mass_ge0 (d : V -> R) H : (forall v, 0 <= d v) -> 0 <= mass d H.
Proof. by move=> d0; apply: sumr_ge0 => v _; rewrite mulr_ge0 ?ler0n. Qed.

Theorem threshold_best n (H : pred V) : exists2 lam, 0 <= lam &
  mass q (threshold lam) - mass p (threshold lam) ^+ n <= mass q H - mass p H ^+ n.
Proof.
set s := mass p H; pose lam := n%:R * s ^+ n.-1; pose T := threshold lam.
have s0 : 0 <= s by apply: mass_ge0; exact: dp.1.
have t0 : 0 <= mass p T by apply: mass_ge0; exact: dp.1.
exists lam; first by rewrite mulr_ge0 ?ler0n ?exprn_ge0.
apply: (@le_trans _ _ (mass q T - lam * mass p T + lam * s - s ^+ n)).
  have := tangent n s0 t0; rewrite -/lam -/T -subr_ge0 => h; rewrite -subr_ge0; apply: le_trans h _.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP;
     move: (mass q T) (mass p T) (s ^+ n) (mass p T ^+ n) => a b d e; rng R.
have -> : mass q H - s ^+ n = mass q H - lam * mass p H + lam * s - s ^+ n by rewrite subrK.
rewrite !ler_add2r /kseq_bound.mass !big_distrr -!sumrB; apply: ler_sum => v _ /=.
rewrite /T /threshold; case: ltP => h; case: (H v); rewrite /= ?mul1r ?mul0r ?mulr0 ?subr0 //.
  by rewrite subr_le0 ltW.
by rewrite subr_ge0.
Qed.

Lemma inside_iid K (H : pred V) : inside vs (draws (fun=> p) K [::]) H = mass p H ^+ K.
Proof.
rewrite /inside; move: [::] => h; elim: K h => // K IH h; rewrite E_Draw exprS mulr_suml.
apply: eq_sum => x; rewrite E_bind -(IH (rcons h x)) [_ * p x]mulrC -mulrA; congr (_ * _).
by rewrite -E_scale; apply: E_ext => xs /=; case: (H x); rewrite ?mul1r ?mul0r.
Qed.

(* alpha* for K i.i.d. drafts: attained, and the minimum is over the prefixes only. *)
Theorem transport_iid K : uniq vs -> exists (ver : seq V -> prog R V V) lam,
  [/\ forall xs, wf vs (ver xs),
      forall f, E vs (bind (draws (fun=> p) K [::]) ver) f = \sum_(y <- vs) q y * f y,
      E vs (draws (fun=> p) K [::]) (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R))
        = 1 + mass q (threshold lam) - mass p (threshold lam) ^+ K
    & forall H, 1 + mass q (threshold lam) - mass p (threshold lam) ^+ K
                <= 1 + mass q H - mass p H ^+ K].
Proof.
move=> vu; have Dw : wf vs (draws (fun=> p) K [::]) by exact: (draws_wf K [::] (fun=> dp)).
have [ver [H [wv vq acc]]] := transport_attained vu Dw dq.
have [lam _ best] := threshold_best K H.
have up H' := transport_bound Dw H' wv vq.
have e : E vs (draws (fun=> p) K [::]) (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R))
   = 1 + mass q (threshold lam) - mass p (threshold lam) ^+ K.
  apply/eqP; rewrite eq_le -{1}inside_iid up /= acc inside_iid -!addrA ler_add2l; exact: best.
by exists ver, lam; split=> // H'; rewrite -e -inside_iid up.
Qed.
End Iid.

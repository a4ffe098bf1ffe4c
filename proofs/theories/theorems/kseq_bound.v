(* K-SEQ against the optimum: for every valid scale up to K it accepts with at
   least 1 - (1-1/K)^K of what any exact K-draft verifier can accept.         *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq running
   block_optimal paths.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section KBound.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (p q : V -> R).
Hypotheses (dp : is_dist vs p) (dq : is_dist vs q).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation draws := (draws (fun=> p)).

(* K-SEQ, reporting whether the output is one of the drafts that was kept.    *)
Fixpoint kscan_rep r K xs : prog (bool * V) :=
  if xs is x :: xs' then Flip (kseq_bias p q r x) (Ret (true, x)) (kscan_rep r K xs')
  else Draw (clip_residual vs p q r K) (fun y => Ret (false, y)).
Definition kseq_rep r K : prog (bool * V) := bind (draws K [::]) (kscan_rep r K).

Lemma kseq_rep_out r K f : E vs (kseq_rep r K) (fun o => f o.2) = E vs (kseq vs p q r K) f.
Proof.
rewrite !E_bind; apply: E_ext => xs; elim: xs => [|x xs IH] /=; first by [].
by rewrite IH.
Qed.

(* Acceptance probability 1 - (1-beta)^K. *)
Theorem kseq_accept r K : 0 < r ->
  E vs (kseq_rep r K) (fun o => o.1%:R) = 1 - (1 - beta vs p q r) ^+ K.
Proof.
move=> r0; rewrite E_bind.
have H n h : E vs (draws n h) (fun xs => E vs (kscan_rep r K xs) (fun o => o.1%:R))
    = 1 - (1 - beta vs p q r) ^+ n.
  elim: n h => [|n IH] h.
    by rewrite expr0 subrr /= sumfE big1 // => y _; rewrite mulr0.
  rewrite E_Draw.
  transitivity (\sum_(x <- vs) (covered p q r x + (p x - covered p q r x) * (1 - (1 - beta vs p q r) ^+ n))).
    apply: eq_sum => x; rewrite E_bind -(p_kacc dp dq r0) -[X in (X - _)]mulr1 -mulrBr -mulrA -mulrDr.
    congr (_ * _); rewrite /= E_lin E_cst; last exact: (draws_wf _ _ (fun=> dp)).
    by rewrite IH mulr1.
  rewrite big_split /= -big_distrl /= sumrB dp.2 -/(beta vs p q r).
  have -> : \sum_(x <- vs) covered p q r x = beta vs p q r by rewrite /beta sumfE.
  by rewrite exprS; set e := _ ^+ n; rng R.
exact: H.
Qed.

(* --- Two inequalities about powers ------------------------------------------------ *)
Lemma convex_pow n (t b : R) : 0 <= t <= 1 -> 0 <= b <= 1 ->
  (1 - t + t * b) ^+ n <= 1 - t + t * b ^+ n.
Proof.
move=> /andP[t0 t1] /andP[b0 b1]; elim: n => [|n IH].
  by rewrite !expr0 mulr1 subrK.
have bn1 : b ^+ n <= 1 by exact: exprn_ile1.
have c0 : 0 <= 1 - t + t * b by rewrite addr_ge0 ?subr_ge0 ?mulr_ge0.
rewrite exprS; apply: (@le_trans _ _ ((1 - t + t * b) * (1 - t + t * b ^+ n))).
  by rewrite ler_wpmul2l.
rewrite -subr_ge0.
have -> : 1 - t + t * b ^+ n.+1 - (1 - t + t * b) * (1 - t + t * b ^+ n)
    = t * (1 - t) * ((1 - b) * (1 - b ^+ n)).
  by rewrite exprS; move: (b ^+ n) => e; rng R.
by rewrite !mulr_ge0 ?subr_ge0.
Qed.

Lemma bernoulli n (x : R) : 0 <= x <= 1 -> 1 - x ^+ n <= n%:R * (1 - x).
Proof.
move=> /andP[x0 x1]; elim: n => [|n IH]; first by rewrite expr0 subrr mul0r.
have xn1 : x ^+ n <= 1 by exact: exprn_ile1.
have -> : 1 - x ^+ n.+1 = (1 - x) + x * (1 - x ^+ n).
  by rewrite exprS; move: (x ^+ n) => e; rng R.
rewrite mulrS mulrDl mul1r ler_add2l; apply: le_trans IH.
by rewrite ler_pimull // subr_ge0.
Qed.

(* --- The bound ---------------------------------------------------------------------- *)
Definition mass (d : V -> R) (H : pred V) : R := \sum_(y <- vs) (H y)%:R * d y.

Variable K : nat.
Hypothesis K0 : (0 < K)%N.
Let k : R := K%:R.
Let kgt0 : 0 < k. Proof. by rewrite /k ltr0n. Qed.

Lemma beta_mono r s : 0 < r -> r <= s -> beta vs p q s <= beta vs p q r.
Proof.
move=> r0 rs; rewrite /beta !sumfE; apply: ler_sum => x _.
rewrite /covered le_minr le_minl lexx /= le_minl; apply/orP; right.
by rewrite ler_wpmul2l ?dq.1 // lef_pinv ?posrE // (lt_le_trans r0).
Qed.

Lemma beta_K : k * beta vs p q k <= 1.
Proof.
rewrite /beta sumfE big_distrr -dq.2 /=; apply: ler_sum => x _.
rewrite /covered -ler_pdivl_mull // mulrC.
by rewrite le_minl lexx orbT.
Qed.

(* The set where q <= K p. *)
Definition Hset y : bool := q y <= k * p y.

Lemma mass01 H : 0 <= mass p H <= 1.
Proof.
rewrite /mass sumr_ge0 => [|y _]; last by rewrite mulr_ge0 ?dp.1 ?ler0n.
rewrite -[X in _ <= X]dp.2; apply: ler_sum => y _.
by rewrite ler_pimull ?dp.1 // -[1]/(1%:R) ler_nat leq_b1.
Qed.

Lemma beta_H : 1 + mass q Hset - mass p Hset ^+ K <= k * beta vs p q k.
Proof.
have -> : k * beta vs p q k = mass q Hset + k * (1 - mass p Hset).
  rewrite /beta sumfE /mass -[X in _ + k * (X - _)]dp.2 -sumrB !big_distrr -big_split /=.
  apply: eq_sum => y; rewrite /covered minr_pmulr ?(ltW kgt0) // mulrCA divff ?gt_eqF // mulr1.
  rewrite /Hset; case: (leP (q y) _) => _; first by rewrite !mul1r subrr mulr0 addr0.
  by rewrite !mul0r subr0 add0r.
rewrite -addrA addrC -addrA ler_add2l addrC; exact: (bernoulli K (mass01 Hset)).
Qed.

Let u := 1 - (1 - k^-1) ^+ K.

Lemma inv01 : 0 <= 1 - k^-1 <= 1.
Proof.
rewrite subr_ge0 invf_le1 // ler_subl_addr ler_addl invr_ge0 (ltW kgt0) andbT.
by rewrite /k -[1]/(1%:R) ler_nat.
Qed.

Lemma u_ge0 : 0 <= u.
Proof. by have /andP[a b] := inv01; rewrite subr_ge0 exprn_ile1. Qed.

Lemma accept_ge r : 0 < r -> r <= k -> u * (k * beta vs p q k) <= 1 - (1 - beta vs p q r) ^+ K.
Proof.
move=> r0 rk; set b := beta vs p q k.
have b0 : 0 <= b by exact: (beta_ge0 dp dq kgt0).
have br : b <= beta vs p q r by exact: beta_mono.
have b1 : beta vs p q r <= 1 by exact: beta_le1.
have t01 : 0 <= k * b <= 1 by rewrite mulr_ge0 ?(ltW kgt0) ?beta_K.
apply: (@le_trans _ _ (1 - (1 - b) ^+ K)); last first.
  by rewrite ler_sub // ler_expn2r ?nnegrE ?subr_ge0 ?(le_trans br) // ler_sub.
have := convex_pow K t01 inv01.
have -> : 1 - k * b + k * b * (1 - k^-1) = 1 - b.
  rewrite mulrBr mulr1 addrA subrK mulrC mulrA mulVf ?gt_eqF // mul1r.
  by [].
rewrite /u => h; rewrite -subr_ge0; move: h; rewrite -subr_ge0.
set A := (1 - b) ^+ K; set B := (1 - k^-1) ^+ K; set t := k * b.
have -> : 1 - t + t * B - A = 1 - A - (1 - B) * t by rng R.
by [].
Qed.

(* (1 - (1-1/K)^K) (1 + min_H [q(H) - p(H)^K]) <= acceptance of K-SEQ.         *)
Theorem kseq_bound r : 0 < r -> r <= k -> exists H : pred V,
  (1 - (1 - k^-1) ^+ K) * (1 + mass q H - mass p H ^+ K)
  <= E vs (kseq_rep r K) (fun o => o.1%:R).
Proof.
move=> r0 rk; exists Hset; rewrite kseq_accept //.
apply: le_trans (accept_ge r0 rk); exact: (ler_wpmul2l u_ge0 beta_H).
Qed.

(* No exact verifier of K i.i.d. drafts accepts more than 1 + q(H) - p(H)^K. *)
Theorem multi_bound (ver : seq V -> prog V) (H : pred V) :
  (forall xs, wf vs (ver xs)) ->
  (forall f, E vs (bind (draws K [::]) ver) f = \sum_(y <- vs) q y * f y) ->
  E vs (draws K [::]) (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R))
  <= 1 + mass q H - mass p H ^+ K.
Proof.
move=> wv vq.
have wd : wf vs (draws K [::]) by exact: (draws_wf _ _ (fun=> dp)).
have allH n h : E vs (draws n h) (fun xs => (all H xs)%:R) = mass p H ^+ n.
  elim: n h => // n IH h; rewrite E_Draw exprS mulr_suml; apply: eq_sum => x.
  rewrite E_bind -(IH (rcons h x)) [_ * p x]mulrC -mulrA; congr (_ * _); rewrite -E_scale.
  by apply: E_ext => xs /=; case: (H x); rewrite ?mul1r ?mul0r.
have qH : E vs (draws K [::]) (fun xs => E vs (ver xs) (fun y => (H y)%:R)) = mass q H.
  by rewrite -E_bind vq; apply: eq_sum => y; rewrite mulrC.
pose m := bind (draws K [::]) (fun xs => bind (ver xs) (fun y => Ret (xs, y))).
have mE f : E vs m f = E vs (draws K [::]) (fun xs => E vs (ver xs) (fun y => f (xs, y))).
  by rewrite E_bind; apply: E_ext => xs; rewrite E_bind.
have wm : wf vs m by apply: wf_bind => // xs; apply: wf_bind.
rewrite -qH -(allH K [::]) -(mE (fun o => (o.2 \in o.1)%:R)).
have -> : 1 + E vs (draws K [::]) (fun xs => E vs (ver xs) (fun y => (H y)%:R))
    - E vs (draws K [::]) (fun xs => (all H xs)%:R)
    = E vs m (fun o => 1 * (1 * 1 + 1 * (H o.2)%:R) + (- 1) * (all H o.1)%:R).
  rewrite E_lin E_lin E_cst // !mE !mul1r mulN1r; congr (_ - _).
  by apply: E_ext => xs; rewrite E_cst.
apply: (E_le wm (always_true _)) => [[xs y]] _ /=; rewrite !mul1r mulN1r.
case: (boolP (y \in xs)) => [yx|_]; case: (boolP (H y)) => hy; case: (boolP (all H xs)) => ha;
  rewrite /= ?subrr ?subr0 ?addr0 ?addrK ?ler01 ?lexx ?ler_addl ?ler01 //.
- by case/negP: hy; exact: (allP ha).
- by rewrite addr_ge0 ?ler01.
by rewrite subrr.
Qed.

(* Hence K-SEQ is within 1 - (1-1/K)^K of every exact verifier. *)
Corollary kseq_competitive r (ver : seq V -> prog V) : 0 < r -> r <= k ->
  (forall xs, wf vs (ver xs)) ->
  (forall f, E vs (bind (draws K [::]) ver) f = \sum_(y <- vs) q y * f y) ->
  (1 - (1 - k^-1) ^+ K)
    * E vs (draws K [::]) (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R))
  <= E vs (kseq_rep r K) (fun o => o.1%:R).
Proof.
move=> r0 rk wv vq; rewrite kseq_accept //; apply: le_trans (accept_ge r0 rk).
apply: (ler_wpmul2l u_ge0); apply: le_trans beta_H; exact: multi_bound.
Qed.

(* Validity is upward closed: beyond the smallest valid scale all are valid, and
   smaller scales accept more.                                                *)
Lemma beta_scale r s : 0 < r -> r <= s -> r * beta vs p q r <= s * beta vs p q s.
Proof.
move=> r0 rs; have s0 := lt_le_trans r0 rs.
have e a : 0 < a -> a * beta vs p q a = \sum_(x <- vs) Order.min (a * p x) (q x).
  move=> a0; rewrite /beta sumfE big_distrr /=; apply: eq_sum => x.
  by rewrite /covered minr_pmulr ?(ltW a0) // [a * (_ / _)]mulrCA divff ?gt_eqF // mulr1.
rewrite !e //; apply: ler_sum => x _.
rewrite le_minr !le_minl lexx orbT andbT; apply/orP; left.
by rewrite ler_wpmul2r ?dp.1.
Qed.

Theorem rho_upward n r s : 0 < r -> r <= s ->
  cover vs p q r n <= r -> cover vs p q s n <= s.
Proof.
move=> r0 rs gr; have s0 := lt_le_trans r0 rs.
have bs0 := beta_ge0 dp dq s0; have br0 := beta_ge0 dp dq r0.
have [b0|bn0] := eqVneq (beta vs p q s) 0.
  have br : beta vs p q r = 0.
    apply/eqP; rewrite eq_le br0 andbT -(ler_pmul2l r0) mulr0.
    by apply: le_trans (beta_scale r0 rs) _; rewrite b0 mulr0.
  have gE a : beta vs p q a = 0 -> cover vs p q a n = n%:R.
    by move=> ba; elim: (n) => //= m ->; rewrite ba subr0 mul1r mulrS.
  by rewrite gE // -(gE r) // (le_trans gr).
have bs : 0 < beta vs p q s by rewrite lt_def bn0.
rewrite -(ler_pmul2r bs) geo_beta; apply: le_trans (beta_scale r0 rs).
apply: (@le_trans _ _ (1 - (1 - beta vs p q r) ^+ n)); last first.
  by rewrite -geo_beta ler_wpmul2r.
have b1 a : beta vs p q a <= 1 by exact: beta_le1.
by rewrite ler_sub // ler_expn2r ?nnegrE ?subr_ge0 // ler_sub // beta_mono.
Qed.
End KBound.

(* K-SEQ: exact for every scale whose residual is non-negative; rho >= c(beta, K) is enough, and
   rho >= K always is.                                                          *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting kseq.
From Draftproof.theorems Require Import maximal draws.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Multi.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation dist := (is_dist vs).
Notation prog := (prog R V).

Variables (p q : V -> R) (rho : R).
Hypotheses (dp : dist p) (dq : dist q) (rho_gt0 : 0 < rho).

Local Notation kseq_bias := (kseq_bias p q rho).
Local Notation covered := (covered p q rho).
Local Notation beta := (beta vs p q rho).
Local Notation cover := (cover vs p q rho).
Local Notation owed := (owed vs p q rho).
Local Notation clip_residual := (clip_residual vs p q rho).
Local Notation kseq_scan := (kseq_scan vs p q rho).
Local Notation kseq := (kseq vs p q rho).

Lemma p_kacc x : p x * kseq_bias x = covered x.
Proof.
case: dp dq => [p0 _] [q0 _]; rewrite /kseq_bias /covered minr_pmulr // mulr1.
have [->|pn0] := eqVneq (p x) 0.
  by rewrite mul0r minxx; apply/esym/min_idPl; rewrite divr_ge0 // ltW.
by rewrite invfM mulrA mulrC [q x / _]mulrC mulrA divfK // mulrC.
Qed.

Lemma kmin_ge0 x : 0 <= covered x.
Proof. by case: dp dq => [p0 _] [q0 _]; rewrite le_minr p0 divr_ge0 // ltW. Qed.

Lemma beta_ge0 : 0 <= beta.
Proof. by rewrite /beta sumfE sumr_ge0 // => x _; exact: kmin_ge0. Qed.

Lemma beta_le1 : beta <= 1.
Proof.
rewrite /beta sumfE -dp.2; apply: ler_sum => x _; by rewrite le_minl lexx.
Qed.

Lemma geo_beta n : cover n * beta = 1 - (1 - beta) ^+ n.
Proof.
elim: n => [|n IH] /=; first by rewrite mul0r expr0 subrr.
rewrite mulrDl mul1r -mulrA IH mulrBr mulr1 exprS.
by rewrite addrA [beta + _]addrC subrK.
Qed.

Lemma kscan_E K n f :
  E vs (draws (fun=> p) n [::]) (fun xs => E vs (kseq_scan K xs) f)
  = cover n * (\sum_(x <- vs) covered x * f x)
    + (1 - beta) ^+ n * \sum_(y <- vs) clip_residual K y * f y.
Proof.
move: [::] => h; elim: n h => [|n IH] h /=.
  by rewrite mul0r add0r expr0 mul1r sumfE.
rewrite sumfE; set A := \sum_(x <- vs) _ in IH *; set B := \sum_(y <- vs) _ in IH *.
under eq_bigr => x _.
  rewrite E_bind /= E_lin E_cst; last exact: draws_wf.
  rewrite IH mulrDr mulrA p_kacc [X in _ + X]mulrA mulrBr mulr1 p_kacc.
  over.
rewrite big_split /= -big_distrl /= sumrB dp.2 -sumfE -/beta -/A.
by rewrite mulrDr mulrDl mul1r !addrA exprS !mulrA.
Qed.

(* Validity of rho is exactly that the leftover is non-negative. *)
Theorem kseq_law K f : (forall y, 0 <= owed K y) ->
  E vs (kseq K) f = \sum_(y <- vs) q y * f y.
Proof.
move=> left0; rewrite /kseq E_bind kscan_E.
have sleft : \sum_(y <- vs) owed K y = (1 - beta) ^+ K.
  rewrite sumrB dq.2 -big_distrr /= -sumfE -/beta geo_beta.
  by rewrite opprB addrC subrK.
transitivity (cover K * (\sum_(x <- vs) covered x * f x) + \sum_(y <- vs) owed K y * f y).
  congr (_ + _); rewrite -sleft /clip_residual sumfE; case: eqVneq => [s0|sn0].
    rewrite s0 mul0r big_seq big1 // => y yv.
    by rewrite (sum_seq_eq0 left0 s0 yv) mul0r.
  by rewrite big_distrr /=; apply: eq_sum => y; rewrite mulrA mulrCA divff ?mulr1.
rewrite big_distrr -big_split /=; apply: eq_sum => y.
by rewrite mulrA -mulrDl /owed addrC subrK.
Qed.

Lemma kseq_wf K : (forall y, 0 <= owed K y) -> wf vs (kseq K).
Proof.
move=> left0; apply: wf_bind => [|xs]; first exact: draws_wf.
have dres : dist (clip_residual K).
  rewrite /clip_residual sumfE; case: eqVneq => [_|sn0]; first by [].
  split=> [x|]; first by rewrite divr_ge0 // sumr_ge0.
  by rewrite -big_distrl /= divff.
elim: xs => [|x xs IH] /=; first by split.
split; last by split.
case: dp dq => [p0 _] [q0 _].
by rewrite /kseq_bias le_minl lexx andbT le_minr ler01 divr_ge0 ?mulr_ge0 // ltW.
Qed.

(* Sufficient: rho at least the geometric factor (1-(1-beta)^K)/beta. *)
Lemma kseq_valid K : cover K <= rho -> forall y, 0 <= owed K y.
Proof.
move=> gr y; rewrite /owed subr_ge0.
have g0 : forall n, 0 <= cover n.
  by elim=> //= n gn; rewrite addr_ge0 ?ler01 // mulr_ge0 // subr_ge0 beta_le1.
apply: (@le_trans _ _ (cover K * (q y / rho))).
  by rewrite ler_wpmul2l // le_minl lexx orbT.
rewrite mulrCA ler_pimulr ?(dq.1) //.
by rewrite ler_pdivr_mulr ?mul1r.
Qed.

(* rho = K always works (and so does any rho >= K). *)
Lemma geo_leK K : cover K <= K%:R.
Proof.
elim: K => //= K IH; rewrite mulrS ler_add2l.
have g0 : 0 <= cover K.
  by elim: K {IH} => //= n gn; rewrite addr_ge0 ?ler01 // mulr_ge0 // subr_ge0 beta_le1.
apply: le_trans IH; rewrite ler_pimull // ger_addl oppr_le0; exact: beta_ge0.
Qed.

Theorem kseq_law_scale_K K f : K%:R <= rho ->
  E vs (kseq K) f = \sum_(y <- vs) q y * f y.
Proof.
move=> Kr; apply: kseq_law; apply: kseq_valid; exact: le_trans (geo_leK K) Kr.
Qed.

(* Acceptance probability of K-SEQ. *)
End Multi.

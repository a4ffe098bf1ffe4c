(* Recursive rejection without replacement is lossless also for i.i.d. drafts, when repetitions of
   rejected tokens are skipped; hence for SpecTr on i.i.d. paths. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity spectr traversal skip_repetitions.
From Draftproof.theorems Require Import maximal draws spectr traversal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SkipRepetitions.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Hypothesis vs_uniq : uniq vs.
Notation dist := (is_dist vs).

(* What is left of a rejected token: nothing, unless it could not be drafted or not be rejected. *)
Lemma res_rejected (p q : V -> R) x : dist p -> dist q -> x \in vs ->
  [\/ p x = 0, acc p q x = 1 | res vs p q x = 0].
Proof.
move=> dp dq xv; have [p0|pn] := eqVneq (p x) 0; first by constructor 1.
have pp : 0 < p x by rewrite lt_def pn dp.1.
have [pq|qp] := leP (p x) (q x).
  by constructor 2; apply/min_idPl; rewrite ler_pdivl_mulr ?mul1r.
constructor 3; rewrite /res; case: eqVneq => [s0|_]; last first.
  by rewrite /excess (max_idPr _) ?mul0r // subr_le0 ltW.
have : \sum_(v <- vs) excess q p v = 0.
  rewrite sum_excess dp.2 -dq.2 -[RHS]s0 sumfE sum_excess; congr (_ - _).
  by apply: eq_sum => v; rewrite minC.
move=> z; have := sum_seq_eq0 (excess_ge0 q p) z xv.
by rewrite excessE (min_idPl (ltW qp)) => /eqP; rewrite subr_eq0 => /eqP e; rewrite e ltxx in qp.
Qed.

Lemma acc_owed0 (p q : V -> R) x : q x = 0 -> acc p q x = 0.
Proof. by rewrite /acc => ->; rewrite mul0r (min_idPr _) ?ler01. Qed.

Lemma res_owed0 (p q : V -> R) x : 0 <= p x -> q x = 0 -> res vs p q x = 0.
Proof.
move=> p0 q0; rewrite /res; case: ifP => // _.
by rewrite /excess q0 sub0r (max_idPr _) ?oppr_le0 // mul0r.
Qed.

(* p0 is the law of the drafts; p is p0 without h, m the mass that is left; nothing is owed to h. *)
Lemma skip_E (p0 : V -> R) n hist h (p q : V -> R) m f : dist p0 -> dist p -> dist q ->
  (forall y, y \in vs -> (y \notin h)%:R * p0 y = m * p y) -> (forall y, y \in h -> q y = 0) ->
  E vs (draws (fun=> p0) n hist) (fun xs => E vs (skip_scan vs h p q xs) f)
  = \sum_(y <- vs) q y * f y.
Proof.
move=> d0; elim: n hist h p q m => [|n IH] hist h p q m dp dq inv hq; first exact: sumfE.
rewrite E_Draw; set T := \sum_(y <- vs) q y * f y.
have dr := res_dist p dq; set T' := \sum_(y <- vs) res vs p q y * f y.
(* a draft that is new *)
have step x : x \in vs -> x \notin h -> p x != 0 ->
    E vs (draws (fun=> p0) n (rcons hist x)) (fun xs =>
    E vs (skip_scan vs h p q (x :: xs)) f) = acc p q x * f x + (1 - acc p q x) * T'.
  move=> xv xh px; rewrite /= (negPf xh) E_lin E_cst; last exact: draws_wf.
  congr (_ + _); case: (res_rejected dp dq xv) => [/eqP|->|rx]; first by rewrite (negPf px).
    by rewrite subrr !mul0r.
  congr (_ * _); apply: (IH _ _ _ _ (m * (1 - p x))) => // [|y yv|y]; first exact: masked_dist.
    rewrite inE negb_or -mulrA -(maskedE vs_uniq dp xv yv) andbC -mulnb natrM.
    case: (eqVneq y x) => [->|yx] /=; first by rewrite !mulr0 mul0r.
    by rewrite mulr1 inv.
  by rewrite inE => /orP[/eqP->//|/hq]; apply: res_owed0; exact: dp.1.
have spec : \sum_(x <- vs) p x * (acc p q x * f x + (1 - acc p q x) * T') = T.
  rewrite /T -(maximal_law f dp dq) E_Draw; apply: eq_sum => x /=.
  by rewrite sumfE.
have mE : m = \sum_(x <- vs) (x \notin h)%:R * p0 x.
  rewrite -[LHS]mulr1 -[X in _ * X = _]dp.2 big_distrr /= big_seq [RHS]big_seq.
  by apply: eq_bigr => x xv; rewrite inv.
transitivity (\sum_(x <- vs) ((x \in h)%:R * p0 x * T
   + m * (p x * (acc p q x * f x + (1 - acc p q x) * T')))).
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => x xv; rewrite E_bind.
  rewrite [m * _]mulrA -inv //; case: (boolP (x \in h)) => xh /=.
    rewrite mul1r !mul0r addr0; congr (_ * _).
    rewrite -[RHS](IH (rcons hist x) h p q m dp dq inv hq); apply: E_ext => xs.
    by rewrite /= xh acc_owed0 ?hq // mul0r add0r subr0 mul1r.
  rewrite mul1r !mul0r add0r; have [px|px] := eqVneq (p x) 0; last by congr (_ * _); exact: step.
  by have := inv x xv; rewrite xh mul1r px mulr0 => ->; rewrite !mul0r.
rewrite big_split /= -big_distrl -big_distrr /= spec mE -mulrDl -big_split /=.
rewrite (eq_sum vs (g := p0)) => [|x]; first by rewrite d0.2 mul1r.
by case: (x \in h); rewrite /= mul1r mul0r ?addr0 ?add0r.
Qed.

Theorem skip_exact (p q : V -> R) n f : dist p -> dist q ->
  E vs (bind (draws (fun=> p) n [::]) (skip_scan vs [::] p q)) f = \sum_(y <- vs) q y * f y.
Proof.
move=> dp dq; rewrite E_bind; apply: (@skip_E p n [::] [::] p q 1 f) => // y _.
Qed.

Theorem spectr_skip_valid (pd qt : seq V -> V -> R) K L : (forall c, dist (pd c)) ->
  (forall c, dist (qt c)) ->
  valid vs qt (spectr pd qt (node_skip vs pd qt) K L) L.
Proof. by move=> dpd dqt; apply: spectr_valid => // n c f; exact: skip_exact. Qed.
End SkipRepetitions.

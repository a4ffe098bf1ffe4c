(* One exact formula for the expectation of any payoff of a scan; block verification and greedy block
   verification are instances.                                                  *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity token_by_token block scan.
From Draftproof.theorems Require Import maximal block running.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Scan.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd D : seq V -> V -> R).
Hypothesis dpd : forall c, is_dist vs (pd c).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation draft := (draft pd).
Notation min1 := (Order.min 1).

(* Mass kept at the next token by weight w. *)
Definition msum (w : R) c : R := \sum_(x <- vs) Order.min (pd c x) (w * D c x).

Variables (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R) (okw : R -> Prop).
Hypothesis okw_ge0 : forall w, okw w -> 0 <= w.
Hypothesis nxt_ok : forall w c x, 0 <= w -> okw (nxt w c x).
Hypothesis nxt_E : forall w c x, 0 <= w ->
  pd c x * min1 (nxt w c x) = Order.min (pd c x) (w * D c x).
Hypothesis hac_last : forall w c, okw w -> hac w c true = min1 w.
Hypothesis hac_E : forall w c, okw w -> (1 - msum w c) * hac w c false = min1 w - msum w c.
Notation scan := (scan nxt hac).

(* Value of the event "accepted at c or deeper", m tokens left, payoff J.     *)
Section Value.
Variable J : mark R V -> R.
Fixpoint A1 m c w : R :=
  if m is m'.+1 then
    \sum_(x <- vs) pd c x * A1 m' (rcons c x) (nxt w c x)
    + (min1 w - msum w c) * J (c, w, false)
  else min1 w * J (c, w, true).
(* ... and of "accepted deeper than c". *)
Definition B1 m c w : R := \sum_(x <- vs) pd c x * A1 m (rcons c x) (nxt w c x).
End Value.

Lemma root_split c w (A : V -> R) g : 0 <= w ->
  \sum_(x <- vs) pd c x * (A x + (1 - min1 (nxt w c x)) * g)
  = \sum_(x <- vs) pd c x * A x + (1 - msum w c) * g.
Proof.
move=> w0; rewrite /msum -[X in (X - _) * _](dpd c).2 -sumrB big_distrl -big_split.
by apply: eq_sum => x /=; rewrite -nxt_E //; rng R.
Qed.

(* Key lemma: the rest of the path is worth B1, and leaves the mark as it was
   with the mass that is not kept at the next token.                          *)
Lemma scan_E m c w b (G : option (mark R V) -> R) : 0 <= w ->
  E vs (draft m.+1 c) (fun xs => E vs (scan c w xs b) G)
  = B1 (fun k => G (Some k)) m c w + (1 - msum w c) * G b.
Proof.
set J := fun k => G (Some k).
elim: m c w b => [|m IH] c w b w0; rewrite -root_split // E_Draw; apply: eq_sum => x.
  by rewrite /= hac_last //; exact: nxt_ok.
congr (_ * _); rewrite E_bind; set c' := rcons c x; set w' := nxt w c x.
have ok' : okw w' by exact: nxt_ok.
have w'0 := okw_ge0 ok'.
transitivity (hac w' c' false * E vs (draft m.+1 c') (fun xs =>
      E vs (scan c' w' xs (Some (c', w', false))) G)
  + (1 - hac w' c' false) * E vs (draft m.+1 c') (fun xs => E vs (scan c' w' xs b) G)).
  rewrite -E_lin [LHS]E_Draw [RHS]E_Draw; apply: eq_sum => y; congr (_ * _).
  by rewrite !E_bind; apply: E_ext => s.
rewrite !IH // -[G (Some _)]/(J _) -[A1 _ _ _ _]/(B1 J m c' w' + _).
have hM := hac_E c' ok'.
set M := msum w' c' in hM *; set h := hac _ _ _ in hM *.
set B := B1 _ _ _ _; set j := J _; set g := G b; set mw := min1 w' in hM *.
transitivity (B + ((1 - M) * h) * j + (1 - M - (1 - M) * h) * g); first by rng R.
by rewrite hM; rng R.
Qed.

Lemma A1_ext J1 J2 m c w : J1 =1 J2 -> A1 J1 m c w = A1 J2 m c w.
Proof.
move=> J12; elim: m c w => [|m IH] c w /=; rewrite J12 //.
by congr (_ + _); apply: eq_sum => x; rewrite IH.
Qed.

(* A payoff that is the same C at c and below is earned with min(1, w). *)
Lemma A1_const J m c w C : okw w -> (forall s w' l, J (c ++ s, w', l) = C) ->
  A1 J m c w = min1 w * C.
Proof.
move=> ok JC; have JC0 w' l : J (c, w', l) = C by rewrite -[c]cats0.
elim: m c w ok JC JC0 => [|m IH] c w ok JC JC0 /=; rewrite JC0 //.
have w0 := okw_ge0 ok.
rewrite (eq_bigr (fun x => Order.min (pd c x) (w * D c x) * C)) => [|x _].
  by rewrite -big_distrl /= -/(msum w c); rng R.
rewrite (IH (rcons c x)) ?mulrA ?nxt_E //; first exact: nxt_ok.
- by move=> s w' l; rewrite cat_rcons.
- by move=> w' l; rewrite -cats1.
Qed.

(* P(path starts with s, accepted at s or deeper) = p(s) min(1, w_s). *)
Definition reached (t : seq V) (o : option (mark R V)) : bool :=
  if o is Some k then take (size t) k.1.1 == t else false.

Section Reach.
Hypothesis vs_uniq : uniq vs.
Lemma A1_reach t s m c w : t = c ++ s -> all (mem vs) s -> (size s <= m)%N -> okw w ->
  A1 (fun k => (reached t (Some k))%:R) m c w = pmass pd c s * min1 (wfold nxt w c s).
Proof.
move=> ->; elim: s m c w => [|x s IH] m c w.
  move=> _ _ ok; rewrite cats0 (@A1_const _ _ _ _ 1) //=; first by rewrite mul1r mulr1.
  by move=> s w' l; rewrite /= take_size_cat ?eqxx.
case: m => // m /andP[xv sv]; rewrite ltnS => sm ok; rewrite /=.
have w0 := okw_ge0 ok.
rewrite take_oversize ?size_cat ?leq_addr // -[X in X == _]cats0 eqseq_cat // eqxx /= mulr0 addr0.
rewrite (eq_bigr (fun y => pd c y * (pmass pd (rcons c y) s * min1 (wfold nxt (nxt w c y) (rcons c y) s))
   * (y == x)%:R)) => [|y _]; last first.
  rewrite -mulrA; congr (_ * _); case: (eqVneq y x) => [->|yx].
    by rewrite mulr1 -(IH m _ _ sv sm (nxt_ok _ _ w0)); apply: A1_ext => k; rewrite /reached cat_rcons size_cat.
  rewrite (@A1_const _ _ _ _ 0) ?mulr0 //; first exact: nxt_ok.
  move=> s' w' l /=; case: eqP => // e; case/negP: yx.
  have := congr1 (fun u => nth y u (size c)) e.
  rewrite nth_take ?size_cat /= -?addSnnS ?leq_addr // cat_rcons !nth_cat ltnn subnn /=.
  by move=> ->.
by rewrite (sum_eq_mem vs_uniq (fun y => pd c y * (pmass pd (rcons c y) s *
   min1 (wfold nxt (nxt w c y) (rcons c y) s))) xv) mulrA.
Qed.

Theorem scan_reach s m c w : all (mem vs) s -> (0 < size s <= m)%N -> 0 <= w ->
  E vs (draft m c) (fun xs => E vs (scan c w xs None) (fun o => (reached (c ++ s) o)%:R))
  = pmass pd c s * min1 (wfold nxt w c s).
Proof.
case: s m => [|x s] [|m] // /andP[xv sv] sm w0.
rewrite (scan_E m c None (fun o => (reached (c ++ x :: s) o)%:R) w0) mulr0 addr0 [pmass _ _ _]/=.
rewrite -mulrA -(sum_eq_mem vs_uniq (fun y => pd c y * (pmass pd (rcons c y) s *
   min1 (wfold nxt (nxt w c y) (rcons c y) s))) xv); apply: eq_sum => y.
rewrite -mulrA; congr (_ * _); case: (eqVneq y x) => [->|yx].
  by rewrite mulr1 -(A1_reach (erefl _) sv sm (nxt_ok _ _ w0)); apply: A1_ext => k; rewrite /reached cat_rcons ?size_cat.
rewrite (@A1_const _ _ _ _ 0) ?mulr0 //; first exact: nxt_ok.
move=> s' w' l /=; case: eqP => // e; case/negP: yx.
have := congr1 (fun u => nth y u (size c)) e.
rewrite nth_take ?size_cat /= -?addSnnS ?leq_addr // cat_rcons !nth_cat ltnn subnn /=.
by move=> ->.
Qed.
End Reach.

(* Expected accepted length = sum over i of the p-mean of min(1, w_i). *)
Definition tau_of (c : seq V) (o : option (mark R V)) : R :=
  if o is Some k then (size k.1.1)%:R - (size c)%:R else 0.
Lemma draft_wfold i c w :
  E vs (draft i.+1 c) (fun xs => min1 (wfold nxt w c xs))
  = \sum_(x <- vs) pd c x * E vs (draft i (rcons c x)) (fun xs => min1 (wfold nxt (nxt w c x) (rcons c x) xs)).
Proof. by rewrite E_Draw; apply: eq_sum => x; rewrite E_bind. Qed.

Lemma A1_tau c0 m c w : okw w ->
  A1 (fun k => tau_of c0 (Some k)) m c w
  = min1 w * ((size c)%:R - (size c0)%:R)
    + \sum_(0 <= i < m) E vs (draft i.+1 c) (fun xs => min1 (wfold nxt w c xs)).
Proof.
elim: m c w => [|m IH] c w ok; first by rewrite big_nil addr0.
have w0 := okw_ge0 ok; rewrite big_nat_recl //.
have -> : E vs (draft 1 c) (fun xs => min1 (wfold nxt w c xs)) = msum w c.
  by rewrite draft_wfold; apply: eq_sum => x; rewrite /= nxt_E.
rewrite [X in _ = _ + (_ + X)](eq_bigr (fun i => \sum_(x <- vs) pd c x *
  E vs (draft i.+1 (rcons c x)) (fun xs => min1 (wfold nxt (nxt w c x) (rcons c x) xs)))); last first.
  by move=> i _; exact: draft_wfold.
rewrite exchange_big [LHS]/=.
under eq_bigr => x _ do rewrite (IH _ _ (nxt_ok _ _ w0)) size_rcons [pd c x * _]mulrDr [pd c x * (_ * _)]mulrA nxt_E //.
rewrite big_split -big_distrl /= -/(msum w c).
under [X in _ + X + _ = _]eq_bigr => x _ do rewrite big_distrr /=.
set S := \sum_(x <- vs) _; rewrite mulrSr.
by move: (size c)%:R (size c0)%:R => u v; rng R.
Qed.

Theorem scan_tau m c w : 0 <= w ->
  E vs (draft m c) (fun xs => E vs (scan c w xs None) (tau_of c))
  = \sum_(0 <= i < m) E vs (draft i.+1 c) (fun xs => min1 (wfold nxt w c xs)).
Proof.
case: m => [|m] w0; first by rewrite big_nil.
rewrite (scan_E m c None (tau_of c) w0) mulr0 addr0 big_nat_recl // /B1.
under eq_bigr => x _ do rewrite (A1_tau c m _ (nxt_ok _ _ w0)) size_rcons [pd c x * _]mulrDr.
rewrite big_split; congr (_ + _).
  by rewrite draft_wfold; apply: eq_sum => x; rewrite /= mulrSr addrAC subrr add0r mulr1.
rewrite [RHS](eq_bigr (fun i => \sum_(x <- vs) pd c x *
  E vs (draft i.+1 (rcons c x)) (fun xs => min1 (wfold nxt (nxt w c x) (rcons c x) xs)))); last first.
  by move=> i _; exact: draft_wfold.
by rewrite exchange_big /=; apply: eq_sum => x; rewrite big_distrr.
Qed.

(* Where a mark can be: a non-empty prefix of the path, with its weight. *)
Definition mark_at c w m (k : mark R V) : Prop :=
  exists s, [/\ k.1.1 = c ++ s, k.1.2 = wfold nxt w c s, (0 < size s <= m)%N
            & k.2 = (size s == m)].
Definition omark_at c w m (o : option (mark R V)) : Prop :=
  if o is Some k then mark_at c w m k else True.

Lemma wfold_cat w c s t : wfold nxt w c (s ++ t) = wfold nxt (wfold nxt w c s) (c ++ s) t.
Proof. by elim: s w c => [|x s IH] w c /=; rewrite ?cats0 // IH cat_rcons. Qed.

Lemma scan_mark c w xs : always (omark_at c w (size xs)) (scan c w xs None).
Proof.
have generate pre ys o : omark_at c w (size (pre ++ ys)) o ->
    always (omark_at c w (size (pre ++ ys))) (scan (c ++ pre) (wfold nxt w c pre) ys o).
  elim: ys pre o => [|y ys IH] pre o //= ok.
  have e : wfold nxt w c (rcons pre y) = nxt (wfold nxt w c pre) (c ++ pre) y.
    by rewrite -cats1 wfold_cat.
  rewrite rcons_cat -cat_rcons -e; split; apply: IH; last by rewrite cat_rcons.
  exists (rcons pre y); rewrite size_cat !size_rcons; split=> //=.
    by rewrite addSn ltnS leq_addr.
  by rewrite -[X in _ = (X == _)]addn0 eqn_add2l [RHS]eq_sym size_eq0.
by have := generate [::] xs None I; rewrite cats0.
Qed.

Lemma scan_wf c w xs b : (forall w c l, okw w -> 0 <= hac w c l <= 1) -> 0 <= w ->
  wf vs (scan c w xs b).
Proof.
move=> h01; elim: xs c w b => //= x xs IH c w b w0.
have ok' := nxt_ok c x w0; have w'0 := okw_ge0 ok'.
by split; [exact: h01 | split; exact: IH].
Qed.
End Scan.

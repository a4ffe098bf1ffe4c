(* At every context any coupling of token types and labels with the two right marginals will do, and
   any proposal can be repaired to have them.                                   *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds scan selection ranked_block ranked_block_design.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode
   running block_optimal paths scan expected_length selection ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Design.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Add Ring Rring : (ring_th R).

Lemma tablE n (f : nat -> R) l : tabl n f l = if (l < n)%N then f l else 0.
Proof.
rewrite /tabl; case: ltnP => ln; first exact: nth_mkseq.
by rewrite nth_default // size_mkseq.
Qed.

Lemma tab2E n k (F : nat -> nat -> R) b l :
  tab2 n k F b l = if (b < n)%N && (l < k)%N then F b l else 0.
Proof.
rewrite /tab2; case: (ltnP b n) => bn /=; last by rewrite [nth [::] _ _]nth_default ?size_mkseq ?nth_nil.
rewrite nth_mkseq //; case: ltnP => lk; first exact: nth_mkseq.
by rewrite nth_default // size_mkseq.
Qed.

Lemma csum_exch (F : nat -> nat -> R) n k :
  csum (fun b => csum (F b) k) n = csum (fun l => csum (fun b => F b l) n) k.
Proof.
elim: n => [|n IH] /=.
  elim: k => //= k IH; by rewrite -IH addr0.
by rewrite IH; elim: k {IH} => [|k IH] /=; rewrite ?addr0 // -IH addrACA.
Qed.

Lemma csumD (f g : nat -> R) n : csum (fun l => f l + g l) n = csum f n + csum g n.
Proof. by elim: n => [|n IH] /=; rewrite ?addr0 // IH addrACA. Qed.

Lemma csumB (f g : nat -> R) n : csum (fun l => f l - g l) n = csum f n - csum g n.
Proof. by elim: n => [|n IH] /=; rewrite ?subr0 // IH opprD addrACA. Qed.

Lemma csum0_mem (f : nat -> R) n : (forall l, 0 <= f l) -> csum f n = 0 ->
  forall l, (l < n)%N -> f l = 0.
Proof.
move=> f0; elim: n => //= n IH /eqP; rewrite paddr_eq0 ?csum_ge0 // => /andP[/eqP s0 /eqP fn].
by move=> l; rewrite ltnS leq_eqVlt => /orP[/eqP->|/(IH s0)].
Qed.

Lemma ler_csum (f g : nat -> R) n : (forall l, f l <= g l) -> csum f n <= csum g n.
Proof. by move=> fg; elim: n => //= n IH; exact: ler_add. Qed.

Lemma csum_sum n (F : V -> nat -> R) : \sum_(v <- vs) csum (F v) n = csum (fun l => \sum_(v <- vs) F v l) n.
Proof. by elim: n => [|n IH] /=; [rewrite big1 | rewrite big_split /= IH]. Qed.

(* --- From a step function to a family with the column sums ---------------------- *)
Section Step.
Variables (pd : seq V -> V -> R) (J : nat) (St : Type) (labst : St -> nat -> R) (init : St).
Variables (step : seq V -> St -> V -> St) (Inv : St -> Prop).
Notation pi0 := (labst init).
Notation post := (post_of vs pd labst init step pi0).
Hypothesis inv_init : Inv init.
Hypothesis inv_law : forall st, Inv st -> is_law J (labst st).
Hypothesis inv_step : forall x st v, Inv st -> v \in vs -> pd x v != 0 -> Inv (step x st v).
Hypothesis step_sum : forall x st l, Inv st -> (l < J)%N ->
  \sum_(v <- vs) pd x v * labst (step x st v) l = labst st l.
Hypothesis dpd : forall c, is_dist vs (pd c).

Lemma sfold_inv x st s : Inv st -> Inv (sfold vs pd step x st s).
Proof.
elim: s x st => //= v s IH x st ok; apply: IH.
by case: ifP => // /andP[vv pv]; exact: inv_step.
Qed.

Lemma sfold_rcons x st s v : sfold vs pd step x st (rcons s v)
  = (let st' := sfold vs pd step x st s in if live vs pd (x ++ s) v then step (x ++ s) st' v else st').
Proof. by elim: s x st => [|y s IH] x st /=; rewrite ?cats0 // IH cat_rcons. Qed.

Lemma post_of_law c x : is_law J (post c x).
Proof. by rewrite /post_of; case: ifP => _; apply: inv_law => //; exact: sfold_inv. Qed.

Lemma post_of_root c l : post c c l = pi0 l.
Proof. by rewrite /post_of take_size eqxx drop_size. Qed.

Lemma post_of_sum c x l : (l < J)%N ->
  \sum_(v <- vs) pd x v * post c (rcons x v) l = post c x l.
Proof.
move=> lJ; rewrite {2}/post_of; case: eqP => [tx|tx].
  have e : x = c ++ drop (size c) x by rewrite -[LHS](cat_take_drop (size c)) tx.
  have cx : (size c <= size x)%N by rewrite e size_cat leq_addr.
  set s := drop (size c) x in e *; set st := sfold _ _ _ _ _ s.
  have ok : Inv st by exact: sfold_inv.
  rewrite -(step_sum x ok lJ) big_seq [RHS]big_seq; apply: eq_bigr => v vv.
  rewrite /post_of -cats1 takel_cat // tx eqxx drop_cat.
  have [lt|ge] := ltnP (size c) (size x).
    rewrite cats1 sfold_rcons -e -/st /= /live vv /=.
    by case: eqP => [->|_] /=; rewrite ?mul0r.
  have xc : x = c by rewrite -tx take_oversize.
  have s0 : s = [::] by rewrite /s xc drop_size.
  rewrite (eqP (_ : (size c - size x == 0)%N)) ?subn_eq0 // drop0 /= /live -xc vv /=.
  have -> : st = init by rewrite /st s0.
  by case: eqP => [->|_] /=; rewrite ?mul0r.
transitivity (\sum_(v <- vs) pd x v * pi0 l); last by rewrite -big_distrl /= (dpd x).2 mul1r.
apply: eq_sum => v; congr (_ * _); rewrite /post_of; case: eqP => // tv.
have [lt|ge] := leqP (size c) (size x).
  by case: tx; move: tv; rewrite -cats1 takel_cat.
have xc : rcons x v = c by rewrite -tv take_oversize // size_rcons.
by rewrite -xc drop_size.
Qed.

Variables (qt : seq V -> V -> R).
Hypothesis dqt : forall c, is_dist vs (qt c).
Theorem step_valid K L : valid vs qt (ranked_block vs pd qt J pi0 post K.+1 L) L.
Proof.
apply: (ranked_block_valid dpd dqt) => //.
- exact: inv_law.
- exact: post_of_law.
- by move=> c l _; exact: post_of_root.
- exact: post_of_sum.
Qed.
End Step.

(* --- Mixtures of types --------------------------------------------------------------- *)
Section Mix.
Variables (NT J : nat) (p : V -> R) (theta : V -> nat -> R) (M : nat -> nat -> R) (pi : nat -> R).
Hypothesis p0 : forall v, 0 <= p v.
Hypothesis theta_law : forall v, is_law NT (theta v).
Hypothesis M0 : forall b l, 0 <= M b l.
Hypothesis M_rows : forall b, (b < NT)%N -> csum (M b) J = tmass vs p theta b.
Hypothesis M_cols : forall l, (l < J)%N -> csum (fun b => M b l) NT = pi l.
Notation P := (tmass vs p theta).
Notation mix := (mix vs NT p theta M).

Lemma tmass_ge0 b : 0 <= P b.
Proof. by rewrite /tmass sumfE sumr_ge0 // => v _; rewrite mulr_ge0 ?(theta_law v).1. Qed.

Lemma mix_law v : v \in vs -> p v != 0 -> is_law J (mix v).
Proof.
move=> vv pv; split=> [l|].
  by apply: csum_ge0 => b; rewrite mulr_ge0 ?(theta_law v).1 // mulr_ge0 ?invr_ge0 ?tmass_ge0.
rewrite -csum_exch -(theta_law v).2; apply: eq_csum => b bN; rewrite csumZ.
rewrite (eq_csum (g := fun l => (P b)^-1 * M b l)) => [|l _]; last by rewrite mulrC.
rewrite csumZ M_rows //; have [t0|tn0] := eqVneq (theta v b) 0; first by rewrite t0 mul0r.
rewrite mulVf ?mulr1 // gt_eqF //; apply: (@lt_le_trans _ _ (p v * theta v b)).
  by rewrite mulr_gt0 // lt_def ?pv ?tn0 ?p0 // (theta_law v).1.
rewrite /tmass sumfE; apply: (le_sum_mem (f := fun v => p v * theta v b)) => // y.
by rewrite mulr_ge0 // (theta_law y).1.
Qed.

Lemma mix_sum l : (l < J)%N -> \sum_(v <- vs) p v * mix v l = pi l.
Proof.
move=> lJ; rewrite -M_cols // /mix /Draftproof.programs.ranked_block_design.mix.
transitivity (\sum_(v <- vs) csum (fun b => p v * theta v b * (M b l / P b)) NT).
  by apply: eq_sum => v; rewrite -csumZ; apply: eq_csum => b _; rewrite mulrA.
rewrite csum_sum; apply: eq_csum => b bN; rewrite -big_distrl /=.
have -> : \sum_(v <- vs) p v * theta v b = P b by rewrite /tmass sumfE.
have [P0|Pn0] := eqVneq (P b) 0; last by rewrite mulrC divfK.
rewrite P0 mul0r; apply/esym/(csum0_mem (M0 b)); last exact: lJ.
by rewrite M_rows.
Qed.
End Mix.

(* The two neighbouring types of the specification. *)
Definition interp k (a : R) b : R := if b == k then 1 - a else if b == k.+1 then a else 0.
Lemma interp_law NT k a : (k.+1 < NT)%N -> 0 <= a <= 1 -> is_law NT (interp k a).
Proof.
move=> kN /andP[a0 a1]; split=> [b|].
  by rewrite /interp; case: ifP => _; [rewrite subr_ge0 | case: ifP].
rewrite (eq_csum (g := fun b => (b == k)%:R * (1 - a) + (b == k.+1)%:R * a)) => [|b _]; last first.
  rewrite /interp; case: eqP => [->|_] /=; last by case: eqP; rewrite mul0r add0r ?mul1r ?mul0r.
  by rewrite mul1r ltn_eqF // mul0r addr0.
by rewrite csumD (csum_one (fun=> 1 - a) (ltnW kN)) (csum_one (fun=> a) kN) subrK.
Qed.

(* Label edges 0 = s_0 <= ... <= s_J = 1. *)
Definition edge_law J (s : nat -> R) l : R := if (l < J)%N then s l.+1 - s l else 0.
Lemma edge_csum J s l : s 0%N = 0 -> (l <= J)%N -> csum (edge_law J s) l = s l.
Proof.
move=> s0; elim: l => [|l IH] lJ //=; rewrite IH; last exact: ltnW.
by rewrite /edge_law lJ addrC subrK.
Qed.
Lemma edge_law_law J s : s 0%N = 0 -> s J = 1 -> (forall l, (l < J)%N -> s l <= s l.+1) ->
  is_law J (edge_law J s).
Proof.
move=> s0 s1 sm; split=> [l|]; last by rewrite edge_csum.
by rewrite /edge_law; case: ifP => // lJ; rewrite subr_ge0 sm.
Qed.
(* u(l) = (s_{l+1}^K - s_l^K) / pi0(l). *)
Lemma boost_edges K J s l : s 0%N = 0 -> (l < J)%N -> s l != s l.+1 ->
  boost K (edge_law J s) l = (s l.+1 ^+ K - s l ^+ K) / (s l.+1 - s l).
Proof.
move=> s0 lJ ne; have d0 : s l.+1 - s l != 0 by rewrite subr_eq0 eq_sym.
apply: (mulIf d0); rewrite divfK //.
have := boost_E K (edge_law J s) l.
by rewrite !edge_csum ?(ltnW lJ) // {2}/edge_law lJ.
Qed.

(* --- Repair --------------------------------------------------------------------------------- *)
Section Repair.
Variables (NT J : nat) (P pi : nat -> R) (M0 : nat -> nat -> R).
Hypotheses (P0 : forall b, 0 <= P b) (pi0 : forall l, 0 <= pi l).
Hypothesis total : csum P NT = csum pi J.
Notation rowsum := (rowsum J).
Notation colsum := (colsum NT).

Lemma acc_cut (f g : nat -> R) n l : 0 <= f l -> 0 <= g l -> (l < n)%N ->
  f l * tabl n (acc f g) l = Order.min (f l) (g l).
Proof. by move=> f0 g0 ln; rewrite tablE ln; exact: min_acc. Qed.

Section Fill.
Variable M : nat -> nat -> R.
Hypothesis Mge0 : forall b l, 0 <= M b l.
Hypothesis Mrow : forall b, (b < NT)%N -> rowsum M b <= P b.
Hypothesis Mcol : forall l, (l < J)%N -> colsum M l <= pi l.
Let er b := tabl NT (fun b => P b - rowsum M b) b.
Let ec l := tabl J (fun l => pi l - colsum M l) l.
Let t := csum er NT.

Let er0 b : 0 <= er b.
Proof. by rewrite /er tablE; case: ltnP => // bN; rewrite subr_ge0 Mrow. Qed.
Let ec0 l : 0 <= ec l.
Proof. by rewrite /ec tablE; case: ltnP => // lJ; rewrite subr_ge0 Mcol. Qed.
Let tE : t = csum ec J.
Proof.
transitivity (csum P NT - csum (rowsum M) NT).
  by rewrite -csumB; apply: eq_csum => b bN; rewrite /er tablE bN.
rewrite total /rowsum /Draftproof.programs.ranked_block_design.rowsum csum_exch -csumB; apply: eq_csum => l lJ.
by rewrite /ec tablE lJ.
Qed.
Let t0 : 0 <= t. Proof. exact: csum_ge0. Qed.
Let ert b : (b < NT)%N -> er b * (t / t) = er b.
Proof.
move=> bN; have [tz|tn0] := eqVneq t 0; last by rewrite divff ?mulr1.
by rewrite (csum0_mem er0 tz bN) mul0r.
Qed.
Let ect l : (l < J)%N -> ec l * (t / t) = ec l.
Proof.
move=> lJ; have [tz|tn0] := eqVneq t 0; last by rewrite divff ?mulr1.
by move: (tz); rewrite tE => z; rewrite (csum0_mem ec0 z lJ) mul0r.
Qed.

Lemma fill_ge0 b l : 0 <= fill_up NT J P pi M b l.
Proof. by rewrite addr_ge0 // mulr_ge0 ?invr_ge0 // mulr_ge0. Qed.

Lemma fill_row b : (b < NT)%N -> csum (fill_up NT J P pi M b) J = P b.
Proof.
move=> bN; rewrite /fill_up csumD -/(rowsum M b).
rewrite (eq_csum (g := fun l => er b / t * ec l)) => [|l _]; last by rewrite mulrAC.
by rewrite csumZ -tE mulrAC -mulrA ert // /er tablE bN addrC subrK.
Qed.

Lemma fill_col l : (l < J)%N -> csum (fun b => fill_up NT J P pi M b l) NT = pi l.
Proof.
move=> lJ; rewrite /fill_up csumD -/(colsum M l).
rewrite (eq_csum (g := fun b => ec l / t * er b)) => [|b _]; last by rewrite [er b * _]mulrC mulrAC.
by rewrite csumZ -/t mulrAC -mulrA ect // /ec tablE lJ addrC subrK.
Qed.
End Fill.

(* Any proposal, repaired, is a coupling of P and pi. *)
Theorem repair_ok : [/\ forall b l, 0 <= repair NT J P pi M0 b l,
  forall b, (b < NT)%N -> csum (repair NT J P pi M0 b) J = P b
  & forall l, (l < J)%N -> csum (fun b => repair NT J P pi M0 b l) NT = pi l].
Proof.
rewrite /repair; set Mp := tab2 NT J (pos_part M0).
have Mp0 b l : 0 <= Mp b l by rewrite /Mp tab2E; case: ifP => // _; rewrite /pos_part le_maxr lexx orbT.
have acc0 (f g : nat -> R) n l : (forall l, 0 <= f l) -> (forall l, 0 <= g l) -> 0 <= tabl n (acc f g) l.
  by move=> f0 g0; rewrite tablE; case: ifP => // _; have /andP[] := acc01 (f0 l) (g0 l).
have acc1 (f g : nat -> R) n l : (forall l, 0 <= f l) -> (forall l, 0 <= g l) -> tabl n (acc f g) l <= 1.
  move=> f0 g0; rewrite tablE; case: ifP => _; last exact: ler01.
  by have /andP[] := acc01 (f0 l) (g0 l).
have cp0 l : 0 <= colsum Mp l by apply: csum_ge0.
set M1 := tab2 NT J (cut_cols NT J pi Mp).
have M10 b l : 0 <= M1 b l by rewrite /M1 tab2E; case: ifP => // _; rewrite mulr_ge0 ?acc0.
have M1col l : (l < J)%N -> colsum M1 l <= pi l.
  move=> lJ; rewrite /colsum /Draftproof.programs.ranked_block_design.colsum.
  rewrite (eq_csum (g := fun b => tabl J (acc (colsum Mp) pi) l * Mp b l)) => [|b bN]; last first.
    by rewrite /M1 tab2E bN lJ /= mulrC.
  by rewrite csumZ mulrC -/(colsum Mp l) acc_cut // le_minl lexx orbT.
have r10 b : 0 <= rowsum M1 b by apply: csum_ge0.
set M2 := tab2 NT J (cut_rows NT J P M1).
have M2E b l : (b < NT)%N -> (l < J)%N -> M2 b l = M1 b l * tabl NT (acc (rowsum M1) P) b.
  by move=> bN lJ; rewrite /M2 tab2E bN lJ.
have M20 b l : 0 <= M2 b l by rewrite /M2 tab2E; case: ifP => // _; rewrite mulr_ge0 ?acc0.
have M2row b : (b < NT)%N -> rowsum M2 b <= P b.
  move=> bN; rewrite /rowsum /Draftproof.programs.ranked_block_design.rowsum.
  rewrite (eq_csum (g := fun l => tabl NT (acc (rowsum M1) P) b * M1 b l)) => [|l lJ]; last first.
    by rewrite M2E // mulrC.
  by rewrite csumZ mulrC -/(rowsum M1 b) acc_cut // le_minl lexx orbT.
have M2col l : (l < J)%N -> colsum M2 l <= pi l.
  move=> lJ; apply: le_trans (M1col l lJ); apply: ler_csum => b.
  case: (ltnP b NT) => bN; last by rewrite /M2 tab2E ltnNge bN.
  rewrite M2E // -[X in _ <= X]mulr1; apply: ler_wpmul2l; first exact: M10.
  exact: acc1.
have fE b l : (b < NT)%N -> (l < J)%N -> tab2 NT J (fill_up NT J P pi M2) b l = fill_up NT J P pi M2 b l.
  by move=> bN lJ; rewrite tab2E bN lJ.
split=> [b l|b bN|l lJ].
- by rewrite tab2E; case: ifP => // _; exact: fill_ge0.
- by rewrite -(fill_row M2row bN); apply: eq_csum => l lJ; exact: fE.
- by rewrite -(fill_col M2col lJ); apply: eq_csum => b bN; exact: fE.
Qed.
End Repair.

(* --- The whole scheme: any types, any proposal, any extra state --------------------------------- *)
Section Scheme.
Variables (NT J : nat) (pd qt : seq V -> V -> R) (X : Type) (x0 : X).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Variables (theta : seq V -> V -> nat -> R) (propose : seq V -> (nat -> R) * X -> nat -> nat -> R).
Variables (carry : seq V -> (nat -> R) * X -> V -> X) (pi0 : nat -> R).
Hypothesis theta_law : forall x v, is_law NT (theta x v).
Hypothesis pi0_law : is_law J pi0.
Notation post := (design vs NT J pd x0 theta propose carry pi0).

Lemma design_facts : (forall c x, is_law J (post c x))
  /\ forall K L, valid vs qt (ranked_block vs pd qt J pi0 post K.+1 L) L.
Proof.
pose Inv (st : (nat -> R) * X) := is_law J st.1.
have tm x b : (b < NT)%N -> tabl NT (tmass vs (pd x) (theta x)) b = tmass vs (pd x) (theta x) b.
  by move=> bN; rewrite tablE bN.
have pd0 x v : 0 <= pd x v by exact: (dpd x).1.
have tm0 x b : 0 <= tmass vs (pd x) (theta x) b by exact: tmass_ge0.
have tot x : csum (tmass vs (pd x) (theta x)) NT = 1.
  rewrite (eq_csum (g := fun b => \sum_(v <- vs) pd x v * theta x v b)) => [|b _]; last first.
    by rewrite /tmass sumfE.
  rewrite -csum_sum -(dpd x).2; apply: eq_sum => v.
  by rewrite csumZ (theta_law x v).2 mulr1.
have rp x st : Inv st -> [/\ forall b l, 0 <= repair NT J (tabl NT (tmass vs (pd x) (theta x))) st.1 (propose x st) b l,
    forall b, (b < NT)%N -> csum (repair NT J (tabl NT (tmass vs (pd x) (theta x))) st.1 (propose x st) b) J = tmass vs (pd x) (theta x) b
  & forall l, (l < J)%N -> csum (fun b => repair NT J (tabl NT (tmass vs (pd x) (theta x))) st.1 (propose x st) b l) NT = st.1 l].
  move=> [s0 s1]; have := @repair_ok NT J (tabl NT (tmass vs (pd x) (theta x))) st.1 (propose x st).
  case=> //.
  - by move=> b; rewrite tablE; case: ifP.
  - by rewrite s1 -(tot x); apply: eq_csum => b; exact: tm.
  by move=> h0 hr hc; split=> // b bN; rewrite hr // tm.
have law_tab (f : nat -> R) : is_law J f -> is_law J (tabl J f).
  move=> [f0 f1]; split=> [l|]; first by rewrite tablE; case: ifP.
  by rewrite -f1; apply: eq_csum => l lJ; rewrite tablE lJ.
have inv_step x st v : Inv st -> v \in vs -> pd x v != 0 ->
    Inv (design_step vs NT J pd theta propose carry x st v).
  move=> ok vv pv; case: (rp x st ok) => h0 hr hc; apply: law_tab.
  exact: (mix_law (pd0 x) (theta_law x) h0 hr vv pv).
split=> [c x|K L].
  exact: (post_of_law (labst := fun st : (nat -> R) * X => st.1) (init := (pi0, x0)) (Inv := Inv)).
apply: (step_valid (labst := fun st : (nat -> R) * X => st.1) (init := (pi0, x0)) (Inv := Inv)) => //.
move=> x st l ok lJ; case: (rp x st ok) => h0 hr hc.
rewrite -(mix_sum h0 hr hc lJ); apply: eq_sum => v.
by rewrite /= tablE lJ.
Qed.

Theorem design_law c x : is_law J (post c x).
Proof. exact: design_facts.1. Qed.

Theorem design_valid K L : valid vs qt (ranked_block vs pd qt J pi0 post K.+1 L) L.
Proof. exact: design_facts.2. Qed.
End Scheme.
End Design.

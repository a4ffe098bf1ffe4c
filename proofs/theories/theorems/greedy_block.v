(* Greedy block verification with its carry: valid, P(tau >= i, x) = min(p, q).   *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block target_match spectr scan walk kseq_block spectr_gbv greedy_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths spectr scan walk kseq_block spectr_gbv.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Greedy.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)).
Add Ring Rring : (ring_th R).
Notation min1 := (Order.min 1).
Notation dist := (is_dist vs).

Section Chain.
Variables (D : seq V -> V -> R).
Hypothesis dD : forall x, dist (D x).
Notation M := (msum vs pd D).
Let D0 x v : 0 <= D x v. Proof. exact: (dD x).1. Qed.

Lemma dminusE w c : greedy_deficit vs pd D w c = 1 - M w c.
Proof.
rewrite /greedy_deficit sumfE (sum_excess vs (fun v => w * D c v) (pd c)) (dpd c).2.
by congr (_ - _); apply: eq_sum => x; rewrite minC.
Qed.

Lemma dplusE w c : block_surplus vs pd D w c = w - M w c.
Proof. by rewrite /block_surplus sumfE sum_excess -big_distrr /= (dD c).2 mulr1. Qed.

(* The printed coin is the one of SpecTr-GBV at scale 1. *)
Lemma grhac_eq w c : 0 <= w -> greedy_bias vs pd D w c false = gbv_bias vs pd D w c false.
Proof.
move=> w0; rewrite /greedy_bias /gbv_bias dminusE gsumE dplusE; case: eqVneq => // Mn.
have M0 : 0 < 1 - M w c.
  rewrite lt_def Mn subr_ge0 -(dpd c).2; apply: ler_sum => x _.
  by rewrite le_minl lexx.
rewrite -[X in Order.min X _](divff Mn) -minr_pmull ?invr_ge0 ?(ltW M0) //.
by rewrite -addr_minl.
Qed.

Lemma grhac_E w c : 0 <= w -> (1 - M w c) * greedy_bias vs pd D w c false = min1 w - M w c.
Proof. by move=> w0; rewrite grhac_eq // (ghac_E dpd dD). Qed.

(* The printed carry is the chain of SpecTr-GBV at scale 1. *)
Lemma rchain_eq a e x v : greedy_carry vs pd D a e x v = gbv_chain vs pd D 1 1 a e x v.
Proof.
rewrite /greedy_carry /gbv_chain; case: ifP => // _; rewrite /gbv_ratio invr1 /block_residual /block_surplus /gbv_row.
set w := wfold _ _ _ _.
have le y : excess (pd x) (wq D w x) y = gbv_owed pd D 1 1 w x y by rewrite excessE /gbv_owed !mul1r.
by rewrite !sumfE (eq_sum vs le) le.
Qed.

Lemma Phi_chain (D1 D2 : seq V -> V -> R) N f x : (forall y v, D1 y v = D2 y v) ->
  Phi vs D1 N f x = Phi vs D2 N f x.
Proof.
move=> D12; rewrite /Phi /fill; move: (N - size x)%N => n; elim: n x => //= n IH x.
by rewrite !sumfE; apply: eq_sum => y; rewrite D12 IH.
Qed.

Lemma rchain_dist a e x : dist (greedy_carry vs pd D a e x).
Proof. by rewrite /greedy_carry; case: ifP => _; [exact: bres_dist | exact: dD]. Qed.
End Chain.

Lemma grscan_E (D : seq V -> V -> R) m c w b G : (forall x, dist (D x)) -> 0 <= w ->
  E vs (draft pd m.+1 c) (fun xs => E vs (scan (joint_ratio pd D) (greedy_bias vs pd D) c w xs b) G)
  = B1 vs pd D (joint_ratio pd D) (fun k => G (Some k)) m c w + (1 - msum vs pd D w c) * G b.
Proof.
move=> dD w0; apply: (scan_E (D := D) dpd (okw := fun w => 0 <= w)) => //.
- by move=> w1 c1 x; exact: gnxt_ok.
- by move=> w1 c1 x; exact: gnxt_E.
- by move=> w1 c1; exact: grhac_E.
Qed.

(* Greedy block verification is lossless (stateful). *)
Theorem greedy_block_valid L : valid_carry vs (greedy_block vs pd L) L.
Proof.
move=> D c f dD; rewrite E_bind; set N := (size c + L.+1)%N; set e := (size c + L)%N.
have Ne : N = e.+1 by rewrite /N addnS.
have -> : E vs (generate D L.+1 c) f = Phi vs D N f c by rewrite /Phi /fill addKn.
pose D' := greedy_carry vs pd D c e.
rewrite -[LHS]/(E vs (greedy_block vs pd L D c) (fun o => Phi vs o.2 N f o.1)) /greedy_block E_bind.
have D'E x : Phi vs D' N f x = Phi vs (gbv_chain vs pd D 1 1 c e) N f x.
  by apply: Phi_chain => y v; exact: rchain_eq.
have ctxN k : mark_at (joint_ratio pd D) c 1 L k -> (size k.1.1 < N)%N.
  by move=> [s [-> _ /andP[_ sL] _]]; rewrite Ne ltnS size_cat leq_add2l.
have out o : omark_at (joint_ratio pd D) c 1 L o ->
    E vs (greedy_block_out vs pd L D c o) (fun o => Phi vs o.2 N f o.1)
    = Phi vs D' N f (if o is Some k then k.1.1 else c).
  move=> oo; set c' := if o is Some k then k.1.1 else c.
  have c'N : (size c' < N)%N by case: o oo @c' => [k /ctxN|_] //=; rewrite Ne ltnS leq_addr.
  by rewrite (Phi_step _ _ _ c'N) E_Draw.
rewrite E_bind.
transitivity (E vs (draft pd L c) (fun xs => E vs (scan (joint_ratio pd D) (greedy_bias vs pd D) c 1 xs None)
   (fun o => if o is Some k then Phi vs D' N f k.1.1 else Phi vs D' N f c))).
  apply: (E_always _ (draft_size pd L c)) => xs sx.
  have := scan_mark (joint_ratio pd D) (greedy_bias vs pd D) c 1 xs; rewrite sx => sm.
  by apply: (E_always _ sm) => o /out ->; case: o.
case: L @N @e Ne {ctxN out} @D' D'E => [|m] N e Ne D' D'E.
  by rewrite /= D'E Ne Phi1_end // /e addn0.
rewrite (grscan_E m c None _ dD ler01).
have := node_E dpd f dD ltr01 ler01 (lexx 1) (erefl e).
rewrite !mul1r invr1 -/e -Ne => <-; congr (_ + _ * _).
- by apply: eq_sum => x; congr (_ * _); apply: A1_ext => k; rewrite /gJ -Ne -D'E.
- by congr (1 - _); rewrite /beta sumfE; apply: eq_sum => x; rewrite /covered divr1 mul1r.
- exact: D'E.
Qed.

Lemma pmass_nneg (D : seq V -> V -> R) c s : (forall x, dist (D x)) -> 0 <= pmass D c s.
Proof. by move=> dD; elim: s c => [|x s IH] c /=; rewrite ?ler01 // mulr_ge0 ?(dD c).1. Qed.

Lemma joint_min (D : seq V -> V -> R) c s w : (forall x, dist (D x)) -> 0 <= w ->
  pmass pd c s * min1 (wfold (joint_ratio pd D) w c s) = Order.min (pmass pd c s) (w * pmass D c s).
Proof.
move=> dD; elim: s c w => [|x s IH] c w w0 /=; first by rewrite mul1r mulr1.
rewrite -mulrA IH ?(gnxt_ok dpd) // minr_pmulr ?(dpd c).1 // /joint_ratio mulrA.
have [p0|pn0] := eqVneq (pd c x) 0; last by rewrite [pd c x * (_ / _)]mulrCA divff ?mulr1 // mulrA.
rewrite p0 !mul0r minxx; apply/esym/min_idPl.
by rewrite !mulr_ge0 ?pmass_nneg ?(dD _).1.
Qed.

(* P(tau >= i, X^i = s) = min(p(s), q(s)) for every string s of length
   1 <= i <= L: the most that any coupling of the two blocks can give.        *)
Theorem greedy_block_reach L (D : seq V -> V -> R) c s : uniq vs -> (forall x, dist (D x)) ->
  all (mem vs) s -> (0 < size s <= L)%N ->
  E vs (greedy_block_mark vs pd L D c) (fun o => (reached (c ++ s) o)%:R)
  = Order.min (pmass pd c s) (pmass D c s).
Proof.
move=> vu dD sv sL; rewrite E_bind.
rewrite (scan_reach (D := D) dpd (okw := fun w => 0 <= w)) ?ler01 //.
- by rewrite joint_min ?mul1r ?ler01.
- by move=> w1 c1 x; exact: gnxt_ok.
- by move=> w1 c1 x; exact: gnxt_E.
- by move=> w1 c1; exact: grhac_E.
Qed.

(* E[tau] = sum_i sum over strings of length i of min(p, q). *)
Theorem greedy_block_tau L (D : seq V -> V -> R) c : (forall x, dist (D x)) ->
  E vs (greedy_block_mark vs pd L D c) (tau_of c)
  = \sum_(0 <= i < L) E vs (draft pd i.+1 c) (fun xs => min1 (wfold (joint_ratio pd D) 1 c xs)).
Proof.
move=> dD; rewrite E_bind (scan_tau (D := D) dpd (okw := fun w => 0 <= w)) ?ler01 //.
- by move=> w1 c1 x; exact: gnxt_ok.
- by move=> w1 c1 x; exact: gnxt_E.
- by move=> w1 c1; exact: grhac_E.
Qed.
End Greedy.

(* SpecTr-GBV in lossless form is valid, both scales, with and without extension. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block target_match spectr scan walk kseq_block spectr_gbv.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths spectr scan walk kseq_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Gbv.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)).
Add Ring Rring : (ring_th R).
Notation min1 := (Order.min 1).
Notation dist := (is_dist vs).
Notation chain := (seq V -> V -> R).

(* One node, any scale r and any cover factor g <= r. *)
Section Node.
Variables (D : chain) (r g : R) (a : seq V) (e : nat) (f : seq V -> R).
Hypotheses (dD : forall x, dist (D x)) (r0 : 0 < r) (g0 : 0 <= g) (gr : g <= r).
Let p0 x v : 0 <= pd x v. Proof. exact: (dpd x).1. Qed.
Let D0 x v : 0 <= D x v. Proof. exact: (dD x).1. Qed.
Let N := e.+1.
Let D1 : chain := gbv_chain vs pd D r g a e.
Notation PhiD := (Phi vs D N f).
Notation Phi1 := (Phi vs D1 N f).
Notation nxt := (joint_ratio pd D).
Notation M := (msum vs pd D).

Lemma gnxt_ok w c x : 0 <= w -> 0 <= nxt w c x.
Proof. by move=> w0; rewrite /joint_ratio !mulr_ge0 // invr_ge0. Qed.

Lemma gnxt_E w c x : 0 <= w -> pd c x * min1 (nxt w c x) = Order.min (pd c x) (w * D c x).
Proof. by move=> w0; apply: (min_acc (q := wq D w c)) => //; exact: mulr_ge0. Qed.

Lemma gsumE w c : gbv_mass vs pd D w c = M w c. Proof. exact: sumfE. Qed.

Lemma msum_le w c : 0 <= w -> M w c <= min1 w.
Proof.
move=> w0; rewrite le_minr; apply/andP; split.
  by rewrite -(dpd c).2; apply: ler_sum => x _; rewrite le_minl lexx.
have -> : w = \sum_(x <- vs) w * D c x by rewrite -big_distrr /= (dD c).2 mulr1.
by apply: ler_sum => x _; rewrite -big_distrr /= (dD c).2 mulr1 le_minl lexx orbT.
Qed.

Lemma ghac_E w c : 0 <= w -> (1 - M w c) * gbv_bias vs pd D w c false = min1 w - M w c.
Proof.
move=> w0; rewrite /gbv_bias gsumE; case: eqVneq => [M1|Mn]; last by rewrite mulrCA divff ?mulr1.
rewrite M1 mul0r; move/eqP: M1; rewrite subr_eq0 => /eqP M1; apply/esym/eqP.
by rewrite subr_eq0 eq_le msum_le // -M1 le_minl lexx.
Qed.

Lemma gleft_ge0 w x v : 0 <= w -> 0 <= gbv_owed pd D r g w x v.
Proof.
move=> w0; rewrite /gbv_owed subr_ge0 -mulrA; have wD : 0 <= w * D x v by exact: mulr_ge0.
apply: (@le_trans _ _ (g * (w * D x v))); first by rewrite ler_wpmul2l // le_minl lexx orbT.
by rewrite ler_wpmul2r.
Qed.

Lemma gleft_sum w x : \sum_(v <- vs) gbv_owed pd D r g w x v = r * w - g * M w x.
Proof. by rewrite sumrB -!big_distrr /= (dD x).2 mulr1. Qed.

Lemma gleft_repay w x (h : V -> R) : 0 <= w ->
  (r * w - g * M w x) * (\sum_(v <- vs) gbv_row vs pd D r g w x v * h v)
  = \sum_(v <- vs) gbv_owed pd D r g w x v * h v.
Proof.
move=> w0; rewrite /gbv_row sumfE gleft_sum -gleft_sum; case: eqVneq => [s0|sn0].
  rewrite s0 mul0r big_seq big1 // => y yv.
  by rewrite (sum_seq_eq0 (fun v => gleft_ge0 x v w0) s0 yv) mul0r.
by rewrite big_distrr /=; apply: eq_sum => y; rewrite mulrA mulrCA divff ?mulr1.
Qed.

Lemma grow_dist w x : 0 <= w -> dist (gbv_row vs pd D r g w x).
Proof.
move=> w0; rewrite /gbv_row sumfE; case: eqVneq => [_|sn0]; first exact: dD.
split=> [v|]; first by rewrite divr_ge0 ?gleft_ge0 // sumr_ge0 // => y _; exact: gleft_ge0.
by rewrite -big_distrl /= divff.
Qed.

Lemma wfold_ge0 w c s : 0 <= w -> 0 <= wfold nxt w c s.
Proof. by elim: s w c => //= x s IH w c w0; apply: IH; exact: gnxt_ok. Qed.

Let ri0 : 0 <= r^-1. Proof. by rewrite invr_ge0 ltW. Qed.

Lemma gchain_dist x : dist (D1 x).
Proof.
rewrite /D1 /gbv_chain; case: ifP => _; last exact: dD.
by apply: grow_dist; exact: wfold_ge0.
Qed.

Notation wf s := (wfold nxt r^-1 a s).

Lemma D1_row s : (size (a ++ s) < e)%N -> D1 (a ++ s) = gbv_row vs pd D r g (wf s) (a ++ s).
Proof. by move=> se; rewrite /D1 /gbv_chain se /gbv_ratio drop_size_cat. Qed.

Lemma wf_rcons s x : wf (rcons s x) = nxt (wf s) (a ++ s) x.
Proof. by rewrite -cats1 wfold_cat. Qed.

(* At depth e and beyond the two chains are the same. *)
Lemma Phi1_end x : (e <= size x)%N -> Phi1 x = PhiD x.
Proof.
move=> ex; rewrite /Phi /fill; case: (ltnP e (size x)) => [xe|xe].
  by have /eqP-> : (N - size x == 0)%N by rewrite subn_eq0.
have <- : e = size x by apply/eqP; rewrite eqn_leq ex xe.
rewrite subSnn /=; congr (sumf _ _).
by rewrite /D1 /gbv_chain ltnNge ex.
Qed.

(* Where the joint ratio is 0 (or p = 0) the chain is the old one. *)
Lemma Phi1_zero s : wf s = 0 -> Phi1 (a ++ s) = PhiD (a ++ s).
Proof.
have [n] := ubnP (N - size (a ++ s))%N; elim: n s => // n IH s sn w0.
have [ee|es] := leqP e (size (a ++ s)); first exact: Phi1_end.
rewrite !Phi_step ?ltnS ?(ltnW es) //; apply: eq_sum => x; congr (_ * _).
  have l0 v : gbv_owed pd D r g 0 (a ++ s) v = 0.
    by rewrite /gbv_owed mulr0 !mul0r (min_idPr (p0 _ v)) mulr0 subrr.
  by rewrite D1_row // /gbv_row sumfE w0 big1 ?eqxx.
rewrite rcons_cat; apply: IH; last by rewrite wf_rcons w0 /joint_ratio !mul0r.
by rewrite -rcons_cat size_rcons -ltnS (leq_trans _ sn) // ltnS ltn_sub2l // ltnS ltnW.
Qed.

Definition gJ (k : mark R V) : R := Phi1 k.1.1.
Notation A1 := (A1 vs pd D nxt gJ).
Notation B1 := (B1 vs pd D nxt gJ).

(* Accepting at c or deeper, g times, is worth r w of the old chain less what is
   left to the new one.                                                       *)
Definition A1_claim m := forall s, (size (a ++ s) + m)%N = e ->
  g * A1 m (a ++ s) (wf s)
  = r * wf s * PhiD (a ++ s) - (r * wf s - g * min1 (wf s)) * Phi1 (a ++ s).

Lemma B1_g m s : A1_claim m -> (size (a ++ s) + m.+1)%N = e ->
  g * B1 m (a ++ s) (wf s)
  = r * wf s * PhiD (a ++ s) - (r * wf s - g * M (wf s) (a ++ s)) * Phi1 (a ++ s).
Proof.
move=> IH se; set w := wf s; set c := a ++ s.
have w0 : 0 <= w by exact: wfold_ge0.
have ce : (size c < e)%N by rewrite -se addnS ltnS leq_addr.
have cN : (size c < N)%N by rewrite ltnS ltnW.
rewrite !(Phi_step _ _ _ cN) {4}/c D1_row // -/c -/w gleft_repay // !big_distrr -sumrB /=; apply: eq_sum => x.
have IHx := IH (rcons s x); rewrite -rcons_cat -/c wf_rcons -/w -/c in IHx.
have /IHx {}IHx : (size (rcons c x) + m)%N = e by rewrite size_rcons addSnnS.
rewrite mulrCA IHx /gbv_owed -gnxt_E //.
have [px0|pxn0] := eqVneq (pd c x) 0.
  have -> : Phi1 (rcons c x) = PhiD (rcons c x).
    by rewrite rcons_cat Phi1_zero // wf_rcons /joint_ratio -/c px0 invr0 mulr0.
  by rewrite px0; rng R.
have pw : pd c x * nxt w c x = w * D c x by rewrite /joint_ratio mulrCA divff ?mulr1.
set P := PhiD (rcons c x); set F := Phi1 (rcons c x); set m1 := min1 _.
transitivity (r * (pd c x * nxt w c x) * P - (r * (pd c x * nxt w c x) - g * (pd c x * m1)) * F).
  by rng R.
by rewrite pw; rng R.
Qed.

Lemma A1_g m : A1_claim m.
Proof.
elim: m => [|m IH] s se.
  rewrite /= /gJ /= Phi1_end; last by rewrite -se addn0.
  by move: (min1 _) => h; rng R.
rewrite -[A1 _ _ _]/(B1 m (a ++ s) (wf s) + _ * gJ (a ++ s, _, _)) mulrDr (B1_g IH se) /gJ /=.
by move: (min1 _) (M _ _) => h M1; rng R.
Qed.

(* All paths of one node together: g times one path plus the residual chain. *)
Lemma node_E m : (size a + m.+1)%N = e ->
  g * B1 m a r^-1 + (1 - g * beta vs (pd a) (D a) r) * Phi1 a = PhiD a.
Proof.
move=> se; have := @B1_g m [::] (@A1_g m); rewrite cats0 => /(_ se) /= ->.
have -> : M r^-1 a = beta vs (pd a) (D a) r.
  by rewrite /beta sumfE; apply: eq_sum => x; rewrite /covered mulrC.
by rewrite divff ?gt_eqF //; rng R.
Qed.

Lemma scan_node m G : (size a + m.+1)%N = e ->
  E vs (draft pd m.+1 a) (fun xs => E vs (scan nxt (gbv_bias vs pd D) a r^-1 xs None)
    (fun o => if o is Some k then gJ k else G))
  = B1 m a r^-1 + (1 - beta vs (pd a) (D a) r) * G.
Proof.
move=> se; rewrite (scan_E (D := D) dpd (okw := fun w => 0 <= w)) //.
- congr (_ + (1 - _) * _).
  by rewrite /beta sumfE; apply: eq_sum => x; rewrite /covered mulrC.
- by move=> w c x; exact: gnxt_ok.
- by move=> w c x; exact: gnxt_E.
- by move=> w c; exact: ghac_E.
Qed.
End Node.

Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Hypothesis rok : rho_ok vs rho.
Variables (unit ext : bool).
Notation gbv_scale := (gbv_scale pd rho unit).
Notation gbv_cover := (gbv_cover vs pd rho unit).
Notation gbv_residual := (gbv_residual vs pd rho unit).

Lemma geo_ge0 (p q : V -> R) r k : dist p -> dist q -> 0 < r -> 0 <= cover vs p q r k.
Proof.
move=> dp dq r0; elim: k => //= k gk.
by rewrite addr_ge0 ?ler01 // mulr_ge0 // subr_ge0 beta_le1.
Qed.

Definition gdist (st : gbv_state R V) : Prop := forall x, dist (st.1.2 x).

Lemma node_ok st : gdist st -> [/\ 0 < gbv_scale st, 0 <= gbv_cover st & gbv_cover st <= gbv_scale st].
Proof.
case: st => [[[c m] D] n] dD; rewrite /gbv_scale /gbv_cover; case: unit; first by rewrite ltr01 ler01 lexx.
by have [r0 rv] := rok n (dpd c) (dD c); rewrite r0 rv geo_ge0.
Qed.

Lemma gres_dist st x : gdist st -> dist (gbv_residual st x).
Proof.
move=> gst; have [] := node_ok gst; case: st gst => [[[c m] D] n] dD r0 g0 gr.
exact: gchain_dist.
Qed.

Section Horizon.
Variables (N : nat) (f : seq V -> R).
Notation Ph D := (Phi vs D N f).

Definition gok (st : gbv_state R V) : Prop := gdist st /\ (size st.1.1.1 + st.1.1.2).+1 = N.
Definition gV (st : gbv_state R V) (k : mark R V) : R := Ph (gbv_residual st) k.1.1.
(* Value of a node with k paths still to test. *)
Definition gI (st : gbv_state R V) (k : nat) : R :=
  let: (c, m, D, n) := st in
  if unit then Ph D c else
  cover vs (pd c) (D c) (gbv_scale st) k * B1 vs pd D (joint_ratio pd D) (gV st) m.-1 c (gbv_scale st)^-1
  + (1 - beta vs (pd c) (D c) (gbv_scale st)) ^+ k * Ph (if n == 0%N then D else gbv_residual st) c.

Lemma gI_full c m D k : gok (c, m, D, k) -> (k == 0%N) || (0 < m)%N ->
  gI (c, m, D, k) k = Ph D c.
Proof.
move=> [dD /= cN] km; rewrite /gI; have [r0 g0 gr] := node_ok dD.
case: k r0 g0 gr km {dD} (dD) => [|k] r0 g0 gr km dD.
  by case: unit; rewrite //= mul0r add0r expr0 mul1r.
case: m km cN r0 g0 gr dD => // m _ cN r0 g0 gr dD.
have := node_E (D := D) f dD r0 g0 gr (erefl (size c + m.+1)%N); rewrite /gJ cN.
rewrite /Draftproof.programs.spectr_gbv.gbv_scale /Draftproof.programs.spectr_gbv.gbv_cover /gV /Draftproof.programs.spectr_gbv.gbv_residual; case: (unit) => // <-.
by rewrite geo_beta subKr.
Qed.

Lemma gtest_E st k : gok st -> (0 < st.1.1.2)%N ->
  E vs (draft pd st.1.1.2 st.1.1.1) (fun xs => E vs (gbv_test vs pd rho unit st xs) (fun o =>
     if o is Some x then gV st x else gI (gbv_rejected vs pd rho unit st) k)) = gI st k.+1.
Proof.
move=> [dD cN]; have [r0 g0 gr] := node_ok dD.
case: st dD cN r0 g0 gr => [[[c [|m]] D] n] // dD cN r0 g0 gr _; set st := (c, m.+1, D, n).
set X := B1 vs pd D (joint_ratio pd D) (gV st) m c (gbv_scale st)^-1; set b := beta vs (pd c) (D c) (gbv_scale st).
have sn G : E vs (draft pd m.+1 c) (fun xs => E vs (scan (joint_ratio pd D) (gbv_bias vs pd D) c (gbv_scale st)^-1 xs None)
    (fun o => if o is Some x then gV st x else G)) = X + (1 - b) * G.
  by have := scan_node (D := D) (gbv_cover st) f dD r0 G (erefl (size c + m.+1)%N); rewrite /gJ cN.
have nE : gbv_cover st * X + (1 - gbv_cover st * b) * Ph (gbv_residual st) c = Ph D c.
  by have := node_E (D := D) f dD r0 g0 gr (erefl (size c + m.+1)%N); rewrite /gJ cN.
rewrite [LHS](sn (gI (gbv_rejected vs pd rho unit st) k)).
move: sn nE; rewrite /X /b /gI /gbv_rejected /gbv_cover /st; case: (boolP unit) => u sn nE.
  by rewrite -nE /=; rng R.
by rewrite exprS /=; rng R.
Qed.

Lemma gbv_E K L D c : (forall x, dist (D x)) -> (size c + L).+1 = N ->
  E vs (spectr_gbv vs pd rho unit ext K L D c) (fun o => Phi vs o.2 N f o.1) = Ph D c.
Proof.
move=> dD cN; rewrite E_bind.
have okst k : gok (c, L, D, k) by [].
pose K' := if L is 0 then 0%N else K.
have full : gI (c, L, D, K') K' = Ph D c.
  by apply: gI_full => //; rewrite /K' /=; case: (L) => [|l] /=; rewrite ?orbT.
set F : seq V * (seq V -> V -> R) -> R := fun o => Phi vs o.2 N f o.1.
set W := walk (gbv_test vs pd rho unit) (@gbv_prefix R V) snd (gbv_node vs pd rho unit) (gbv_rejected vs pd rho unit)
     (gbv_correction vs pd rho unit) ext.
transitivity (E vs (drafts pd K' L c) (fun ps => E vs (W (size ps) (c, L, D, size ps) ps) F)).
  by rewrite /K'; case: (L) => //; rewrite (E_cst _ (drafts_wf dpd _ _ _)).
transitivity (E vs (drafts pd K' L c) (fun ps => E vs (W K' (c, L, D, K') ps) F)).
  by apply: (E_always _ (drafts_size _ _ _ _)) => ps ->.
rewrite -full.
apply: (@walk_E R V vs pd dpd _ _ _ _ _ _ _ _ _ _ F (fun st => st.1.1.1) (fun st => st.1.1.2) gok
  (fun st => mark_at (joint_ratio pd st.1.2) st.1.1.1 (gbv_scale st)^-1 st.1.1.2) gI gV) => //.
- move=> [[[c1 m] D1] n] [dD1 /= c1N].
  have c1N' : (size c1 < N)%N by rewrite -c1N ltnS leq_addr.
  have key D' : E vs (Draw (D' c1) (fun y => Ret (rcons c1 y, D'))) F = Ph D' c1.
    by rewrite E_Draw [RHS]Phi_step.
  transitivity (Ph (if unit || (n == 0%N) then D1 else gbv_residual (c1, m, D1, n)) c1); first exact: key.
  by case: (unit) => //=; rewrite mul0r add0r expr0 mul1r.
- move=> st [[c' w'] last] k [dst stN] [s [/= -> _ /andP[s0 sm] ->]].
  rewrite /gbv_node /gbv_prefix /= drop_size_cat // subnKC //; split=> //.
    split; first by move=> x; exact: gres_dist.
    by rewrite /= -stN size_cat -addnA subnKC.
  by rewrite subn_gt0 [(size s < _)%N]ltn_neqAle sm andbT orbN.
- move=> st [[c' w'] last] k [dst stN] [s [/= -> _ /andP[s0 sm] ->]] lk.
  rewrite -[LHS]/(gI (st.1.1.1 ++ s, (st.1.1.2 - size (drop (size st.1.1.1) (st.1.1.1 ++ s)))%N,
    gbv_residual st, k) k) drop_size_cat // gI_full //.
    split; first by move=> x; exact: gres_dist.
    by rewrite /= -stN size_cat -addnA subnKC.
  by rewrite subn_gt0 ltn_neqAle sm andbT orbC.
- move=> st [dst stN]; rewrite /gbv_rejected; case: ifP => _; last by [].
  by split=> //; split=> // x; exact: gres_dist.
- move=> [[[c1 m] D1] n] xs [dD1 c1N] sx.
  have := scan_mark (joint_ratio pd D1) (gbv_bias vs pd D1) c1 (gbv_scale (c1, m, D1, n))^-1 xs.
  by rewrite sx.
- by move=> st k okst'; exact: gtest_E.
- by rewrite /K' /=; case: (L) => [|l] /=; rewrite ?orbT.
Qed.
End Horizon.

(* SpecTr-GBV is lossless (stateful): for every K, L, context, draft model, chain
   of target rows and valid scale; scale "kseq" or "unit"; with and without the
   extension by later paths.                                                  *)
Theorem spectr_gbv_valid K L : valid_carry vs (spectr_gbv vs pd rho unit ext K L) L.
Proof.
move=> D c f dD; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (spectr_gbv vs pd rho unit ext K L D c) (fun o => Phi vs o.2 N f o.1)).
rewrite gbv_E //; first by rewrite /Phi /fill addKn.
by rewrite /N addnS.
Qed.
End Gbv.

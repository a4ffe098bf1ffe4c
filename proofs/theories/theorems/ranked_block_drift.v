(* Ranked block verification with a coupling whose column sums are only about right: the output
   law is off by at most K^2/2 times the expected sum, along a drafted path, of the total
   variation between a node's label law and the mean of its children's. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity block scan spectr_gbv greedy_block
   selection ranked_block ranked_block_design drift ranked_block_drift.
From Draftproof.theorems Require Import maximal block running block_optimal paths scan spectr_gbv
   greedy_block rounds selection ranked_block ranked_block_design drift.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RankedRobust.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Add Ring Rring : (ring_th R).
Notation along := (along vs pd).

Lemma alongE e n x : along e n x = \sum_(0 <= i < n) E vs (draft pd i x) (fun s => e (x ++ s)).
Proof.
elim: n x => [|n IH] x /=; first by rewrite big_nil.
rewrite big_nat_recl //= cats0; congr (_ + _).
under [RHS]eq_bigr => i _ do rewrite sumfE.
rewrite exchange_big /=; apply: eq_sum => v; rewrite IH big_distrr /=; apply: eq_bigr => i _.
by rewrite E_bind; congr (_ * _); apply: E_ext => s /=; rewrite cat_rcons.
Qed.

Lemma along_le e n x d : (forall y, e y <= d) -> along e n x <= n%:R * d.
Proof.
move=> ed; elim: n x => [|n IH] x /=; first by rewrite mul0r.
rewrite mulrS mulrDl mul1r; apply: ler_add => //.
rewrite -[n%:R * d]mul1r -[X in _ <= X * _](dpd x).2 mulr_suml; apply: ler_sum => v _.
by apply: ler_wpmul2l; [exact: (dpd x).1 | exact: IH].
Qed.

Lemma along_mono e e' a n x : (forall y, e y <= a * e' y) -> along e n x <= a * along e' n x.
Proof.
move=> ee; elim: n x => [|n IH] x /=; first by rewrite mulr0.
rewrite mulrDr; apply: ler_add => //; rewrite big_distrr /=; apply: ler_sum => v _.
by rewrite mulrCA; apply: ler_wpmul2l; [exact: (dpd x).1 | exact: IH].
Qed.

(* A function that is nearly a martingale along a draft. *)
Lemma near_mart (g e : seq V -> R) n x :
  (forall y, `|\sum_(v <- vs) pd y v * g (rcons y v) - g y| <= e y) ->
  `|E vs (draft pd n x) (fun s => g (x ++ s)) - g x| <= along e n x.
Proof.
move=> ge; elim: n x => [|n IH] x; first by rewrite /= cats0 subrr normr0.
rewrite E_Draw [along _ _ _]/=.
have -> : \sum_(v <- vs) pd x v * E vs (bind (draft pd n (rcons x v)) (fun s => Ret (v :: s)))
  (fun s => g (x ++ s))
  = \sum_(v <- vs) pd x v * E vs (draft pd n (rcons x v)) (fun s => g (rcons x v ++ s)).
  by apply: eq_sum => v; rewrite E_bind; congr (_ * _); apply: E_ext => s; rewrite cat_rcons.
set S := \sum_(v <- vs) _; set T := \sum_(v <- vs) pd x v * g (rcons x v).
have -> : S - g x = (T - g x) + (S - T) by rng R.
apply: le_trans (ler_norm_add _ _) _; apply: ler_add; first exact: ge.
rewrite /S /T -sumrB; apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => v _.
rewrite -mulrBr normrM ger0_norm ?(dpd x).1 //.
by apply: ler_wpmul2l; [exact: (dpd x).1 | exact: IH].
Qed.

(* --- The geometric factor ------------------------------------------------------------ *)
Lemma pow_near n (s s' D : R) : 0 <= s <= 1 -> 0 <= s' <= 1 -> `|s - s'| <= D ->
  `|s ^+ n - s' ^+ n| <= n%:R * D.
Proof.
move=> /andP[s0 s1] /andP[s0' s1'] sD; elim: n => [|n IH];
  first by rewrite !expr0 subrr normr0 mul0r.
have -> : s ^+ n.+1 - s' ^+ n.+1 = s ^+ n * (s - s') + s' * (s ^+ n - s' ^+ n).
  by rewrite !exprS; move: (s ^+ n) (s' ^+ n) => a b; rng R.
apply: le_trans (ler_norm_add _ _) _; rewrite mulrS mulrDl mul1r !normrM; apply: ler_add.
  by apply: le_trans sD; rewrite ler_pimull // ger0_norm ?exprn_ge0 // exprn_ile1.
by apply: le_trans IH; rewrite ler_pimull // ger0_norm.
Qed.

Lemma geoS_le n (s t : R) : 0 <= s <= 1 -> 0 <= t <= 1 -> power_quotient n s t <= n%:R.
Proof.
move=> /andP[s0 s1] /andP[t0 t1]; elim: n => [|n IH] //=; rewrite mulrS; apply: ler_add.
  exact: exprn_ile1.
by apply: le_trans IH; rewrite ler_pimull // geoS_ge0.
Qed.

Lemma geoS_near n (s t s' t' D : R) : 0 <= s <= 1 -> 0 <= t <= 1 -> 0 <= s' <= 1 -> 0 <= t' <= 1 ->
  `|s - s'| <= D -> `|t - t'| <= D -> `|power_quotient n s t - power_quotient n s' t'|
    <= n%:R * n.-1%:R * D.
Proof.
move=> s01 t01 s01' t01' sD tD; have D0 : 0 <= D by apply: le_trans sD.
elim: n => [|n IH]; first by rewrite /= subrr normr0 !mul0r.
rewrite [power_quotient n.+1 s t]/= [power_quotient n.+1 s' t']/=.
have -> : s ^+ n + t * power_quotient n s t - (s' ^+ n + t' * power_quotient n s' t')
   = (s ^+ n - s' ^+ n) + ((t - t') * power_quotient n s t + t'
     * (power_quotient n s t - power_quotient n s' t')).
  by move: (s ^+ n) (s' ^+ n) (power_quotient _ _ _) (power_quotient _ _ _) => a b c d; rng R.
have -> : n.+1%:R * n.+1.-1%:R * D = n%:R * D + (n%:R * D + n%:R * n.-1%:R * D).
  case: (n) => [|m] /=; first by rewrite mulr0 !mul0r !addr0.
  by rewrite !mulrS; move: (m%:R) => b; rng R.
have [t0' t1'] := andP t01'; have [t0 t1] := andP t01; have [s0 s1] := andP s01.
apply: le_trans (ler_norm_add _ _) _; apply: ler_add; first exact: pow_near.
apply: le_trans (ler_norm_add _ _) _; rewrite !normrM; apply: ler_add.
  rewrite [X in _ <= X]mulrC; apply: ler_pmul => //; rewrite ger0_norm ?geoS_ge0 //.
  exact: geoS_le.
by apply: le_trans IH; rewrite ler_pimull // ger0_norm.
Qed.

Section Labels.
Variables (J : nat) (pi0 : nat -> R) (post : seq V -> seq V -> nat -> R).
Hypothesis pi0_law : is_law J pi0.
Hypothesis post_law : forall c x, is_law J (post c x).
Hypothesis post_root : forall c l, (l < J)%N -> post c c l = pi0 l.
Notation label_weight := (label_weight J pi0 post).
Notation mass := (rmass vs pd J pi0 post).
Notation rows := (nrow vs pd J pi0 post).
Notation defect := (defect vs pd J post).
Notation selected := (selected pd J post).
Notation item L c := (pairs J (draft pd L c) (fun s => post c (c ++ s))).

Lemma csum01 (pi : nat -> R) l : is_law J pi -> (l <= J)%N -> 0 <= csum pi l <= 1.
Proof.
move=> [p0 p1] lJ; rewrite csum_ge0 //= -p1 !csumE (big_cat_nat _ _ _ (leq0n l) lJ) /=.
by rewrite ler_addl sumr_ge0.
Qed.

(* The mean of a function of the label with values in [0,1] moves by the defect. *)
Lemma defect_test c x (h : nat -> R) : (forall l, 0 <= h l <= 1) ->
  `|\sum_(v <- vs) pd x v * csum (fun l => post c (rcons x v) l * h l) J
    - csum (fun l => post c x l * h l) J| <= defect c x.
Proof.
move=> h01.
have cm l : \sum_(v <- vs) pd x v * (post c (rcons x v) l * h l) = colmean vs pd post c x l * h l.
  by rewrite /colmean big_distrl /=; apply: eq_sum => v; rewrite mulrA.
rewrite sum_csum; under eq_csum => l _ do rewrite cm.
rewrite -csumB csumE.
have -> : \sum_(0 <= l < J) (colmean vs pd post c x l * h l - post c x l * h l)
   = \sum_(l <- index_iota 0 J) (colmean vs pd post c x l - post c x l) * h l.
  by apply: eq_bigr => l _; rewrite mulrBl.
apply: tv_test => //.
rewrite -!csumE (post_law c x).2 /colmean -(sum_csum vs) -(dpd x).2; apply: eq_sum => v.
by rewrite (post_law _ _).2 mulr1.
Qed.

Lemma defect_ge0 c x : 0 <= defect c x. Proof. exact: tv_ge0. Qed.

(* Not quite the label law of a draft. *)
Definition truelaw L c l : R := E vs (draft pd L c) (fun s => post c (c ++ s) l).

Lemma truelaw_law L c : is_law J (truelaw L c).
Proof.
split=> [l|]; first by apply: E_ge0 => [|s]; [exact: draft_wf | exact: (post_law _ _).1].
rewrite -(E_csum vs _ (fun s l => post c (c ++ s) l)) -[RHS](E_cst 1 (draft_wf dpd L c)).
by apply: E_ext => s; rewrite (post_law _ _).2.
Qed.

Lemma truelaw_near L c k : (k <= J)%N ->
  `|csum (truelaw L c) k - csum pi0 k| <= along (defect c) L c.
Proof.
move=> kJ; pose h l : R := (l < k)%N%:R.
have h01 l : 0 <= h l <= 1 by rewrite /h; case: (_ < _)%N; rewrite ?lexx ?ler01.
have := near_mart L c (fun x => @defect_test c x h h01).
have -> : csum (fun l => post c c l * h l) J = csum pi0 k.
  rewrite -(csum_lt_id pi0 kJ); apply: eq_csum => l lJ; by rewrite post_root // mulrC.
suff -> : E vs (draft pd L c) (fun s => csum (fun l => post c (c ++ s) l * h l) J)
  = csum (truelaw L c) k by [].
rewrite -(csum_lt_id (truelaw L c) kJ) (E_csum vs _ (fun s l => post c (c ++ s) l * h l)).
by apply: eq_csum => l lJ; rewrite E_scaler mulrC.
Qed.

Section Weight.
Variable K : nat.
Let k : R := K.+1%:R.
Let k0 : 0 < k. Proof. by rewrite ltr0Sn. Qed.

Lemma boost01 pi l : is_law J pi -> (l < J)%N -> 0 <= boost K.+1 pi l <= k.
Proof.
move=> pil lJ; rewrite boost_ge0 /=; last exact: pil.1.
by apply: geoS_le; apply: csum01; rewrite // ltnW.
Qed.

Lemma rmass_near c x : `|mass K.+1 c x - label_weight K.+1 c x| <= k * defect c x.
Proof.
pose h l : R := if (l < J)%N then boost K.+1 pi0 l / k else 0.
have h01 l : 0 <= h l <= 1.
  rewrite /h; case: ifP => [lJ|_]; last by rewrite lexx ler01.
  by have /andP[b0 b1] := boost01 pi0_law lJ; rewrite divr_ge0 ?(ltW k0) //= ler_pdivr_mulr ?mul1r.
have TE y : label_weight K.+1 c y = k * csum (fun l => post c y l * h l) J.
  rewrite -csumZ; apply: eq_csum => l lJ; rewrite /h lJ mulrCA; congr (_ * _).
  by rewrite mulrCA divff ?mulr1 // gt_eqF.
rewrite /rmass sumfE TE.
have -> : \sum_(v <- vs) pd x v * label_weight K.+1 c (rcons x v)
   = k * \sum_(v <- vs) pd x v * csum (fun l => post c (rcons x v) l * h l) J.
  by rewrite big_distrr; apply: eq_sum => v; rewrite TE mulrCA.
by rewrite -mulrBr normrM gtr0_norm // ler_wpmul2l ?(ltW k0) // defect_test.
Qed.

Let Tge0 c x : 0 <= label_weight K.+1 c x. Proof. exact: Tw_ge0. Qed.
Let pT0 c x v : 0 <= pd x v * label_weight K.+1 c (rcons x v). Proof. by rewrite mulr_ge0
  ?(dpd x).1. Qed.

Lemma rmass_ge0 c x : 0 <= mass K.+1 c x.
Proof. by rewrite /rmass sumfE sumr_ge0. Qed.

Lemma nrow_dist c x : is_dist vs (rows K.+1 c x).
Proof.
rewrite /nrow; case: eqVneq => [_|n0]; first exact: dpd.
split=> [v|]; first by rewrite divr_ge0 ?rmass_ge0.
by rewrite -big_distrl /= -sumfE divff.
Qed.

Lemma nrowE c x v : v \in vs -> mass K.+1 c x * rows K.+1 c x v
  = pd x v * label_weight K.+1 c (rcons x v).
Proof.
move=> vv; rewrite /nrow; case: eqVneq => [m0|n0]; last by rewrite mulrC divfK.
rewrite m0 mul0r; apply/esym; move: m0; rewrite /rmass sumfE => s0.
exact: (sum_seq_eq0 (fun v => pT0 c x v) s0 vv).
Qed.

(* The rows against the weights T. *)
Lemma draft_nrow n c x G g : (forall s, `|G s| <= g) ->
  `|E vs (draft pd n x) (fun s => label_weight K.+1 c (x ++ s) * G s) - label_weight K.+1 c x
    * E vs (draft (rows K.+1 c) n x) G|
  <= g * along (fun y => k * defect c y) n x.
Proof.
elim: n x G => [|n IH] x G Gg; first by rewrite /= cats0 subrr normr0 mulr0.
have g0 : 0 <= g by apply: le_trans (Gg [::]).
rewrite !E_Draw [along _ _ _]/= mulrDr.
pose A v := E vs (draft pd n (rcons x v)) (fun s => label_weight K.+1 c (rcons x v ++ s)
  * G (v :: s)).
pose B v := E vs (draft (rows K.+1 c) n (rcons x v)) (fun s => G (v :: s)).
have -> : \sum_(v <- vs) pd x v * E vs (bind (draft pd n (rcons x v)) (fun s => Ret (v :: s)))
      (fun s => label_weight K.+1 c (x ++ s) * G s)
    - label_weight K.+1 c x * (\sum_(v <- vs) rows K.+1 c x v
      * E vs (bind (draft (rows K.+1 c) n (rcons x v)) (fun s => Ret (v :: s))) G)
  = (mass K.+1 c x - label_weight K.+1 c x) * (\sum_(v <- vs) rows K.+1 c x v * B v)
    + \sum_(v <- vs) pd x v * (A v - label_weight K.+1 c (rcons x v) * B v).
  rewrite !big_distrr /= -sumrB -big_split /= big_seq [RHS]big_seq; apply: eq_bigr => v vv.
  rewrite !E_bind.
  have -> : E vs (draft pd n (rcons x v)) (fun a =>
    E vs (Ret (v :: a)) (fun s => label_weight K.+1 c (x ++ s) * G s)) = A v.
    by apply: E_ext => s /=; rewrite cat_rcons.
  rewrite -[E vs (draft (rows _ _) _ _) _]/(B v).
  move: (nrowE c x vv) => e; move: e (A v) (B v).
  move: (mass K.+1 c x) (label_weight K.+1 c x) (rows K.+1 c x v) (pd x v)
    (label_weight K.+1 c (rcons x v)) => N T r p T' e a b.
  transitivity (p * a - p * T' * b + (p * T' - T * r) * b); first by rng R.
  by rewrite -[in X in _ + X]e; rng R.
apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
  rewrite normrM mulrC; apply: ler_pmul => //; last exact: rmass_near.
  have [r0 r1] := nrow_dist c x; rewrite -[g]mul1r -r1 mulr_suml.
  apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => v _.
  rewrite normrM ger0_norm // ler_wpmul2l //.
  have wd := draft_wf (nrow_dist c) n (rcons x v).
  apply: le_trans (E_norm _ wd) _; rewrite -[X in _ <= X](E_cst g wd).
  exact: (E_le wd (always_true _)).
rewrite mulr_sumr; apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => v _.
by rewrite normrM ger0_norm ?(dpd x).1 // mulrCA ler_wpmul2l ?(dpd x).1 // IH.
Qed.

(* The law of the selected path against the rows. *)
Lemma selected_near L c G g : (forall s, `|G s| <= g) ->
  `|E vs (selected K.+1 L c) G - E vs (draft (rows K.+1 c) L c) G|
  <= g * (k ^+ 2 * along (defect c) L c).
Proof.
move=> Gg; have g0 : 0 <= g by apply: le_trans (Gg [::]).
set D := along (defect c) L c; set pit := truelaw L c.
have wd := draft_wf dpd L c.
have T1 : label_weight K.+1 c c = 1.
  by rewrite -(boost_mean K pi0_law); apply: eq_csum => l lJ; rewrite post_root.
have selE : E vs (selected K.+1 L c) G
    = E vs (draft pd L c) (fun s => csum (fun l => post c (c ++ s) l * boost K.+1 pit l) J * G s).
  rewrite selected_E (select_pairs (pi := pit)) //; apply: E_ext => s.
  by rewrite mulrC -csumZ; apply: eq_csum => l _ /=; rewrite mulrA mulrC.
have -> : k ^+ 2 * D = K.+1%:R * K.+1.-1%:R * D + k * D.
  by rewrite expr2 /k /= mulrS; move: (K%:R) => b; rng R.
set X := E vs (draft pd L c) (fun s => label_weight K.+1 c (c ++ s) * G s).
set Y := E vs (draft _ _ _) G.
have -> : E vs (selected K.+1 L c) G - Y = (E vs (selected K.+1 L c) G - X) + (X - Y) by rng R.
apply: le_trans (ler_norm_add _ _) _; rewrite mulrDr; apply: ler_add; last first.
  have := draft_nrow L c c Gg; rewrite T1 mul1r -/X -/Y => h; apply: (le_trans h).
  rewrite ler_wpmul2l //; apply: along_mono => y; exact: lexx.
rewrite selE /X E_sub; apply: le_trans (E_norm _ wd) _.
rewrite -[X in _ <= X](E_cst _ wd); apply: (E_le wd (always_true _)) => s _.
rewrite -mulrBl -csumB normrM mulrC; apply: ler_pmul => //.
set b := _ * _ * D.
have near l : (l < J)%N -> `|boost K.+1 pit l - boost K.+1 pi0 l| <= b.
  move=> lJ; have lJ' := ltnW lJ; have tl := truelaw_law L c.
  by apply: geoS_near; try exact: csum01; exact: truelaw_near.
have [q0 q1] := post_law c (c ++ s).
rewrite csumE -[b]mulr1 -q1 csumE mulr_sumr.
apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum_nat => l /andP[_ lJ].
by rewrite -mulrBr normrM ger0_norm // mulrC ler_wpmul2r // near.
Qed.

(* A test function of the path with values in [0,1]. *)
Lemma near_01 L c (F : seq V -> R) : (forall xs, 0 <= F xs <= 1) ->
  `|E vs (selected K.+1 L c) F - E vs (draft (rows K.+1 c) L c) F|
  <= k ^+ 2 / 2%:R * along (defect c) L c.
Proof.
move=> F01; have rd := nrow_dist c.
pose h : R := 2%:R^-1; pose G xs := F xs - h.
have h0 : 0 < h by rewrite invr_gt0 ltr0n.
have hh : h + h = 1 by rewrite -mulr2n -mulr_natl divff // pnatr_eq0.
have Gh xs : `|G xs| <= h.
  have /andP[a b] := F01 xs; rewrite ler_norml /G ler_subl_addr hh b andbT.
  by rewrite ler_subr_addr addNr.
have shift m : wf vs m -> E vs m F = E vs m G + h.
  move=> wm; rewrite -[X in _ + X](E_cst h wm) -E_add; apply: E_ext => xs.
  by rewrite /G subrK.
have ws : wf vs (selected K.+1 L c).
  by apply: wf_bind => [|ps]; [exact: drafts_wf | apply: wf_bind => [|r //]; exact: labels_wf].
rewrite (shift _ ws) (shift _ (draft_wf rd L c)) opprD addrACA subrr addr0.
by rewrite mulrAC [X in _ <= X]mulrC; exact: selected_near.
Qed.

(* The theorem. *)
Theorem ranked_drift L c f : (forall s, 0 <= f s <= 1) ->
  `|E vs (bind (ranked_block_normalised vs pd qt J pi0 post K.+1 L c) (fill qt (size c + L.+1)%N)) f
    - E vs (generate qt L.+1 c) f|
  <= k ^+ 2 / 2%:R * along (defect c) L c.
Proof.
move=> f01; have rd := nrow_dist c.
pose F xs := E vs (bind (bind (block_scan vs (rows K.+1 c) qt c 1 xs (c, 1, xs == [::]))
   (block_emit vs (rows K.+1 c) qt)) (fill qt (size c + L.+1)%N)) f.
have F01 xs : 0 <= F xs <= 1.
  apply: E_01 => //; apply: wf_bind => [|s]; last exact: gen_wf.
  apply: wf_bind => [|[[c' w'] last]]; first by apply: (blk_scan_wf rd dqt); rewrite lexx ler01.
  by apply: emit_wf; case: last; [exact: dqt | exact: bres_dist].
have <- : E vs (draft (rows K.+1 c) L c) F = E vs (generate qt L.+1 c) f.
  by rewrite -(block_valid rd dqt L c f) !E_bind; apply: E_ext => xs; rewrite /F !E_bind.
have -> : E vs (bind (ranked_block_normalised vs pd qt J pi0 post K.+1 L c)
  (fill qt (size c + L.+1)%N)) f
    = E vs (selected K.+1 L c) F.
  by rewrite E_bind /ranked_block_normalised E_bind; apply: E_ext => xs; rewrite /F !E_bind.
exact: near_01.
Qed.

(* The same with the greedy rule and its carry, which is built from the normalised rows. *)
Theorem ranked_greedy_drift L (D : seq V -> V -> R) c f : (forall x, is_dist vs (D x)) ->
  (forall s, 0 <= f s <= 1) ->
  `|E vs (bind (ranked_greedy_block_normalised vs pd J pi0 post K.+1 L D c)
      (fun o => fill o.2 (size c + L.+1)%N o.1)) f - E vs (generate D L.+1 c) f|
  <= k ^+ 2 / 2%:R * along (defect c) L c.
Proof.
move=> dD f01; have rd := nrow_dist c; set r := rows K.+1 c in rd.
pose F xs := E vs (bind (bind (scan (joint_ratio r D) (greedy_bias vs r D) c 1 xs None)
   (greedy_block_out vs r L D c)) (fun o => fill o.2 (size c + L.+1)%N o.1)) f.
have dc x : is_dist vs (greedy_carry vs r D c (size c + L)%N x) by exact: rchain_dist.
have wF xs : wf vs (bind (bind (scan (joint_ratio r D) (greedy_bias vs r D) c 1 xs None)
   (greedy_block_out vs r L D c)) (fun o => fill o.2 (size c + L.+1)%N o.1)).
  apply: (wf_bindP (P := fun o => forall x, is_dist vs (o.2 x))) => [||o dO]; last exact: gen_wf.
    apply: wf_bind => [|o]; last by split=> //; exact: dc.
    apply: (@scan_wf R V vs _ _ (fun w => 0 <= w)) => //.
    - by move=> w c2 x; exact: gnxt_ok.
    - move=> w c2 [] w0; last by rewrite (grhac_eq rd dD) //; exact: (ghac01 rd).
      exact: (@ghac01 R V vs r rd D w c2 true).
    - exact: ler01.
  by apply: (always_bind (always_true _)) => o _ /= y x; exact: dc.
have F01 xs : 0 <= F xs <= 1 by exact: E_01.
have <- : E vs (draft r L c) F = E vs (generate D L.+1 c) f.
  rewrite -(greedy_block_valid rd L c f dD) /greedy_block /greedy_block_mark E_bind E_bind E_bind.
  by apply: E_ext => xs; rewrite /F E_bind E_bind.
have -> : E vs (bind (ranked_greedy_block_normalised vs pd J pi0 post K.+1 L D c)
      (fun o => fill o.2 (size c + L.+1)%N o.1)) f = E vs (selected K.+1 L c) F.
  rewrite E_bind /ranked_greedy_block_normalised E_bind E_bind.
  by apply: E_ext => xs; rewrite /F E_bind E_bind.
exact: near_01.
Qed.

(* Every node off by at most del: at most L K^2 del / 2. *)
Corollary ranked_drift_uniform L c f del : (forall s, 0 <= f s <= 1) ->
  (forall x, defect c x <= del) ->
  `|E vs (bind (ranked_block_normalised vs pd qt J pi0 post K.+1 L c) (fill qt (size c + L.+1)%N)) f
    - E vs (generate qt L.+1 c) f|
  <= k ^+ 2 / 2%:R * (L%:R * del).
Proof.
move=> f01 dd; apply: le_trans (ranked_drift L c f01) _.
by rewrite ler_wpmul2l ?along_le // divr_ge0 ?exprn_ge0 ?ler0n // ltW.
Qed.
End Weight.
End Labels.

(* --- From a coupling whose marginals are off to the defect ------------------------------ *)
(* A token's label law: the mixture of the rows of M, each divided by its own sum. *)
Section NormMix.
Variables (NT J : nat) (p : V -> R) (theta : V -> nat -> R) (M : nat -> nat -> R) (pi : nat -> R).
Hypothesis p0 : forall v, 0 <= p v.
Hypothesis theta_law : forall v, is_law NT (theta v).
Hypothesis M0 : forall b l, 0 <= M b l.
Hypothesis M_live : forall b, (b < NT)%N -> csum (M b) J = 0 -> tmass vs p theta b = 0.
Definition mix_norm v l : R := csum (fun b => theta v b * (M b l / csum (M b) J)) NT.

Lemma mix_norm_law v : v \in vs -> p v != 0 -> is_law J (mix_norm v).
Proof.
move=> vv pv; have rs0 b : 0 <= csum (M b) J by exact: csum_ge0.
split=> [l|].
  by apply: csum_ge0 => b; rewrite mulr_ge0 ?(theta_law v).1 // mulr_ge0 ?invr_ge0.
rewrite -csum_exch -(theta_law v).2; apply: eq_csum => b bN; rewrite csumZ.
rewrite (eq_csum (g := fun l => (csum (M b) J)^-1 * M b l)) => [|l _]; last by rewrite mulrC.
rewrite csumZ; have [t0|tn0] := eqVneq (theta v b) 0; first by rewrite t0 mul0r.
rewrite mulVf ?mulr1 //; apply/eqP => /(M_live bN) P0.
have : 0 < p v * theta v b by rewrite mulr_gt0 // lt_def ?pv ?tn0 ?p0 // (theta_law v).1.
rewrite ltNge; case/negP; rewrite -P0 /tmass sumfE.
apply: (le_sum_mem (f := fun v => p v * theta v b)) => // y.
by rewrite mulr_ge0 // (theta_law y).1.
Qed.

(* Half the absolute errors of the row sums and of the column sums. *)
Theorem mix_defect : is_dist vs p -> is_law J pi ->
  tv (index_iota 0 J) (fun l => \sum_(v <- vs) p v * mix_norm v l) pi *+ 2
  <= csum (fun b => `|tmass vs p theta b - csum (M b) J|) NT
     + csum (fun l => `|csum (M^~ l) NT - pi l|) J.
Proof.
move=> dp pil; pose P := tmass vs p theta.
have cmE l : (l < J)%N -> \sum_(v <- vs) p v * mix_norm v l
    = csum (M^~ l) NT + csum (fun b => (P b - csum (M b) J) * (M b l / csum (M b) J)) NT.
  move=> lJ; rewrite -csumD.
  transitivity (\sum_(v <- vs) csum (fun b => p v * theta v b * (M b l / csum (M b) J)) NT).
    by apply: eq_sum => v; rewrite -csumZ; apply: eq_csum => b _; rewrite mulrA.
  rewrite csum_sum; apply: eq_csum => b bN; rewrite -big_distrl /=.
  have -> : \sum_(v <- vs) p v * theta v b = P b by rewrite /P /tmass sumfE.
  rewrite mulrBl addrCA; have [s0|sn0] := eqVneq (csum (M b) J) 0; last first.
    by rewrite [csum _ _ * _]mulrC divfK // subrr addr0.
  by rewrite (csum0_mem (M0 b) s0 lJ) !mul0r !mulr0 subrr addr0.
rewrite tv_half; last first.
  rewrite -!csumE pil.2 -(sum_csum vs) -dp.2 big_seq [RHS]big_seq; apply: eq_bigr => v vv.
  have [pv|pv] := eqVneq (p v) 0; first by rewrite pv mul0r.
  by rewrite (mix_norm_law vv pv).2 mulr1.
rewrite -csumE (eq_csum (g := fun l => `|csum (M^~ l) NT - pi l
   + csum (fun b => (P b - csum (M b) J) * (M b l / csum (M b) J)) NT|)) => [|l lJ]; last first.
  by rewrite cmE // addrAC.
apply: (@le_trans _ _ (csum (fun l => `|csum (M^~ l) NT - pi l|
   + csum (fun b => `|P b - csum (M b) J| * (M b l / csum (M b) J)) NT) J)).
  apply: ler_csum => l; apply: le_trans (ler_norm_add _ _) _; rewrite ler_add2l csumE.
  apply: le_trans (ler_norm_sum _ _ _) _; rewrite -csumE; apply: ler_csum => b.
  by rewrite normrM [`|_ / _|]ger0_norm // divr_ge0 // csum_ge0.
rewrite csumD addrC; apply: ler_add => //; rewrite csum_exch; apply: ler_csum => b.
rewrite csumZ -[X in _ <= X]mulr1 ler_wpmul2l //.
rewrite (eq_csum (g := fun l => (csum (M b) J)^-1 * M b l)) => [|l _]; last by rewrite mulrC.
rewrite csumZ; have [->|sn0] := eqVneq (csum (M b) J) 0; first by rewrite mulr0 ler01.
by rewrite mulVf.
Qed.
End NormMix.
End RankedRobust.

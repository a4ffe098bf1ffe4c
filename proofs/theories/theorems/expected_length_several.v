(* Expected accepted length with several drafts. Without the extension by later drafts K-SEQ block
   verification earns c(beta, K) sum_i E_p[w_i] and SpecTr-GBV c(beta, K) sum_i sum_x min(p(x),
   q(x)/rho); the extension never earns less; with a scale rho >= q/p on joints SpecTr-GBV earns L
   (1 - (1-1/rho)^K), and target match earns sum_i sum_x q(x) (1 - (1-p(x))^K): both tend to L. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting kseq validity block scan walk spectr
   target_match kseq_block spectr_gbv.
From Draftproof.theorems Require Import maximal draws kseq block running block_optimal paths scan
  walk
   expected_length kseq_block spectr_gbv greedy_block spectr rounds reductions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Several.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation dist := (is_dist vs).
Notation min1 := (Order.min 1).

(* The accepted length, from the context and the output: one more token is emitted. *)
Definition accepted (c c' : seq V) : R := (size c')%:R - (size c)%:R - 1.

(* --- The walk without the extension: the first path that is accepted wins. ----------------- *)
Section First.
Variables (S X O : Type) (test : S -> seq V -> prog (option X)) (pre : S -> X -> seq V).
Variables (leaf : X -> bool) (mk : S -> X -> nat -> S) (rej : S -> S) (fin : S -> prog O) (F : O ->
  R).
Notation walk := (walk test pre leaf mk rej fin false).

Lemma walk_nil fuel st : walk fuel st [::] = fin st.
Proof. by case: fuel. Qed.

Lemma walk_first m c k st :
  E vs (drafts pd k.+1 m c) (fun ps => E vs (walk k.+1 st ps) F)
  = E vs (draft pd m c) (fun xs => E vs (test st xs) (fun o =>
      if o is Some x then E vs (fin (mk st x 0%N)) F
      else E vs (drafts pd k m c) (fun ps => E vs (walk k (rej st) ps) F))).
Proof.
rewrite drafts_S; apply: E_ext => xs.
transitivity (E vs (drafts pd k m c) (fun ps => E vs (test st xs) (fun o =>
    if o is Some x then E vs (fin (mk st x 0%N)) F else E vs (walk k (rej st) ps) F))).
  apply: E_ext => ps; rewrite [walk.walk _ _ _ _ _ _ _ _ _ _]/= E_bind; apply: E_ext => -[x|] //.
  by rewrite /alive /= walk_nil.
rewrite E_comm; apply: E_ext => -[x|] //.
by rewrite (E_cst _ (drafts_wf dpd _ _ _)).
Qed.
End First.

(* --- K-SEQ block verification ---------------------------------------------------------------- *)
Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Hypothesis rok : rho_ok vs rho.

(* sum_i E_p[w_i] with the initial weight w. *)
Definition weight_sum (qt : chain) w L c : R :=
  \sum_(0 <= i < L) E vs (draft pd i.+1 c) (fun xs => wpath pd qt w c xs).

Lemma wfold_ext (n1 n2 : R -> seq V -> V -> R) w c s : (forall w c x, n1 w c x = n2 w c x) ->
  wfold n1 w c s = wfold n2 w c s.
Proof. by move=> nn; elim: s w c => //= x s IH w c; rewrite nn IH. Qed.

Section KSeqBlock.
Variable qt : chain.
Hypothesis dqt : forall c, dist (qt c).

Lemma emit_len d c : dist d -> E vs (emit d c) (accepted c) = 0.
Proof.
move=> dd; rewrite E_Draw big1 // => y _.
by rewrite /= /accepted size_rcons mulrSr addrAC addrK subrr mulr0.
Qed.

(* One path: what it earns, and X if it is not accepted anywhere. *)
Lemma kseq_block_scan_tau L c r X : (0 < L)%N -> 0 < r ->
  E vs (draft pd L c) (fun xs => E vs (scan (block_weight pd (row_at qt c (qt c)))
    (block_bias vs pd (row_at qt c (qt c))) c r^-1 xs None)
    (fun o => if o is Some k then (size k.1.1)%:R - (size c)%:R else X))
  = weight_sum qt r^-1 L c + (1 - beta vs (pd c) (qt c) r) * X.
Proof.
case: L => // m _ r0; have dD := row_at_dist dqt c (dqt c); set D := row_at qt c (qt c) in dD *.
have ri0 : 0 <= r^-1 by rewrite invr_ge0 ltW.
have sE G : E vs (draft pd m.+1 c) (fun xs =>
  E vs (scan (block_weight pd D) (block_bias vs pd D) c r^-1 xs None) G)
    = B1 vs pd D (block_weight pd D) (fun k => G (Some k)) m c r^-1 + (1 - msum vs pd D r^-1 c)
      * G None.
  apply: (scan_E (D := D) dpd (okw := fun w => 0 <= w <= 1)) => //.
  - by move=> w /andP[].
  - by move=> w c1 x w0; exact: wnext_ok.
  - by move=> w c1 x w0; exact: wnext_E.
  - by move=> w c1 /andP[_ w1]; rewrite (min_idPr w1).
  - by move=> w c1 w01; exact: hacc_E.
have sT : E vs (draft pd m.+1 c) (fun xs =>
  E vs (scan (block_weight pd D) (block_bias vs pd D) c r^-1 xs None) (tau_of c))
    = weight_sum qt r^-1 m.+1 c.
  rewrite (scan_tau (D := D) dpd (okw := fun w => 0 <= w <= 1)) //.
  - apply: eq_bigr => i _; apply: (E_always _ (draft_size pd i.+1 c)) => -[|x xs] // _.
    rewrite -wfold_wpath (wfold_ext (n2 := block_weight pd qt)) => [|w c1 y]; last first.
      by rewrite /block_weight /acc /wq /D row_at_id.
    rewrite wfold_wpath; apply/min_idPr; rewrite /=.
    have w01 : 0 <= block_weight pd qt r^-1 c x <= 1 by exact: (wnext_ok dpd c x dqt ri0).
    by case/andP: (wpath01 dpd dqt (rcons c x) xs w01).
  - by move=> w /andP[].
  - by move=> w c1 x w0; exact: wnext_ok.
  - by move=> w c1 x w0; exact: wnext_E.
  - by move=> w c1 /andP[_ w1]; rewrite (min_idPr w1).
  - by move=> w c1 w01; exact: hacc_E.
have mb : msum vs pd D r^-1 c = beta vs (pd c) (qt c) r.
  by rewrite /beta sumfE; apply: eq_sum => x; rewrite /covered /D row_at_id mulrC.
by move: sT; rewrite sE mulr0 addr0 -mb => <-; rewrite sE.
Qed.

(* E[tau], without the extension: the output has tau + 1 tokens. *)
Theorem kseq_block_tau K L c : let r := rho (pd c) (qt c) K in
  E vs (kseq_block vs pd qt rho false K L c) (accepted c)
  = cover vs (pd c) (qt c) r K * weight_sum qt r^-1 L c.
Proof.
move=> r; have [r0 rv] := rok K (dpd c) (dqt c); rewrite -/r in r0 rv.
have dres n : n = K -> dist (clip_residual vs (pd c) (qt c) (rho (pd c) (qt c) n) n).
  by move=> ->; exact: kres_dist.
case: L => [|m].
  rewrite /weight_sum big_nil mulr0 E_bind (E_cst _ (drafts_wf dpd _ _ _)).
  have [r00 rv0] := rok 0%N (dpd c) (dqt c).
  by apply: (emit_len (d := clip_residual vs (pd c) (qt c) _ 0%N)); exact: kres_dist.
set L := m.+1; pose st : kseq_block_state R V := (c, L, qt c, K).
pose W k ps := walk (kseq_block_test vs pd qt rho) (@kseq_block_prefix R V) snd
   (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho) false k st ps.
transitivity (E vs (drafts pd K L c) (fun ps => E vs (W K ps) (accepted c))).
  by rewrite E_bind; apply: (E_always _ (drafts_size pd K L c)) => ps e; rewrite /W /st /= e.
have key k : E vs (drafts pd k L c) (fun ps => E vs (W k ps) (accepted c))
    = cover vs (pd c) (qt c) r k * weight_sum qt r^-1 L c; last exact: key.
elim: k => [|k IH].
  by rewrite mul0r; apply: (emit_len (d := clip_residual vs (pd c) (qt c) _ K)); exact: kres_dist.
rewrite /W walk_first -/(W k).
transitivity (E vs (draft pd L c) (fun xs => E vs (kseq_block_test vs pd qt rho st xs)
   (fun o => if o is Some k then (size k.1.1)%:R - (size c)%:R
             else cover vs (pd c) (qt c) r k * weight_sum qt r^-1 L c))).
  apply: (E_always _ (draft_size pd L c)) => xs sx.
  apply: E_ext => -[[[c' w'] last]|]; last exact: IH.
  have dT : dist (if last then qt c' else block_residual vs pd qt w' c').
    by case: last; [exact: dqt | exact: bres_dist].
  have [r00 rv0] := rok 0%N (dpd c') dT.
  have dd : dist (clip_residual vs (pd c') (if last then qt c' else block_residual vs pd qt w' c')
     (rho (pd c') (if last then qt c' else block_residual vs pd qt w' c') 0%N) 0%N) by exact:
       kres_dist.
  transitivity (E vs (emit (clip_residual vs (pd c')
    (if last then qt c' else block_residual vs pd qt w' c')
     (rho (pd c') (if last then qt c' else block_residual vs pd qt w' c') 0%N) 0%N) c')
     (fun u => 1 * accepted c' u + ((size c')%:R - (size c)%:R) * 1)).
    by apply: E_ext => u; rewrite /accepted; move: (size u)%:R (size c')%:R (size c)%:R => a b d;
      rng R.
  by rewrite E_lin emit_len // (E_cst _ (emit_wf c' dd)) mulr0 add0r mulr1.
by rewrite [LHS](@kseq_block_scan_tau L c r _ isT r0) [RHS]/= [RHS]mulrDl mul1r mulrA.
Qed.
End KSeqBlock.

(* --- SpecTr-GBV ---------------------------------------------------------------------------- *)
(* sum_i sum over the strings s of length i of min(p(s), q(s)/rho) *)
Definition shared (D : chain) r L c : R :=
  \sum_(0 <= i < L) SS vs i.+1 (fun s => Order.min (pmass pd c s) (r^-1 * pmass D c s)).

Section Gbv.

Lemma draw_len (D : chain) c c0 : dist (D c) ->
  E vs (Draw (D c) (fun y => Ret (rcons c y, D))) (fun o => accepted c0 o.1)
    = (size c)%:R - (size c0)%:R.
Proof.
move=> dD; rewrite E_Draw -[RHS]mul1r -[X in _ = X * _]dD.2 big_distrl /=; apply: eq_sum => y.
rewrite /accepted size_rcons mulrSr; congr (_ * _).
by move: (size c)%:R (size c0)%:R => a b; rng R.
Qed.

Lemma gbv_scan_tau (D : chain) L c r X : (forall x, dist (D x)) -> (0 < L)%N -> 0 < r ->
  E vs (draft pd L c) (fun xs => E vs (scan (joint_ratio pd D) (gbv_bias vs pd D) c r^-1 xs None)
    (fun o => if o is Some k then (size k.1.1)%:R - (size c)%:R else X))
  = shared D r L c + (1 - beta vs (pd c) (D c) r) * X.
Proof.
case: L => // m dD _ r0; have ri0 : 0 <= r^-1 by rewrite invr_ge0 ltW.
have sE G : E vs (draft pd m.+1 c) (fun xs =>
  E vs (scan (joint_ratio pd D) (gbv_bias vs pd D) c r^-1 xs None) G)
    = B1 vs pd D (joint_ratio pd D) (fun k => G (Some k)) m c r^-1 + (1 - msum vs pd D r^-1 c)
      * G None.
  apply: (scan_E (D := D) dpd (okw := fun w => 0 <= w)) => //.
  - by move=> w c1 x; exact: gnxt_ok.
  - by move=> w c1 x; exact: gnxt_E.
  - by move=> w c1; exact: ghac_E.
have sT : E vs (draft pd m.+1 c) (fun xs =>
  E vs (scan (joint_ratio pd D) (gbv_bias vs pd D) c r^-1 xs None) (tau_of c))
    = shared D r m.+1 c.
  rewrite (scan_tau (D := D) dpd (okw := fun w => 0 <= w)) //.
  - apply: eq_bigr => i _; rewrite -(SS_draft vs pd); apply: SS_eq => s _ _.
    exact: (joint_min dpd).
  - by move=> w c1 x; exact: gnxt_ok.
  - by move=> w c1 x; exact: gnxt_E.
  - by move=> w c1; exact: ghac_E.
have mb : msum vs pd D r^-1 c = beta vs (pd c) (D c) r.
  by rewrite /beta sumfE; apply: eq_sum => x; rewrite /covered mulrC.
by move: sT; rewrite sE mulr0 addr0 -mb => <-; rewrite sE.
Qed.

Variable unit : bool.
Notation W k st ps := (walk (gbv_test vs pd rho unit) (@gbv_prefix R V) snd
   (gbv_node vs pd rho unit) (gbv_rejected vs pd rho unit) (gbv_correction vs pd rho unit) false k
     st ps).

Lemma gbv_walk_first L c n D k : (forall x, dist (D x)) -> (0 < L)%N ->
  let st : gbv_state R V := (c, L, D, n) in
  E vs (drafts pd k.+1 L c) (fun ps => E vs (W k.+1 st ps) (fun o => accepted c o.1))
  = shared D (gbv_scale pd rho unit st) L c
    + (1 - beta vs (pd c) (D c) (gbv_scale pd rho unit st))
      * E vs (drafts pd k L c) (fun ps => E vs (W k (gbv_rejected vs pd rho unit st) ps) (fun o =>
        accepted c o.1)).
Proof.
move=> dD L0 st; have [r0 g0 gr] := node_ok dpd rok unit (dD : gdist vs st).
have gd x : dist (gbv_residual vs pd rho unit st x) by exact:
  (gres_dist dpd rok unit x (dD : gdist vs st)).
rewrite walk_first -(@gbv_scan_tau D L c _ _ dD L0 r0); apply: E_ext => xs.
apply: E_ext => -[[[c' w'] last]|] //.
rewrite /gbv_correction /gbv_node /= eqxx orbT.
exact: (draw_len c (gd c')).
Qed.
End Gbv.

(* E[tau] of SpecTr-GBV at scale "kseq", without the extension. *)
Theorem gbv_kseq_tau K L (D : chain) c : (forall x, dist (D x)) -> let r := rho (pd c) (D c) K in
  E vs (spectr_gbv vs pd rho false false K L D c) (fun o => accepted c o.1)
  = cover vs (pd c) (D c) r K * shared D r L c.
Proof.
move=> dD r; have gd n x : dist (gbv_residual vs pd rho false (c, L, D, n) x).
  by apply: (gres_dist dpd rok); exact: dD.
have fin0 n : E vs (gbv_correction vs pd rho false (c, L, D, n)) (fun o => accepted c o.1) = 0.
  rewrite /gbv_correction; set D' := if _ then _ else _.
  have dD' : dist (D' c) by rewrite /D'; case: ifP => _; [exact: dD | exact: gd].
  by rewrite (draw_len c dD') subrr.
case: L gd fin0 => [|m] gd fin0.
  by rewrite /shared big_nil mulr0 E_bind (E_cst _ (drafts_wf dpd _ _ _)); exact: fin0.
set L := m.+1 in gd fin0 *; pose st : gbv_state R V := (c, L, D, K).
pose W k ps := walk (gbv_test vs pd rho false) (@gbv_prefix R V) snd
   (gbv_node vs pd rho false) (gbv_rejected vs pd rho false) (gbv_correction vs pd rho false) false
     k st ps.
transitivity (E vs (drafts pd K L c) (fun ps => E vs (W K ps) (fun o => accepted c o.1))).
  by rewrite E_bind; apply: (E_always _ (drafts_size pd K L c)) => ps e; rewrite /W /st /= e.
have key k : E vs (drafts pd k L c) (fun ps => E vs (W k ps) (fun o => accepted c o.1))
    = cover vs (pd c) (D c) r k * shared D r L c; last exact: key.
elim: k => [|k IH]; first by rewrite mul0r; exact: fin0.
rewrite /W (gbv_walk_first false c K k dD) //= -/(W k).
by rewrite [X in _ + _ * X = _]IH [RHS]mulrDl mul1r mulrA.
Qed.

(* ... and at scale "unit", where every rejected draft updates the chain. *)
Fixpoint unit_value L c k (D : chain) : R :=
  if k is k'.+1 then shared D 1 L c + (1 - beta vs (pd c) (D c) 1)
    * unit_value L c k' (gbv_chain vs pd D 1 1 c (size c + L)%N) else 0.

Theorem gbv_unit_tau K L (D : chain) c : (forall x, dist (D x)) ->
  E vs (spectr_gbv vs pd rho true false K L D c) (fun o => accepted c o.1)
  = if L is 0 then 0 else unit_value L c K D.
Proof.
move=> dD; have fin0 L' n D' : (forall x, dist (D' x)) ->
    E vs (gbv_correction vs pd rho true (c, L', D', n)) (fun o => accepted c o.1) = 0.
  by move=> dD'; rewrite /gbv_correction (draw_len c (dD' c)) subrr.
case: L => [|m]; first by rewrite E_bind (E_cst _ (drafts_wf dpd _ _ _)); exact: fin0.
set L := m.+1; pose st D : gbv_state R V := (c, L, D, K).
pose W k D ps := walk (gbv_test vs pd rho true) (@gbv_prefix R V) snd
   (gbv_node vs pd rho true) (gbv_rejected vs pd rho true) (gbv_correction vs pd rho true) false k
     (st D) ps.
transitivity (E vs (drafts pd K L c) (fun ps => E vs (W K D ps) (fun o => accepted c o.1))).
  by rewrite E_bind; apply: (E_always _ (drafts_size pd K L c)) => ps e; rewrite /W /st /= e.
have key k : E vs (drafts pd k L c) (fun ps => E vs (W k D ps) (fun o => accepted c o.1))
    = unit_value L c k D; last exact: key.
elim: k D dD => [|k IH] D dD; first exact: fin0.
rewrite /W (gbv_walk_first true c K k dD) //=; congr (_ + _ * _).
by apply: IH => x; apply: gchain_dist; rewrite ?ltr01 ?ler01.
Qed.

(* --- A scale that covers all joint ratios: E[tau] = L (1 - (1 - 1/rho)^K). ----------------- *)
Lemma SS_pmass (D : chain) i c : (forall x, dist (D x)) -> SS vs i (pmass D c) = 1.
Proof.
move=> dD; rewrite -[RHS](E_cst 1 (draft_wf dD i c)) -SS_draft; apply: SS_eq => s _ _.
by rewrite mulr1.
Qed.

Lemma cover_pow (p q : V -> R) r k : cover vs p q r k * beta vs p q r
  = 1 - (1 - beta vs p q r) ^+ k.
Proof. exact: geo_beta. Qed.

Lemma beta_covered (D : chain) c r : (forall x, dist (D x)) -> 0 < r ->
  (forall x, x \in vs -> D c x <= r * pd c x) -> beta vs (pd c) (D c) r = r^-1.
Proof.
move=> dD r0 cov; rewrite /beta sumfE -[RHS]mul1r -(dD c).2 mulr_suml big_seq [RHS]big_seq.
by apply: eq_bigr => x xv; apply/min_idPr; rewrite ler_pdivr_mulr // mulrC cov.
Qed.

Theorem gbv_covered_tau K L (D : chain) c : (forall x, dist (D x)) -> let r := rho (pd c) (D c) K in
  (forall s, all (mem vs) s -> (size s <= L)%N -> pmass D c s <= r * pmass pd c s) ->
  E vs (spectr_gbv vs pd rho false false K L D c) (fun o => accepted c o.1)
  = L%:R * (1 - (1 - r^-1) ^+ K).
Proof.
move=> dD r cov; rewrite gbv_kseq_tau // -/r; have [r0 _] := rok K (dpd c) (dD c);
  rewrite -/r in r0.
have sh : shared D r L c = L%:R * r^-1.
  rewrite /shared (eq_big_nat _ _ (F2 := fun=> r^-1)) => [|i /andP[_ iL]].
    by rewrite big_const_nat subn0 iter_addr addr0 [RHS]mulr_natl.
  rewrite -[RHS]mulr1 -(SS_pmass i.+1 c dD) -SS_scale; apply: SS_eq => s sv si.
  by apply/min_idPr; rewrite ler_pdivr_mull // cov ?si.
have [L0|L0] := posnP L; first by rewrite sh L0 !mul0r mulr0.
have b : beta vs (pd c) (D c) r = r^-1.
  by apply: beta_covered => // x xv; have := cov [:: x]; rewrite /= xv !mulr1; apply.
by rewrite sh mulrCA -b cover_pow.
Qed.

(* How fast that tends to L: (1 - a)^K (1 + K a) <= 1. *)
Lemma pow_small (a : R) K : 0 <= a <= 1 -> (1 - a) ^+ K * (1 + K%:R * a) <= 1.
Proof.
move=> /andP[a0 a1]; elim: K => [|K IH]; first by rewrite expr0 mul0r addr0 mulr1.
apply: le_trans IH; rewrite exprSr -mulrA ler_wpmul2l ?exprn_ge0 ?subr_ge0 //.
rewrite -subr_ge0 mulrS.
have -> : 1 + K%:R * a - (1 - a) * (1 + (1 + K%:R) * a) = a * a * (1 + K%:R).
  by move: K%:R => k; rng R.
by rewrite mulr_ge0 ?mulr_ge0 // addr_ge0 ?ler01 ?ler0n.
Qed.

Corollary gbv_covered_limit K L (D : chain) c : (forall x, dist (D x)) -> let r :=
  rho (pd c) (D c) K in
  (forall s, all (mem vs) s -> (size s <= L)%N -> pmass D c s <= r * pmass pd c s) -> 1 <= r ->
  L%:R - L%:R * r / (r + K%:R)
  <= E vs (spectr_gbv vs pd rho false false K L D c) (fun o => accepted c o.1).
Proof.
move=> dD r cov r1; rewrite gbv_covered_tau // -/r; have r0 : 0 < r := lt_le_trans ltr01 r1.
rewrite -mulrA -[X in X - _]mulr1 -mulrBr ler_wpmul2l ?ler0n // ler_add2l ler_opp2.
have a01 : 0 <= r^-1 <= 1 by rewrite invr_ge0 (ltW r0) invf_le1.
have k0 : 0 < r + K%:R by rewrite ltr_paddr ?ler0n.
rewrite ler_pdivl_mulr //; have := pow_small K a01; rewrite -(ler_pmul2r r0) mul1r -mulrA.
by rewrite mulrDl mul1r -[K%:R * _ * r]mulrA mulVf ?mulr1 // gt_eqF.
Qed.

(* --- Target match: P(tau >= i, x) = q(x) (1 - (1 - p(x))^K). ------------------------------- *)
Lemma draws_count (p : V -> R) K h y (b : R) : uniq vs -> dist p -> y \in vs ->
  E vs (draws (fun=> p) K h) (fun xs => b ^+ count_mem y xs) = (1 - p y * (1 - b)) ^+ K.
Proof.
move=> vu dp yv; elim: K h => [|K IH] h; first by rewrite /= !expr0.
rewrite E_Draw exprS; set Q := (1 - _) ^+ K in IH *.
rewrite (eq_sum vs (g := fun x => (p x - p x * (1 - b) * (x == y)%:R) * Q)) => [|x].
  by rewrite -big_distrl sumrB dp.2 (sum_eq_mem vu (fun x => p x * (1 - b)) yv).
rewrite E_bind; transitivity (p x * (b ^+ (x == y) * Q)); last first.
  case: eqP => _; last by rewrite mulr0 subr0 expr0 mul1r.
  by rewrite expr1 mulr1 mulrBr mulr1 subKr mulrA.
by congr (_ * _); rewrite -(IH (rcons h x)) -E_scale; apply: E_ext => xs /=; rewrite exprD.
Qed.

Theorem match_tau (qt : chain) K L c : uniq vs -> (forall x, dist (qt x)) ->
  E vs (spectr pd qt (node_match qt) K L c) (accepted c)
  = \sum_(0 <= i < L) E vs (draft qt i.+1 c) (fun s => 1 - (1 - pmass pd c s) ^+ K).
Proof.
move=> vu dqt; rewrite E_bind; elim: L K c => [|m IH] K c.
  rewrite big_nil (E_cst _ (drafts_wf dpd _ _ _)); exact: emit_len.
pose G y (ps' : seq (seq V)) := E vs (if ps' == [::] then Ret (rcons c y)
   else spectr_walk qt (node_match qt) m (rcons c y) ps') (accepted c).
transitivity (E vs (drafts pd K m.+1 c) (fun ps =>
   E vs (node_match qt c (heads ps)) (fun y => G y (follow y ps)))).
  by apply: E_ext => ps; exact: (E_bind vs (node_match qt c (heads ps))).
rewrite (drafts_node dpd K m c (node_match qt c) G).
have step y k : E vs (drafts pd k m (rcons c y)) (G y)
    = (1 - 0 ^+ k) + \sum_(0 <= i < m) E vs (draft qt i.+1 (rcons c y)) (fun s =>
      1 - (1 - pmass pd (rcons c y) s) ^+ k).
  have one : accepted c (rcons c y) = 0.
    by rewrite /accepted size_rcons mulrSr addrAC addrK subrr.
  case: k => [|k].
    rewrite expr0 subrr add0r -[LHS]/(accepted c (rcons c y)) one big1 // => i _.
    by rewrite -[RHS](E_0 vs (draft qt i.+1 (rcons c y))); apply: E_ext => s; rewrite ?expr0 ?subrr.
  rewrite expr0n subr0 -IH -[X in X + _](E_cst 1 (drafts_wf dpd k.+1 m (rcons c y))).
  have -> : E vs (drafts pd k.+1 m (rcons c y)) (G y) = E vs (drafts pd k.+1 m (rcons c y))
    (fun ps =>
     E vs (spectr_walk qt (node_match qt) m (rcons c y) ps) (accepted c)).
    by apply: (E_always _ (drafts_size pd k.+1 m (rcons c y))) => -[|p ps].
  have wsw c1 n ps : wf vs (spectr_walk qt (node_match qt) n c1 ps).
    elim: n c1 ps => [|n IHn] c1 ps /=; first by split.
    by split; [exact: dqt | move=> z; case: ifP => _ //; exact: IHn].
  rewrite -[RHS]mul1r addrC mulrDr -E_lin; apply: E_ext => ps.
  rewrite -[X in _ + _ * X](E_cst 1 (wsw (rcons c y) m ps)) -E_lin; apply: E_ext => c'.
  by rewrite /accepted size_rcons mulrSr; move: (size c')%:R (size c)%:R => u v; rng R.
under E_ext => xs do rewrite /node_match E_Draw.
rewrite E_sum.
transitivity (\sum_(y <- vs) qt c y * ((1 - (1 - pd c y) ^+ K)
   + \sum_(0 <= i < m) E vs (draft qt i.+1 (rcons c y)) (fun s =>
     1 - (1 - pd c y * pmass pd (rcons c y) s) ^+ K))).
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => y yv; rewrite E_scale; congr (_ * _).
  have dw := draws_wf K [::] (fun=> dpd c).
  rewrite (E_ext _ _ (fun xs => step y (count_mem y xs))).
  rewrite (E_ext _ _ (g := fun xs => 1 * (1 * 1 + (- 1) * 0 ^+ count_mem y xs)
     + 1 * \sum_(0 <= i < m) E vs (draft qt i.+1 (rcons c y)) (fun s =>
       1 - (1 - pmass pd (rcons c y) s) ^+ count_mem y xs))); last first.
    by move=> xs; rewrite !mul1r mulN1r.
  rewrite E_lin E_lin (E_cst _ dw) draws_count // !mul1r mulN1r subr0 mulr1; congr (_ + _).
  rewrite E_sum; apply: eq_bigr => i _; rewrite E_comm; apply: E_ext => s.
  rewrite (E_ext _ _ (g := fun xs =>
    1 * 1 + (- 1) * (1 - pmass pd (rcons c y) s) ^+ count_mem y xs)); last first.
    by move=> xs; rewrite mul1r mulN1r.
  by rewrite E_lin (E_cst _ dw) draws_count // mul1r mulN1r subKr.
rewrite big_nat_recl // (eq_sum vs (fun y => mulrDr _ _ _)) big_split; congr (_ + _).
  by rewrite E_Draw; apply: eq_sum => y; rewrite /= mulr1.
under [LHS]eq_bigr => y _ do rewrite big_distrr.
rewrite exchange_big; apply: eq_bigr => i _; rewrite E_Draw; apply: eq_sum => y.
by rewrite E_bind.
Qed.

(* What the target can say the drafts can say, with probability a at least: E[tau] >= L (1 -
   (1-a)^K). *)
Corollary match_limit (qt : chain) K L c a : uniq vs -> (forall x, dist (qt x)) -> 0 <= a <= 1 ->
  (forall s, all (mem vs) s -> (size s <= L)%N -> pmass qt c s != 0 -> a <= pmass pd c s) ->
  L%:R * (1 - (1 - a) ^+ K)
  <= E vs (spectr pd qt (node_match qt) K L c) (accepted c).
Proof.
move=> vu dqt /andP[a0 a1] cov; rewrite match_tau //; set C := 1 - _ ^+ K.
have -> : L%:R * C = \sum_(0 <= i < L) C.
  by rewrite big_const_nat subn0 iter_addr addr0 [LHS]mulr_natl.
apply: ler_sum_nat => i /andP[_ iL].
rewrite -(SS_draft vs qt) -[C]mulr1 -[X in C * X <= _](SS_pmass i.+1 c dqt) -SS_scale;
  apply: SS_le => s sv si.
have q0 : 0 <= pmass qt c s by exact: pmass_nneg.
have [->|qn0] := eqVneq (pmass qt c s) 0; first by rewrite mulr0 mul0r.
rewrite mulrC ler_wpmul2l // /C ler_sub // ler_expn2r ?nnegrE ?subr_ge0 //.
  rewrite -(draft_prefix vu dpd c sv (leqnn (size s))) -[X in _
    <= X](E_cst 1 (draft_wf dpd (size s) c)).
  apply: (E_le (draft_wf dpd (size s) c) (always_true _)) => xs _.
  by case: (_ == _); rewrite ?lexx ?ler01.
by rewrite ler_sub // cov ?si.
Qed.

(* --- The extension by later drafts never earns less ---------------------------------------- *)
Section Extension.
Variables (S X O : Type) (test : S -> seq V -> prog (option X)) (pre : S -> X -> seq V).
Variables (leaf : X -> bool) (mk : S -> X -> nat -> S) (rej : S -> S) (fin : S -> prog O) (F : O ->
  R).
Variables (lens : S -> nat) (ok : S -> Prop) (okX : S -> X -> Prop).
Notation walk ext := (walk test pre leaf mk rej fin ext).
Hypothesis mk_ok : forall st x k, ok st -> okX st x ->
  lens st = (size (pre st x) + lens (mk st x k))%N.
Hypothesis rej_ok : forall st, ok st -> ok (rej st) /\ lens (rej st) = lens st.
Hypothesis test_ok : forall st xs, ok st -> size xs = lens st -> wf vs (test st xs) /\
  always (fun o => if o is Some x then okX st x else True) (test st xs).
Hypothesis fin_le : forall st x n fuel ps, ok st -> okX st x -> sized (lens (mk st x n)) ps ->
  E vs (fin (mk st x 0%N)) F <= E vs (walk true fuel (mk st x n) ps) F.

Lemma walk_extension fuel st ps : ok st -> sized (lens st) ps ->
  E vs (walk false fuel st ps) F <= E vs (walk true fuel st ps) F.
Proof.
elim: fuel st ps => [|fuel IH] st [|xs ps] okst //= /andP[/eqP sx sps].
have [wt at_] := test_ok okst sx; rewrite !E_bind; apply: (E_le wt at_) => -[x okx|_]; last first.
  by have [ok' l'] := rej_ok okst; apply: IH; rewrite // l'.
rewrite {1}/alive /= walk_nil; apply: fin_le => //.
rewrite /alive; case: ifP => // _; apply: (through_sized (s := pre st x)).
by rewrite -(mk_ok _ okst okx).
Qed.
End Extension.

Lemma accepted_ge (c c1 : seq V) (m : prog (seq V)) : wf vs m ->
  always (fun u => size c1 < size u)%N m ->
  (size c1)%:R - (size c)%:R <= E vs m (accepted c).
Proof.
move=> wm am; rewrite -[X in X <= _](E_cst _ wm); apply: (E_le wm am) => u cu.
by rewrite /accepted addrAC ler_add2r ler_subr_addr -mulrSr ler_nat.
Qed.

Section KSeqBlockExt.
Variable qt : chain.
Hypothesis dqt : forall c, dist (qt c).

Lemma kseq_block_walk_safe N ext st fuel ps : kok vs N st -> sized st.1.1.2 ps ->
  let m := walk (kseq_block_test vs pd qt rho) (@kseq_block_prefix R V) snd
    (kseq_block_node vs pd qt)
    id (kseq_block_correction vs pd rho) ext fuel st ps in
  wf vs m /\ always (fun u => size st.1.1.1 < size u)%N m.
Proof.
move=> okst sps; set c0 := st.1.1.1.
apply: (@walk_safe R V vs _ _ _ (kseq_block_test vs pd qt rho) (@kseq_block_prefix R V) snd
  (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho)
  ext (fun u => size c0 < size u)%N (fun st => st.1.1.2) (fun st =>
    kok vs N st /\ (size c0 <= size st.1.1.1)%N)
  (fun st => mark_at (block_weight pd (row_at qt st.1.1.1 st.1.2)) st.1.1.1
    (kseq_block_scale pd rho st)^-1 st.1.1.2)) => //.
- move=> [[[c1 m] T] n] [[dT c1N] cc1]; have [r0 rv] := rok n (dpd c1) dT.
  split; first by apply: emit_wf; exact: kres_dist.
  by move=> y; rewrite /= size_rcons ltnS.
- move=> [[[c1 m] T] n] [[c' w'] last] k [[dT c1N] cc1] [s [/= -> _ /andP[s0 sm] ->]].
  rewrite /kseq_block_prefix /= drop_size_cat // subnKC //; split=> //; split;
    last by rewrite size_cat (leq_trans cc1) ?leq_addr.
  split; last by rewrite -c1N size_cat -addnA subnKC.
  by case: ifP => _; [exact: dqt | exact: bres_dist].
- move=> [[[c1 m] T] n] xs [[dT c1N] cc1] sx; have dD := row_at_dist dqt c1 dT.
  have [r0 rv] := rok n (dpd c1) dT; split; last first.
    have := scan_mark (block_weight pd (row_at qt c1 T)) (block_bias vs pd (row_at qt c1 T)) c1
      (rho (pd c1) T n)^-1 xs.
    by rewrite sx.
  apply: (@scan_wf R V vs _ _ (fun w => 0 <= w <= 1)) => //.
  + by move=> w /andP[].
  + by move=> w c2 x w0; exact: (wnext_ok dpd).
  + by move=> w c2 l w01; exact: hacc01.
  + by rewrite invr_ge0 ltW.
Qed.

(* As run, with the extension: at least the value without it. *)
Theorem kseq_block_tau_ext K L c : let r := rho (pd c) (qt c) K in
  cover vs (pd c) (qt c) r K * weight_sum qt r^-1 L c
  <= E vs (kseq_block vs pd qt rho true K L c) (accepted c).
Proof.
have := kseq_block_tau dqt K L c; set r := rho _ _ K => /= tE; rewrite -tE.
rewrite /kseq_block E_bind [X in _ <= X]E_bind.
apply: (E_le (drafts_wf dpd K L c) (drafts_sized pd K L c)) => ps sps.
set ps' := if L is 0 then [::] else ps.
have sps' : sized L ps' by rewrite /ps'; case: (L) sps.
pose N := (size c + L).+1.
apply: (walk_extension (lens := fun st => st.1.1.2) (ok := kok vs N)
  (okX := fun st => mark_at (block_weight pd (row_at qt st.1.1.1 st.1.2)) st.1.1.1
    (kseq_block_scale pd rho st)^-1 st.1.1.2)) => //.
- move=> [[[c1 m] T] n] [[c' w'] last] k [dT c1N] [s [/= -> _ /andP[s0 sm] ->]].
  by rewrite /kseq_block_prefix /= drop_size_cat // subnKC.
- move=> [[[c1 m] T] n] xs [dT c1N] sx; have dD := row_at_dist dqt c1 dT.
  have [r0 rv] := rok n (dpd c1) dT; split; last first.
    have := scan_mark (block_weight pd (row_at qt c1 T)) (block_bias vs pd (row_at qt c1 T)) c1
      (rho (pd c1) T n)^-1 xs.
    by rewrite sx.
  apply: (@scan_wf R V vs _ _ (fun w => 0 <= w <= 1)) => //.
  + by move=> w /andP[].
  + by move=> w c2 x w0; exact: (wnext_ok dpd).
  + by move=> w c2 l w01; exact: hacc01.
  + by rewrite invr_ge0 ltW.
- move=> [[[c1 m] T] n] [[c' w'] last] k fuel qs [dT c1N] [s [/= e _ /andP[s0 sm] el]] sqs.
  have dT' : dist (if last then qt c' else block_residual vs pd qt w' c').
    by case: last {el sqs}; [exact: dqt | exact: bres_dist].
  have okst : kok vs N (kseq_block_node vs pd qt (c1, m, T, n) (c', w', last) k).
    split=> //=; rewrite /kseq_block_prefix /= e drop_size_cat // -c1N size_cat -addnA subnKC //.
  have [wm am] := kseq_block_walk_safe true fuel okst sqs.
  apply: le_trans (accepted_ge c wm am); rewrite le_eqVlt; apply/orP; left; apply/eqP.
  have [r00 rv0] := rok 0%N (dpd c') dT'.
  rewrite -[LHS]/(E vs (emit (clip_residual vs (pd c')
    (if last then qt c' else block_residual vs pd qt w' c')
     (rho (pd c') (if last then qt c' else block_residual vs pd qt w' c') 0%N) 0%N) c')
       (accepted c)).
  set d := clip_residual _ _ _ _ _; have dd : dist d by exact: kres_dist.
  rewrite E_Draw -[RHS]mul1r -[X in _ = X * _]dd.2 big_distrl /=; apply: eq_sum => y.
  rewrite /accepted size_rcons mulrSr; congr (_ * _).
  by move: (size c')%:R (size c)%:R => a b; rng R.
Qed.
End KSeqBlockExt.

(* The same for SpecTr-GBV. *)
Lemma gbv_walk_safe N ext st fuel ps : gok vs N st -> sized st.1.1.2 ps ->
  let m := walk (gbv_test vs pd rho false) (@gbv_prefix R V) snd (gbv_node vs pd rho false)
    (gbv_rejected vs pd rho false) (gbv_correction vs pd rho false) ext fuel st ps in
  wf vs m /\ always (fun o => size st.1.1.1 < size o.1)%N m.
Proof.
move=> okst sps; set c0 := st.1.1.1.
apply: (@walk_safe R V vs _ _ _ (gbv_test vs pd rho false) (@gbv_prefix R V) snd
  (gbv_node vs pd rho false)
  (gbv_rejected vs pd rho false) (gbv_correction vs pd rho false) ext (fun o => size c0
    < size o.1)%N (fun st => st.1.1.2)
  (fun st => gok vs N st /\ (size c0 <= size st.1.1.1)%N)
  (fun st => mark_at (joint_ratio pd st.1.2) st.1.1.1 (gbv_scale pd rho false st)^-1 st.1.1.2)) =>
    //.
- move=> st1 [[dst stN] cst]; have gd x :
  dist (gbv_residual vs pd rho false st1 x) by exact: gres_dist.
  case: st1 dst stN cst gd => [[[c1 m] D1] n] dD1 /= c1N cc1 gd.
  set D' := if _ then _ else _; have dD' x : dist (D' x).
    by rewrite /D'; case: ifP => _; [exact: dD1 | exact: gd].
  split; first by split.
  by move=> y; rewrite /= size_rcons ltnS.
- move=> st1 [[c' w'] last] k [[dst stN] cst] [s [/= -> _ /andP[s0 sm] ->]].
  rewrite /gbv_node /gbv_prefix /= drop_size_cat // subnKC //; split=> //; split.
    split; first by move=> x; exact: gres_dist.
    by rewrite /= -stN size_cat -addnA subnKC.
  by rewrite size_cat (leq_trans cst) ?leq_addr.
- move=> st1 xs [[dst stN] cst] sx; have [r0 _ _] := node_ok dpd rok false dst.
  case: st1 dst stN cst sx r0 => [[[c1 m] D1] n] dD1 stN cst sx r0; split; last first.
    have := scan_mark (joint_ratio pd D1) (gbv_bias vs pd D1) c1
      (gbv_scale pd rho false (c1, m, D1, n))^-1 xs.
    by rewrite sx.
  apply: (@scan_wf R V vs _ _ (fun w => 0 <= w)) => //.
  + by move=> w c2 x; exact: gnxt_ok.
  + by move=> w c2 l; exact: ghac01.
  + by rewrite invr_ge0 ltW.
Qed.

Theorem gbv_kseq_tau_ext K L (D : chain) c : (forall x, dist (D x)) -> let r :=
  rho (pd c) (D c) K in
  cover vs (pd c) (D c) r K * shared D r L c
  <= E vs (spectr_gbv vs pd rho false true K L D c) (fun o => accepted c o.1).
Proof.
move=> dD; have := gbv_kseq_tau K L c dD; set r := rho _ _ K => /= tE; rewrite -tE.
rewrite /spectr_gbv E_bind [X in _ <= X]E_bind.
apply: (E_le (drafts_wf dpd K L c) (drafts_sized pd K L c)) => ps sps.
set ps' := if L is 0 then [::] else ps.
have sps' : sized L ps' by rewrite /ps'; case: (L) sps.
pose N := (size c + L).+1.
apply: (walk_extension (lens := fun st => st.1.1.2) (ok := gok vs N)
  (okX := fun st => mark_at (joint_ratio pd st.1.2) st.1.1.1
    (gbv_scale pd rho false st)^-1 st.1.1.2)) => //.
- move=> st [[c' w'] last] k [dst stN] [s [/= -> _ /andP[s0 sm] ->]].
  by rewrite /gbv_prefix /= drop_size_cat // subnKC.
- move=> st xs [dst stN] sx; have [r0 _ _] := node_ok dpd rok false dst.
  case: st dst stN sx r0 => [[[c1 m] D1] n] dD1 stN sx r0; split; last first.
    have := scan_mark (joint_ratio pd D1) (gbv_bias vs pd D1) c1
      (gbv_scale pd rho false (c1, m, D1, n))^-1 xs.
    by rewrite sx.
  apply: (@scan_wf R V vs _ _ (fun w => 0 <= w)) => //.
  + by move=> w c2 x; exact: gnxt_ok.
  + by move=> w c2 l; exact: ghac01.
  + by rewrite invr_ge0 ltW.
- move=> st [[c' w'] last] k fuel qs [dst stN] [s [/= e _ /andP[s0 sm] el]] sqs.
  have gd x : dist (gbv_residual vs pd rho false st x) by exact: gres_dist.
  have okst : gok vs N (gbv_node vs pd rho false st (c', w', last) k).
    split=> //=; rewrite /gbv_prefix /= e drop_size_cat // -stN size_cat -addnA subnKC //.
  have [wm am] := gbv_walk_safe true fuel okst sqs.
  rewrite -[X in X <= _]/(E vs (Draw (gbv_residual vs pd rho false st c') (fun y =>
    Ret (rcons c' y, gbv_residual vs pd rho false st))) (fun o => accepted c o.1))
      (draw_len c (gd c')).
  rewrite -[X in X <= _](E_cst _ wm); apply: (E_le wm am) => u cu.
  by rewrite /accepted addrAC ler_add2r ler_subr_addr -mulrSr ler_nat.
Qed.
End Several.

(* --- A valid scale with which SpecTr-GBV, as run, tends to L ------------------------------- *)
Section Tends.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)).
Notation chain := (seq V -> V -> R).

(* The scale a where that is valid, else one more than the number of drafts. *)
Definition fixed_scale (a : R) (p q : V -> R) (n : nat) : R :=
  if (0 < a) && (cover vs p q a n <= a) then a else n.+1%:R.

Lemma fixed_scale_ok a : rho_ok vs (fixed_scale a).
Proof.
move=> p q n dp dq; rewrite /fixed_scale; case: ifP => [/andP[//]|_].
have n0 : (0 : R) < n.+1%:R by rewrite ltr0Sn.
split=> //; apply: le_trans (geo_leK dp dq n0 n) _.
by rewrite ler_nat.
Qed.

Theorem gbv_tends a K L (D : chain) c : (forall x, is_dist vs (D x)) -> 1 <= a -> (0 < L)%N ->
  (forall s, all (mem vs) s -> (size s <= L)%N -> pmass D c s <= a * pmass pd c s) ->
  L%:R - L%:R * a / (a + K%:R)
  <= E vs (spectr_gbv vs pd (fixed_scale a) false true K L D c) (fun o => accepted R c o.1).
Proof.
move=> dD a1 L0 cov; have a0 : 0 < a := lt_le_trans ltr01 a1.
have b : beta vs (pd c) (D c) a = a^-1.
  by apply: beta_covered => // x xv; have := cov [:: x]; rewrite /= xv !mulr1; apply.
have ai0 : 0 < a^-1 by rewrite invr_gt0.
have fa : fixed_scale a (pd c) (D c) K = a.
  rewrite /fixed_scale a0 /=; case: leP => //; rewrite ltNge; case/negP.
  rewrite -(ler_pmul2r ai0) divff ?gt_eqF // -b geo_beta ger_addl oppr_le0 exprn_ge0 //.
  by rewrite b subr_ge0 invf_le1.
apply: le_trans (gbv_kseq_tau_ext dpd (fixed_scale_ok a) K L c dD).
have := gbv_covered_limit dpd (fixed_scale_ok a) (K := K) (L := L) (D := D) (c := c) dD.
rewrite /= fa => /(_ cov a1); rewrite gbv_kseq_tau //; last exact: fixed_scale_ok.
by rewrite fa.
Qed.
End Tends.

(* Every law R of paths with R(H) >= p(H)^K for all H is the law of one of K i.i.d. drafts, suitably
   selected; so the stateless optimum of K drafts is the best E[tau] of block verification over such R. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity block selection selection_plan.
From Draftproof.theorems Require Import maximal block running block_optimal paths expected_length
   selection selection_optimal drift flow plan.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SelExist.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Hypothesis vs_uniq : uniq vs.
Variables (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Notation prog := (prog R V).
Notation strings := (strings vs).

Lemma strings_SS n (F : seq V -> R) : \sum_(s <- strings n) F s = SS vs n F.
Proof.
elim: n F => [|n IH] F /=; first by rewrite big_seq1.
rewrite big_flatten big_map; apply: eq_sum => x.
by rewrite big_map IH.
Qed.

Lemma strings_mem n s : (s \in strings n) = all (mem vs) s && (size s == n).
Proof.
elim: n s => [|n IH] s /=; first by rewrite inE; case: s => //= x s; rewrite andbF.
apply/flattenP/idP => [[t /mapP[x xv ->] /mapP[u us ->]]|].
  by move: us; rewrite IH /= xv /= eqSS.
case: s => //= x s /andP[/andP[xv sv] ss]; exists [seq x :: s | s <- strings n].
  by apply/mapP; exists x.
by apply/mapP; exists s => //; rewrite IH sv -eqSS.
Qed.

Lemma strings_uniq n : uniq (strings n).
Proof.
elim: n => //= n; move: (strings n) => t ut; elim: (vs) vs_uniq => //= x l IHl /andP[xl ul].
rewrite cat_uniq map_inj_uniq ?ut //=; last by move=> s1 s2 [].
rewrite IHl // andbT; apply/hasPn => s /flattenP[t0 /mapP[y yl ->] /mapP[u _ ->]].
by apply/mapP => -[w _ [e _]]; rewrite -e yl in xl.
Qed.

Section Choose.
Variables (K L : nat) (c : seq V) (rr : seq V -> V -> R).
Hypothesis drr : forall x, is_dist vs (rr x).
Notation D := (drafts pd K.+1 L c).
Let D_wf : wf vs D. Proof. exact: drafts_wf. Qed.

(* A plan for the strings with the probabilities of R makes a selection. *)
Section Given.
Variable pl : seq (seq V) -> seq V -> R.
Hypothesis plr : is_plan vs (strings L) D id pl (pmass rr c).
Let pl0 ps s : 0 <= pl ps s. Proof. by case: plr. Qed.

Lemma plan_full ps : 0 < law vs D ps -> \sum_(s <- strings L) pl ps s = 1.
Proof.
move=> lps; have [_ _ pl1 plE] := plr.
have z : E vs D (fun ps => 1 - \sum_(s <- strings L) pl ps s) = 0.
  rewrite -E_sub (E_cst _ D_wf) E_sum big_seq.
  under eq_bigr => s sv do rewrite plE //.
  rewrite -big_seq strings_SS -[SS _ _ _](SS_eq (F := fun s => pmass rr c s * 1)); last by move=> s; rewrite mulr1.
  by rewrite SS_draft (E_cst _ (draft_wf drr L c)) subrr.
have nn qs : 0 <= 1 - \sum_(s <- strings L) pl qs s by rewrite subr_ge0.
by apply/esym/eqP; rewrite -subr_eq0 (E_eq0 D_wf nn z lps).
Qed.

Lemma choose_wf ps : wf vs (choose vs pl L ps).
Proof. by apply: wf_bind => //; apply: pick_wf => i; exact: pl0. Qed.

Lemma choose_lt ps : size ps = K.+1 -> always (fun k => k < K.+1)%N (choose vs pl L ps).
Proof.
move=> sk; apply: (always_bind (always_true _)) => i _ /=.
by rewrite sk /= ltnS geq_minr.
Qed.

Lemma chooseE ps F : 0 < law vs D ps ->
  E vs (choose vs pl L ps) (fun k => F (nth [::] ps k)) = \sum_(s <- strings L) pl ps s * F s.
Proof.
move=> lps; have [_ pls _ _] := plr.
set w := fun i => pl ps (nth [::] (strings L) i).
have sumw (G : seq V -> R) : csum (fun i => w i * G (nth [::] (strings L) i)) (size (strings L))
    = \sum_(s <- strings L) pl ps s * G s.
  by rewrite csumE (big_nth [::]).
have wl : is_law (size (strings L)) w.
  split=> [i|]; first exact: pl0.
  by rewrite csumE -(plan_full lps) (big_nth [::]).
rewrite E_bind (law_E vs _ wl) -sumw; apply: eq_csum => i iL /=; rewrite /w.
set s := nth _ _ _; case: (boolP (s \in ps)) => sp.
  congr (_ * F _); have ip : (index s ps < size ps)%N by rewrite index_mem.
  rewrite (minn_idPl _) ?nth_index //.
  by rewrite -ltnS (ltn_predK ip).
by rewrite pls ?mul0r // negb_and sp orbT.
Qed.

Theorem choose_law F :
  E vs D (fun ps => E vs (choose vs pl L ps) (fun k => F (nth [::] ps k))) = E vs (draft rr L c) F.
Proof.
have [_ _ _ plE] := plr.
rewrite (E_live D_wf (fun ps => @chooseE ps F)) E_sum -SS_draft -strings_SS.
rewrite big_seq [RHS]big_seq; apply: eq_bigr => s ss.
by rewrite E_scaler plE.
Qed.
End Given.

(* The condition, in terms of the programs. *)
Hypothesis rH : forall H : pred (seq V),
  E vs (draft pd L c) (fun s => (H s)%:R) ^+ K.+1 <= E vs (draft rr L c) (fun s => (H s)%:R).

Lemma drafts_all_pow k (H : pred (seq V)) :
  E vs (drafts pd k L c) (fun ps => (all H ps)%:R) = E vs (draft pd L c) (fun s => (H s)%:R) ^+ k.
Proof.
elim: k => [|k IH]; first by [].
rewrite drafts_S exprS -IH -E_scaler; apply: E_ext => s.
by rewrite -E_scale; apply: E_ext => ps /=; rewrite -mulnb natrM.
Qed.

Theorem selection_exists : exists sel : seq (seq V) -> prog nat,
  [/\ forall ps, wf vs (sel ps),
      forall ps, size ps = K.+1 -> always (fun k => k < K.+1)%N (sel ps)
    & forall F, E vs D (fun ps => E vs (sel ps) (fun k => F (nth [::] ps k))) = E vs (draft rr L c) F].
Proof.
have r0 s : 0 <= pmass rr c s by exact: pmass_ge0.
have [pl plr] : exists pl, is_plan vs (strings L) D id pl (pmass rr c).
  apply: plan_exists => // [|H]; first exact: strings_uniq.
  have -> : \sum_(s <- strings L) (H s)%:R * pmass rr c s = E vs (draft rr L c) (fun s => (H s)%:R).
    by rewrite strings_SS -SS_draft; apply: SS_eq => s _ _; rewrite mulrC.
  have cmp (m : prog (seq V)) : wf vs m ->
      E vs m (fun s => (H s)%:R) = 1 - E vs m (fun s => (predC H s)%:R).
    move=> wm; rewrite -[X in X - _](E_cst 1 wm) E_sub; apply: E_ext => s /=.
    by case: (H s); rewrite /= ?subr0 ?subrr.
  rewrite (cmp _ (draft_wf drr L c)) /offered.
  have -> : E vs D (fun ps => (has H ps)%:R) = 1 - E vs D (fun ps => (all (predC H) ps)%:R).
    rewrite -[X in X - _](E_cst 1 D_wf) E_sub; apply: E_ext => ps.
    by rewrite all_predC; case: (has H ps); rewrite /= ?subr0 ?subrr.
  by rewrite ler_add2l ler_opp2 drafts_all_pow.
exists (choose vs pl L); split.
- exact: (choose_wf plr).
- by move=> ps; exact: choose_lt.
- by move=> F; exact: (choose_law plr).
Qed.

(* Then "select, block-verify with R's rows" is a valid stateless verifier of K
   drafts that accepts what block verification with R accepts.                 *)
Theorem selection_attained : exists ver : kverifier R V,
  [/\ forall ps, wf vs (ver ps),
      forall ps, size ps = K.+1 -> all (fun s => size s == L) ps ->
        always (fun o => (o.1 < K.+1)%N && (o.2.1 <= L)%N) (ver ps),
      kvalid_at vs pd qt ver K.+1 L c,
      forall s, all (mem vs) s -> (0 < size s <= L)%N ->
        E vs (kjoint pd ver K.+1 L c) (fun a => (accepts s a)%:R) = pmass rr c s * wpath rr qt 1 c s
    & E vs (kjoint pd ver K.+1 L c) (fun a => (a.2.1)%:R) = wsum vs rr qt L c].
Proof.
have [sel [sw sl sE]] := selection_exists.
pose ver := select_block vs qt sel rr c.
have red F : E vs (kjoint pd ver K.+1 L c) F = E vs (joint rr (block_verifier vs rr qt c) L c) F.
  rewrite /kjoint /joint E_bind [RHS]E_bind -sE; apply: E_ext => ps; rewrite !E_bind; apply: E_ext => k.
  by rewrite !E_bind.
exists ver; split.
- move=> ps; apply: wf_bind => // k; apply: wf_bind => //.
  apply: wf_bind => [|[[c' w'] last]]; first by apply: (blk_scan_wf drr dqt); rewrite lexx ler01.
  by split=> //; case: last; [exact: dqt | exact: (bres_dist rr dqt)].
- move=> ps sk sL; apply: (always_bind (sl ps sk)) => k kK.
  have /eqP xL : size (nth [::] ps k) == L by apply: (all_nthP [::] sL); rewrite sk.
  apply: (always_bind (P := fun o : nat * V => (o.1 <= L)%N)) => [|o oL /=]; last by rewrite kK oL.
  set xs := nth _ _ _ in xL *.
  apply: (always_bind (blk_scan_size vs rr qt 1 (leqnn (size c + size xs)) (leq_addr (size xs) (size c))
    (b := (c, 1, xs == [::])) (leqnn (size c)))) => [[[c' w'] last]] /= /andP[_ c'k] _.
  by rewrite leq_subLR -xL.
- by move=> f; rewrite red; exact: (block_verifier_valid drr dqt).
- by move=> s sv sL; rewrite red; exact: (block_accepts vs_uniq drr dqt).
rewrite red -(block_tau drr dqt) /joint E_bind [RHS]E_bind; apply: (E_always _ (draft_size rr L c)) => xs sx.
rewrite E_bind /block_verifier E_bind.
apply: (E_always _ (@blk_scan_geq _ _ vs rr qt c 1 xs (c, 1, xs == [::]) (leqnn _))) => [[[c' w'] last]] /= cc'.
rewrite sumfE -big_distrl /= natrB //; case: last {cc'} => /=; first by rewrite (dqt _).2 mul1r.
by rewrite (bres_dist rr dqt w' c').2 mul1r.
Qed.
End Choose.

(* The stateless optimum of K i.i.d. drafts: nothing valid accepts more than block
   verification with some law R, R(H) >= p(H)^K, and every such R is attained.  *)
Definition dominates K L c (rr : seq V -> V -> R) : Prop := forall H : pred (seq V),
  E vs (draft pd L c) (fun s => (H s)%:R) ^+ K <= E vs (draft rr L c) (fun s => (H s)%:R).

Theorem stateless_optimum K L c :
  (forall ver : kverifier R V, (forall ps, wf vs (ver ps)) ->
     (forall ps, size ps = K.+1 -> all (fun s => size s == L) ps ->
        always (fun o => (o.1 < K.+1)%N && (o.2.1 <= L)%N) (ver ps)) ->
     kvalid_at vs pd qt ver K.+1 L c ->
     exists rr, [/\ forall x, is_dist vs (rr x), dominates K.+1 L c rr
       & E vs (kjoint pd ver K.+1 L c) (fun a => (a.2.1)%:R) <= wsum vs rr qt L c])
  /\ (forall rr, (forall x, is_dist vs (rr x)) -> dominates K.+1 L c rr ->
     exists ver : kverifier R V, [/\ forall ps, wf vs (ver ps),
       forall ps, size ps = K.+1 -> all (fun s => size s == L) ps ->
         always (fun o => (o.1 < K.+1)%N && (o.2.1 <= L)%N) (ver ps),
       kvalid_at vs pd qt ver K.+1 L c
       & E vs (kjoint pd ver K.+1 L c) (fun a => (a.2.1)%:R) = wsum vs rr qt L c]).
Proof.
split=> [ver wv lv vv|rr drr rH].
  have [rr [d1 _ d3 _ d5]] := selection_bound vs_uniq dpd dqt wv lv vv.
  by exists rr.
by have [ver [v1 v1' v2 _ v4]] := selection_attained drr rH; exists ver.
Qed.
End SelExist.

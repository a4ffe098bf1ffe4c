(* Every law R of paths with R(H) >= p(H)^K for all H is the law of one of K i.i.d. drafts,
   suitably selected; so the stateless optimum of K drafts is the best E[tau] of block
   verification over such R, and the full optimum the best sum of min(R, q). *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity block selection scan spectr_gbv
   greedy_block selection_plan.
From Draftproof.theorems Require Import maximal block running block_optimal paths scan
   expected_length greedy_block greedy_block_optimal selection selection_optimal drift flow plan.

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
  rewrite -big_seq strings_SS -[SS _ _ _](SS_eq (F := fun s => pmass rr c s * 1)); last by move=> s;
    rewrite mulr1.
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
    & forall F, E vs D (fun ps => E vs (sel ps) (fun k => F (nth [::] ps k)))
      = E vs (draft rr L c) F].
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
  rewrite /kjoint /joint E_bind [RHS]E_bind -sE; apply: E_ext => ps; rewrite !E_bind;
    apply: E_ext => k.
  by rewrite !E_bind.
exists ver; split.
- move=> ps; apply: wf_bind => // k; apply: wf_bind => //.
  apply: wf_bind => [|[[c' w'] last]]; first by apply: (blk_scan_wf drr dqt); rewrite lexx ler01.
  by split=> //; case: last; [exact: dqt | exact: (bres_dist rr dqt)].
- move=> ps sk sL; apply: (always_bind (sl ps sk)) => k kK.
  have /eqP xL : size (nth [::] ps k) == L by apply: (all_nthP [::] sL); rewrite sk.
  apply: (always_bind (P := fun o : nat * V => (o.1 <= L)%N)) => [|o oL /=]; last by rewrite kK oL.
  set xs := nth _ _ _ in xL *.
  apply: (always_bind (blk_scan_size vs rr qt 1 (leqnn (size c + size xs))
    (leq_addr (size xs) (size c))
    (b := (c, 1, xs == [::])) (leqnn (size c)))) => [[[c' w'] last]] /= /andP[_ c'k] _.
  by rewrite leq_subLR -xL.
- by move=> f; rewrite red; exact: (block_verifier_valid drr dqt).
- by move=> s sv sL; rewrite red; exact: (block_accepts vs_uniq drr dqt).
rewrite red -(block_tau drr dqt) /joint E_bind [RHS]E_bind;
  apply: (E_always _ (draft_size rr L c)) => xs sx.
rewrite E_bind /block_verifier E_bind.
apply: (E_always _ (@blk_scan_geq _ _ vs rr qt c 1 xs (c, 1, xs == [::]) (leqnn _))) =>
  [[[c' w'] last]] /= cc'.
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

(* --- The full optimum: any coupling of the drafts with the text ------------------------------- *)
(* The best over the laws R of sum_i sum_x min(R(x), q(x)). *)
Notation shared D rr L c := (\sum_(0 <= i < L) SS vs i.+1 (fun s =>
  Order.min (pmass rr c s) (pmass D c s))).

(* Any joint law of the K drafts, the number of one of them, and the target text. *)
Theorem full_bound K L L' c (D : seq V -> V -> R) (m : prog (seq (seq V) * (nat * seq V))) :
  (forall x, is_dist vs (D x)) -> (L <= L')%N -> wf vs m -> always (fun o => o.2.1 < K.+1)%N m ->
  (forall F, E vs m (fun o => F o.1) = E vs (drafts pd K.+1 L c) F) ->
  (forall f, E vs m (fun o => f o.2.2) = E vs (generate D L' c) f) ->
  exists rr, [/\ forall x, is_dist vs (rr x), dominates K.+1 L c rr
    & E vs m (fun o => overlap R L c (nth [::] o.1 o.2.1, o.2.2)) <= shared D rr L c].
Proof.
move=> dD LL wm km mX mY.
have [y0 y0v] : exists y, y \in vs.
  have [_] := dpd [::]; case: (vs) => [|y s]; last by exists y; rewrite inE eqxx.
  by rewrite big_nil => /eqP; rewrite eq_sym oner_eq0.
pose ok (s : seq V) := all (mem vs) s && (size s == L).
pose path (o : seq (seq V) * (nat * seq V)) := let s :=
  nth [::] o.1 o.2.1 in if ok s then s else nseq L y0.
have ok_path o : ok (path o).
  rewrite /path; case: ifP => // _; rewrite /ok size_nseq eqxx andbT all_nseq /= y0v.
  by rewrite orbT.
pose good (ps : seq (seq V)) := all ok ps && (size ps == K.+1).
have pathE o : good o.1 -> (o.2.1 < K.+1)%N -> path o = nth [::] o.1 o.2.1.
  by case/andP=> /(all_nthP [::]) ao /eqP sz ko; rewrite /path ao ?sz.
(* almost surely the drafts are good *)
have surely (F G : seq (seq V) * (nat * seq V) -> R) :
    (forall o, good o.1 -> (o.2.1 < K.+1)%N -> F o = G o) -> E vs m F = E vs m G.
  move=> FG; have z : E vs m (fun o => (~~ good o.1)%:R) = 0.
    rewrite (mX (fun ps => (~~ good ps)%:R)) -[RHS](E_0 vs (drafts pd K.+1 L c)).
    by apply: drafts_in => ps pv pK; rewrite /good pv pK eqxx.
  apply/eqP; rewrite -subr_eq0 E_sub -normr_le0.
  apply: le_trans (E_norm _ wm) _.
  have -> : E vs m (fun o => `|F o - G o|) = E vs m (fun o => (~~ good o.1)%:R * `|F o - G o|).
    by apply: (E_always _ km) => o ko; case: (boolP (good o.1)) => go;
      rewrite ?mul1r // FG // subrr normr0 mulr0.
  rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite -[RHS](E_0 vs m).
  apply: (E_live wm) => o lo; case: (boolP (good o.1)) => go; rewrite ?mul0r //.
  have := E_eq0 wm (fun o => ler0n R (~~ good o.1)) z lo; rewrite go /= => /eqP.
  by rewrite oner_eq0.
pose m1 : prog (seq V * (nat * V)) := bind m (fun o => Ret (path o, (0%N, y0))).
have m1E f : E vs m1 f = E vs m (fun o => f (path o, (0%N, y0))) by rewrite E_bind.
have w1 : wf vs m1 by exact: wf_bind.
have l1 : always (fun a => (a.2.1 <= L)%N && (size a.1 == L)) m1.
  apply: (always_bind (always_true _)) => o _ /=.
  by case/andP: (ok_path o).
have i1 f g : (forall a : seq V * (nat * V), all (mem vs) a.1 -> size a.1 = L -> f a = g a) ->
  E vs m1 f = E vs m1 g.
  by move=> fg; rewrite !m1E; apply: E_ext => o; case/andP: (ok_path o) => pv /eqP pL; apply: fg.
have R1 := chosen_law vs_uniq pd c w1 l1 i1.
exists (crow vs pd L c m1); split.
- by move=> x; exact: crow_dist.
- move=> H; rewrite -R1 m1E -drafts_all_pow -mX.
  rewrite (surely _ (fun o => (all H o.1)%:R * (good o.1)%:R)) => [|o go _];
    last by rewrite go mulr1.
  apply: (E_le wm km) => o ko; case: (boolP (good o.1)) => go; last by rewrite mulr0 ler0n.
  rewrite mulr1 pathE // ler_nat; case: (boolP (all H o.1)) => // /(all_nthP [::]) ->//.
  by case/andP: go => _ /eqP->.
rewrite (surely _ (fun o => overlap R L c (path o, o.2.2))); last by move=> o go ko; rewrite pathE.
pose m2 := bind m (fun o => Ret (path o, o.2.2)).
have m2E f : E vs m2 f = E vs m (fun o => f (path o, o.2.2)) by rewrite E_bind.
rewrite -m2E; apply: (tau_coupling_bound (crow_dist vs_uniq dpd c w1 i1) dD vs_uniq LL).
- exact: wf_bind.
- by move=> f; rewrite m2E -R1 m1E.
- by move=> f; rewrite m2E mY.
Qed.

(* ... and every such value is attained: select by the plan, then greedy block verification with the
   rows of R, carry included, is lossless and has that E[tau].                                    *)
Theorem full_attained K L c rr : (forall x, is_dist vs (rr x)) -> dominates K.+1 L c rr ->
  exists sel : seq (seq V) -> prog nat, (forall ps, wf vs (sel ps)) /\
  forall D : seq V -> V -> R, (forall x, is_dist vs (D x)) ->
  let run := bind (drafts pd K.+1 L c) (fun ps => bind (sel ps) (fun k =>
    scan (joint_ratio rr D) (greedy_bias vs rr D) c 1 (nth [::] ps k) None)) in
  (forall f, E vs (bind (bind run (greedy_block_out vs rr L D c)) (fun o =>
    fill o.2 (size c + L.+1)%N o.1)) f
             = E vs (generate D L.+1 c) f)
  /\ E vs run (tau_of c) = shared D rr L c.
Proof.
move=> drr rH; have [sel [sw _ sE]] := selection_exists drr rH.
exists sel; split=> // D dD run.
have runE F : E vs run F = E vs (greedy_block_mark vs rr L D c) F.
  rewrite /run E_bind [RHS]E_bind -sE; apply: E_ext => ps.
  by rewrite E_bind.
split=> [f|]; last by rewrite runE; exact: greedy_block_tau_min.
by rewrite E_bind E_bind runE -E_bind -E_bind; exact: (greedy_block_valid drr).
Qed.
End SelExist.

(* Different draft models for different drafts: SpecTr with recursive rejection and SpecTr-GBV of
   scale "unit" are lossless, whatever the models. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity kseq block scan spectr spectr_gbv
  contract several_models.
From Draftproof.theorems Require Import maximal kseq block running paths scan kseq_block spectr_gbv
  contract.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SeveralModels.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (model : nat -> seq V -> V -> R).
Hypothesis dmodel : forall k c, is_dist vs (model k c).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation model_drafts := (model_drafts model).
Notation Ev := (E vs).

Lemma model_drafts_wf ks m c : wf vs (model_drafts ks m c).
Proof.
elim: ks => //= k ks IH; apply: wf_bind => [|s]; first by apply: draft_wf; exact: dmodel.
exact: wf_bind.
Qed.

Lemma model_drafts_S k ks m c (F : seq (nat * seq V) -> R) :
  Ev (model_drafts (k :: ks) m c) F
  = Ev (draft (model k) m c) (fun s => Ev (model_drafts ks m c) (fun ps => F ((k, s) :: ps))).
Proof. by rewrite /= E_bind; apply: E_ext => s; rewrite E_bind. Qed.

Lemma model_drafts_tags ks m c :
  always (fun ps => [seq p.1 | p <- ps] = ks) (model_drafts ks m c).
Proof.
elim: ks => //= k ks IH; apply: (always_bind (always_true _)) => s _.
by apply: (always_bind IH) => ps /= ->.
Qed.

(* --- First the next tokens, then the rest ------------------------------------------------ *)
Fixpoint next_tokens (ks : seq nat) c : prog (seq (nat * V)) :=
  if ks is k :: ks' then
    Draw (model k c) (fun x => bind (next_tokens ks' c) (fun hs => Ret ((k, x) :: hs)))
  else Ret [::].
Fixpoint model_tails m c (hs : seq (nat * V)) : prog (seq (nat * seq V)) :=
  if hs is h :: hs' then
    bind (draft (model h.1) m (rcons c h.2)) (fun s =>
    bind (model_tails m c hs') (fun ps => Ret ((h.1, h.2 :: s) :: ps)))
  else Ret [::].
Definition going y (hs : seq (nat * V)) : seq nat := [seq h.1 | h <- hs & h.2 == y].

Lemma next_tokens_wf ks c : wf vs (next_tokens ks c).
Proof. by elim: ks => //= k ks IH; split=> // x; apply: wf_bind. Qed.

Lemma model_drafts_tails ks m c (F : seq (nat * seq V) -> R) :
  Ev (model_drafts ks m.+1 c) F = Ev (next_tokens ks c) (fun hs => Ev (model_tails m c hs) F).
Proof.
elim: ks F => [|k ks IH] F //; rewrite model_drafts_S !E_Draw; apply: eq_sum => x.
congr (_ * _); rewrite !E_bind.
transitivity (Ev (draft (model k) m (rcons c x)) (fun s => Ev (next_tokens ks c)
    (fun hs => Ev (model_tails m c hs) (fun ps => F ((k, x :: s) :: ps))))).
  by apply: E_ext => s; rewrite -IH.
rewrite E_comm; apply: E_ext => hs; rewrite [RHS]E_bind; apply: E_ext => s.
by rewrite E_bind.
Qed.

Lemma model_tails_heads m c hs : always (fun ps => model_heads ps = hs) (model_tails m c hs).
Proof.
elim: hs => //= -[k x] hs IH; apply: (always_bind (always_true _)) => s _.
by apply: (always_bind IH) => ps /= ->.
Qed.

Lemma model_tails_follow m c hs y (g : seq (nat * seq V) -> R) :
  Ev (model_tails m c hs) (fun ps => g (model_follow y ps))
  = Ev (model_drafts (going y hs) m (rcons c y)) g.
Proof.
elim: hs g => [|[k x] hs IH] g //; rewrite [LHS]/= E_bind /going /=.
case: (eqVneq x y) => [->|xy] /=.
  rewrite -/(model_drafts _ _ _) -[RHS]/(Ev (model_drafts (k :: going y hs) m (rcons c y)) g)
    model_drafts_S.
  apply: E_ext => s.
  by rewrite E_bind /= eqxx (IH (fun ps => g ((k, s) :: ps))).
rewrite -/(going y hs) -IH -[RHS](E_cst _ (draft_wf (dmodel k) m (rcons c x))).
by apply: E_ext => s; rewrite E_bind /= (negPf xy).
Qed.

Lemma model_through_E s ks m c (g : seq (nat * seq V) -> R) C :
  (forall ks', (size ks' <= size ks)%N -> Ev (model_drafts ks' m (c ++ s)) g = C) ->
  Ev (model_drafts ks (size s + m) c) (fun ps => g (model_through s ps)) = C.
Proof.
elim: s ks c => [|x s IH] ks c gC; first by rewrite -(gC ks) ?cats0.
rewrite [size (x :: s)]/= addSn model_drafts_tails.
have sz : always (fun hs => size hs = size ks) (next_tokens ks c).
  by elim: ks {gC} => //= k ks IHk y; apply: (always_bind IHk) => hs /= ->.
rewrite -[RHS](E_cst C (next_tokens_wf ks c)); apply: (E_always _ sz) => hs sh.
rewrite [LHS](model_tails_follow _ _ _ _ (fun ps => g (model_through s ps))); apply: IH => ks' sk.
rewrite cat_rcons gC // (leq_trans sk) // -sh /going size_map size_filter.
exact: count_size.
Qed.

(* --- SpecTr with recursive rejection ------------------------------------------------------- *)
Section Spectr.
Variable qt : chain.
Hypothesis dqt : forall c, is_dist vs (qt c).

Lemma model_rejection_exact ks c q f : is_dist vs q ->
  Ev (next_tokens ks c) (fun hs => Ev (model_rejection vs model c q hs) f) = \sum_(y <- vs) q y
    * f y.
Proof.
elim: ks q => [|k ks IH] q dq; first exact: sumfE.
rewrite -(maximal_law f (dmodel k c) dq) [LHS]E_Draw E_Draw; apply: eq_sum => x; congr (_ * _).
rewrite E_bind /= E_lin E_cst; last exact: next_tokens_wf.
by rewrite IH ?sumfE //; apply: res_dist.
Qed.

Theorem model_spectr_valid ks L : valid vs qt (model_spectr vs model qt ks L) L.
Proof.
move=> c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(Ev (model_spectr vs model qt ks L c) (Phi vs qt N f)) E_bind.
have -> : Ev (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have : (size c + L < N)%N by rewrite ltn_add2l.
move: N => N; elim: L ks c => [|m IH] ks c.
  rewrite addn0 => cN; rewrite -[RHS](E_cst _ (model_drafts_wf ks 0 c)).
  by apply: E_ext => ps; rewrite -[LHS]/(Ev (emit (qt c) c) (Phi vs qt N f)) emit_E -Phi_step.
move=> cN; have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite (Phi_step _ _ _ c'N).
rewrite -(model_rejection_exact ks c (fun y => Phi vs qt N f (rcons c y)) (dqt c)).
rewrite model_drafts_tails; apply: E_ext => hs.
pose G y ps' := Ev (if ps' == [::] then Ret (rcons c y)
   else model_spectr_walk vs model qt m (rcons c y) ps') (Phi vs qt N f).
transitivity (Ev (model_tails m c hs) (fun ps =>
    Ev (model_rejection vs model c (qt c) hs) (fun y => G y (model_follow y ps)))).
  apply: (E_always _ (model_tails_heads m c hs)) => ps <-.
  exact: (E_bind vs (model_rejection vs model c (qt c) (model_heads ps))).
rewrite E_comm; apply: E_ext => y; rewrite model_tails_follow.
have c'mN : (size (rcons c y) + m < N)%N by rewrite size_rcons addSnnS.
case: (going y hs) => [|k ks'] //.
rewrite -(IH (k :: ks') _ c'mN) /G; apply: (E_always _ (model_drafts_tags _ _ _)) => -[|p ps] //.
Qed.
End Spectr.

(* --- SpecTr with target match, tree match --------------------------------------------------- *)
Lemma model_drafts_mem ks m c (F G : seq (nat * seq V) -> R) :
  (forall ps, all (fun p => all (mem vs) p.2) ps -> F ps = G ps) ->
  Ev (model_drafts ks m c) F = Ev (model_drafts ks m c) G.
Proof.
have draft_mem k n x (H1 H2 : seq V -> R) : (forall s, all (mem vs) s -> H1 s = H2 s) ->
    Ev (draft (model k) n x) H1 = Ev (draft (model k) n x) H2.
  elim: n x H1 H2 => [|n IHn] x H1 H2 H12; first exact: H12.
  rewrite !E_Draw big_seq [RHS]big_seq; apply: eq_bigr => v vv; rewrite !E_bind; congr (_ * _).
  by apply: IHn => s sv; apply: H12; rewrite /= vv.
elim: ks F G => [|k ks IH] F G FG; first exact: FG.
rewrite !model_drafts_S; apply: draft_mem => s sv; apply: IH => ps pv.
by apply: FG; rewrite /= sv.
Qed.

Theorem model_match_valid qt ks L : uniq vs -> (forall c, is_dist vs (qt c)) ->
  valid vs qt (model_match vs model qt ks L) L.
Proof.
move=> vu dqt c f; rewrite E_bind /model_match E_bind.
rewrite -[RHS](E_cst _ (model_drafts_wf ks L c)); apply: model_drafts_mem => ps pv.
pose paths x := if x == c then [seq p.2 | p <- ps] else [::].
have pathsv x : all (all (mem vs)) (paths x).
  by rewrite /paths; case: ifP => // _; rewrite all_map.
have := tree_match_valid dqt L vu pathsv c f.
by rewrite E_bind /paths eqxx.
Qed.

(* --- SpecTr-GBV, scale "unit" -------------------------------------------------------------- *)
Lemma model_gbv_walk_E N f fuel ks c m (D : chain) : (size ks <= fuel)%N ->
  (forall x, is_dist vs (D x)) -> (size c + m).+1 = N -> (ks == [::]) || (0 < m)%N ->
  Ev (model_drafts ks m c) (fun ps => Ev (model_gbv_walk vs model fuel c m D ps)
    (fun o => Phi vs o.2 N f o.1)) = Phi vs D N f c.
Proof.
elim: fuel ks c m D => [|fuel IH] [|k ks] c m D // sk dD cN km.
- have c'N : (size c < N)%N by rewrite -cN ltnS leq_addr.
  by rewrite [RHS](Phi_step _ _ _ c'N) /= sumfE.
- have c'N : (size c < N)%N by rewrite -cN ltnS leq_addr.
  by rewrite [RHS](Phi_step _ _ _ c'N) /= sumfE.
case: m cN km => // m cN _; set e := (size c + m.+1)%N in cN.
have dk := dmodel k; set D' := gbv_chain vs (model k) D 1 1 c e.
have dD' x : is_dist vs (D' x) by apply: gchain_dist; rewrite ?ltr01 ?ler01.
rewrite model_drafts_S.
transitivity (Ev (draft (model k) m.+1 c) (fun xs =>
   Ev (scan (joint_ratio (model k) D) (gbv_bias vs (model k) D) c 1^-1 xs None)
     (fun o => if o is Some x then gJ vs (model k) D 1 1 c e f x else Phi vs D' N f c))).
  apply: (E_always _ (draft_size (model k) m.+1 c)) => xs sx.
  transitivity (Ev (model_drafts ks m.+1 c) (fun ps =>
     Ev (scan (joint_ratio (model k) D) (gbv_bias vs (model k) D) c 1 xs None) (fun o =>
       Ev (if o is Some (c', w, last) then
             model_gbv_walk vs model fuel c' (m.+1 - size (drop (size c) c'))%N D'
               (if last then [::] else model_through (drop (size c) c') ps)
           else model_gbv_walk vs model fuel c m.+1 D' ps) (fun o => Phi vs o.2 N f o.1)))).
    apply: E_ext => ps; rewrite [model_gbv_walk _ _ _ _ _ _ _]/= E_bind deepest_first_E.
    by apply: E_ext => -[[[c' w] last]|].
  rewrite E_comm invr1.
  have := scan_mark (joint_ratio (model k) D) (gbv_bias vs (model k) D) c 1 xs; rewrite sx => sm.
  apply: (E_always _ sm) => -[[[c' w] last]|_]; last by apply: IH; rewrite ?orbT.
  move=> [s [/= -> _ /andP[s0 sm'] ->]]; rewrite drop_size_cat //.
  rewrite /gJ /= -/D' -cN.
  have cN' : (size (c ++ s) + (m.+1 - size s)).+1 = N by rewrite size_cat -addnA subnKC.
  case: eqP => [sL|/eqP sL].
    rewrite (E_cst _ (model_drafts_wf ks m.+1 c)) cN.
    by rewrite -(IH [::] (c ++ s) (m.+1 - size s)%N D').
  have lt : (0 < m.+1 - size s)%N by rewrite subn_gt0 ltn_neqAle sL sm'.
  rewrite -[X in model_drafts ks X c](subnKC sm') cN.
  apply: (model_through_E (g := fun ps =>
    Ev (model_gbv_walk vs model fuel (c ++ s) (m.+1 - size s)%N D' ps)
     (fun o => Phi vs o.2 N f o.1))) => ks' sk'.
  by apply: IH; rewrite ?lt ?orbT // (leq_trans sk').
rewrite (scan_node dk (D := D) 1 f dD ltr01 _ (erefl e)) -cN.
have := node_E dk f dD ltr01 ler01 (lexx 1) (erefl e); rewrite !mul1r => <-.
by [].
Qed.

Theorem model_gbv_valid ks L : valid_carry vs (model_gbv vs model ks L) L.
Proof.
move=> D c f dD; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(Ev (model_gbv vs model ks L D c) (fun o => Phi vs o.2 N f o.1)).
have -> : Ev (generate D L.+1 c) f = Phi vs D N f c by rewrite /Phi /fill addKn.
rewrite E_bind; apply: model_gbv_walk_E => //; first by rewrite /N addnS.
by case: (L) => [|l]; rewrite ?eqxx ?orbT.
Qed.
End SeveralModels.

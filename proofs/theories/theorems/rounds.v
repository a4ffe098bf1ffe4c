(* The several-draft and stateful schemes can be run, make progress, and so
   generate exactly, round after round, carries included.                     *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds target_match spectr scan walk kseq_block spectr_gbv greedy_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode
   running paths spectr scan walk kseq_block spectr_gbv greedy_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------------ *)
Section Rounds.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation dist := (is_dist vs).

(* One round adds 1 to L+1 tokens; the carry is a chain of distributions and is
   the old chain from depth |c| + L on.                                        *)
Definition good_carry (ver : chain -> seq V -> prog (seq V * chain)) L : Prop :=
  forall D c, (forall x, dist (D x)) ->
  always (fun o => [/\ (size c < size o.1 <= size c + L.+1)%N, forall x, dist (o.2 x)
    & forall x, (size c + L <= size x)%N -> o.2 x = D x]) (ver D c).

(* Two chains that agree from depth n on give the same future there. *)
Lemma T_agree (D1 D2 : chain) N f c : (forall x, (size c <= size x)%N -> D1 x = D2 x) ->
  T vs D1 N f c = T vs D2 N f c.
Proof.
rewrite /T; move: (N - size c)%N => n; elim: n c => //= n IH c D12.
rewrite !sumfE D12 //; apply: eq_sum => x; rewrite IH // => y; rewrite size_rcons => cy.
by apply: D12; exact: ltnW.
Qed.

Theorem rounds_exact ver L fuel N (D : chain) c f :
  valid_carry vs ver L -> good_carry ver L -> (forall x, dist (D x)) ->
  (N <= size c + fuel)%N -> (size c <= N)%N ->
  E vs (rounds ver fuel N D c) f = E vs (generate D (N - size c) c) f.
Proof.
move=> vv gv dD Nf cN.
have -> : E vs (generate D (N - size c) c) f = T vs D N f c.
  by apply: E_gen => c'; rewrite subnKC // => sc _; rewrite take_oversize ?sc.
elim: fuel D c dD Nf {cN} => [|fuel IH] D c dD Nf /=.
  move: Nf; rewrite addn0 => Nc; rewrite Nc /T.
  by have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
case: leqP => [Nc|cN].
  rewrite /T; by have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
rewrite E_bind.
have -> : E vs (ver D c) (fun o => E vs (rounds ver fuel N o.2 o.1) f)
    = E vs (ver D c) (fun o => T vs o.2 N f o.1).
  apply: (E_always _ (gv D c dD)) => o [/andP[co _] dO _]; apply: IH => //.
  by apply: leq_trans Nf _; rewrite addnS -addSn leq_add2r.
set M := (size c + L.+1)%N.
have vT g : E vs (ver D c) (fun o => T vs o.2 M g o.1) = T vs D M g c.
  by have := vv D c (fun s => g (take M s)) dD; rewrite E_bind /T /fill -/M => ->; rewrite addKn.
have [NM|MN] := leqP N M.
  rewrite (T_le dD f c NM) -vT; apply: (E_always _ (gv D c dD)) => o [_ dO _].
  exact: T_le.
rewrite (T_ge vs D f (leq_addr _ _) (ltnW MN)) -vT.
apply: (E_always _ (gv D c dD)) => o [/andP[_ oM] dO oD].
rewrite (T_ge vs o.2 f oM (ltnW MN)) /T.
apply: E_gen => s; rewrite subnKC // => ss _.
apply: T_agree => x; rewrite take_oversize ?ss // => sx; apply: oD.
by apply: leq_trans sx; rewrite /M addnS.
Qed.
End Rounds.

(* --- The schemes ----------------------------------------------------------------------- *)
Section Schemes.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypothesis dpd : forall c, is_dist vs (pd c).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation dist := (is_dist vs).

(* --- SpecTr ------------------------------------------------------------------- *)
Section Spectr.
Variables (qt : chain) (node : seq V -> seq V -> prog (bool * V)).

Lemma spectr_kept_progress K L : progress (spectr_kept pd qt node K L) L.
Proof.
move=> c; apply: (always_bind (always_true _)) => ps _.
elim: L c ps => [|m IH] c ps /=; first by move=> y; rewrite size_rcons addn1 !leqnn.
apply: (always_bind (always_true _)) => -[[] y] _ /=; last by rewrite size_rcons leqnn addnS ltnS leq_addr.
move: (IH (rcons c y) (follow y ps)); move: (spectr_kept_walk _ _ _ _ _) => w.
elim: w => [c'|r t IHt e IHe [? ?]|d k IHk Pk z] /=.
- by rewrite size_rcons addSnnS => /andP[/ltnW-> ->].
- by split; [exact: IHt | exact: IHe].
- exact: IHk.
Qed.
End Spectr.

Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Hypothesis rok : rho_ok vs rho.

(* --- K-SEQ block verification -------------------------------------------------- *)
Section KB.
Variables (qt : chain) (ext : bool).
Hypothesis dqt : forall c, dist (qt c).

Lemma kblock_safe K L c : let m := kseq_block vs pd qt rho ext K L c in
  wf vs m /\ always (fun c' => size c < size c' <= size c + L.+1)%N m.
Proof.
set N := (size c + L).+1; set P := fun c' : seq V => _.
pose W ps := let ps := if L is 0 then [::] else ps in
  walk (kseq_block_test vs pd qt rho) (@kseq_block_prefix R V) snd (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho) ext
       (size ps) (c, L, qt c, size ps) ps.
suff safe ps : sized L ps -> wf vs (W ps) /\ always P (W ps).
  split; first by apply: (wf_bindP (drafts_wf dpd K L c) (drafts_sized pd K L c)) => ps /safe [].
  by apply: (always_bind (drafts_sized pd K L c)) => ps /safe [].
move=> sps; set ps' := if L is 0 then [::] else ps.
have sps' : sized L ps' by rewrite /ps'; case: (L) sps.
apply: (@walk_safe R V vs _ _ _ (kseq_block_test vs pd qt rho) (@kseq_block_prefix R V) snd (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho)
  ext P (fun st => st.1.1.2) (fun st => kok vs N st /\ (size c <= size st.1.1.1)%N)
  (fun st => mark_at (block_weight pd (row_at qt st.1.1.1 st.1.2)) st.1.1.1 (kseq_block_scale pd rho st)^-1 st.1.1.2)) => //.
- move=> [[[c1 m] T] n] [[dT c1N] cc1]; have [r0 rv] := rok n (dpd c1) dT.
  split; first by apply: emit_wf; exact: kres_dist.
  by move=> y; rewrite /P /= size_rcons ltnS cc1 addnS ltnS; move: c1N => [<-]; rewrite leq_addr.
- move=> [[[c1 m] T] n] [[c' w'] last] k [[dT c1N] cc1] [s [/= -> _ /andP[s0 sm] ->]].
  rewrite /kseq_block_prefix /= drop_size_cat // subnKC //; split=> //; split; last by rewrite size_cat (leq_trans cc1) ?leq_addr.
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

(* N tokens by repeated K-SEQ block verification have exactly the target law. *)
Theorem kseq_block_decode_exact K L N c f : (size c <= N)%N ->
  E vs (decode (kseq_block vs pd qt rho ext K L) (N - size c) N c) f
  = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (L := L) _ _ _ cN); last by rewrite subnKC.
  exact: kseq_block_valid.
by move=> c'; have [] := kblock_safe K L c'.
Qed.

Theorem spectr_decode_exact K L N c f : (size c <= N)%N ->
  E vs (decode (spectr_kept pd qt (node_kseq vs pd qt rho) K L) (N - size c) N c) f
  = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (L := L) _ _ _ cN); last by rewrite subnKC.
  exact: spectr_kseq_valid.
exact: spectr_kept_progress.
Qed.
End KB.

(* --- SpecTr-GBV ------------------------------------------------------------------ *)
Lemma ghac01 (D : chain) w c l : (forall x, dist (D x)) -> 0 <= w -> 0 <= gbv_bias vs pd D w c l <= 1.
Proof.
move=> dD w0; have m01 : 0 <= Order.min 1 w <= 1 by rewrite le_minr ler01 w0 le_minl lexx.
case: l => //=; rewrite gsumE; case: eqVneq => [_|Mn]; first by rewrite ler01 lexx.
have Mw := msum_le dpd dD c w0; case/andP: m01 => _ m1.
have M1 : 0 < 1 - msum vs pd D w c by rewrite lt_def Mn subr_ge0 (le_trans Mw).
by rewrite divr_ge0 ?subr_ge0 ?(le_trans Mw) // ler_pdivr_mulr // mul1r ler_sub.
Qed.

Section GB.
Variables (unit ext : bool).

Lemma gbv_safe K L (D : chain) c : (forall x, dist (D x)) ->
  let m := spectr_gbv vs pd rho unit ext K L D c in
  wf vs m /\ always (fun o => [/\ (size c < size o.1 <= size c + L.+1)%N, forall x, dist (o.2 x)
    & forall x, (size c + L <= size x)%N -> o.2 x = D x]) m.
Proof.
move=> dD; set N := (size c + L).+1; set P := fun o : seq V * chain => _.
pose W ps := let ps := if L is 0 then [::] else ps in
  walk (gbv_test vs pd rho unit) (@gbv_prefix R V) snd (gbv_node vs pd rho unit) (gbv_rejected vs pd rho unit)
       (gbv_correction vs pd rho unit) ext (size ps) (c, L, D, size ps) ps.
suff safe ps : sized L ps -> wf vs (W ps) /\ always P (W ps).
  split; first by apply: (wf_bindP (drafts_wf dpd K L c) (drafts_sized pd K L c)) => ps /safe [].
  by apply: (always_bind (drafts_sized pd K L c)) => ps /safe [].
move=> sps; set ps' := if L is 0 then [::] else ps.
have sps' : sized L ps' by rewrite /ps'; case: (L) sps.
have gres_end st x : (size st.1.1.1 + st.1.1.2 <= size x)%N -> gbv_residual vs pd rho unit st x = st.1.2 x.
  by case: st => [[[c1 m] D1] n] /= e; rewrite /gbv_residual /gbv_chain ltnNge e.
apply: (@walk_safe R V vs _ _ _ (gbv_test vs pd rho unit) (@gbv_prefix R V) snd (gbv_node vs pd rho unit)
  (gbv_rejected vs pd rho unit) (gbv_correction vs pd rho unit) ext P (fun st => st.1.1.2)
  (fun st => [/\ gok vs N st, (size c <= size st.1.1.1)%N
     & forall x, (size c + L <= size x)%N -> st.1.2 x = D x])
  (fun st => mark_at (joint_ratio pd st.1.2) st.1.1.1 (gbv_scale pd rho unit st)^-1 st.1.1.2)) => //.
- move=> st [[dst stN] cst De]; have gd x : dist (gbv_residual vs pd rho unit st x) by exact: gres_dist.
  case: st dst stN cst De gd => [[[c1 m] D1] n] dD1 /= [c1N] cc1 De gd.
  set D' := if _ then _ else _; have dD' x : dist (D' x).
    by rewrite /D'; case: ifP => _; [exact: dD1 | exact: gd].
  split; first by split.
  move=> y; split=> //=; first by rewrite size_rcons ltnS cc1 addnS ltnS -c1N leq_addr.
  move=> x ex; rewrite /D' -De //; case: ifP => // _.
  by apply: (gres_end (c1, m, D1, n)); rewrite /= -ltnS c1N.
- move=> st [[c' w'] last] k [[dst stN] cst De] [s [/= -> _ /andP[s0 sm] ->]].
  rewrite /gbv_node /gbv_prefix /= drop_size_cat // subnKC //; split=> //; split.
  + split; first by move=> x; exact: gres_dist.
    by rewrite /= -stN size_cat -addnA subnKC.
  + by rewrite size_cat (leq_trans cst) ?leq_addr.
  + by move=> x ex; rewrite gres_end ?De //; move: stN => [->].
- move=> st [[dst stN] cst De]; rewrite /gbv_rejected; case: ifP => _; last by [].
  split=> //; split=> //; first by split=> // x; exact: gres_dist.
  by move=> x ex; rewrite /= gres_end ?De //; move: stN => [->].
- move=> st xs [[dst stN] cst De] sx; have [r0 _ _] := node_ok dpd rok unit dst.
  case: st dst stN cst De sx r0 => [[[c1 m] D1] n] dD1 stN cst De sx r0; split; last first.
    have := scan_mark (joint_ratio pd D1) (gbv_bias vs pd D1) c1 (gbv_scale pd rho unit (c1, m, D1, n))^-1 xs.
    by rewrite sx.
  apply: (@scan_wf R V vs _ _ (fun w => 0 <= w)) => //.
  + by move=> w c2 x; exact: gnxt_ok.
  + by move=> w c2 l; exact: ghac01.
  + by rewrite invr_ge0 ltW.
Qed.

(* N tokens by rounds of SpecTr-GBV, every carry handed to the next round, have
   exactly the target law.                                                    *)
Theorem spectr_gbv_rounds_exact K L N (D : chain) c f : (forall x, dist (D x)) -> (size c <= N)%N ->
  E vs (rounds (spectr_gbv vs pd rho unit ext K L) (N - size c) N D c) f
  = E vs (generate D (N - size c) c) f.
Proof.
move=> dD cN; apply: (rounds_exact f (L := L) _ _ dD _ cN); last by rewrite subnKC.
  exact: spectr_gbv_valid.
by move=> D' c' dD'; have [] := gbv_safe K L c' dD'.
Qed.
End GB.

(* --- Greedy block verification --------------------------------------------------- *)
Lemma greedy_safe L (D : chain) c : (forall x, dist (D x)) ->
  let m := greedy_block vs pd L D c in
  wf vs m /\ always (fun o => [/\ (size c < size o.1 <= size c + L.+1)%N, forall x, dist (o.2 x)
    & forall x, (size c + L <= size x)%N -> o.2 x = D x]) m.
Proof.
move=> dD.
have sm xs : size xs = L -> always (omark_at (joint_ratio pd D) c 1 L) (scan (joint_ratio pd D) (greedy_bias vs pd D) c 1 xs None).
  by move=> <-; exact: scan_mark.
have dr x : dist (greedy_carry vs pd D c (size c + L)%N x) by exact: rchain_dist.
split.
  apply: wf_bind => [|o]; last by split.
  apply: wf_bind => [|xs]; first exact: draft_wf.
  apply: (@scan_wf R V vs _ _ (fun w => 0 <= w)) => //.
  - by move=> w c2 x; exact: gnxt_ok.
  - move=> w c2 [] w0; last by rewrite (grhac_eq dpd dD) //; exact: ghac01.
    exact: (@ghac01 D w c2 true).
  - exact: ler01.
have am : always (omark_at (joint_ratio pd D) c 1 L) (greedy_block_mark vs pd L D c).
  by apply: (always_bind (draft_size pd L c)) => zs sz; exact: sm.
apply: (always_bind am) => o oo /= y; split=> //=; last by move=> x ex; rewrite /greedy_carry ltnNge ex.
case: o oo => [k [s [-> _ /andP[_ sL] _]]|_]; rewrite size_rcons ?size_cat ltnS ?leq_addr ?leqnn addnS ltnS.
  by rewrite leq_add2l.
by rewrite leq_addr.
Qed.

Theorem greedy_block_rounds_exact L N (D : chain) c f : (forall x, dist (D x)) -> (size c <= N)%N ->
  E vs (rounds (greedy_block vs pd L) (N - size c) N D c) f = E vs (generate D (N - size c) c) f.
Proof.
move=> dD cN; apply: (rounds_exact f (L := L) _ _ dD _ cN); last by rewrite subnKC.
  exact: greedy_block_valid.
by move=> D' c' dD'; have [] := greedy_safe L c' dD'.
Qed.
End Schemes.

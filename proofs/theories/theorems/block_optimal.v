(* Block verification is optimal: for every token prefix s, no valid verifier
   accepts s (or an extension of it) with larger probability.                *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity token_by_token block rounds.
From Draftproof.theorems Require Import maximal block decode running.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Optimal.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Hypothesis vs_uniq : uniq vs.
Variables (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Notation prog := (prog R V).
Notation draft := (draft pd).
Notation pmass := (pmass pd).

(* Any verifier: from the drafted block, how many tokens to keep and which
   token to add.  joint keeps the block beside the decision.                 *)
Definition verifier := seq V -> prog (nat * V).
Definition joint (ver : verifier) L c : prog (seq V * (nat * V)) :=
  bind (draft L c) (fun xs => bind (ver xs) (fun o => Ret (xs, o))).
Definition out c (a : seq V * (nat * V)) : seq V := c ++ rcons (take a.2.1 a.1) a.2.2.
Definition valid_at (ver : verifier) L c : Prop := forall f,
  E vs (joint ver L c) (fun a => Phi vs qt (size c + L.+1)%N f (out c a))
  = Phi vs qt (size c + L.+1)%N f c.
(* Probability that at least the prefix s is accepted. *)
Definition accepts (s : seq V) (a : seq V * (nat * V)) : bool :=
  (size s <= a.2.1)%N && (take (size s) a.1 == s).
Definition Acc ver L c s : R := E vs (joint ver L c) (fun a => (accepts s a)%:R).

Fixpoint wpath w c s : R :=
  if s is x :: s' then wpath (block_weight pd qt w c x) (rcons c x) s' else w.

Lemma pmass_ge0 c s : 0 <= pmass c s.
Proof. by elim: s c => [|x s IH] c /=; rewrite ?ler01 // mulr_ge0 ?(dpd c).1. Qed.

Lemma pmass_rcons c s x : pmass c (rcons s x) = pmass c s * pd (c ++ s) x.
Proof.
elim: s c => [|y s IH] c /=; first by rewrite cats0 mul1r mulr1.
by rewrite IH mulrA cat_rcons.
Qed.

Lemma wpath_rcons w c s x : wpath w c (rcons s x) = block_weight pd qt (wpath w c s) (c ++ s) x.
Proof. by elim: s c w => [|y s IH] c w /=; rewrite ?cats0 // IH cat_rcons. Qed.

Lemma wpath01 w c s : 0 <= w <= 1 -> 0 <= wpath w c s <= 1.
Proof.
by elim: s c w => //= x s IH c w w01; apply: IH; exact: (wnext01 dpd dqt).
Qed.

Lemma one01 : 0 <= (1 : R) <= 1. Proof. by rewrite lexx ler01. Qed.
Hint Resolve one01 : core.

Lemma pw_rcons c s x :
  pmass c (rcons s x) * wpath 1 c (rcons s x)
  = Order.min (pmass c (rcons s x)) (pmass c s * wpath 1 c s * qt (c ++ s) x).
Proof.
rewrite pmass_rcons wpath_rcons -mulrA (pd_wnext dpd dqt) ?wpath01 // /keep /wq.
by rewrite minr_pmulr ?pmass_ge0 // !mulrA.
Qed.

Lemma E_le A (P : A -> Prop) (m : prog A) f g : wf vs m -> always P m ->
  (forall a, P a -> f a <= g a) -> E vs m f <= E vs m g.
Proof.
move=> wm Pm fg; elim: m wm Pm => [a _ /fg //|r t IHt e IHe|d k IH] /=.
  move=> [/andP[r0 r1] [wt we]] [Pt Pe].
  by apply: ler_add; rewrite ler_wpmul2l ?IHt ?IHe ?subr_ge0.
move=> [[d0 _] wk] Pk; rewrite !sumfE; apply: ler_sum => x _.
by rewrite ler_wpmul2l ?IH.
Qed.

Lemma draft_prefix n c s : all (mem vs) s -> (size s <= n)%N ->
  E vs (draft n c) (fun xs => (take (size s) xs == s)%:R) = pmass c s.
Proof.
elim: s n c => [|x s IH] n c /=.
  by move=> _ _; rewrite -[RHS](E_cst 1 (draft_wf dpd n c)); apply: E_ext => xs; rewrite take0.
case: n => // n /andP[xv sv]; rewrite ltnS => sn; rewrite /= sumfE.
rewrite (eq_bigr (fun y => pd c y * pmass (rcons c y) s * (y == x)%:R)) => [|y _].
  by rewrite (sum_eq_mem vs_uniq (fun y => pd c y * pmass (rcons c y) s) xv).
rewrite -mulrA; congr (_ * _).
rewrite E_bind /= mulrC -(IH n (rcons c y) sv sn) -E_scale; apply: E_ext => xs /=.
by rewrite eqseq_cons; case: (y == x); rewrite ?mul1r ?mul0r.
Qed.

Section Fixed.
Variables (ver : verifier) (L : nat) (c : seq V).
Hypothesis wf_ver : forall xs, wf vs (ver xs).
Hypothesis le_ver : forall xs, always (fun o => o.1 <= size xs)%N (ver xs).
Hypothesis val : valid_at ver L c.
Let N := (size c + L.+1)%N.

Lemma joint_wf : wf vs (joint ver L c).
Proof. by apply: wf_bind => [|xs]; [exact: draft_wf | apply: wf_bind]. Qed.

Lemma joint_le : always (fun a => (a.2.1 <= L)%N && (size a.1 == L)) (joint ver L c).
Proof.
apply: (always_bind (draft_size pd L c)) => xs <-.
by apply: (always_bind (le_ver xs)) => o /= ->; rewrite eqxx.
Qed.

(* A function of the first k tokens is settled once k tokens are there. *)
Lemma Phi_take k (h : seq V -> R) t : (k <= size t)%N ->
  Phi vs qt N (fun u => h (take k u)) t = h (take k t).
Proof.
move=> kt; rewrite /Phi /fill -[RHS](E_cst _ (gen_wf (N - size t) t dqt)).
by apply: E_gen => u _ tu; congr h; rewrite -[in RHS]tu take_take.
Qed.

Section Step.
Variables (s : seq V) (x : V).
Hypotheses (xv : x \in vs) (sL : (size s < L)%N).
Let k := (size c + size s)%N.
Let h1 (u : seq V) : R := (u == c ++ rcons s x)%:R.
Let h0 (u : seq V) : R := (u == c ++ s)%:R.
Let f1 u := h1 (take k.+1 u).
Let f0 u := h0 (take k u).

Let kN : (k < N)%N. Proof. by rewrite /k /N ltn_add2l ltnW. Qed.

Lemma Phi_markov t : (size t <= k)%N ->
  Phi vs qt N f1 t = qt (c ++ s) x * Phi vs qt N f0 t.
Proof.
move: {2}(k - size t)%N (erefl (k - size t)%N) => d.
elim: d t => [|d IH] t dt tk.
  have st : size t = k by apply/eqP; rewrite eqn_leq tk -subn_eq0 dt.
  rewrite (@Phi_take k) ?st // Phi_step ?st //.
  rewrite (eq_bigr (fun y => qt (c ++ s) x * h0 t * (y == x)%:R)) => [|y _].
    by rewrite (sum_eq_mem vs_uniq (fun=> qt (c ++ s) x * h0 t) xv) /f0 -st take_size.
  rewrite (@Phi_take k.+1) ?size_rcons ?st // /h1 take_oversize ?size_rcons ?st //.
  rewrite -rcons_cat eqseq_rcons /h0; case: eqVneq => [->|_] /=; last by rewrite !mulr0 mul0r.
  by case: eqVneq => [->|_] /=; rewrite ?mulr1 ?mulr0.
have tk' : (size t < k)%N by rewrite -subn_gt0 dt.
rewrite !Phi_step ?(ltn_trans tk' kN) // big_distrr /=; apply: eq_sum => y.
by rewrite IH ?size_rcons // ?subnS ?dt // mulrCA.
Qed.

Lemma Acc_step : Acc ver L c (rcons s x) <= qt (c ++ s) x * Acc ver L c s.
Proof.
set q := qt _ _.
pose g (a : seq V * (nat * V)) : R := (size s <= a.2.1)%N%:R * f1 (out c a).
have takeout a j : (a.2.1 <= L)%N && (size a.1 == L) -> (j <= a.2.1)%N ->
    take (size c + j) (out c a) = c ++ take j a.1.
  case/andP=> aL /eqP sa ja; rewrite /out takeD take_size_cat // drop_size_cat //.
  by rewrite -cats1 takel_cat ?take_take // size_takel // sa.
have eqg : E vs (joint ver L c) g = q * Acc ver L c s.
  rewrite /Acc -E_scale; apply/eqP; rewrite -subr_eq0; apply/eqP.
  rewrite -[E _ _ g]mul1r -[X in _ - X]mul1r -mulNr -E_lin.
  have := val f1; rewrite Phi_markov; last by rewrite /k leq_addr.
  rewrite -(val f0) -/q -E_scale => /eqP; rewrite -subr_eq0 => /eqP eq0.
  rewrite -[RHS]eq0 -[X in _ = X - _]mul1r -[X in _ = _ - X]mul1r -mulNr -E_lin.
  apply: (E_always _ joint_le) => a aL; rewrite !mul1r !mulN1r /g /accepts.
  case: (leqP (size s) a.2.1) => [sa|sa] /=; last first.
    rewrite mul0r mulr0 subr0 Phi_markov ?subrr // /out size_cat size_rcons.
    by case/andP: aL => aL /eqP sz; rewrite size_takel ?sz // /k leq_add2l.
  have so : (k < size (out c a))%N.
    case/andP: aL => aL /eqP sz; rewrite /out size_cat size_rcons size_takel ?sz //.
    by rewrite /k addnS ltnS leq_add2l.
  rewrite (@Phi_take k.+1) // (@Phi_take k) ?(ltnW so) // mul1r.
  rewrite /h0 [take k _]takeout // eqseq_cat //; by rewrite eqxx.
rewrite -eqg /Acc; apply: (E_le joint_wf joint_le) => a aL.
rewrite /g /accepts size_rcons /f1 /h1.
case: (leqP (size s) a.2.1) => [sa|sa] /=; last first.
  by rewrite mul0r leqNgt ltnW // ltnS ltnW.
rewrite mul1r; case: ltnP => [sa'|_] /=; last exact: ler0n.
by rewrite /k -addnS takeout // eqseq_cat // eqxx.
Qed.
End Step.

Theorem Acc_bound s : all (mem vs) s -> (size s <= L)%N ->
  Acc ver L c s <= pmass c s * wpath 1 c s.
Proof.
elim/last_ind: s => [|s x IH].
  move=> _ _; rewrite /= mulr1 -(E_cst 1 joint_wf).
  by apply: (E_le joint_wf joint_le) => a _; rewrite /accepts take0 eqxx.
rewrite all_rcons size_rcons => /andP[xv sv] sL; rewrite pw_rcons le_minr.
apply/andP; split; last first.
  apply: (le_trans (Acc_step xv sL)); rewrite mulrC ler_wpmul2r ?(dqt _).1 //.
  by rewrite IH // ltnW.
rewrite -(@draft_prefix L) ?all_rcons ?xv ?size_rcons //.
have -> : E vs (draft L c) (fun xs => (take (size s).+1 xs == rcons s x)%:R)
  = E vs (joint ver L c) (fun a => (take (size s).+1 a.1 == rcons s x)%:R).
  by rewrite E_bind; apply: E_ext => xs; rewrite E_bind /= E_cst.
apply: (E_le joint_wf joint_le) => a _; rewrite /accepts size_rcons.
by case: (_ < _)%N => /=; [exact: lexx | exact: ler0n].
Qed.
End Fixed.

(* --- Block verification attains the bound. ----------------------------------- *)
Definition block_verifier c : verifier := fun xs =>
  bind (block_scan vs pd qt c 1 xs (c, 1, xs == [::])) (fun m =>
    let: (c', w, last) := m in
    Draw (if last then qt c' else block_residual vs pd qt w c')
         (fun y => Ret ((size c' - size c)%N, y))).

Definition mark_of c0 xs (m : mark R V) : Prop :=
  m.1.1 = c0 ++ take (size m.1.1 - size c0) xs /\ (size c0 <= size m.1.1 <= size c0 + size xs)%N.

Lemma blk_scan_mark c0 pre xs w b : mark_of c0 (pre ++ xs) b ->
  always (mark_of c0 (pre ++ xs)) (block_scan vs pd qt (c0 ++ pre) w xs b).
Proof.
elim: xs pre w b => [|x xs IH] pre w b //= mb; rewrite rcons_cat -cat_rcons.
have mx w1 last : mark_of c0 (rcons pre x ++ xs) (c0 ++ rcons pre x, w1, last).
  split=> /=; first by rewrite size_cat addKn take_size_cat.
  by rewrite !size_cat leq_addr leq_add2l leq_addr.
by split; apply: IH; [exact: mx | rewrite cat_rcons].
Qed.

Lemma blk_ver_E L c f : E vs (joint (block_verifier c) L c) (fun a => f (out c a))
  = E vs (block vs pd qt L c) f.
Proof.
rewrite !E_bind; apply: E_ext => xs; rewrite !E_bind.
have mb : mark_of c xs (c, 1, xs == [::]).
  by split; rewrite /= ?subnn ?take0 ?cats0 // leqnn leq_addr.
have := @blk_scan_mark c [::] xs 1 _ mb; rewrite cats0 /= => am.
apply: (E_always _ am) => [[[c' w'] last]] [/= mc _].
by rewrite !sumfE; apply: eq_sum => y; rewrite /out /= -rcons_cat -mc.
Qed.

Theorem block_verifier_valid L c : valid_at (block_verifier c) L c.
Proof.
move=> f; rewrite blk_ver_E; have := block_valid dpd dqt L c f.
by rewrite E_bind => ->; rewrite /Phi /fill addKn.
Qed.

Lemma scan_new n c w k xs0 b : 0 <= w <= 1 -> (k < size c)%N -> (size c <= size b.1.1)%N ->
  (size b.1.1 <= size c + n)%N ->
  E vs (draft n c) (fun xs => E vs (block_scan vs pd qt c w (xs0 ++ xs) b)
    (fun m => (k < size m.1.1)%N%:R)) = 1.
Proof.
move=> w01 kc cb bn; rewrite -[RHS](E_cst 1 (draft_wf dpd n c)).
apply: (E_always _ (draft_size pd n c)) => xs sx.
rewrite -[RHS](E_cst 1 (blk_scan_wf dpd dqt c (xs0 ++ xs) b w01)).
have bk : (size b.1.1 <= size c + size (xs0 ++ xs))%N.
  by apply: leq_trans bn _; rewrite leq_add2l size_cat sx leq_addl.
have am := blk_scan_size vs pd qt w (leqnn (size c + size (xs0 ++ xs))) bk cb.
by apply: (E_always _ am) => m /andP[cm _]; rewrite (leq_trans kc cm).
Qed.

Lemma scan_surv n c w b k : 0 <= w <= 1 -> (size b.1.1 <= k)%N -> (k <= size c)%N ->
  E vs (draft n.+1 c) (fun xs => E vs (block_scan vs pd qt c w xs b)
    (fun m => (k < size m.1.1)%N%:R)) = \sum_(x <- vs) keep pd qt w c x.
Proof.
elim: n c w b => [|n IH] c w b w01 bk kc; rewrite E_Draw; apply: eq_sum => x.
  rewrite /= size_rcons ltnS kc ltnNge bk /= mulr1 mulr0 addr0.
  exact: (pd_wnext dpd dqt).
rewrite -(pd_wnext dpd dqt c w01); congr (_ * _); rewrite E_bind.
set c' := rcons c x; set w' := block_weight pd qt w c x.
have w'01 : 0 <= w' <= 1 by exact: (wnext01 dpd dqt).
have kc' : (k < size c')%N by rewrite size_rcons ltnS.
transitivity (block_bias vs pd qt w' c' false * E vs (draft n.+1 c') (fun xs =>
      E vs (block_scan vs pd qt c' w' ([::] ++ xs) (c', w', false)) (fun m => (k < size m.1.1)%N%:R))
  + (1 - block_bias vs pd qt w' c' false) * E vs (draft n.+1 c') (fun xs =>
      E vs (block_scan vs pd qt c' w' xs b) (fun m => (k < size m.1.1)%N%:R))).
  rewrite -E_lin [LHS]E_Draw [RHS]E_Draw; apply: eq_sum => y; congr (_ * _).
  by rewrite !E_bind; apply: E_ext => s.
rewrite scan_new ?leq_addr // IH ?(ltnW kc') // mulr1.
rewrite mulrBl mul1r addrCA -[X in _ + (X - _)]mulr1 -mulrBr mulrC (hacc_repay pd dqt) //.
by rewrite (bsumE pd dqt) addrCA subrr addr0.
Qed.

Lemma blk_Acc_scan s n c w b : all (mem vs) s -> (0 < size s <= n)%N -> 0 <= w <= 1 ->
  (size b.1.1 <= size c)%N ->
  E vs (draft n c) (fun xs => E vs (block_scan vs pd qt c w xs b)
    (fun m => ((size c + size s <= size m.1.1)%N && (take (size s) xs == s))%:R))
  = pmass c s * wpath w c s.
Proof.
elim: s n c w b => [|x s IH] [|n] c w b //= /andP[xv sv]; rewrite ltnS => sn w01 bc.
rewrite sumfE; set c' := rcons c x; set w' := block_weight pd qt w c x.
have w'01 : 0 <= w' <= 1 by exact: (wnext01 dpd dqt).
rewrite (eq_bigr (fun y => pd c y * (pmass (rcons c y) s * wpath (block_weight pd qt w c y) (rcons c y) s)
   * (y == x)%:R)) => [|y _]; last first.
  rewrite -mulrA; congr (_ * _); rewrite E_bind.
  case: (eqVneq y x) => [->|yx]; last first.
    rewrite mulr0 -[RHS](E_0 vs (draft n (rcons c y))); apply: E_ext => xs.
    rewrite -[RHS](E_0 vs (block_scan vs pd qt c w (y :: xs) b)).
    rewrite -[LHS]/(E vs (block_scan vs pd qt c w (y :: xs) b) (fun m =>
      ((size c + (size s).+1 <= size m.1.1)%N && (y :: take (size s) xs == x :: s))%:R)).
    by apply: E_ext => m; rewrite eqseq_cons (negPf yx) andbF.
  rewrite mulr1 -/c' -/w'; case: s IH sv sn => [_ _ _|z s IH sv sn].
    rewrite /= mul1r.
    transitivity (E vs (draft n c') (fun xs => E vs (block_scan vs pd qt c w (x :: xs) b)
        (fun m => (size c < size m.1.1)%N%:R))).
      by apply: E_ext => xs /=; congr (_ * _ + _ * _); apply: E_ext => m;
         rewrite take0 eqxx andbT addn1.
    case: n => [|n].
      by rewrite /= size_rcons leqnn ltnNge bc mulr1 mulr0 addr0.
    transitivity (block_bias vs pd qt w' c' false * E vs (draft n.+1 c') (fun xs =>
          E vs (block_scan vs pd qt c' w' ([::] ++ xs) (c', w', false)) (fun m => (size c < size m.1.1)%N%:R))
      + (1 - block_bias vs pd qt w' c' false) * E vs (draft n.+1 c') (fun xs =>
          E vs (block_scan vs pd qt c' w' xs b) (fun m => (size c < size m.1.1)%N%:R))).
      rewrite -E_lin [LHS]E_Draw [RHS]E_Draw; apply: eq_sum => y'; congr (_ * _).
      by rewrite !E_bind; apply: E_ext.
    rewrite scan_new ?size_rcons ?leq_addr // scan_surv ?size_rcons // mulr1.
    rewrite mulrBl mul1r addrCA -[X in _ + (X - _)]mulr1 -mulrBr mulrC (hacc_repay pd dqt) //.
    by rewrite (bsumE pd dqt) addrCA subrr addr0.
  case: n sn => // n sn.
  transitivity (E vs (draft n.+1 c') (fun xs => E vs (block_scan vs pd qt c w (x :: xs) b)
      (fun m => ((size c' + size (z :: s) <= size m.1.1)%N && (take (size (z :: s)) xs == z :: s))%:R))).
    apply: E_ext => xs.
    rewrite -[LHS]/(E vs (block_scan vs pd qt c w (x :: xs) b) (fun m =>
      ((size c + (size (z :: s)).+1 <= size m.1.1)%N && (x :: take (size (z :: s)) xs == x :: z :: s))%:R)).
    by apply: E_ext => m; rewrite eqseq_cons eqxx size_rcons addSnnS.
  transitivity (block_bias vs pd qt w' c' false * E vs (draft n.+1 c') (fun xs =>
        E vs (block_scan vs pd qt c' w' xs (c', w', false))
          (fun m => ((size c' + size (z :: s) <= size m.1.1)%N && (take (size (z :: s)) xs == z :: s))%:R))
    + (1 - block_bias vs pd qt w' c' false) * E vs (draft n.+1 c') (fun xs =>
        E vs (block_scan vs pd qt c' w' xs b)
          (fun m => ((size c' + size (z :: s) <= size m.1.1)%N && (take (size (z :: s)) xs == z :: s))%:R))).
    rewrite -E_lin [LHS]E_Draw [RHS]E_Draw; apply: eq_sum => y'; congr (_ * _).
    by rewrite !E_bind; apply: E_ext.
  have bc' : (size b.1.1 <= size c')%N by rewrite size_rcons leqW.
  by rewrite !IH // -mulrDl addrC subrK mul1r.
by rewrite (sum_eq_mem vs_uniq (fun y => pd c y * (pmass (rcons c y) s *
      wpath (block_weight pd qt w c y) (rcons c y) s)) xv) mulrA.
Qed.

Lemma blk_scan_geq c w xs b : (size c <= size b.1.1)%N ->
  always (fun m : mark R V => size c <= size m.1.1)%N (block_scan vs pd qt c w xs b).
Proof.
move=> cb; have := @blk_scan_size _ _ vs pd qt c w xs b
  (maxn (size c + size xs) (size b.1.1)) (leq_maxl _ _) (leq_maxr _ _) cb.
move: (block_scan _ _ _ _ _ _ _) => m; elim: m => [m /andP[]|r t IHt e IHe [? ?]|d k IH Pk x] //=.
  by split; [exact: IHt | exact: IHe].
exact: IH.
Qed.

Theorem block_accepts L c s : all (mem vs) s -> (0 < size s <= L)%N ->
  Acc (block_verifier c) L c s = pmass c s * wpath 1 c s.
Proof.
move=> sv sL; rewrite -(@blk_Acc_scan s L c 1 (c, 1, (L == 0)%N)) //.
rewrite /Acc E_bind; apply: (E_always _ (draft_size pd L c)) => xs sx.
rewrite E_bind /block_verifier E_bind.
have -> : (xs == [::]) = (L == 0)%N by rewrite -sx size_eq0.
apply: (E_always _ (@blk_scan_geq c 1 xs (c, 1, (L == 0)%N) (leqnn _))) => [[[c' w'] last]] cc'.
rewrite /accepts /= sumfE -big_distrl /= leq_subRL //.
by case: (last) => {cc'} /=; [rewrite (dqt _).2 | rewrite (bres_dist pd dqt w' c').2]; rewrite mul1r.
Qed.

(* The two together: block verification is optimal, prefix by prefix. *)
Theorem block_optimal (ver : verifier) L c s :
  (forall xs, wf vs (ver xs)) -> (forall xs, always (fun o => o.1 <= size xs)%N (ver xs)) ->
  valid_at ver L c -> all (mem vs) s -> (0 < size s <= L)%N ->
  Acc ver L c s <= Acc (block_verifier c) L c s.
Proof.
move=> wv lv vv sv sL; rewrite block_accepts //; apply: Acc_bound => //.
by case/andP: sL.
Qed.
End Optimal.

(* Ranked block verification: exact for every coupling with the right column sums. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds scan selection ranked_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode
   running block_optimal paths scan expected_length selection.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
(* Block verification depends on the values of the rows only. *)
Lemma blk_rows (R : realFieldType) (V : eqType) (vs : seq V) (p1 p2 qt : seq V -> V -> R) L c f :
  (forall x v, p1 x v = p2 x v) ->
  E vs (block vs p1 qt L c) f = E vs (block vs p2 qt L c) f.
Proof.
move=> pp.
have bs w x : block_surplus vs p1 qt w x = block_surplus vs p2 qt w x.
  by rewrite /block_surplus !sumfE; apply: eq_sum => v; rewrite /excess pp.
have ha w x l : block_bias vs p1 qt w x l = block_bias vs p2 qt w x l by rewrite /block_bias bs.
have wn w x v : block_weight p1 qt w x v = block_weight p2 qt w x v by rewrite /block_weight /acc pp.
have em b : E vs (block_emit vs p1 qt b) f = E vs (block_emit vs p2 qt b) f.
  case: b => [[x w] []] //=; rewrite !sumfE; apply: eq_sum => v; congr (_ * _).
  by rewrite /block_residual bs /excess pp.
have sc xs x w b : E vs (bind (block_scan vs p1 qt x w xs b) (block_emit vs p1 qt)) f
    = E vs (bind (block_scan vs p2 qt x w xs b) (block_emit vs p2 qt)) f.
  elim: xs x w b => [|v xs IH] x w b /=; first exact: em.
  by rewrite !wn !ha !IH.
have dr g n x : E vs (draft p1 n x) g = E vs (draft p2 n x) g.
  elim: n x g => [|n IH] x g //; rewrite !E_Draw; apply: eq_sum => v.
  by rewrite pp !E_bind IH.
rewrite !E_bind dr; apply: E_ext => xs; exact: sc.
Qed.

Section Ranked.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Variables (J : nat) (pi0 : nat -> R) (post : seq V -> seq V -> nat -> R).
Hypothesis pi0_law : is_law J pi0.
Hypothesis post_law : forall c x, is_law J (post c x).
Hypothesis post_root : forall c l, (l < J)%N -> post c c l = pi0 l.
(* The column sums: the children's laws average to the node's law. *)
Hypothesis post_sum : forall c x l, (l < J)%N ->
  \sum_(v <- vs) pd x v * post c (rcons x v) l = post c x l.
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation label_weight := (label_weight J pi0 post).
Notation selected_row := (selected_row pd J pi0 post).
Notation labels := (labels J post).
Notation selected := (selected pd J post).
Notation ranked_block := (ranked_block vs pd qt J pi0 post).
Notation item L c := (pairs J (draft pd L c) (fun s => post c (c ++ s))).

(* --- Martingales along a drafted path ------------------------------------------- *)
Section Mart.
Variable g : seq V -> R.
Hypothesis gm : forall x, \sum_(v <- vs) pd x v * g (rcons x v) = g x.

Lemma mart_E n x : E vs (draft pd n x) (fun s => g (x ++ s)) = g x.
Proof.
elim: n x => [|n IH] x; first by rewrite /= cats0.
rewrite E_Draw -gm; apply: eq_sum => v; congr (_ * _); rewrite E_bind -IH.
by apply: E_ext => s; rewrite /= cat_rcons.
Qed.

Lemma mart_prefix (vs_uniq : uniq vs) n x s : all (mem vs) s -> (size s <= n)%N ->
  E vs (draft pd n x) (fun xs => (take (size s) xs == s)%:R * g (x ++ xs)) = pmass pd x s * g (x ++ s).
Proof.
elim: s n x => [|y s IH] n x.
  move=> _ _; rewrite cats0 /= mul1r -[RHS](mart_E n); apply: E_ext => xs.
  by rewrite take0 eqxx mul1r.
case: n => // n /andP[yv sv]; rewrite ltnS => sn; rewrite E_Draw.
rewrite (eq_bigr (fun v => pd x v * (pmass pd (rcons x v) s * g (rcons x v ++ s)) * (v == y)%:R)) => [|v _].
  rewrite (sum_eq_mem vs_uniq (fun v => pd x v * (pmass pd (rcons x v) s * g (rcons x v ++ s))) yv).
  by rewrite cat_rcons /= mulrA.
rewrite -mulrA; congr (_ * _); rewrite E_bind mulrC -(IH n) // -E_scale; apply: E_ext => xs.
by rewrite [in LHS]/= eqseq_cons cat_rcons; case: eqP; rewrite ?mul1r ?mul0r.
Qed.
End Mart.

Lemma sum_csum (d : V -> R) (F : V -> nat -> R) n :
  \sum_(v <- vs) d v * csum (F v) n = csum (fun l => \sum_(v <- vs) d v * F v l) n.
Proof.
elim: n => [|n IH] /=; first by rewrite big1 // => v _; rewrite mulr0.
by rewrite -IH -big_split; apply: eq_sum => v; rewrite mulrDr.
Qed.

Lemma post_ge0 c x l : 0 <= post c x l. Proof. exact: (post_law c x).1. Qed.

Lemma post_mart c n l : (l < J)%N -> E vs (draft pd n c) (fun s => post c (c ++ s) l) = pi0 l.
Proof.
move=> lJ; rewrite -(post_root c lJ).
by apply: (mart_E (g := fun x => post c x l)) => x; exact: post_sum.
Qed.

(* --- The joint law of path and label ------------------------------------------------ *)
Lemma item_wf L c : wf vs (item L c).
Proof.
apply: wf_bind => [|s]; first exact: draft_wf.
by apply: wf_bind => // ; apply: pick_wf; exact: post_ge0.
Qed.

(* The path of a labelled draft has law p. *)
Theorem path_law L c f : E vs (item L c) (fun a => f a.1) = E vs (draft pd L c) f.
Proof.
rewrite E_bind; apply: E_ext => s; rewrite E_bind /= E_cst //.
by apply: pick_wf; exact: post_ge0.
Qed.

(* P(the draft passes x = c ++ s, its label is l) = p(s) pi_x(l). *)
Theorem path_label (vs_uniq : uniq vs) L c s l : all (mem vs) s -> (size s <= L)%N -> (l < J)%N ->
  E vs (item L c) (fun a => ((take (size s) a.1 == s) && (a.2 == l))%:R)
  = pmass pd c s * post c (c ++ s) l.
Proof.
move=> sv sL lJ.
rewrite -(mart_prefix (g := fun x => post c x l) _ vs_uniq c sv sL); last by move=> x; exact: post_sum.
rewrite (pairs_E vs (draft pd L c) (fun s => post_law c (c ++ s))); apply: E_ext => xs.
rewrite -(csum_one (fun l => (take (size s) xs == s)%:R * post c (c ++ xs) l) lJ).
apply: eq_csum => k kJ; rewrite /= -mulnb natrM.
by move: _%:R _%:R (post _ _ _) => a b d; rng R.
Qed.

(* --- The weight T and the rows r ------------------------------------------------------ *)
Section Weight.
Variable K : nat.

Lemma Tw_ge0 c x : 0 <= label_weight K c x.
Proof.
apply: csum_ge0 => l; rewrite mulr_ge0 ?post_ge0 // boost_ge0 //.
by case: pi0_law.
Qed.

Lemma Tw_mart c x : \sum_(v <- vs) pd x v * label_weight K c (rcons x v) = label_weight K c x.
Proof.
rewrite sum_csum; apply: eq_csum => l lJ; rewrite -post_sum // big_distrl /=.
by apply: eq_sum => v; rewrite mulrA.
Qed.

Lemma rrow_dist c x : is_dist vs (selected_row K c x).
Proof.
rewrite /selected_row /Draftproof.programs.ranked_block.selected_row; split=> [v|].
  by case: ifP => _; rewrite ?(dpd x).1 // mulr_ge0 ?mulr_ge0 ?invr_ge0 ?Tw_ge0 ?(dpd x).1.
case: eqVneq => [_|Tn0]; first exact: (dpd x).2.
by rewrite -big_distrl /= Tw_mart divff.
Qed.

Lemma Tw_rrow c x v : v \in vs -> label_weight K c x * selected_row K c x v = pd x v * label_weight K c (rcons x v).
Proof.
move=> vv; rewrite /selected_row /Draftproof.programs.ranked_block.selected_row; case: eqVneq => [T0|Tn0]; last by rewrite mulrC divfK.
rewrite T0 mul0r; apply/esym; move: (Tw_mart c x); rewrite T0 => s0.
have nn y : 0 <= pd x y * label_weight K c (rcons x y) by rewrite mulr_ge0 ?Tw_ge0 ?(dpd x).1.
exact: (sum_seq_eq0 nn s0 vv).
Qed.

(* Change of measure. *)
Lemma draft_Tw n c x f : E vs (draft pd n x) (fun s => label_weight K c (x ++ s) * f s)
  = label_weight K c x * E vs (draft (selected_row K c) n x) f.
Proof.
elim: n x f => [|n IH] x f; first by rewrite /= cats0.
rewrite !E_Draw big_distrr /= big_seq [RHS]big_seq; apply: eq_bigr => v vv.
rewrite mulrA Tw_rrow // -mulrA; congr (_ * _); rewrite !E_bind -IH.
by apply: E_ext => s; rewrite /= cat_rcons.
Qed.

Lemma pmass_Tw c x s : all (mem vs) s ->
  label_weight K c x * pmass (selected_row K c) x s = pmass pd x s * label_weight K c (x ++ s).
Proof.
elim: s x => [|v s IH] x /=; first by rewrite cats0 mul1r mulr1.
case/andP=> vv sv; rewrite mulrA Tw_rrow // -mulrA IH // mulrA.
by rewrite cat_rcons.
Qed.
End Weight.

Lemma Tw_root K c : label_weight K.+1 c c = 1.
Proof. by rewrite -(boost_mean K pi0_law); apply: eq_csum => l lJ; rewrite post_root. Qed.

(* --- The law of the selected path -------------------------------------------------------- *)
Lemma drafts_labels K L c F :
  E vs (drafts pd K L c) (fun ps => E vs (labels c ps) F) = E vs (repeated (item L c) K) F.
Proof.
elim: K F => [|K IH] F //; rewrite drafts_S reps_S E_bind; apply: E_ext => s.
rewrite E_bind; under E_ext => ss do rewrite E_bind.
rewrite E_comm; apply: E_ext => l; rewrite [RHS]/= -IH; apply: E_ext => ss.
by rewrite E_bind.
Qed.

Lemma selected_E K L c F :
  E vs (selected K.+1 L c) F = E vs (select snd (item L c) K) (fun a => F a.1).
Proof.
rewrite E_bind; under E_ext => ps do rewrite E_bind.
rewrite drafts_labels reps_S [RHS]E_bind; apply: E_ext => a.
by rewrite [RHS]E_bind; apply: E_ext => xs.
Qed.

(* Statement 2: the selected path is a draft from the rows r. *)
Theorem selected_law K L c F :
  E vs (selected K.+1 L c) F = E vs (draft (selected_row K.+1 c) L c) F.
Proof.
rewrite selected_E (select_pairs (pi := pi0)) //; last by move=> l lJ; exact: post_mart.
rewrite -[RHS]mul1r -(Tw_root K c) -draft_Tw; apply: E_ext => s.
rewrite -/(label_weight K.+1 c (c ++ s)) mulrC -csumZ; apply: eq_csum => l lJ /=.
by move: (post _ _ _) (boost _ _ _) (F s) => a b d; rng R.
Qed.

(* R(x) = p(x) T_x; a context with T_x = 0 is never on the selected path. *)
Theorem selected_prefix (vs_uniq : uniq vs) K L c s : all (mem vs) s -> (size s <= L)%N ->
  E vs (selected K.+1 L c) (fun xs => (take (size s) xs == s)%:R) = pmass pd c s * label_weight K.+1 c (c ++ s).
Proof.
move=> sv sL; rewrite selected_law (draft_prefix vs_uniq (rrow_dist K.+1 c)) //.
by rewrite -pmass_Tw // Tw_root mul1r.
Qed.

Corollary dead_unreached (vs_uniq : uniq vs) K L c s : all (mem vs) s -> (size s <= L)%N ->
  label_weight K.+1 c (c ++ s) = 0 -> E vs (selected K.+1 L c) (fun xs => (take (size s) xs == s)%:R) = 0.
Proof. by move=> sv sL T0; rewrite selected_prefix // T0 mulr0. Qed.

(* The selected path is one of the drafts: R(H) >= p(H)^K for every set H.      *)
Theorem selected_ge K L c (H : pred (seq V)) :
  E vs (draft pd L c) (fun s => (H s)%:R) ^+ K.+1 <= E vs (selected K.+1 L c) (fun s => (H s)%:R).
Proof.
rewrite -(path_law L c (fun s => (H s)%:R)) selected_E.
have -> : E vs (item L c) (fun a => (H a.1)%:R) ^+ K.+1
    = E vs (item L c) (fun a => E vs (repeated (item L c) K) (fun r => (H a.1 && all (fun b => H b.1) r)%:R)).
  have aux k : E vs (item L c) (fun a => (H a.1)%:R) ^+ k
      = E vs (repeated (item L c) k) (fun r => (all (fun b => H b.1) r)%:R).
    elim: k => [|k IH]; first by [].
    rewrite reps_S exprS IH -E_scaler; apply: E_ext => a.
    by rewrite -E_scale; apply: E_ext => r /=; rewrite -mulnb natrM.
  rewrite exprS aux -E_scaler; apply: E_ext => a.
  by rewrite -E_scale; apply: E_ext => r; rewrite -mulnb natrM.
rewrite [X in _ <= X]E_bind; apply: (E_le (item_wf L c) (always_true _)) => a _.
rewrite [X in _ <= X]E_bind.
have rw : wf vs (repeated (item L c) K).
  by elim: (K) => //= k IH; apply: wf_bind => [|b]; [exact: item_wf | exact: wf_bind].
apply: (E_le rw (always_true _)) => r _ /=.
case Ha: (H a.1) => /=; last exact: ler0n.
elim: r a Ha => [|b r IH] a Ha /=; first by rewrite Ha.
case Hb: (H b.1) => /=; last exact: ler0n.
by apply: IH; case: ifP.
Qed.

(* So a context that can be drafted can be selected: T_x >= p(x)^(K-1) > 0.      *)
Corollary Tw_gt0 (vs_uniq : uniq vs) K c s : all (mem vs) s -> 0 < pmass pd c s ->
  pmass pd c s ^+ K <= label_weight K.+1 c (c ++ s).
Proof.
move=> sv p0; have := selected_ge K (size s) c (fun xs => take (size s) xs == s).
rewrite (selected_prefix vs_uniq) // (draft_prefix vs_uniq dpd) // exprS.
by rewrite ler_pmul2l.
Qed.

(* --- Ranked block verification --------------------------------------------------------------- *)
Theorem ranked_block_E K L c f : E vs (ranked_block K.+1 L c) f = E vs (block vs (selected_row K.+1 c) qt L c) f.
Proof. by rewrite E_bind selected_law [RHS]E_bind. Qed.

(* Statement 3. *)
Theorem ranked_block_valid K L : valid vs qt (ranked_block K.+1 L) L.
Proof.
move=> c f; rewrite E_bind ranked_block_E -E_bind.
exact: (block_valid (rrow_dist K.+1 c) dqt L c f).
Qed.

(* One label: block verification of the draft itself. *)
Theorem ranked_block_J1 K L c f : J = 1%N ->
  E vs (ranked_block K.+1 L c) f = E vs (block vs pd qt L c) f.
Proof.
move=> J1; have T1 x : label_weight K.+1 c x = 1.
  rewrite -(Tw_root K c) /label_weight /Draftproof.programs.ranked_block.label_weight; have := (post_law c x).2; have := (post_law c c).2.
  by rewrite J1 /= !add0r => -> ->.
have rp x v : selected_row K.+1 c x v = pd x v.
  by rewrite /selected_row /Draftproof.programs.ranked_block.selected_row !T1 oner_eq0 divr1 mulr1.
rewrite ranked_block_E; apply: blk_rows => // x v; exact: rp.
Qed.

(* It can be run, and it makes progress. *)
Lemma labels_wf c ps : wf vs (labels c ps).
Proof.
elim: ps => //= s ps IH; apply: wf_bind => [|l]; first by apply: pick_wf; exact: post_ge0.
exact: wf_bind.
Qed.

Theorem ranked_block_wf K L c : wf vs (ranked_block K L c).
Proof.
apply: wf_bind => [|xs].
  by apply: wf_bind => [|ps]; [exact: drafts_wf | apply: wf_bind => [|r //]; exact: labels_wf].
apply: wf_bind => [|[[c' w'] last]].
  by apply: (blk_scan_wf (rrow_dist K c) dqt); rewrite lexx ler01.
by apply: emit_wf; case: last; [exact: dqt | exact: (bres_dist (selected_row K c) dqt)].
Qed.

Lemma labels_size L c ps : all (fun s => size s == L) ps ->
  always (fun r => all (fun a => size a.1 == L) r && (size r == size ps)) (labels c ps).
Proof.
elim: ps => //= s ps IH /andP[sL /IH Pr].
apply: (always_bind (always_true _)) => l _; apply: (always_bind Pr) => r /= /andP[-> /eqP->].
by rewrite sL eqxx.
Qed.

Lemma drafts_all K L c : always (fun ps => all (fun s => size s == L) ps && (size ps == K)) (drafts pd K L c).
Proof.
elim: K => //= K IH; apply: (always_bind (draft_size pd L c)) => s sL.
by apply: (always_bind IH) => ss /= /andP[-> /eqP->]; rewrite sL !eqxx.
Qed.

Lemma selected_size K L c : always (fun xs => size xs = L) (selected K.+1 L c).
Proof.
apply: (always_bind (drafts_all K.+1 L c)) => ps /andP[pL pK].
apply: (always_bind (labels_size c pL)) => -[|a r] /=; first by rewrite (eqP pK).
case/andP=> /andP[aL rL] _; elim: r a aL rL => [|b r IH] a /= aL; first by move=> _; exact/eqP.
by case/andP=> bL rL; apply: (IH _ _ rL); case: ifP.
Qed.

Theorem ranked_block_progress K L : progress (ranked_block K.+1 L) L.
Proof.
move=> c; apply: (always_bind (selected_size K L c)) => xs <-.
apply: (always_bind (P := fun m : mark R V => size c <= size m.1.1 <= size c + size xs)%N).
  by apply: blk_scan_size; rewrite /= ?leq_addr.
by move=> [[c' w'] last] /= /andP[cc' c'k] y; rewrite size_rcons ltnS cc' addnS ltnS.
Qed.

(* End to end: N tokens by repeated ranked block verification. *)
Theorem ranked_block_decode_exact K L N c f : (size c <= N)%N ->
  E vs (decode (ranked_block K.+1 L) (N - size c) N c) f = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (ranked_block_valid K L) (@ranked_block_progress K L) _ cN).
by rewrite subnKC.
Qed.

(* What is accepted.  The mark of the selected path: *)
Definition ranked_block_mark K L c : prog (seq V * mark R V) :=
  bind (selected K L c) (fun xs =>
  bind (block_scan vs (selected_row K c) qt c 1 xs (c, 1, xs == [::])) (fun m => Ret (xs, m))).

(* P(the selected path starts with s and is accepted there or deeper). *)
Theorem ranked_block_reach (vs_uniq : uniq vs) K L c s : all (mem vs) s -> (0 < size s <= L)%N ->
  E vs (ranked_block_mark K.+1 L c)
    (fun a => ((size c + size s <= size a.2.1.1)%N && (take (size s) a.1 == s))%:R)
  = pmass pd c s * label_weight K.+1 c (c ++ s) * wpath (selected_row K.+1 c) qt 1 c s.
Proof.
move=> sv sL; rewrite E_bind selected_law -pmass_Tw // Tw_root mul1r.
have w01 : (0 : R) <= (1 : R) <= 1 by rewrite lexx ler01.
rewrite -(@blk_Acc_scan _ _ vs vs_uniq _ qt (rrow_dist K.+1 c) dqt s L c 1 (c, 1, (L == 0)%N)) //.
apply: (E_always _ (draft_size (selected_row K.+1 c) L c)) => xs sx; rewrite E_bind.
by have -> : (xs == [::]) = (L == 0)%N by rewrite -sx size_eq0.
Qed.

(* E[tau] = sum_i E_R[w_i]. *)
Theorem ranked_block_tau K L c :
  E vs (ranked_block_mark K.+1 L c) (fun a => (size a.2.1.1)%:R - (size c)%:R)
  = wsum vs (selected_row K.+1 c) qt L c.
Proof.
rewrite E_bind selected_law -(block_tau (rrow_dist K.+1 c) dqt) E_bind.
by apply: E_ext => xs; rewrite E_bind.
Qed.
End Ranked.

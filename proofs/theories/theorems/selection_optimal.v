(* Several drafts, stateless: whatever a valid verifier does, what it accepts is
   bounded, prefix by prefix, by block verification of ONE path with the law R of
   the path it chooses; and R(H) >= p(H)^K for every set H of paths.          *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds scan selection ranked_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode
   running block_optimal paths scan expected_length selection ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SelOpt.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Hypothesis vs_uniq : uniq vs.
Variables (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).

(* --- Any program that ends with a path, a number of tokens to keep from it, and
   one more token.                                                            *)
Section Chosen.
Variables (L : nat) (c : seq V) (m : prog (seq V * (nat * V))).
Let N := (size c + L.+1)%N.
Hypothesis m_wf : wf vs m.
Hypothesis m_le : always (fun a => (a.2.1 <= L)%N && (size a.1 == L)) m.
Hypothesis m_val : forall f, E vs m (fun a => Phi vs qt N f (out c a)) = Phi vs qt N f c.
Hypothesis m_in : forall f g, (forall a, all (mem vs) a.1 -> size a.1 = L -> f a = g a) -> E vs m f = E vs m g.

(* W(s): the accepted prefix starts with s.  Rc(s): the chosen path does. *)
Definition Wc s : R := E vs m (fun a => (accepts s a)%:R).
Definition Rc s : R := E vs m (fun a => (take (size s) a.1 == s)%:R).

Lemma Wc_Rc s : Wc s <= Rc s.
Proof.
apply: (E_le m_wf m_le) => a _; rewrite /accepts.
by case: (_ <= _)%N => /=; [exact: lexx | exact: ler0n].
Qed.

Lemma Wc_step s x : x \in vs -> (size s < L)%N -> Wc (rcons s x) <= Wc s * qt (c ++ s) x.
Proof.
move=> xv sL; rewrite mulrC; set q := qt _ _; pose k := (size c + size s)%N.
pose f1 (u : seq V) : R := (take k.+1 u == c ++ rcons s x)%:R.
pose f0 (u : seq V) : R := (take k u == c ++ s)%:R.
pose g (a : seq V * (nat * V)) : R := (size s <= a.2.1)%N%:R * f1 (out c a).
have mk t : (size t <= k)%N -> Phi vs qt N f1 t = q * Phi vs qt N f0 t.
  exact: (Phi_markov vs_uniq dqt xv sL).
have ptake j (h : seq V -> R) t : (j <= size t)%N -> Phi vs qt N (fun u => h (take j u)) t = h (take j t).
  exact: Phi_take.
have takeout a j : (a.2.1 <= L)%N && (size a.1 == L) -> (j <= a.2.1)%N ->
    take (size c + j) (out c a) = c ++ take j a.1.
  case/andP=> aL /eqP sa ja; rewrite /out takeD take_size_cat // drop_size_cat //.
  by rewrite -cats1 takel_cat ?take_take // size_takel // sa.
have eqg : E vs m g = q * Wc s.
  rewrite /Wc -E_scale; apply/eqP; rewrite -subr_eq0; apply/eqP.
  rewrite -[E _ _ g]mul1r -[X in _ - X]mul1r -mulNr -E_lin.
  have := m_val f1; rewrite mk; last by rewrite /k leq_addr.
  rewrite -(m_val f0) -E_scale => /eqP; rewrite -subr_eq0 => /eqP eq0.
  rewrite -[RHS]eq0 -[X in _ = X - _]mul1r -[X in _ = _ - X]mul1r -mulNr -E_lin.
  apply: (E_always _ m_le) => a aL; rewrite !mul1r !mulN1r /g /accepts.
  case: (leqP (size s) a.2.1) => [sa|sa] /=; last first.
    rewrite mul0r mulr0 subr0 mk ?subrr // /out size_cat size_rcons.
    by case/andP: aL => aL /eqP sz; rewrite size_takel ?sz // /k leq_add2l.
  have so : (k < size (out c a))%N.
    case/andP: aL => aL /eqP sz; rewrite /out size_cat size_rcons size_takel ?sz //.
    by rewrite /k addnS ltnS leq_add2l.
  rewrite (ptake k.+1 (fun u => (u == c ++ rcons s x)%:R)) //.
  rewrite (ptake k (fun u => (u == c ++ s)%:R)) ?(ltnW so) // mul1r.
  by rewrite [take k _]takeout // eqseq_cat // eqxx.
rewrite -eqg /Wc; apply: (E_le m_wf m_le) => a aL.
rewrite /g /accepts size_rcons /f1.
case: (leqP (size s) a.2.1) => [sa|sa] /=; last first.
  by rewrite mul0r leqNgt ltnW // ltnS ltnW.
rewrite mul1r; case: ltnP => [sa'|_] /=; last exact: ler0n.
by rewrite /k -addnS takeout // eqseq_cat // eqxx.
Qed.

(* The one-step form: P(tau >= i, prefix = x) <= min(R(x), W(x') q(x_i|x')). *)
Theorem Wc_min s x : x \in vs -> (size s < L)%N ->
  Wc (rcons s x) <= Order.min (Rc (rcons s x)) (Wc s * qt (c ++ s) x).
Proof. by move=> xv sL; rewrite le_minr Wc_Rc Wc_step. Qed.

(* Rows of the law of the chosen path. *)
Lemma Rc_ge0 s : 0 <= Rc s.
Proof. by apply: E_ge0 => // a; exact: ler0n. Qed.

Lemma Rc_nil : Rc [::] = 1.
Proof. by rewrite -(E_cst 1 m_wf); apply: E_ext => a; rewrite take0 eqxx. Qed.

Lemma Rc_sum s : (size s < L)%N -> \sum_(x <- vs) Rc (rcons s x) = Rc s.
Proof.
move=> sL; rewrite -E_sum; apply: m_in => a av sa.
have : take (size s).+1 a.1 = rcons (take (size s) a.1) (nth (head (last a.2.2 a.1) a.1) a.1 (size s)).
  by apply: take_nth; rewrite sa.
set y := nth _ _ _ => ty; have yv : y \in vs by apply: (allP av); rewrite mem_nth // sa.
rewrite -[RHS](sum_eq_mem vs_uniq (fun x => (take (size s) a.1 == s)%:R) yv).
apply: eq_sum => x; rewrite size_rcons ty eqseq_rcons -mulnb natrM.
by congr (_ * _); rewrite eq_sym.
Qed.

Definition crow x v : R := let s := drop (size c) x in
  if (Rc s == 0) || (L <= size s)%N then pd x v else Rc (rcons s v) / Rc s.

Lemma crow_dist x : is_dist vs (crow x).
Proof.
rewrite /crow; set s := drop _ _; case: eqVneq => [_|Rn0] /=; first exact: dpd.
case: leqP => [_|sL]; first exact: dpd.
split=> [v|]; first by rewrite divr_ge0 ?Rc_ge0.
by rewrite -big_distrl /= Rc_sum // divff.
Qed.

Lemma Rc_rcons s x : x \in vs -> (size s < L)%N -> Rc (rcons s x) = Rc s * crow (c ++ s) x.
Proof.
move=> xv sL; rewrite /crow drop_size_cat //; case: eqVneq => [R0|Rn0] /=; last first.
  by rewrite leqNgt sL /= mulrC divfK.
rewrite R0 mul0r; move: (Rc_sum sL); rewrite R0 => s0.
exact: (sum_seq_eq0 (f := fun x => Rc (rcons s x)) (fun y => Rc_ge0 _) s0 xv).
Qed.

Lemma Rc_pmass s : all (mem vs) s -> (size s <= L)%N -> Rc s = pmass crow c s.
Proof.
elim/last_ind: s => [|s x IH]; first by rewrite Rc_nil.
rewrite all_rcons size_rcons => /andP[xv sv] sL.
by rewrite pmass_rcons Rc_rcons // IH // ltnW.
Qed.

(* The chosen path is a draft from these rows. *)
Theorem chosen_law f : E vs m (fun a => f a.1) = E vs (draft crow L c) f.
Proof.
rewrite -SS_draft.
transitivity (SS vs L (fun s => E vs m (fun a => (a.1 == s)%:R * f s))); last first.
  apply: SS_eq => s sv sL; rewrite -Rc_pmass ?sL // -E_scaler; apply: (E_always _ m_le) => a.
  by case/andP=> _ /eqP sa; rewrite sL -sa take_size.
rewrite -SS_E; apply: m_in => a av sa.
rewrite (SS_eq (G := fun s => f a.1 * (a.1 == s)%:R)) => [|s _ _]; last first.
  by case: eqP => [->|_]; rewrite ?mulr0 ?mul0r // mulrC.
by rewrite SS_scale SS_one // mulr1.
Qed.

(* The bound: block verification with the rows of R accepts every prefix at
   least as often.                                                            *)
Theorem Wc_bound s : all (mem vs) s -> (size s <= L)%N ->
  Wc s <= pmass crow c s * wpath crow qt 1 c s.
Proof.
elim/last_ind: s => [|s x IH].
  by move=> _ _; rewrite /= mulr1 -Rc_nil; exact: Wc_Rc.
rewrite all_rcons size_rcons => /andP[xv sv] sL.
rewrite (pw_rcons crow_dist dqt) -Rc_pmass ?all_rcons ?xv ?size_rcons //.
apply: (le_trans (Wc_min xv sL)); rewrite le_minr le_minl lexx /=.
rewrite le_minl; apply/orP; right; rewrite ler_wpmul2r ?(dqt _).1 //.
by rewrite IH // ltnW.
Qed.

Corollary Wc_block s : all (mem vs) s -> (0 < size s <= L)%N ->
  Wc s <= Acc vs crow (block_verifier vs crow qt c) L c s.
Proof.
move=> sv sL; rewrite (block_accepts vs_uniq crow_dist dqt) //; apply: Wc_bound => //.
by case/andP: sL.
Qed.

(* E[tau] <= sum_i E_R[w_i]. *)
Theorem tau_bound : E vs m (fun a => (a.2.1)%:R) <= wsum vs crow qt L c.
Proof.
have -> : E vs m (fun a => (a.2.1)%:R) = \sum_(0 <= i < L) SS vs i.+1 Wc.
  under eq_bigr => i _ do rewrite -SS_E.
  rewrite -E_sum; transitivity (E vs m (fun a => (minn a.2.1 L)%:R)).
    by apply: (E_always _ m_le) => a /andP[aL _]; rewrite (minn_idPl aL).
  apply: m_in => a av sa; rewrite -count_lt; apply: eq_big_nat => i /andP[_ iL].
  have tv : all (mem vs) (take i.+1 a.1).
    by apply/allP => x xt; apply: (allP av); exact: mem_take xt.
  have st : size (take i.+1 a.1) = i.+1 by rewrite size_takel // sa.
  transitivity ((i < a.2.1)%N%:R * SS (R := R) vs i.+1 (fun s => (take i.+1 a.1 == s)%:R)).
    by rewrite (SS_one R vs_uniq tv st) mulr1.
  rewrite -SS_scale; apply: SS_eq => s _ si; rewrite /accepts si.
  by case: (_ < _)%N; rewrite ?mul1r ?mul0r.
apply: ler_sum_nat => i /andP[_ iL]; rewrite -SS_draft.
by apply: SS_le => s sv si; apply: Wc_bound; rewrite ?si.
Qed.
End Chosen.

(* --- Not only stateless: any joint law of a chosen path, tau and the whole output Y --- *)
Section Coupled.
Variables (L : nat) (c : seq V) (m : prog (seq V * (nat * seq V))).
Hypothesis m_wf : wf vs m.
Hypothesis m_le : always (fun a => (take a.2.1 a.1 == take a.2.1 a.2.2)) m.
Hypothesis m_val : forall f, E vs m (fun a => f a.2.2) = E vs (draft qt L.+1 c) f.
Theorem coupled_min s : all (mem vs) s -> (size s <= L)%N ->
  E vs m (fun a => ((size s <= a.2.1)%N && (take (size s) a.1 == s))%:R)
  <= Order.min (E vs m (fun a => (take (size s) a.1 == s)%:R)) (pmass qt c s).
Proof.
move=> sv sL; rewrite le_minr; apply/andP; split.
  apply: (E_le m_wf (always_true _)) => a _.
  by case: (_ <= _)%N => /=; [exact: lexx | exact: ler0n].
rewrite -(draft_prefix vs_uniq dqt c sv (leqW sL)) -(m_val (fun y => (take (size s) y == s)%:R)).
apply: (E_le m_wf m_le) => a /eqP ta; case: leqP => [sa|_] /=; last exact: ler0n.
by rewrite -(take_take sa a.1) ta take_take.
Qed.
End Coupled.

(* --- K i.i.d. drafts ----------------------------------------------------------------- *)
(* From the drafts: which one, how many of its tokens, and one more token. *)
Definition kverifier := seq (seq V) -> prog (nat * (nat * V)).
Definition kjoint (ver : kverifier) K L c : prog (seq V * (nat * V)) :=
  bind (drafts pd K L c) (fun ps => bind (ver ps) (fun o => Ret (nth [::] ps o.1, o.2))).
Definition kvalid_at (ver : kverifier) K L c : Prop := forall f,
  E vs (kjoint ver K L c) (fun a => Phi vs qt (size c + L.+1)%N f (out c a))
  = Phi vs qt (size c + L.+1)%N f c.

Lemma drafts_in K L c f g :
  (forall ps, all (fun s => all (mem vs) s && (size s == L)) ps -> size ps = K -> f ps = g ps) ->
  E vs (drafts pd K L c) f = E vs (drafts pd K L c) g.
Proof.
elim: K f g => [|K IH] f g fg; first exact: fg.
rewrite !drafts_S; apply: draft_in => s sv sL; apply: IH => ps pv pK.
by apply: fg; rewrite /= ?sv ?sL ?eqxx ?pv ?pK.
Qed.

Section KVer.
Variables (K L : nat) (c : seq V) (ver : kverifier).
Hypothesis wf_ver : forall ps, wf vs (ver ps).
Hypothesis ver_le : forall ps, size ps = K -> all (fun s => size s == L) ps ->
  always (fun o => (o.1 < K)%N && (o.2.1 <= L)%N) (ver ps).
Hypothesis ver_val : kvalid_at ver K L c.
Notation m := (kjoint ver K L c).

Lemma kjoint_wf : wf vs m.
Proof.
apply: wf_bind => [|ps]; first exact: drafts_wf.
exact: wf_bind.
Qed.

Lemma kjoint_le : always (fun a => (a.2.1 <= L)%N && (size a.1 == L)) m.
Proof.
apply: (always_bind (drafts_all pd K L c)) => ps /andP[pL /eqP pK].
apply: (always_bind (ver_le pK pL)) => o /andP[oK oL] /=; rewrite oL /=.
by apply: (all_nthP [::] pL); rewrite pK.
Qed.

Lemma kjoint_in f g : (forall a, all (mem vs) a.1 -> size a.1 = L -> f a = g a) ->
  E vs m f = E vs m g.
Proof.
move=> fg; rewrite !E_bind; apply: drafts_in => ps pv pK; rewrite !E_bind.
have pL : all (fun s => size s == L) ps by apply: sub_all pv => s /andP[].
apply: (E_always _ (ver_le pK pL)) => o /andP[oK _] /=.
have /andP[sv /eqP sL] : all (mem vs) (nth [::] ps o.1) && (size (nth [::] ps o.1) == L).
  by apply: (all_nthP [::] pv); rewrite pK.
exact: fg.
Qed.

(* The law of the chosen path is one of a path chosen among K i.i.d. drafts. *)
Theorem kchosen_ge (H : pred (seq V)) :
  E vs (draft pd L c) (fun s => (H s)%:R) ^+ K <= E vs m (fun a => (H a.1)%:R).
Proof.
have -> : E vs (draft pd L c) (fun s => (H s)%:R) ^+ K
    = E vs (drafts pd K L c) (fun ps => (all H ps)%:R).
  elim: (K) => [|k IH]; first by [].
  rewrite drafts_S exprS IH -E_scaler; apply: E_ext => s.
  by rewrite -E_scale; apply: E_ext => ps /=; rewrite -mulnb natrM.
rewrite [X in _ <= X]E_bind.
apply: (E_le (drafts_wf dpd K L c) (drafts_all pd K L c)) => ps /andP[pL /eqP pK].
rewrite E_bind -[X in X <= _](E_cst _ (wf_ver ps)).
apply: (E_le (wf_ver ps) (ver_le pK pL)) => o /andP[oK _] /=.
case pH: (all H ps); last exact: ler0n.
by rewrite (all_nthP [::] pH) ?pK.
Qed.

(* Everything together. *)
Theorem selection_bound : exists r : seq V -> V -> R,
  [/\ forall x, is_dist vs (r x),
      forall f, E vs m (fun a => f a.1) = E vs (draft r L c) f,
      forall H : pred (seq V),
        E vs (draft pd L c) (fun s => (H s)%:R) ^+ K <= E vs (draft r L c) (fun s => (H s)%:R),
      forall s, all (mem vs) s -> (0 < size s <= L)%N ->
        E vs m (fun a => (accepts s a)%:R) <= Acc vs r (block_verifier vs r qt c) L c s
    & E vs m (fun a => (a.2.1)%:R) <= wsum vs r qt L c].
Proof.
have [w l v i] := And4 kjoint_wf kjoint_le ver_val kjoint_in.
exists (crow L c m); split.
- exact: crow_dist.
- by move=> f; apply: chosen_law.
- by move=> H; rewrite -(@chosen_law L c m w l i) ; exact: kchosen_ge.
- by move=> s sv sL; apply: (@Wc_block L c m).
- exact: (@tau_bound L c m).
Qed.
End KVer.
End SelOpt.

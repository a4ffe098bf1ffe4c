(* Expected accepted length: block verification earns sum_i E_p[w_i], no valid
   stateless verifier earns more, and token verification never earns more.    *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity token_by_token block rounds
   scan.
From Draftproof.theorems Require Import maximal block decode running block_optimal scan.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Etau.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation draft := (draft pd).
Notation w_ := (wpath pd qt 1).

(* sum_{i=1}^{L} E_p[w_i] *)
Definition wsum L c : R := \sum_(0 <= i < L) E vs (draft i.+1 c) (w_ c).

Lemma wfold_wpath w c s : wfold (block_weight pd qt) w c s = wpath pd qt w c s.
Proof. by elim: s w c => //= x s IH w c; rewrite IH. Qed.

(* The scan that may return nothing and the one that starts from a mark.      *)
Lemma scan_blk c w xs o b (G : mark R V -> R) :
  E vs (scan (block_weight pd qt) (block_bias vs pd qt) c w xs o) (fun o => G (odflt b o))
  = E vs (block_scan vs pd qt c w xs (odflt b o)) G.
Proof. by elim: xs c w o => //= x xs IH c w o; rewrite !IH. Qed.

(* E[tau] of block verification. *)
Theorem block_tau L c :
  E vs (bind (draft L c) (fun xs => block_scan vs pd qt c 1 xs (c, 1, xs == [::])))
       (fun k => (size k.1.1)%:R - (size c)%:R)
  = wsum L c.
Proof.
have ok1 : 0 <= (1 : R) <= 1 by rewrite ler01 lexx.
have min_ok (w : R) : 0 <= w <= 1 -> Order.min 1 w = w by case/andP=> _ w1; rewrite (min_idPr w1).
rewrite E_bind.
transitivity (E vs (draft L c) (fun xs =>
    E vs (scan (block_weight pd qt) (block_bias vs pd qt) c 1 xs None) (tau_of c))).
  apply: E_ext => xs; rewrite -(scan_blk _ _ _ None) /=; apply: E_ext => [[k|]] //=.
  by rewrite subrr.
rewrite (scan_tau (D := qt) dpd (okw := fun w => 0 <= w <= 1)) ?ler01 //.
- apply: eq_bigr => i _; apply: E_ext => xs; rewrite wfold_wpath min_ok //.
  exact: wpath01.
- by move=> w /andP[].
- by move=> w c1 x w0; apply: acc01; rewrite ?(dpd _).1 // /wq mulr_ge0 // (dqt _).1.
- move=> w c1 x w0; rewrite min_ok; last first.
    by apply: acc01; rewrite ?(dpd _).1 // /wq mulr_ge0 // (dqt _).1.
  by rewrite min_acc // ?(dpd _).1 // /wq mulr_ge0 // (dqt _).1.
- by move=> w c1 /min_ok.
- by move=> w c1 w01; rewrite min_ok // (hacc_repay pd dqt) // (bsumE pd dqt).
Qed.

(* --- Token verification -------------------------------------------------------- *)
(* P(tau >= i | x^i) = product of min(1, q/p). *)
Fixpoint tprod c s : R :=
  if s is x :: s' then acc (pd c) (qt c) x * tprod (rcons c x) s' else 1.

Lemma draft_tprod i c : E vs (draft i.+1 c) (tprod c)
  = \sum_(x <- vs) pd c x * acc (pd c) (qt c) x * E vs (draft i (rcons c x)) (tprod (rcons c x)).
Proof.
rewrite E_Draw; apply: eq_sum => x; rewrite E_bind -mulrA; congr (_ * _).
by rewrite -E_scale.
Qed.

Theorem token_by_token_tau L c :
  E vs (token_by_token vs pd qt L c) (fun c' => (size c')%:R - (size c)%:R - 1)
  = \sum_(0 <= i < L) E vs (draft i.+1 c) (tprod c).
Proof.
have emit1 (d : V -> R) c0 C : is_dist vs d ->
    E vs (emit d c0) (fun c' => (size c')%:R - C) = (size c0)%:R + 1 - C.
  move=> dd; rewrite E_Draw -[RHS]mul1r -dd.2 big_distrl /=; apply: eq_sum => y.
  by rewrite size_rcons mulrSr.
transitivity (E vs (token_by_token vs pd qt L c) (fun c' => (size c')%:R - ((size c)%:R + 1))).
  by apply: E_ext => c'; rewrite opprD addrA.
have H n c0 C : E vs (token_by_token vs pd qt n c0) (fun c' => (size c')%:R - C)
    = (size c0)%:R + 1 - C + \sum_(0 <= i < n) E vs (draft i.+1 c0) (tprod c0).
  elim: n c0 => [|n IH] c0; rewrite /token_by_token E_bind.
    rewrite big_nil addr0; exact: emit1.
  rewrite E_Draw big_nat_recl // (draft_tprod 0).
  rewrite [X in _ = _ + (_ + X)](eq_bigr _ (fun i _ => draft_tprod i.+1 c0)) exchange_big.
  rewrite (eq_bigr (fun x => pd c0 x * ((size c0)%:R + 1 - C)
     + (pd c0 x * acc (pd c0) (qt c0) x
        + \sum_(0 <= i < n) pd c0 x * acc (pd c0) (qt c0) x
            * E vs (draft i.+1 (rcons c0 x)) (tprod (rcons c0 x))))) => [|x _]; last first.
    rewrite E_bind; set a := acc _ _ x; set c1 := rcons c0 x.
    rewrite -mulr_sumr; set S := BigOp.bigop _ _ _; set A := _ + 1 - C.
    transitivity (pd c0 x * (a * (A + 1 + S) + (1 - a) * A)); last by rng R.
    congr (_ * _); transitivity (E vs (draft n c1) (fun s => a * E vs (token_by_token_scan vs pd qt c1 s)
        (fun c' => (size c')%:R - C) + (1 - a) * A)).
      apply: E_ext => s /=; congr (_ + _ * _).
      rewrite -[LHS]/(E vs (emit (res vs (pd c0) (qt c0)) c0) (fun c' => (size c')%:R - C)).
      by rewrite emit1 //; exact: res_dist.
    rewrite E_lin E_cst; last exact: draft_wf.
    rewrite -E_bind -/(token_by_token vs pd qt n c1) IH size_rcons mulrSr /S /A.
    by congr (_ * (_ + _) + _); rng R.
  rewrite !big_split -mulr_suml (dpd c0).2 mul1r; congr (_ + (_ + _)).
  by apply: eq_sum => x; rewrite /= mulr1.
by rewrite H subrr add0r.
Qed.

(* Token verification never accepts more, on average, than block verification. *)
Lemma tprod_le v w c s : 0 <= v -> v <= w -> v <= 1 -> v * tprod c s <= wpath pd qt w c s.
Proof.
elim: s v w c => [|x s IH] v w c v0 vw v1 /=; first by rewrite mulr1.
have p0 := (dpd c).1 x; have q0 := (dqt c).1 x.
have /andP[a0 a1] : 0 <= acc (pd c) (qt c) x <= 1 by exact: acc01.
rewrite mulrA; apply: IH; first exact: mulr_ge0; last first.
  by apply: le_trans v1; rewrite ler_pimulr.
rewrite /block_weight /acc /wq le_minr; apply/andP; split.
  by apply: le_trans v1; rewrite -[X in _ <= X]mulr1 ler_wpmul2l.
apply: (@le_trans _ _ (v * (qt c x / pd c x))); first by rewrite ler_wpmul2l // le_minl lexx orbT.
by rewrite -mulrA ler_wpmul2r // divr_ge0.
Qed.

Theorem token_by_token_le_block L c :
  E vs (token_by_token vs pd qt L c) (fun c' => (size c')%:R - (size c)%:R - 1)
  <= E vs (bind (draft L c) (fun xs => block_scan vs pd qt c 1 xs (c, 1, xs == [::])))
          (fun k => (size k.1.1)%:R - (size c)%:R).
Proof.
rewrite token_by_token_tau block_tau; apply: ler_sum => i _.
apply: (E_le (draft_wf dpd _ _) (always_true _)) => xs _.
by rewrite -[tprod _ _]mul1r; apply: tprod_le; rewrite ?ler01 ?lexx.
Qed.

(* --- No valid stateless verifier has a larger E[tau] ------------------------------- *)
Hypothesis vs_uniq : uniq vs.

(* Sum over all strings of length i. *)
Fixpoint SS i (F : seq V -> R) : R :=
  if i is i'.+1 then \sum_(x <- vs) SS i' (fun s => F (x :: s)) else F [::].

Lemma SS_le i F G : (forall s, all (mem vs) s -> size s = i -> F s <= G s) -> SS i F <= SS i G.
Proof.
elim: i F G => [|i IH] F G FG /=; first exact: FG.
rewrite big_seq [X in _ <= X]big_seq; apply: ler_sum => x xv; apply: IH => s sv si.
by apply: FG; rewrite /= ?xv ?si.
Qed.

Lemma SS_eq i F G : (forall s, all (mem vs) s -> size s = i -> F s = G s) -> SS i F = SS i G.
Proof. by move=> FG; apply/eqP; rewrite eq_le !SS_le // => s sv si; rewrite FG. Qed.

Lemma SS_scale i a F : SS i (fun s => a * F s) = a * SS i F.
Proof. by elim: i F => //= i IH F; rewrite big_distrr /=; apply: eq_sum => x; rewrite IH. Qed.

Lemma SS_E A i (m : prog A) F : E vs m (fun a => SS i (F a)) = SS i (fun s => E vs m (F^~ s)).
Proof.
elim: i F => //= i IH F; rewrite E_sum; apply: eq_sum => x.
exact: (IH (fun a s => F a (x :: s))).
Qed.

Lemma SS_one i t : all (mem vs) t -> size t = i -> SS i (fun s => (t == s)%:R) = 1.
Proof.
elim: i t => [|i IH] [|y t] //= /andP[yv tv] [ti].
rewrite -[RHS](sum_eq_mem vs_uniq (fun=> 1) yv); apply: eq_sum => x.
rewrite mul1r; under SS_eq => s _ _ do rewrite eqseq_cons.
rewrite [y == x]eq_sym; case: eqP => _ /=; first exact: IH.
by rewrite -[RHS](mul0r (SS i (fun=> 0))) -SS_scale; apply: SS_eq => s _ _; rewrite mul0r.
Qed.

Lemma SS_draft i c G : SS i (fun s => pmass pd c s * G s) = E vs (draft i c) G.
Proof.
elim: i c G => [|i IH] c G /=; first by rewrite mul1r.
rewrite sumfE; apply: eq_sum => x; rewrite E_bind /= -IH -SS_scale.
by apply: SS_eq => s _ _; rewrite mulrA.
Qed.

(* Only tokens of the vocabulary are drafted. *)
Lemma draft_in i c f g : (forall xs, all (mem vs) xs -> size xs = i -> f xs = g xs) ->
  E vs (draft i c) f = E vs (draft i c) g.
Proof. by move=> fg; rewrite -!SS_draft; apply: SS_eq => s sv si; rewrite fg. Qed.

Lemma count_lt L k : \sum_(0 <= i < L) (i < k)%N%:R = (minn k L)%:R :> R.
Proof.
elim: L => [|L IH]; first by rewrite big_nil minn0.
rewrite big_nat_recr //= IH -natrD; congr _%:R.
by case: (ltnP L k) => h; [rewrite (minn_idPr h) addn1
  | rewrite (minn_idPl (leqW h)) addn0].
Qed.

Theorem block_tau_optimal (ver : verifier R V) L c :
  (forall xs, wf vs (ver xs)) -> (forall xs, always (fun o => o.1 <= size xs)%N (ver xs)) ->
  valid_at vs pd qt ver L c ->
  E vs (joint pd ver L c) (fun a => (a.2.1)%:R) <= wsum L c.
Proof.
move=> wv lv vv.
have key : E vs (joint pd ver L c) (fun a => (a.2.1)%:R)
    = \sum_(0 <= i < L) SS i.+1 (fun s => Acc vs pd ver L c s).
  have accE s : Acc vs pd ver L c s = E vs (draft L c) (fun xs => E vs (ver xs)
      (fun o => ((size s <= o.1)%N && (take (size s) xs == s))%:R)).
    by rewrite /Acc E_bind; apply: E_ext => xs; rewrite E_bind.
  under eq_bigr => i _ do under SS_eq => s _ _ do rewrite accE.
  under eq_bigr => i _ do rewrite -SS_E.
  rewrite -E_sum E_bind; apply: draft_in => xs xv sx; rewrite E_bind.
  under eq_bigr => i _ do rewrite -SS_E.
  rewrite -E_sum; apply: (E_always _ (lv xs)) => o; rewrite sx => oL.
  rewrite -[LHS]/((o.1)%:R) -[in LHS](minn_idPl oL) -count_lt.
  apply: eq_big_nat => i /andP[_ iL].
  have tv : all (mem vs) (take i.+1 xs).
    by apply/allP => x xt; apply: (allP xv); exact: mem_take xt.
  have st : size (take i.+1 xs) = i.+1 by rewrite size_takel // sx.
  transitivity ((i < o.1)%N%:R * SS i.+1 (fun s => (take i.+1 xs == s)%:R)).
    by rewrite (SS_one tv st) mulr1.
  rewrite -SS_scale; apply: SS_eq => s _ ->.
  by case: (_ < _)%N; rewrite ?mul1r ?mul0r.
rewrite key; apply: ler_sum_nat => i /andP[_ iL]; rewrite -SS_draft.
apply: SS_le => s sv si; apply: (Acc_bound vs_uniq dpd dqt wv lv vv sv).
by rewrite si.
Qed.
End Etau.

(* SpecTr at sequence level: any exact token coupling lifts to sequences.         *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block spectr target_match.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Spectr.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).

Definition node_exact (node : seq V -> seq V -> prog R V V) : Prop := forall n c f,
  E vs (bind (draws (fun=> pd c) n [::]) (node c)) f = \sum_(y <- vs) qt c y * f y.

(* Any exact token coupling lifts to sequences: the output, continued by the
   target model to L+1 tokens, has the target law, for every test function.    *)
Theorem spectr_valid node K L : node_exact node ->
  valid vs qt (spectr pd qt node K L) L.
Proof.
move=> nex c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (spectr pd qt node K L c) (Phi vs qt N f)) E_bind.
have -> : E vs (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have : (size c + L < N)%N by rewrite ltn_add2l.
move: N => N; elim: L K c => [|m IH] K c.
  rewrite addn0 => cN; rewrite -[RHS](E_cst _ (drafts_wf dpd K 0 c)).
  by apply: E_ext => ps; rewrite -[LHS]/(E vs (emit (qt c) c) (Phi vs qt N f)) emit_E -Phi_step.
move=> cN; have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite (Phi_step _ _ _ c'N) -(nex K c (fun y => Phi vs qt N f (rcons c y))) E_bind.
pose G y ps' := E vs (if ps' == [::] then Ret (rcons c y)
   else spectr_walk qt node m (rcons c y) ps') (Phi vs qt N f).
transitivity (E vs (drafts pd K m.+1 c) (fun ps =>
   E vs (node c (heads ps)) (fun y => G y (follow y ps)))).
  by apply: E_ext => ps; rewrite /= E_bind.
rewrite (drafts_node dpd K m c (node c) G); apply: E_ext => xs; apply: E_ext => y.
set k := count_mem y xs.
have c'mN : (size (rcons c y) + m < N)%N by rewrite size_rcons addSnnS.
case: k => [|k]; first by [].
rewrite -(IH k.+1 _ c'mN) /G; apply: (E_always _ (drafts_size _ _ _ _)) => ps.
by case: ps.
Qed.

(* The same when a drawn token ends the block, whichever it is. *)
Definition node_kept_exact (node : seq V -> seq V -> prog R V (bool * V)) : Prop := forall n c f,
  E vs (bind (draws (fun=> pd c) n [::]) (node c)) (fun o => f o.2) = \sum_(y <- vs) qt c y * f y.

Theorem spectr_kept_valid node K L : node_kept_exact node ->
  valid vs qt (spectr_kept pd qt node K L) L.
Proof.
move=> nex c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (spectr_kept pd qt node K L c) (Phi vs qt N f)) E_bind.
have -> : E vs (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have : (size c + L < N)%N by rewrite ltn_add2l.
move: N => N; elim: L K c => [|m IH] K c.
  rewrite addn0 => cN; rewrite -[RHS](E_cst _ (drafts_wf dpd K 0 c)).
  by apply: E_ext => ps; rewrite -[LHS]/(E vs (emit (qt c) c) (Phi vs qt N f)) emit_E -Phi_step.
move=> cN; have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite (Phi_step _ _ _ c'N) -(nex K c (fun y => Phi vs qt N f (rcons c y))) E_bind.
pose G y ps' := E vs (spectr_kept_walk qt node m (rcons c y) ps') (Phi vs qt N f).
rewrite (drafts_tails _ _ _ _ _ [::]); apply: E_ext => xs.
transitivity (E vs (tails pd m c xs) (fun ps => E vs (node c xs) (fun o =>
    if o.1 then G o.2 (follow o.2 ps) else Phi vs qt N f (rcons c o.2)))).
  apply: (E_always _ (tails_heads pd m c xs)) => ps hs.
  by rewrite /= hs E_bind; apply: E_ext => -[[] y].
rewrite E_comm; apply: E_ext => -[[] y] /=; last exact: (E_cst _ (tails_wf dpd m c xs)).
rewrite (tails_follow dpd) /G; apply: IH.
by rewrite size_rcons addSnnS.
Qed.

Lemma kseq_kept_E (p q : V -> R) r K xs f :
  E vs (kseq_kept vs p q r K xs) (fun o => f o.2) = E vs (kseq_scan vs p q r K xs) f.
Proof. by elim: xs => [|x xs IH] //=; rewrite IH. Qed.

Lemma node_kseq_exact rho : rho_ok vs rho -> node_kept_exact (node_kseq vs pd qt rho).
Proof.
move=> rok n c f; have [r0 rv] := rok _ _ n (dpd c) (dqt c).
rewrite -(kseq_law (dpd c) (dqt c) r0 f (kseq_valid (dpd c) (dqt c) r0 rv)).
rewrite /kseq !E_bind; apply: (E_always _ (draws_size _ _ _)) => xs sx.
by rewrite /node_kseq sx kseq_kept_E.
Qed.

Lemma node_rrs_exact : node_exact (node_rrs vs pd qt).
Proof. by move=> n c f; exact: (recursive_rejection_law n f (fun=> dpd c) (dqt c)). Qed.

Lemma node_match_exact : node_exact (node_match qt).
Proof.
move=> n c f; rewrite E_bind -[RHS](E_cst _ (draws_wf n [::] (fun=> dpd c))).
by apply: E_ext => xs; rewrite E_Draw.
Qed.

(* SpecTr with K-SEQ, any valid scale. *)
Theorem spectr_kseq_valid rho K L : rho_ok vs rho ->
  valid vs qt (spectr_kept pd qt (node_kseq vs pd qt rho) K L) L.
Proof. by move=> rok; apply: spectr_kept_valid; exact: node_kseq_exact. Qed.

(* SpecInfer: recursive rejection on the same eagerly drafted paths. *)
Theorem spectr_rrs_valid K L : valid vs qt (spectr pd qt (node_rrs vs pd qt) K L) L.
Proof. by apply: spectr_valid; exact: node_rrs_exact. Qed.

Theorem spectr_match_valid K L : valid vs qt (spectr pd qt (node_match qt) K L) L.
Proof. by apply: spectr_valid; exact: node_match_exact. Qed.
End Spectr.

(* Any scores on whole paths; greedy multi-path with one fixed order.             *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds scan selection ranked_block multipath.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode
   running block_optimal paths scan expected_length selection ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Scores.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R) (J L : nat).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).

Section Any.
Variable score : seq V -> seq V -> nat -> R.
Hypothesis score_law : forall c x, is_law J (score c x).
Notation cond := (cond vs pd L score).
Notation post_at := (post_at vs pd L score).

Lemma cond_law c x : is_law J (cond c x).
Proof.
split=> [l|]; first by apply: E_ge0 => [|s]; [exact: draft_wf | exact: (score_law _ _).1].
rewrite -(E_csum vs _ (fun s l => score c (take (size c + L)%N (x ++ s)) l)).
rewrite -[RHS](E_cst 1 (draft_wf dpd (size c + L - size x) x)).
by apply: E_ext => s; exact: (score_law _ _).2.
Qed.

Lemma cond_sum c x l : \sum_(v <- vs) pd x v * cond c (rcons x v) l = cond c x l.
Proof.
rewrite /cond; have [xL|Lx] := ltnP (size x) (size c + L).
  rewrite -(subnSK xL) E_Draw; apply: eq_sum => v; rewrite size_rcons E_bind; congr (_ * _).
  by apply: E_ext => s; rewrite /= cat_rcons.
have z n : (size c + L <= n)%N -> (size c + L - n)%N = 0%N by move=> h; apply/eqP; rewrite subn_eq0.
rewrite (z _ Lx) /= cats0.
rewrite (eq_bigr (fun v => pd x v * score c (take (size c + L)%N x) l)) => [|v _].
  by rewrite -big_distrl /= (dpd x).2 mul1r.
by rewrite size_rcons (z _ (leqW Lx)) /= cats0 -cats1 takel_cat.
Qed.

(* At the whole path the label has the law it was given. *)
Lemma cond_leaf c s l : size s = L -> cond c (c ++ s) l = score c (c ++ s) l.
Proof.
by move=> sL; rewrite /cond size_cat sL subnn /= cats0 take_oversize // size_cat sL.
Qed.

Lemma post_at_sum c c' x l : \sum_(v <- vs) pd x v * post_at c c' (rcons x v) l = post_at c c' x l.
Proof.
rewrite /post_at; case: eqP => _; first exact: cond_sum.
by rewrite -big_distrl /= (dpd x).2 mul1r.
Qed.

Lemma post_at_law c c' x : is_law J (post_at c c' x).
Proof. by rewrite /post_at; case: eqP => _; exact: cond_law. Qed.

Lemma post_at_root c c' l : post_at c c' c' l = cond c c l.
Proof. by rewrite /post_at; case: eqP => [->|]. Qed.

Theorem scored_valid K : valid vs qt (scored vs pd qt J L score K.+1) L.
Proof.
move=> c f; apply: (ranked_block_valid dpd dqt (cond_law c c) (post_at_law c) _ _ K L c f).
  by move=> c' l _; exact: post_at_root.
by move=> c' x l _; exact: post_at_sum.
Qed.
End Any.

Section Order.
Variable key : seq V -> seq V -> nat.
Hypothesis key_lt : forall c x, (key c x < J)%N.
Definition sure c x l : R := (l == key c x)%:R.

Lemma sure_law c x : is_law J (sure c x).
Proof.
split=> [l|]; first exact: ler0n.
rewrite -[RHS](csum_one (fun=> 1 : R) (key_lt c x)); apply: eq_csum => l _.
by rewrite mulr1.
Qed.

Lemma labels_sure c ps F : all (fun s => size s == L) ps ->
  E vs (labels J (post_at vs pd L sure c) c ps) F = F [seq (s, key c (c ++ s)) | s <- ps].
Proof.
elim: ps F => //= s ps IH F /andP[/eqP sL pL].
rewrite E_bind law_E; last exact: (post_at_law sure_law).
rewrite -(csum_one (fun l => F ((s, l) :: [seq (s, key c (c ++ s)) | s <- ps])) (key_lt c (c ++ s))).
apply: eq_csum => l lJ; rewrite E_bind IH // /post_at eqxx cond_leaf //.
Qed.

Lemma champ_key (A B : Type) (g : A -> B) (lab : B -> nat) a xs :
  champion lab (g a) (map g xs) = g (champion (lab \o g) a xs).
Proof. by elim: xs a => //= b xs IH a; rewrite -IH; case: ifP. Qed.

(* Labels that are certain: the program without labels. *)
Lemma top_E K c F : E vs (top pd L key K c) F = E vs (selected pd J (post_at vs pd L sure c) K L c) F.
Proof.
rewrite !E_bind; apply: (E_always _ (drafts_all pd K L c)) => ps /andP[pL _].
rewrite E_bind labels_sure //; case: ps pL => //= s ps _.
by rewrite (champ_key (fun s => (s, key c (c ++ s))) snd).
Qed.

Theorem multipath_valid K : valid vs qt (multipath vs pd qt J L sure key K.+1) L.
Proof.
move=> c f; rewrite -(scored_valid sure_law K c f) [LHS]E_bind [RHS]E_bind.
rewrite [LHS]E_bind [RHS]E_bind top_E; exact: E_ext.
Qed.
End Order.
End Scores.

(* The stateful form of ranked block verification: valid, what it reaches, rounds. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds scan spectr_gbv greedy_block selection ranked_block
   ranked_greedy_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode
   running block_optimal paths scan spectr_gbv greedy_block rounds selection ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RankedGreedy.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation dist := (is_dist vs).
(* The label laws may depend on the chain that is carried. *)
Variables (J : nat) (pi0 : nat -> R) (post : chain -> seq V -> seq V -> nat -> R).

Local Notation ranked_greedy_block_mark := (ranked_greedy_block_mark vs pd J pi0 post).
Local Notation ranked_greedy_block := (ranked_greedy_block vs pd J pi0 post).

Hypothesis dpd : forall c, dist (pd c).
Hypothesis pi0_law : is_law J pi0.
Hypothesis post_law : forall D c x, is_law J (post D c x).
Hypothesis post_root : forall D c l, (l < J)%N -> post D c c l = pi0 l.
Hypothesis post_sum : forall D c x l, (l < J)%N ->
  \sum_(v <- vs) pd x v * post D c (rcons x v) l = post D c x l.

Lemma rd D K c : forall x, dist (selected_row pd J pi0 (post D) K c x).
Proof. by move=> x; apply: rrow_dist => //; exact: post_sum. Qed.

Lemma rgreedy_mark_E K L D c F : E vs (ranked_greedy_block_mark K.+1 L D c) F
  = E vs (greedy_block_mark vs (selected_row pd J pi0 (post D) K.+1 c) L D c) F.
Proof.
rewrite E_bind (selected_law dpd pi0_law (post_law D) (@post_root D) (post_sum D)).
by rewrite [RHS]E_bind.
Qed.

Theorem ranked_greedy_block_valid K L : valid_carry vs (ranked_greedy_block K.+1 L) L.
Proof.
move=> D c f dD; rewrite -(greedy_block_valid (rd D K.+1 c) L c f dD).
rewrite [LHS]E_bind [RHS]E_bind [LHS]E_bind [RHS]E_bind; exact: rgreedy_mark_E.
Qed.

(* P(accepted at s or deeper) = min(R(s), D(s)): the bound of coupled_min.      *)
Theorem ranked_greedy_block_reach K L D c s : uniq vs -> (forall x, dist (D x)) ->
  all (mem vs) s -> (0 < size s <= L)%N ->
  E vs (ranked_greedy_block_mark K.+1 L D c) (fun o => (reached (c ++ s) o)%:R)
  = Order.min (pmass pd c s * label_weight J pi0 (post D) K.+1 c (c ++ s)) (pmass D c s).
Proof.
move=> vu dD sv sL; rewrite rgreedy_mark_E (greedy_block_reach (rd D K.+1 c)) //; congr Order.min.
rewrite -(pmass_Tw dpd pi0_law (post_law D) (post_sum D)) //.
by rewrite (Tw_root pi0_law (@post_root D)) mul1r.
Qed.

Lemma rgreedy_good K L : good_carry vs (ranked_greedy_block K.+1 L) L.
Proof.
move=> D c dD; set r := selected_row pd J pi0 (post D) K.+1 c.
apply: (always_bind (P := omark_at (joint_ratio r D) c 1 L)).
  apply: (always_bind (selected_size pd J (post D) K L c)) => xs <-.
  exact: scan_mark.
move=> o oo /= y; split=> /=.
- case: o oo => [k [s [-> _ /andP[_ sL] _]]|_]; rewrite size_rcons ?size_cat ltnS ?leq_addr ?leqnn addnS ltnS.
    by rewrite leq_add2l.
  by rewrite leq_addr.
- by move=> x; apply: rchain_dist.
- by move=> x ex; rewrite /greedy_carry ltnNge ex.
Qed.

Theorem ranked_greedy_block_rounds_exact K L N (D : chain) c f : (forall x, dist (D x)) -> (size c <= N)%N ->
  E vs (rounds (ranked_greedy_block K.+1 L) (N - size c) N D c) f = E vs (generate D (N - size c) c) f.
Proof.
move=> dD cN; apply: (rounds_exact f (L := L) _ _ dD _ cN); last by rewrite subnKC.
  exact: ranked_greedy_block_valid.
exact: rgreedy_good.
Qed.
End RankedGreedy.

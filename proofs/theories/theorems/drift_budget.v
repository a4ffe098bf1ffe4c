(* How many coins and rows the schemes use once the drafts are given, so that with coins off by at
   most eps and rows by at most del their output is off by at most n eps + del: n = L for block
   and token by token verification, K L for K-SEQ block and SpecTr-GBV (scale "unit" or "kseq"), K
   for the one-token couplings, the number of nodes of the tree for traversal. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq token_by_token
   block scan walk kseq_block spectr_gbv greedy_block traversal contract drift.
From Draftproof.theorems Require Import block running block_optimal paths walk drift.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Budget.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).

Lemma budget_le A n k n' k' (m : prog A) : (n <= n')%N -> (k <= k')%N ->
  budget n k m -> budget n' k' m.
Proof.
elim: m n k n' k' => [a|r t IHt e IHe|d g IH] n k n' k' //=.
  by case: n n' => [|n] [|n'] // nn kk [bt be]; split; [exact: IHt bt | exact: IHe be].
by case: k k' => [|k] [|k'] // nn kk bg x; exact: IH (bg x).
Qed.

Lemma budget_bind A B n k n' k' (m : prog A) (g : A -> prog B) :
  budget n k m -> (forall a, budget n' k' (g a)) -> budget (n + n') (k + k') (bind m g).
Proof.
move=> bm bg; elim: m n k bm => [a|r t IHt e IHe|d h IH] n k /=.
- by move=> _; apply: budget_le (bg a); rewrite leq_addl.
- by case: n => // n [bt be]; split; [exact: IHt | exact: IHe].
- by case: k => // k bh x; exact: IH.
Qed.

Lemma budget_bindP A B (P : A -> Prop) n k n' k' (m : prog A) (g : A -> prog B) :
  budget n k m -> always P m -> (forall a, P a -> budget n' k' (g a)) ->
  budget (n + n') (k + k') (bind m g).
Proof.
move=> bm Pm bg; elim: m n k bm Pm => [a|r t IHt e IHe|d h IH] n k /=.
- by move=> _ /bg; apply: budget_le; rewrite leq_addl.
- by case: n => // n [bt be] [Pt Pe]; split; [exact: IHt | exact: IHe].
- by case: k => // k bh Ph x; exact: IH.
Qed.

(* The drafts are the same for both; only what is done with them is inexact. *)
Theorem given_drafts (A B : eqType) (P : A -> Prop) (D : prog A) (g g' : A -> prog B) n k
  (eps del : R) f : 0 <= eps -> 0 <= del -> wf vs D -> always P D ->
  (forall a, wf vs (g a)) -> (forall a, wf vs (g' a)) ->
  (forall a, P a -> close vs eps del (g a) (g' a)) -> (forall a, P a -> budget n k (g a)) ->
  (forall b, 0 <= f b <= 1) ->
  `|E vs (bind D g) f - E vs (bind D g') f| <= n%:R * eps + k%:R * del.
Proof.
move=> e0 d0 wD PD wg wg' cg bg f01; rewrite !E_bind E_sub.
apply: le_trans (E_norm _ wD) _; rewrite -[X in _ <= X](E_cst _ wD).
apply: (E_le wD PD) => a Pa.
exact: close_law (wg a) (wg' a) (cg a Pa) (bg a Pa) f01.
Qed.

(* --- One path -------------------------------------------------------------------------- *)
Lemma size_marks (nxt : R -> seq V -> V -> R) c w xs : size (marks nxt c w xs) = size xs.
Proof. by elim: xs c w => //= x xs IH c w; rewrite IH. Qed.

Lemma down_budget (hac : R -> seq V -> bool -> R) ms b : budget (size ms) 0 (down hac ms b).
Proof. by elim: ms => //= k ms IH. Qed.

Lemma deepest_first_budget (nxt : R -> seq V -> V -> R) hac c w xs :
  budget (size xs) 0 (deepest_first nxt hac c w xs).
Proof. by rewrite -(size_marks nxt c w) -size_rev; exact: down_budget. Qed.

Theorem block_budget (pd qt : chain) c xs : budget (size xs) 1 (block_path vs pd qt c xs).
Proof.
rewrite -[size xs]addn0 -[1%N]add0n; apply: budget_bind; first exact: deepest_first_budget.
by move=> o; case: (if o is Some k then k else _) => [[c' w] last].
Qed.

Theorem greedy_block_budget (pd D : chain) L c xs : budget (size xs) 1
  (bind (deepest_first (joint_ratio pd D) (greedy_bias vs pd D) c 1 xs)
    (greedy_block_out vs pd L D c)).
Proof.
by rewrite -[size xs]addn0 -[1%N]add0n; apply: budget_bind => //; exact: deepest_first_budget.
Qed.

Theorem token_by_token_budget (pd qt : chain) c xs :
  budget (size xs) 1 (token_by_token_scan vs pd qt c xs).
Proof. by elim: xs c => //= x xs IH c; split. Qed.

(* --- One token --------------------------------------------------------------------------- *)
Theorem kseq_budget (p q : V -> R) r K xs : budget (size xs) 1 (kseq_scan vs p q r K xs).
Proof. by elim: xs => //= x xs IH; split. Qed.

Theorem recursive_rejection_budget (d : seq V -> V -> R) h q xs :
  budget (size xs) 1 (recursive_rejection_scan vs d h q xs).
Proof. by elim: xs h q => //= x xs IH h q; split. Qed.

(* --- Several paths, one after another ------------------------------------------------------ *)
Section Walk.
Variables (S X O : Type) (test : S -> seq V -> prog (option X)) (pre : S -> X -> seq V).
Variables (leaf : X -> bool) (mk : S -> X -> nat -> S) (rej : S -> S) (fin : S -> prog O)
  (ext : bool).
Hypothesis test_budget : forall st xs, budget (size xs) 0 (test st xs).
Hypothesis fin_budget : forall st, budget 0 1 (fin st).

Definition shorter L (ps : seq (seq V)) := all (fun s : seq V => size s <= L)%N ps.

Lemma follow_shorter L x ps : shorter L ps -> shorter L (follow x ps).
Proof.
elim: ps => //= -[|y s] ps IH //= /andP[sL /IH h].
by case: ifP => //= _; rewrite h andbT ltnW.
Qed.

Lemma through_shorter L s ps : shorter L ps -> shorter L (through s ps).
Proof. by elim: s ps => //= x s IH ps sp; apply: IH; exact: follow_shorter. Qed.

Theorem walk_budget L fuel st ps : shorter L ps ->
  budget (fuel * L) 1 (walk test pre leaf mk rej fin ext fuel st ps).
Proof.
elim: fuel st ps => [|fuel IH] st [|xs ps] //=; try by move=> _; apply: budget_le (fin_budget st).
case/andP=> sx sps; rewrite mulSn -[1%N]add0n; apply: budget_bind.
  by apply: budget_le (test_budget st xs).
case=> [x|]; apply: IH => //; rewrite /alive; case: ifP => // _.
exact: through_shorter.
Qed.
End Walk.

Theorem kseq_block_budget (pd qt : chain) rho ext fuel L st ps : shorter L ps ->
  budget (fuel * L) 1 (walk (kseq_block_test_contract vs pd qt rho) (@kseq_block_prefix R V) snd
    (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho) ext fuel st ps).
Proof.
apply: walk_budget => [[[[c m] T] n] xs|[[[c m] T] n]] //; exact: deepest_first_budget.
Qed.

Theorem spectr_gbv_budget (pd : chain) rho unit ext fuel L st ps : shorter L ps ->
  budget (fuel * L) 1 (walk (gbv_test_contract vs pd rho unit) (@gbv_prefix R V) snd
    (gbv_node vs pd rho unit) (gbv_rejected vs pd rho unit) (gbv_correction vs pd rho unit) ext
    fuel st ps).
Proof.
apply: walk_budget => [[[[c m] D] n] xs|[[[c m] D] n]] //; exact: deepest_first_budget.
Qed.

(* --- Traversal ------------------------------------------------------------------------------- *)
Fixpoint nodes (t : tree V) : nat :=
  if t is Child _ below rest then (nodes below + nodes rest).+1 else 0%N.

Lemma budget_ext A B n k (m : prog A) (g g' : A -> prog B) :
  (forall a n k, budget n k (g a) -> budget n k (g' a)) ->
  budget n k (bind m g) -> budget n k (bind m g').
Proof.
move=> gg; elim: m n k => [a|r t IHt e IHe|d h IH] n k /=; first exact: gg.
  by case: n => // n [bt be]; split; [exact: IHt | exact: IHe].
by case: k => // k bh x; exact: IH.
Qed.

Lemma budget_assoc A B C n k (m : prog A) (g : A -> prog B) (h : B -> prog C) :
  budget n k (bind m (fun a => bind (g a) h)) -> budget n k (bind (bind m g) h).
Proof.
elim: m n k => [a|r t IHt e IHe|d f IH] n k //=.
  by case: n => // n [bt be]; split; [exact: IHt | exact: IHe].
by case: k => // k bf x; exact: IH.
Qed.

Lemma budget_first A B n k (m : prog A) (g : A -> prog B) : budget n k (bind m g) -> budget n k m.
Proof.
elim: m n k => [a|r t IHt e IHe|d f IH] n k //=.
  by case: n => // n [bt be]; split; [exact: IHt | exact: IHe].
by case: k => // k bf x; exact: IH.
Qed.

Section Visit.
Variables (pd qt : chain) (sibling : (V -> R) -> V -> V -> R).
Notation visit := (visit vs pd qt sibling).

(* What comes after a rejection uses the row that was not drawn. *)
Lemma visit_then t (root : bool) c w p q n (h : prog (option (seq V))) : budget n 1 h ->
  budget (nodes t + ~~ root + n) 1
    (bind (visit t root c w p q) (fun o => if o is Some s then Ret (Some s) else h)).
Proof.
elim: t root c w p q n h => [|x b IHb r IHr] root c w p q n h bh; first by case: root.
rewrite [visit _ _ _ _ _ _]/=; apply: budget_assoc.
set h1 := bind (visit r root c (node_weight vs p q w) (sibling p x) (node_row vs p q w))
  (fun o => if o is Some s then Ret (Some s) else h).
have b1 : budget (nodes r + ~~ root + n) 1 h1 by exact: IHr.
have -> : (nodes (Child x b r) + ~~ root + n = nodes b + 1 + (nodes r + ~~ root + n))%N.
  by rewrite /= -addn1 [(nodes b + 1 + _)%N]addnAC -!addnA [(1 + _)%N]addnC !addnA.
apply: budget_ext (IHb false _ _ _ _ _ _ b1) => o n1 k1.
by case: o.
Qed.

Theorem traverse_budget t c : budget (nodes t) 1 (traverse vs pd qt sibling t c).
Proof.
rewrite /traverse -[nodes t]addn0 -[1%N]addn0; apply: budget_bind => //.
have := @visit_then t true c 1 (pd c) (qt c) 0 (Ret None) I.
by rewrite /= !addn0 => /budget_first.
Qed.
End Visit.
End Budget.

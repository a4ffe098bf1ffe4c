(* Hypotheses that cannot be dropped, as pairs of theorems. Each claim is the statement of a headline
   theorem with one hypothesis as its parameter: it holds with the hypothesis (that is the theorem), and
   it is false without (with the hypothesis True), by an instance that is computed on rationals.        *)
From Coq Require Import ZArith QArith Qcanon.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity rounds
   block scan kseq_block spectr_gbv greedy_block selection ranked_block ranked_greedy_block multipath
   contract.
From Draftproof.theorems Require Import maximal draws paths recursive_rejection rounds multipath selection_plan
   contract.
From Draftproof.refutations Require Import published controls hypotheses ranked_block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation rows V R := (V -> R).
Notation chain V R := (seq V -> V -> R).

(* The rows of the instances are distributions. *)
Lemma pair_dist (a b : Q) : (0 <= a) -> (0 <= b) -> a + b = 1 -> is_dist vs2 (pair_ a b).
Proof.
move=> a0 b0 ab; split=> [[|[|x]]|] //.
by rewrite -sumfE /= addr0.
Qed.
Ltac dist := by apply: pair_dist; [vm_compute | vm_compute | apply/eqP; vm_compute].
Lemma dist_ph2 : is_dist vs2 ph2. Proof. dist. Qed.
Lemma dist_q31 : is_dist vs2 q31. Proof. dist. Qed.
Lemma dist_q11 : is_dist vs2 q11. Proof. dist. Qed.
Lemma dist_p21 : is_dist vs2 p21. Proof. dist. Qed.
Lemma dist_q12 : is_dist vs2 q12. Proof. dist. Qed.
Ltac differs H := by move/eqP: H; vm_compute.

(* --- maximal_law: the draft row sums to 1 ---------------------------------------------------- *)
Definition maximal_claim (sums : forall R : realFieldType, R -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (p q : V -> R) f,
    (forall x, 0 <= p x) -> sums R (\sum_(x <- vs) p x) -> is_dist vs q ->
    E vs (maximal vs p q) (fun o => f o.2) = \sum_(y <- vs) q y * f y.
Theorem maximal_sum : maximal_claim (fun R s => s = 1).
Proof. by move=> R V vs p q f p0 p1 dq; exact: maximal_law. Qed.
Theorem maximal_sum_needed : ~ maximal_claim (fun _ _ => True).
Proof.
move=> claim; have p0 x : 0 <= p_short x by case: x => [|[|x]].
have := claim Q nat_eqType vs2 p_short q11 (tok 1%N) p0 I dist_q11.
by rewrite -sumfE => H; differs H.
Qed.

(* --- recursive_rejection_law: tests with the law that the drafts have ------------------------ *)
Definition drafter_claim (same : forall (R : realFieldType) (V : eqType), chain V R -> chain V R -> Prop)
  : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (drawn tested : chain V R) n q f,
    (forall h, is_dist vs (drawn h)) -> (forall h, is_dist vs (tested h)) -> same R V drawn tested ->
    is_dist vs q ->
    E vs (bind (draws drawn n [::]) (recursive_rejection_scan vs tested [::] q)) f
    = \sum_(y <- vs) q y * f y.
Theorem drafter_same : drafter_claim (fun R V drawn tested => drawn = tested).
Proof. by move=> R V vs drawn _ n q f dd _ <- dq; exact: recursive_rejection_law. Qed.
Theorem drafter_same_needed : ~ drafter_claim (fun _ _ _ _ => True).
Proof.
move=> claim; have := claim Q nat_eqType vs2 (always_ ph2) (always_ q31) 1%N ph2 (tok 1%N)
  (fun=> dist_ph2) (fun=> dist_q31) I dist_ph2.
by rewrite -sumfE => H; differs H.
Qed.

(* --- answer_exact: a vocabulary without repetitions ------------------------------------------- *)
Definition answer_claim (distinct : forall V : eqType, seq V -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (d : chain V R) (q : V -> R) K f,
    distinct V vs -> (forall h, is_dist vs (d h)) -> is_dist vs q ->
    E vs (bind (draws d K [::]) (answer vs q)) f = \sum_(y <- vs) q y * f y.
Theorem answer_uniq : answer_claim (fun V vs => uniq vs).
Proof.
move=> R V vs d q K f vu dd dq; apply: (answer_exact (w := fun=> q)) => // y yv.
exact: (E_cst _ (draws_wf K [::] dd)).
Qed.
Theorem answer_uniq_needed : ~ answer_claim (fun _ _ => True).
Proof.
have dist001 (a b : Q) : 0 <= a -> 0 <= b -> a + (a + b) = 1 -> is_dist [:: 0; 0; 1]%N (pair_ a b).
  move=> a0 b0 ab; split=> [[|[|x]]|] //.
  by rewrite -sumfE /= addr0.
have d1 : is_dist [:: 0; 0; 1]%N q_twice.
  by apply: dist001; [vm_compute | vm_compute | apply/eqP; vm_compute].
move=> claim; have := claim Q nat_eqType [:: 0; 0; 1]%N (fun=> q_twice) q_twice 1%N (tok 0%N) I
  (fun=> d1) d1.
by rewrite -sumfE => H; differs H.
Qed.

(* --- choose_coupling_exact: the plan chooses by a law (its marginals) -------------------------- *)
Definition choice_claim
    (law : forall (R : realFieldType) (V : eqType), seq V -> (V -> R) -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (d ch : chain V R) (q : V -> R) K f,
    uniq vs -> (forall h, is_dist vs (d h)) -> (forall xs, law R V vs (ch xs)) -> is_dist vs q ->
    E vs (bind (draws d K [::]) (choose_coupling vs d K ch q)) f = \sum_(y <- vs) q y * f y.
Theorem choice_law : choice_claim (fun R V vs w => is_dist vs w).
Proof. by move=> R V vs d ch q K f vu dd dc dq; exact: choose_coupling_exact. Qed.
Theorem choice_law_needed : ~ choice_claim (fun _ _ _ _ => True).
Proof.
move=> claim; have := claim Q nat_eqType vs2 (always_ ph2) (fun _ _ => 0) q31 1%N (tok 0%N) isT
  (fun=> dist_ph2) (fun=> I) dist_q31.
by rewrite -sumfE => H; differs H.
Qed.

(* --- K-SEQ block verification: a valid scale, for the program to be one (coins in [0, 1], rows that
   are distributions: kblock_safe, of which kseq_block_decode_exact makes use)                       *)
Definition scale_claim (ok : forall (R : realFieldType) (V : eqType),
    seq V -> ((V -> R) -> (V -> R) -> nat -> R) -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : chain V R) rho ext K L c,
    (forall c, is_dist vs (pd c)) -> (forall c, is_dist vs (qt c)) -> ok R V vs rho ->
    wf vs (kseq_block vs pd qt rho ext K L c).
Theorem scale_valid : scale_claim (fun R V vs rho => rho_ok vs rho).
Proof. by move=> R V vs pd qt rho ext K L c dpd dqt rok; have [] := kblock_safe dpd rok ext dqt K L c. Qed.
Theorem scale_valid_needed : ~ scale_claim (fun _ _ _ _ => True).
Proof.
move=> claim; have := claim Q nat_eqType vs2 (always_ ph2) (always_ q31) (fun _ _ _ => 1) true 2%N 1%N
  [::] (fun=> dist_ph2) (fun=> dist_q31) I.
case=> _ /(_ 1%N) [_ /(_ 1%N) [_ [_ [_ [_ [[/(_ 1%N) H _] _]]]]]].
by move: H; vm_compute.
Qed.

(* --- greedy_block_contract_valid: the carry ------------------------------------------------------ *)
Definition carry_claim (goes_on : forall R V, chain V R -> chain V R -> chain V R) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (pd D : chain V R) L c f,
    (forall c, is_dist vs (pd c)) -> (forall x, is_dist vs (D x)) ->
    E vs (bind (greedy_block_contract vs pd L D c)
      (fun o => fill (goes_on R V D o.2) (size c + L.+1)%N o.1)) f
    = E vs (generate D L.+1 c) f.
Theorem carry_kept : carry_claim (fun R V given carried => carried).
Proof. by move=> R V vs pd D L c f dpd dD; exact: greedy_block_contract_valid. Qed.
Theorem carry_needed : ~ carry_claim (fun R V given carried => given).
Proof.
move=> claim; have H := claim Q nat_eqType vs2 (always_ p21) (always_ q12) 2%N [::]
  (at_position 1 0%N) (fun=> dist_p21) (fun=> dist_q12).
differs H.
Qed.

(* --- ranked_block_contract_valid: the label laws of the children average to the node's ----------- *)
Definition labels_claim (average : forall R : realFieldType, R -> R -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : chain V R) J pi0 post K L,
    (forall c, is_dist vs (pd c)) -> (forall c, is_dist vs (qt c)) ->
    is_law J pi0 -> (forall c x, is_law J (post c x)) ->
    (forall c l, (l < J)%N -> post c c l = pi0 l) ->
    (forall c x l, (l < J)%N ->
      average R (\sum_(v <- vs) pd x v * post c (rcons x v) l) (post c x l)) ->
    valid vs qt (ranked_block_contract vs pd qt J pi0 post K.+1 L) L.
Theorem labels_average : labels_claim (fun R a b => a = b).
Proof.
move=> R V vs pd qt J pi0 post K L dpd dqt p0 pl pr ps.
exact: (ranked_block_contract_valid dpd dqt K L p0 pl pr ps).
Qed.
Theorem labels_average_needed : ~ labels_claim (fun _ _ _ => True).
Proof.
have law2 (a b : Q) : 0 <= a -> 0 <= b -> 0 + a + b = 1 -> is_law 2 (pair_ a b).
  by move=> a0 b0 ab; split=> [[|[|x]]|].
have l1 : is_law 2 piN by apply: law2; [vm_compute | vm_compute | apply/eqP; vm_compute].
have l2 c x : is_law 2 (postB c x).
  by rewrite /postB; case: drop => [|[|v] s] //;
    apply: law2; (try by vm_compute); apply/eqP; vm_compute.
have l3 c l : (l < 2)%N -> postB c c l = piN l by rewrite /postB drop_size.
move=> claim; have H := claim Q nat_eqType vs2 pN pN 2%N piN postB 1%N 1%N (fun=> dist_ph2)
  (fun=> dist_ph2) l1 l2 l3 (fun _ _ _ _ => I) [::] first.
differs H.
Qed.

(* --- ranked_greedy_block_contract_valid: at least one draft --------------------------------------- *)
Definition one_draft_claim (enough : nat -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (pd : chain V R) J pi0
    (post : chain V R -> seq V -> seq V -> nat -> R) K L,
    (forall c, is_dist vs (pd c)) ->
    is_law J pi0 -> (forall D c x, is_law J (post D c x)) ->
    (forall D c l, (l < J)%N -> post D c c l = pi0 l) ->
    (forall D c x l, (l < J)%N ->
      \sum_(v <- vs) pd x v * post D c (rcons x v) l = post D c x l) -> enough K ->
    valid_carry vs (ranked_greedy_block_contract vs pd J pi0 post K L) L.
Theorem one_draft : one_draft_claim (fun K => (0 < K)%N).
Proof.
move=> R V vs pd J pi0 post [|K] L dpd p0 pl pr ps // _.
exact: (ranked_greedy_block_contract_valid dpd K L p0 pl pr ps).
Qed.
Theorem one_draft_is_needed : ~ one_draft_claim (fun _ => True).
Proof.
have l1 : is_law 1 one_label.
  by split=> [l|]; [exact: ler0n | rewrite /= add0r].
move=> claim; have H := claim Q nat_eqType vs2 (always_ ph2) 1%N one_label (fun _ _ _ => one_label) 0%N
  1%N (fun=> dist_ph2) l1 (fun _ _ _ => l1) (fun _ _ _ _ => erefl) _ I (always_ q31) [::]
  (at_position 0 0%N) (fun=> dist_q31).
have sums : forall (D : chain nat_eqType Q) (c x : seq nat) l, (l < 1)%N ->
    \sum_(v <- vs2) always_ ph2 x v * one_label l = one_label l.
  by move=> D c x l _; rewrite -big_distrl /= dist_ph2.2 mul1r.
by have {}H := H sums; differs H.
Qed.

(* --- multipath_contract_valid: one order, for the selection and for its law ------------------------ *)
Definition order_claim (same : forall V : eqType, (seq V -> seq V -> nat) -> (seq V -> seq V -> nat) -> Prop)
  : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : chain V R) J L selecting lawful K,
    (forall c, is_dist vs (pd c)) -> (forall c, is_dist vs (qt c)) ->
    (forall c x, (selecting c x < J)%N) -> (forall c x, (lawful c x < J)%N) ->
    same V selecting lawful ->
    valid vs qt (largest_by_two_keys vs pd qt J L selecting lawful K.+1) L.
Theorem order_same : order_claim (fun V selecting lawful => selecting = lawful).
Proof.
move=> R V vs pd qt J L key _ K dpd dqt kJ _ <-.
exact: (@multipath_contract_valid R V vs pd qt dpd dqt J L key K kJ).
Qed.
Theorem order_same_needed : ~ order_claim (fun _ _ _ => True).
Proof.
pose capped (key : seq nat -> seq nat -> nat) c x := minn (key c x) 1.
have below key c x : (capped key c x < 2)%N by rewrite ltnS geq_minr.
move=> claim; have H := claim Q nat_eqType vs2 (always_ ph2) (always_ ph2) 2%N 1%N
  (capped smaller_on_top) (capped larger_on_top) 1%N (fun=> dist_ph2) (fun=> dist_ph2)
  (below smaller_on_top) (below larger_on_top) I [::] (at_position 0 0%N).
differs H.
Qed.

(* --- selection_exists: R(H) >= p(H)^K for every set H of paths --------------------------------------- *)
Definition domination_claim (above : forall R : realFieldType, R -> R -> Prop) : Prop :=
  forall (R : realFieldType) (V : eqType) (vs : seq V) (pd rr : chain V R) K L c,
    uniq vs -> (forall c, is_dist vs (pd c)) -> (forall x, is_dist vs (rr x)) ->
    (forall H : pred (seq V), above R (E vs (draft pd L c) (fun s => (H s)%:R) ^+ K.+1)
      (E vs (draft rr L c) (fun s => (H s)%:R))) ->
    exists sel : seq (seq V) -> prog R V nat,
    [/\ forall ps, wf vs (sel ps),
        forall ps, size ps = K.+1 -> always (fun k => k < K.+1)%N (sel ps)
      & forall F, E vs (drafts pd K.+1 L c) (fun ps => E vs (sel ps) (fun k => F (nth [::] ps k)))
        = E vs (draft rr L c) F].
Theorem domination : domination_claim (fun R a b => a <= b).
Proof. by move=> R V vs pd rr K L c vu dpd drr rH; exact: selection_exists. Qed.
Theorem domination_needed : ~ domination_claim (fun _ _ _ => True).
Proof.
move=> claim; have [sel [wsel ksel] H] := claim Q nat_eqType vs2 (always_ ph2) (always_ q31) 0%N 1%N
  [::] isT (fun=> dist_ph2) (fun=> dist_q31) (fun=> I).
have := H (at_position 0 0%N).
have one : forall s, E vs2 (sel [:: s]) (fun k => at_position 0 0%N (nth [::] [:: s] k))
    = at_position 0 0%N s.
  move=> s; rewrite -[RHS](E_cst _ (wsel [:: s])).
  by apply: (E_always _ (ksel [:: s] erefl)) => [[|k]].
rewrite drafts_S => {}H.
have {}H : E vs2 (draft (always_ ph2) 1 [::]) (at_position 0 0%N)
    = E vs2 (draft (always_ q31) 1 [::]) (at_position 0 0%N).
  by rewrite -H; apply: E_ext => s; rewrite /= one.
differs H.
Qed.

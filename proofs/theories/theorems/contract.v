(* The programs of programs/contract.v have the laws of the proved schemes, hence are valid.      *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block target_match scan walk spectr kseq_block spectr_gbv greedy_block selection
   ranked_block multipath contract.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block scan walk
   spectr kseq_block spectr_gbv greedy_block ranked_block multipath test_order.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Order.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Local Notation Ev := (@E R V vs _).
Implicit Types (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R).

(* Testing from the deepest token and stopping at the first success has the law of flipping every
   coin and keeping the deepest success.                                                          *)
Theorem deepest_first_E nxt hac c w xs F :
  Ev (deepest_first nxt hac c w xs) F = Ev (scan nxt hac c w xs None) F.
Proof. by rewrite scan_down. Qed.

Lemma scan_some nxt hac c w xs (b b1 b2 : mark R V) F :
  Ev (scan nxt hac c w xs (Some b)) (fun o => F (odflt b1 o))
  = Ev (scan nxt hac c w xs (Some b)) (fun o => F (odflt b2 o)).
Proof. by elim: xs c w b => [|x xs IH] c w b //=; rewrite !IH. Qed.

Lemma scan_default nxt hac c w xs (b : mark R V) F :
  Ev (scan nxt hac c w xs None) (fun o => F (odflt b o))
  = Ev (scan nxt hac c w xs (Some b)) (fun o => F (odflt b o)).
Proof. by elim: xs c w => [|x xs IH] c w //=; rewrite IH. Qed.

Lemma block_scan_E pd qt c w xs b F : Ev (block_scan vs pd qt c w xs b) F
  = Ev (scan (block_weight pd qt) (block_bias vs pd qt) c w xs (Some b))
      (fun o => F (odflt b o)).
Proof.
elim: xs c w b => [|x xs IH] c w b //=; rewrite !IH; congr (_ * _ + _).
exact: scan_some.
Qed.

Lemma block_path_E pd qt c xs F : Ev (block_path vs pd qt c xs) F
  = Ev (bind (block_scan vs pd qt c 1 xs (c, 1, xs == [::])) (block_emit vs pd qt)) F.
Proof.
rewrite /block_path E_bind (@deepest_first_E _ _ c 1 xs) [RHS]E_bind block_scan_E.
rewrite -(scan_default _ _ _ _ _ _ (fun k => Ev (block_emit vs pd qt k) F)).
by apply: E_ext => [[k|]].
Qed.

(* --- Each scheme has the law of the one that is proved ---------------------------------- *)
Theorem block_contract_E pd qt L c F :
  Ev (block_contract vs pd qt L c) F = Ev (block vs pd qt L c) F.
Proof. by rewrite E_bind [RHS]E_bind; apply: E_ext => xs; exact: block_path_E. Qed.

Theorem greedy_block_contract_E pd L (D : chain) c F :
  Ev (greedy_block_contract vs pd L D c) F = Ev (greedy_block vs pd L D c) F.
Proof.
rewrite E_bind [RHS]E_bind /greedy_block_mark [LHS]E_bind [RHS]E_bind; apply: E_ext => xs.
exact: deepest_first_E.
Qed.

Lemma walk_ext (S X O : Type) (t1 t2 : S -> seq V -> prog (option X)) pre leaf mk rej
    (fin : S -> prog O) ext fuel st ps F :
  (forall st xs G, Ev (t1 st xs) G = Ev (t2 st xs) G) ->
  Ev (walk t1 pre leaf mk rej fin ext fuel st ps) F
  = Ev (walk t2 pre leaf mk rej fin ext fuel st ps) F.
Proof.
move=> t12; elim: fuel st ps => [|fuel IH] st [|xs ps] //=.
rewrite !E_bind t12; apply: E_ext => [[x|]]; exact: IH.
Qed.

Theorem kseq_block_contract_E pd qt rho ext K L c F :
  Ev (kseq_block_contract vs pd qt rho ext K L c) F = Ev (kseq_block vs pd qt rho ext K L c) F.
Proof.
rewrite E_bind [RHS]E_bind; apply: E_ext => ps; apply: walk_ext => [[[[c1 m] T] n]] xs G.
exact: deepest_first_E.
Qed.

Theorem spectr_gbv_contract_E pd rho unit ext K L (D : chain) c F :
  Ev (spectr_gbv_contract vs pd rho unit ext K L D c) F
  = Ev (spectr_gbv vs pd rho unit ext K L D c) F.
Proof.
rewrite E_bind [RHS]E_bind; apply: E_ext => ps; apply: walk_ext => [[[[c1 m] D1] n]] xs G.
exact: deepest_first_E.
Qed.

Theorem ranked_block_contract_E pd qt J pi0 post K L c F :
  Ev (ranked_block_contract vs pd qt J pi0 post K L c) F
  = Ev (ranked_block vs pd qt J pi0 post K L c) F.
Proof. by rewrite E_bind [RHS]E_bind; apply: E_ext => xs; exact: block_path_E. Qed.

Theorem multipath_contract_E pd qt J L score key K c F :
  Ev (multipath_contract vs pd qt J L score key K c) F
  = Ev (multipath vs pd qt J L score key K c) F.
Proof. by rewrite E_bind [RHS]E_bind; apply: E_ext => xs; exact: block_path_E. Qed.
End Order.

(* --- So all of them are valid --------------------------------------------------------------- *)
Section Valid.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).

Theorem block_contract_valid L : valid vs qt (block_contract vs pd qt L) L.
Proof.
by move=> c f; rewrite -(block_valid dpd dqt L c f) E_bind [RHS]E_bind block_contract_E.
Qed.

Theorem greedy_block_contract_valid L : valid_carry vs (greedy_block_contract vs pd L) L.
Proof.
by move=> D c f dD; rewrite -(greedy_block_valid dpd L c f dD) E_bind [RHS]E_bind
  greedy_block_contract_E.
Qed.

Theorem kseq_block_contract_valid rho ext K L : rho_ok vs rho ->
  valid vs qt (kseq_block_contract vs pd qt rho ext K L) L.
Proof.
move=> rok c f; rewrite -(kseq_block_valid dpd dqt rok ext K L c f).
by rewrite E_bind [RHS]E_bind kseq_block_contract_E.
Qed.

Theorem spectr_gbv_contract_valid rho unit ext K L : rho_ok vs rho ->
  valid_carry vs (spectr_gbv_contract vs pd rho unit ext K L) L.
Proof.
move=> rok D c f dD; rewrite -(spectr_gbv_valid dpd rok unit ext K L c f dD).
by rewrite E_bind [RHS]E_bind spectr_gbv_contract_E.
Qed.

Theorem ranked_block_contract_valid J pi0 post K L :
  is_law J pi0 -> (forall c x, is_law J (post c x)) ->
  (forall c l, (l < J)%N -> post c c l = pi0 l) ->
  (forall c x l, (l < J)%N -> \sum_(v <- vs) pd x v * post c (rcons x v) l = post c x l) ->
  valid vs qt (ranked_block_contract vs pd qt J pi0 post K.+1 L) L.
Proof.
move=> p0 pl pr ps c f; rewrite -(ranked_block_valid dpd dqt p0 pl pr ps K L c f).
by rewrite E_bind [RHS]E_bind ranked_block_contract_E.
Qed.

Theorem multipath_contract_valid J L key K : (forall c x, (key c x < J)%N) ->
  valid vs qt (multipath_contract vs pd qt J L (sure R key) key K.+1) L.
Proof.
move=> kJ c f; rewrite -(multipath_valid L dpd dqt kJ K c f).
by rewrite E_bind [RHS]E_bind multipath_contract_E.
Qed.

(* Any exact coupling of K drafts, as a block of length 1. *)
Theorem one_token_valid d coupling K :
  (forall c f, E vs (bind (draws (d c) K [::]) (coupling c)) f = \sum_(y <- vs) qt c y * f y) ->
  valid vs qt (fun c => one_token qt (d c) (coupling c) K c) 1.
Proof.
move=> ex c f; rewrite !E_bind /= sumfE.
transitivity (\sum_(y <- vs) qt c y * E vs (emit (qt (rcons c y)) (rcons c y)) f); last first.
  by apply: eq_sum => y.
rewrite -(ex c (fun y => E vs (emit (qt (rcons c y)) (rcons c y)) f)) E_bind.
apply: E_ext => xs; rewrite E_bind; apply: E_ext => y.
have N2 : (size c + 2 - size (rcons c y) = 1)%N by rewrite size_rcons addnS subSS addnC addnK.
case: (y \in xs) => /=; last by rewrite /fill N2.
rewrite !sumfE; apply: eq_sum => z; rewrite /fill !size_rcons.
by have -> : (size c + 2 - (size c).+2 = 0)%N by rewrite addnC subnn.
Qed.
End Valid.

(* --- The scale -------------------------------------------------------------------------------- *)
Section Scale.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation dist := (is_dist vs).

(* The scale that the code computes is valid, whatever the grid. *)
Theorem smallest_scale_ok g : rho_ok vs (@smallest_scale R V vs g).
Proof.
move=> p q n dp dq; rewrite /smallest_scale; set r := _ / _.
have n0 : (0 : R) < (maxn n 1)%:R by rewrite ltr0n leq_max orbT.
case: ifP => [/andP[]|_] //; split=> //.
apply: le_trans (geo_leK dp dq n0 n) _; by rewrite ler_nat leq_maxl.
Qed.

(* Any scale that passes the code's test is valid where something is covered. *)
Theorem passes_valid (p q : V -> R) n r : beta vs p q r > 0 ->
  passes vs p q n r -> cover vs p q r n <= r.
Proof. by move=> b0; rewrite /passes -geo_beta ler_pmul2r. Qed.
End Scale.

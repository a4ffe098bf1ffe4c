(* The several-draft schemes reduce to the known ones: K-SEQ block verification
   with K = 1 is block verification, and with L = 1 it is K-SEQ; SpecTr-GBV with
   K = 1 is greedy block verification.                                        *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block target_match spectr scan walk kseq_block spectr_gbv greedy_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths spectr scan walk kseq_block spectr_gbv greedy_block block_optimal expected_length
   kseq_bound.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Reduce.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Variables (rho : (V -> R) -> (V -> R) -> nat -> R) (ext : bool).
Notation prog := (prog R V).
Notation dist := (is_dist vs).

Lemma through_nil (s : seq V) : through s [::] = [::].
Proof. by elim: s => //= x s ->. Qed.

Lemma alive_nil S X (pre : S -> X -> seq V) leaf e st x : alive pre leaf e st x [::] = [::].
Proof. by rewrite /alive; case: ifP => // _; rewrite through_nil. Qed.

Lemma scan_cong_ge0 nx h1 h2 c w xs b (f : option (mark R V) -> R) :
  (forall w c x, 0 <= w -> 0 <= nx w c x) -> (forall w c l, 0 <= w -> h1 w c l = h2 w c l) ->
  0 <= w -> E vs (scan nx h1 c w xs b) f = E vs (scan nx h2 c w xs b) f.
Proof.
move=> n0 h12; elim: xs c w b => //= x xs IH c w b w0.
by rewrite h12 ?n0 // !IH ?n0.
Qed.

Lemma scan_cong n1 n2 h1 h2 c w xs b (f : option (mark R V) -> R) :
  (forall w c x, n1 w c x = n2 w c x) -> (forall w c l, h1 w c l = h2 w c l) ->
  E vs (scan n1 h1 c w xs b) f = E vs (scan n2 h2 c w xs b) f.
Proof. by move=> n12 h12; elim: xs c w b => //= x xs IH c w b; rewrite n12 h12 !IH. Qed.

Lemma emit_cong (d1 d2 : V -> R) c (f : seq V -> R) : d1 =1 d2 ->
  E vs (emit d1 c) f = E vs (emit d2 c) f.
Proof. by move=> d12; rewrite !E_Draw; apply: eq_sum => y; rewrite d12. Qed.

Lemma row_at_id c x : row_at qt c (qt c) x = qt x.
Proof. by rewrite /row_at; case: eqP => [->|]. Qed.

Lemma kres0 p (q : V -> R) r y : dist q -> clip_residual vs p q r 0 y = q y.
Proof.
move=> dq; rewrite /clip_residual /owed /= sumfE.
have -> : \sum_(x <- vs) (q x - 0 * covered p q r x) = 1.
  by rewrite -dq.2; apply: eq_sum => x; rewrite mul0r subr0.
by rewrite oner_eq0 mul0r subr0 divr1.
Qed.

Lemma kres1 p (q : V -> R) y : clip_residual vs p q 1 1 y = res vs p q y.
Proof.
have e x : owed vs p q 1 1 x = excess p q x.
  by rewrite excessE /owed /= mulr0 addr0 mul1r /covered divr1.
by rewrite /clip_residual /res !sumfE (eq_sum vs e) e.
Qed.

(* Where the walk has no path left. *)
Lemma kfin0 c m T (f : seq V -> R) : dist T ->
  E vs (kseq_block_correction vs pd rho (c, m, T, 0%N)) f = E vs (emit T c) f.
Proof. by move=> dT; apply: emit_cong => y; exact: kres0. Qed.

(* K = 1 is block verification (its scale is 1). *)
Theorem kseq_block_K1 L c f : rho (pd c) (qt c) 1 = 1 ->
  E vs (kseq_block vs pd qt rho ext 1 L c) f = E vs (block vs pd qt L c) f.
Proof.
move=> r1; rewrite /kseq_block /block [LHS]E_bind drafts_S [RHS]E_bind.
apply: (E_always _ (draft_size pd L c)) => xs sx; rewrite [LHS]/=.
case: L sx => [|m] sx.
  by case: xs sx => // _; rewrite [LHS]kfin0.
have -> : (xs == [::]) = false by case: (xs) sx.
set st := (c, m.+1, qt c, 1%N); set D := row_at qt c (qt c).
transitivity (E vs (scan (block_weight pd D) (block_bias vs pd D) c 1 xs None) (fun o =>
    if o is Some x then E vs (kseq_block_correction vs pd rho (kseq_block_node vs pd qt st x 0)) f else E vs (kseq_block_correction vs pd rho st) f)).
  rewrite -[in RHS]invr1 -[X in X^-1]r1 /= E_bind; apply: E_ext => [[x|]] //.
  rewrite /alive; case: ifP => // _; by rewrite through_nil.
rewrite [RHS]E_bind -(scan_blk vs pd qt c 1 xs None (c, 1, false)).
rewrite (@scan_cong _ (block_weight pd qt) _ (block_bias vs pd qt)); first last.
- move=> w c1 [] //; rewrite /block_bias /block_surplus !sumfE.
  by rewrite (eq_sum vs (g := excess (pd c1) (wq qt w c1))) // => y; rewrite /excess /wq /D row_at_id.
- by move=> w c1 x; rewrite /block_weight /acc /wq /D row_at_id.
apply: E_ext => [[[[c' w'] last]|]] /=.
  rewrite [LHS]kfin0 //; case: (last); [exact: dqt | exact: bres_dist].
apply: emit_cong => y; rewrite r1 kres1 /res /block_residual /block_surplus !sumfE.
have e x : excess (pd c) (wq qt 1 c) x = excess (pd c) (qt c) x by rewrite /excess /wq mul1r.
by rewrite (eq_sum vs e) e.
Qed.

(* L = 1 is K-SEQ: a kept draft is followed by a token of the target. *)
Lemma tails0 c xs (F : seq (seq V) -> R) :
  E vs (tails pd 0 c xs) F = F [seq [:: x] | x <- xs].
Proof. by elim: xs F => //= x xs IH F; rewrite E_bind /= IH. Qed.

Theorem kseq_block_L1 K c f : E vs (kseq_block vs pd qt rho ext K 1 c) f
  = E vs (kseq_rep vs (pd c) (qt c) (rho (pd c) (qt c) K) K) (fun o =>
      if o.1 then E vs (emit (qt (rcons c o.2)) (rcons c o.2)) f else f (rcons c o.2)).
Proof.
set G := fun o : bool * V => _.
have walkE n ys : E vs (walk (kseq_block_test vs pd qt rho) (@kseq_block_prefix R V) snd (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho) ext
      (size ys) (c, 1%N, qt c, n) [seq [:: x] | x <- ys]) f
    = E vs (kscan_rep vs (pd c) (qt c) (rho (pd c) (qt c) n) n ys) G.
  elim: ys => [|x ys IH] //; rewrite [LHS]/= [RHS]/=.
  set w1 := block_weight _ _ _ _ _; have -> : kseq_bias (pd c) (qt c) (rho (pd c) (qt c) n) x = w1.
    by rewrite /w1 /block_weight /acc /wq /kseq_bias row_at_id invfM !mulrA [_^-1 * _]mulrC.
  rewrite -IH; congr (_ * _ + _).
  by rewrite /alive andbF; case: (size ys) => [|k]; rewrite [LHS]kfin0.
rewrite /kseq_block /kseq_rep !E_bind (@drafts_tails R V vs pd K 0 c [::]).
apply: (E_always _ (draws_size _ _ _)) => xs sx; rewrite tails0 -[in RHS]sx -walkE.
by rewrite -[LHS]/(E vs (walk _ _ _ _ _ _ _ (size [seq [:: x] | x <- xs]) _ _) f) size_map.
Qed.

(* SpecTr-GBV with K = 1 (its scale is 1) is greedy block verification, up to
   pointwise equality of the carried chains.                                  *)
Theorem spectr_gbv_K1 unit L (D : seq V -> V -> R) c f : (forall x, dist (D x)) -> (0 < L)%N ->
  unit || (rho (pd c) (D c) 1 == 1) ->
  (forall x D1 D2, (forall y v, D1 y v = D2 y v) -> f (x, D1) = f (x, D2)) ->
  E vs (spectr_gbv vs pd rho unit ext 1 L D c) f = E vs (greedy_block vs pd L D c) f.
Proof.
move=> dD L0 r1 ff; rewrite /spectr_gbv /greedy_block /greedy_block_mark [LHS]E_bind drafts_S !E_bind.
apply: (E_always _ (draft_size pd L c)) => xs sx.
have outE (D1 D2 : seq V -> V -> R) c' : (forall y v, D1 y v = D2 y v) ->
    E vs (Draw (D1 c') (fun y => Ret (rcons c' y, D1))) f
    = E vs (Draw (D2 c') (fun y => Ret (rcons c' y, D2))) f.
  by move=> D12; rewrite !E_Draw; apply: eq_sum => y; rewrite D12 /= (ff _ D1 D2).
have gE y v : gbv_chain vs pd D 1 1 c (size c + L)%N y v = greedy_carry vs pd D c (size c + L)%N y v.
  by rewrite rchain_eq.
set st := (c, L, D, 1%N).
have resE : gbv_residual vs pd rho unit st = gbv_chain vs pd D 1 1 c (size c + L)%N.
  rewrite /gbv_residual /gbv_scale /gbv_cover /=; case: (unit) r1 => //= /eqP ->.
  by rewrite mulr0 addr0.
have rE : (gbv_scale pd rho unit st)^-1 = 1.
  by rewrite /gbv_scale /=; case: (unit) r1 => /= [_|/eqP ->]; rewrite invr1.
case: L L0 xs sx gE @st resE rE => // m _ xs sx gE st resE rE.
transitivity (E vs (scan (joint_ratio pd D) (gbv_bias vs pd D) c 1 xs None) (fun o =>
    E vs (if o is Some k then gbv_correction vs pd rho unit (gbv_node vs pd rho unit st k 0)
          else gbv_correction vs pd rho unit (gbv_rejected vs pd rho unit st)) f)).
  rewrite -[in RHS]rE /= E_bind; apply: E_ext => [[k|]] //.
  by rewrite alive_nil.
rewrite (@scan_cong_ge0 _ _ (greedy_bias vs pd D)) ?ler01 //; first last.
- by move=> w c1 [] w0 //; rewrite (grhac_eq dpd dD).
- by move=> w c1 x w0; exact: (gnxt_ok dpd dD).
pose C := gbv_chain vs pd D 1 1 c (size c + m.+1).
apply: E_ext => [[k|]].
  transitivity (E vs (Draw (C k.1.1) (fun y => Ret (rcons k.1.1 y, C))) f); last exact: outE.
  by rewrite /C -resE /gbv_correction /gbv_node orbT.
transitivity (E vs (Draw (C c) (fun y => Ret (rcons c y, C))) f); last exact: outE.
by rewrite /C -resE /gbv_rejected; case: (unit).
Qed.
End Reduce.

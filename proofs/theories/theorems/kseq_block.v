(* K-SEQ block verification is valid, with and without extension.                *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block target_match spectr scan walk kseq_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths spectr scan walk.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section KBlock.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Hypothesis rok : rho_ok vs rho.
Variable ext : bool.
Add Ring Rring : (ring_th R).
Notation min1 := (Order.min 1).
Notation dist := (is_dist vs).

(* K-SEQ for one row: what is kept plus what the residual repays. *)
Lemma kseq_split (p q : V -> R) r K f : dist p -> dist q -> 0 < r -> cover vs p q r K <= r ->
  cover vs p q r K * (\sum_(x <- vs) covered p q r x * f x)
  + (1 - beta vs p q r) ^+ K * (\sum_(y <- vs) clip_residual vs p q r K y * f y)
  = \sum_(y <- vs) q y * f y.
Proof.
move=> dp dq r0 gr; rewrite -kscan_E // -E_bind.
exact: (kseq_law dp dq r0 f (kseq_valid dp dq r0 gr)).
Qed.

Lemma row_at_dist c (T : V -> R) : dist T -> forall x, dist (row_at qt c T x).
Proof. by move=> dT x; rewrite /row_at; case: ifP. Qed.

Lemma row_at_ne c (T : V -> R) x : (size c < size x)%N -> row_at qt c T x = qt x.
Proof. by rewrite /row_at; case: eqP => // ->; rewrite ltnn. Qed.

Section Horizon.
Variables (N : nat) (f : seq V -> R).
Notation Phi := (Phi vs qt N f).

(* Value of a mark: the next token from its new row, then the target. *)
Definition kJ (k : mark R V) : R :=
  if k.2 then Phi k.1.1
  else \sum_(y <- vs) block_residual vs pd qt k.1.2 k.1.1 y * Phi (rcons k.1.1 y).

Lemma wnext_E (D : seq V -> V -> R) w c x : (forall c, dist (D c)) -> 0 <= w ->
  pd c x * min1 (block_weight pd D w c x) = Order.min (pd c x) (w * D c x).
Proof.
move=> dD w0; rewrite (min_idPr _); last by rewrite /block_weight /acc le_minl lexx.
by rewrite min_acc // ?(dpd _).1 // /wq mulr_ge0 // (dD _).1.
Qed.

Lemma wnext_ok (D : seq V -> V -> R) w c x : (forall c, dist (D c)) -> 0 <= w -> 0 <= block_weight pd D w c x <= 1.
Proof. by move=> dD w0; apply: acc01; rewrite ?(dpd _).1 // /wq mulr_ge0 // (dD _).1. Qed.

Lemma hacc_E (D : seq V -> V -> R) w c : (forall c, dist (D c)) -> 0 <= w <= 1 ->
  (1 - msum vs pd D w c) * block_bias vs pd D w c false = min1 w - msum vs pd D w c.
Proof.
move=> dD w01; rewrite (hacc_repay pd dD) // (bsumE pd dD); congr (_ - _).
by rewrite (min_idPr _) //; case/andP: w01.
Qed.

(* Below the node, accepting with weight w is worth w times the target. *)
Lemma A1_kJ (T : V -> R) c0 m c w : dist T -> (size c0 < size c)%N -> (size c + m).+1 = N -> 0 <= w <= 1 ->
  A1 vs pd (row_at qt c0 T) (block_weight pd (row_at qt c0 T)) kJ m c w = w * Phi c.
Proof.
move=> dT; have dD := row_at_dist c0 dT; set D := row_at _ _ _ in dD *.
elim: m c w => [|m IH] c w cc cN w01; have [w0 w1] := andP w01; rewrite /= (min_idPr w1) //.
have Dc : D c = qt c by exact: row_at_ne.
rewrite (eq_bigr (fun x => keep pd qt w c x * Phi (rcons c x))) => [|x _]; last first.
  have w'01 : 0 <= block_weight pd D w c x <= 1 by exact: wnext_ok.
  have cc' : (size c0 < size (rcons c x))%N by rewrite size_rcons ltnW.
  rewrite (IH _ _ cc') // ?size_rcons ?addSnnS // mulrA.
  by rewrite /block_weight /acc /wq Dc -/(wq qt w c x) -/(acc (pd c) (wq qt w c) x) -/(block_weight pd qt w c x) (pd_wnext dpd dqt).
have -> : w - msum vs pd D w c = block_surplus vs pd qt w c by rewrite (bsumE pd dqt) // /msum Dc.
rewrite /kJ /= bres_repay -big_split /= Phi_step; last by rewrite -cN ltnS leq_addr.
rewrite big_distrr /=; apply: eq_sum => y.
by rewrite -mulrDl excessE addrC subrK mulrA.
Qed.

(* Value of a node with k paths still to test. *)
Definition kI (st : kseq_block_state R V) (k : nat) : R :=
  let: (c, m, T, n) := st in let r := rho (pd c) T n in
  cover vs (pd c) T r k * (\sum_(x <- vs) covered (pd c) T r x * Phi (rcons c x))
  + (1 - beta vs (pd c) T r) ^+ k * (\sum_(y <- vs) clip_residual vs (pd c) T r n y * Phi (rcons c y)).
Definition kok (st : kseq_block_state R V) : Prop :=
  let: (c, m, T, n) := st in dist T /\ (size c + m).+1 = N.

Lemma kI_full c m (T : V -> R) n : dist T -> kI (c, m, T, n) n = \sum_(y <- vs) T y * Phi (rcons c y).
Proof. by move=> dT; have [r0 rv] := rok n (dpd c) dT; exact: kseq_split. Qed.

Lemma ktest_E st k : kok st -> (0 < st.1.1.2)%N ->
  E vs (draft pd st.1.1.2 st.1.1.1) (fun xs => E vs (kseq_block_test vs pd qt rho st xs) (fun o =>
     if o is Some x then kJ x else kI st k)) = kI st k.+1.
Proof.
case: st => [[[c [|m]] T] n] // [dT cN] _; have [r0 rv] := rok n (dpd c) dT.
have dD := row_at_dist c dT; set st := (c, _, _, _); set D := row_at qt c T in dD.
set r := rho (pd c) T n in r0 rv.
have ri0 : 0 <= r^-1 by rewrite invr_ge0 ltW.
rewrite -[LHS]/(E vs (draft pd m.+1 c) (fun xs => E vs (scan (block_weight pd D) (block_bias vs pd D) c r^-1 xs None)
  (fun o => if o is Some x then kJ x else kI st k))).
have Dc : D c = T by rewrite /D /row_at eqxx.
have mb : msum vs pd D r^-1 c = beta vs (pd c) T r.
  by rewrite /beta sumfE /msum Dc; apply: eq_sum => x; rewrite /covered mulrC.
rewrite (scan_E (D := D) dpd (okw := fun w => 0 <= w <= 1)) //.
- rewrite mb; have -> : B1 vs pd D (block_weight pd D) (fun x => kJ x) m c r^-1
      = \sum_(x <- vs) covered (pd c) T r x * Phi (rcons c x).
    apply: eq_sum => x; have w'01 := wnext_ok c x dD ri0.
    rewrite A1_kJ ?size_rcons ?addSnnS // mulrA; congr (_ * _).
    by rewrite -(min_idPr (andP w'01).2) wnext_E // Dc /covered mulrC.
  by rewrite /kI /= -/r; move: (cover _ _ _ _ _) => g; move: (beta _ _ _ _) => b; rewrite exprS; rng R.
- by move=> w /andP[].
- by move=> w c1 x w0; exact: wnext_ok.
- by move=> w c1 x w0; exact: wnext_E.
- by move=> w c1 /andP[_ w1]; rewrite (min_idPr w1).
- by move=> w c1 w01; exact: hacc_E.
Qed.

Lemma kres_dist (p q : V -> R) r K : dist p -> dist q -> 0 < r -> cover vs p q r K <= r ->
  dist (clip_residual vs p q r K).
Proof.
move=> dp dq r0 gr; have left0 := kseq_valid dp dq r0 gr.
rewrite /clip_residual sumfE; case: eqVneq => [_|sn0]; first by [].
split=> [x|]; first by rewrite divr_ge0 // sumr_ge0.
by rewrite -big_distrl /= divff.
Qed.

Lemma kblock_E K L c : (size c + L).+1 = N ->
  E vs (kseq_block vs pd qt rho ext K L c) Phi = Phi c.
Proof.
move=> cN; rewrite E_bind.
have okst k : kok (c, L, qt c, k) by [].
have full k : kI (c, L, qt c, k) k = Phi c.
  by rewrite kI_full // -Phi_step // -cN ltnS leq_addr.
pose K' := if L is 0 then 0%N else K.
transitivity (E vs (drafts pd K' L c) (fun ps => E vs (walk (kseq_block_test vs pd qt rho)
   (@kseq_block_prefix R V) snd (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho) ext (size ps) (c, L, qt c, size ps) ps) Phi)).
  by rewrite /K'; case: (L) => // ; rewrite E_cst //; exact: drafts_wf.
transitivity (E vs (drafts pd K' L c) (fun ps => E vs (walk (kseq_block_test vs pd qt rho)
   (@kseq_block_prefix R V) snd (kseq_block_node vs pd qt) id (kseq_block_correction vs pd rho) ext K' (c, L, qt c, K') ps) Phi)).
  by apply: (E_always _ (drafts_size _ _ _ _)) => ps ->.
rewrite -(full K').
apply: (@walk_E R V vs pd dpd _ _ _ _ _ _ _ _ _ _ Phi (fun st => st.1.1.1) (fun st => st.1.1.2) kok
  (fun st => mark_at (block_weight pd (row_at qt st.1.1.1 st.1.2)) st.1.1.1 (kseq_block_scale pd rho st)^-1 st.1.1.2)
  kI (fun _ => kJ)) => //.
- move=> [[[c1 m] T] n] [dT c1N].
  by rewrite /kseq_block_correction /kI emit_E /= mul0r add0r expr0 mul1r.
- move=> [[[c1 m] T] n] [[c' w'] last] k [dT c1N] [s [/= -> _ /andP[s0 sm] ->]].
  rewrite /kseq_block_prefix /= drop_size_cat // subnKC //; split=> //.
    split; last by rewrite -c1N size_cat -addnA subnKC.
    by case: ifP => _; [exact: dqt | exact: bres_dist].
  by rewrite subn_gt0 [(size s < m)%N]ltn_neqAle sm andbT orbN.
- move=> [[[c1 m] T] n] [[c' w'] last] k [dT c1N] [s [/= -> _ /andP[s0 sm] ->]] lk.
  rewrite -[LHS]/(kI (c1 ++ s, (m - size (kseq_block_prefix (c1, m, T, n) (c1 ++ s, w', true)))%N,
     if size s == m then qt (c1 ++ s) else block_residual vs pd qt w' (c1 ++ s), k) k) kI_full; last by case: ifP => _; [exact: dqt | exact: bres_dist].
  case: ifP => // _; rewrite -Phi_step // -c1N size_cat ltnS leq_add2l //.
- move=> [[[c1 m] T] n] xs [dT c1N] sx.
  have := scan_mark (block_weight pd (row_at qt c1 T)) (block_bias vs pd (row_at qt c1 T)) c1
    (rho (pd c1) T n)^-1 xs.
  by rewrite sx.
- by move=> st k okst'; exact: ktest_E.
- by rewrite /K' /=; case: (L) => [|l] /=; rewrite ?orbT.
Qed.
End Horizon.

(* K-SEQ block verification is lossless: for every K, L, context, pair of models
   and valid scale, with and without the extension by later paths.            *)
Theorem kseq_block_valid K L : valid vs qt (kseq_block vs pd qt rho ext K L) L.
Proof.
move=> c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (kseq_block vs pd qt rho ext K L c) (Phi vs qt N f)) kblock_E.
  by rewrite /Phi /fill addKn.
by rewrite /N addnS.
Qed.
End KBlock.

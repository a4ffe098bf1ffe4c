(* Robustness of verifiers with a carry: one round, and N tokens with the carries nested. The
   error of a round counts the coins and rows of the verifier, and how far the carried chain is
   from the exact one. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import drafting validity rounds drift.
From Draftproof.theorems Require Import block decode running block_optimal rounds drift.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section DriftRounds.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation dist := (is_dist vs).

Lemma E_01_on A (P : A -> Prop) (m : prog A) f : wf vs m -> always P m ->
  (forall a, P a -> 0 <= f a <= 1) -> 0 <= E vs m f <= 1.
Proof.
move=> wm Pm f01; apply/andP; split;
  [rewrite -[X in X <= _](E_cst 0 wm) | rewrite -[X in _ <= X](E_cst 1 wm)];
  by apply: (E_le wm Pm) => a /f01 /andP[].
Qed.

(* Two programs, two test functions that differ by at most the cost of their outcomes. *)
Theorem drift_by_bound A B (P : A -> Prop) (Q : B -> Prop) cost (m : prog A) (m' : prog B) f f' :
  wf vs m -> wf vs m' -> always P m -> always Q m' ->
  (forall a, P a -> 0 <= f a <= 1) -> (forall b, Q b -> 0 <= f' b <= 1) ->
  (forall a b, P a -> Q b -> `|f a - f' b| <= cost a b) ->
  `|E vs m f - E vs m' f'| <= drift_by vs cost m m'.
Proof.
move=> wm wm' Pm Qm' f01 f01' fc.
have triv (n : prog A) (n' : prog B) : wf vs n -> wf vs n' -> always P n -> always Q n' ->
    `|E vs n f - E vs n' f'| <= 1.
  by move=> wn wn' Pn Qn'; apply: dist_le1;
    [exact: (E_01_on wn Pn f01) | exact: (E_01_on wn' Qn' f01')].
elim: m m' wm wm' Pm Qm' => [a|r t IHt e IHe|d k IH] [b|r' t' e'|d' k'] wm wm' Pm Qm';
  try by exact: (triv _ _ wm wm' Pm Qm').
- exact: fc.
- case: wm => /andP[r0 r1] [wt we]; case: wm' => _ [wt' we']; case: Pm => Pt Pe;
  case: Qm' => Qt Qe /=.
  set a := E vs t f; set b := E vs e f; set a' := E vs t' f'; set b' := E vs e' f'.
  have -> : r * a + (1 - r) * b - (r' * a' + (1 - r') * b')
      = (r - r') * (a' - b') + (r * (a - a') + (1 - r) * (b - b')) by rng R.
  apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
    rewrite normrM ler_pimulr // dist_le1 //; first exact: (E_01_on wt' Qt f01').
    exact: (E_01_on we' Qe f01').
  apply: le_trans (ler_norm_add _ _) _;
    rewrite !normrM (ger0_norm r0) [`|1 - r|]ger0_norm ?subr_ge0 //.
  by apply: ler_add; rewrite ler_wpmul2l ?subr_ge0 // ?IHt ?IHe.
- case: wm => [[d0 d1] wk]; case: wm' => [[_ d1'] wk'] /=; rewrite !sumfE.
  have {}wk x : wf vs (k x) by exact: wk.
  have {}wk' x : wf vs (k' x) by exact: wk'.
  have {}Pm x : always P (k x) by exact: Pm.
  have {}Qm' x : always Q (k' x) by exact: Qm'.
  rewrite -sumrB (eq_sum _ (g := fun x => (d x - d' x) * E vs (k' x) f'
      + d x * (E vs (k x) f - E vs (k' x) f'))) => [|x]; last by rng R.
  rewrite big_split /=; apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
    by apply: tv_test => [|x]; [rewrite d1 d1' | exact: (E_01_on (wk' x) (Qm' x) f01')].
  apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => x _.
  by rewrite normrM (ger0_norm (d0 x)) ler_wpmul2l // IH.
Qed.

(* --- Verifiers with a carry ---------------------------------------------------------------- *)
Definition dist_carry (o : seq V * chain) : Prop := forall x, dist (o.2 x).

(* The exact verifier, seen from a later horizon N. *)
Lemma carry_T ver L N (D : chain) c f : valid_carry vs ver L -> good_carry vs ver L ->
  (forall x, dist (D x)) -> E vs (ver D c) (fun o => T vs o.2 N f o.1) = T vs D N f c.
Proof.
move=> vv gv dD; set M := (size c + L.+1)%N.
have vT g : E vs (ver D c) (fun o => T vs o.2 M g o.1) = T vs D M g c.
  by have := vv D c (fun s => g (take M s)) dD; rewrite E_bind /T /fill -/M => ->; rewrite addKn.
have [NM|MN] := leqP N M.
  rewrite (T_le dD f c NM) -vT; apply: (E_always _ (gv D c dD)) => o [_ dO _].
  exact: T_le.
rewrite (T_ge vs D f (leq_addr _ _) (ltnW MN)) -vT.
apply: (E_always _ (gv D c dD)) => o [/andP[_ oM] dO oD].
rewrite (T_ge vs o.2 f oM (ltnW MN)) /T.
apply: E_gen => s; rewrite subnKC // => ss _.
apply: T_agree => x; rewrite take_oversize ?ss // => sx; apply: oD.
by apply: leq_trans sx; rewrite /M addnS.
Qed.

Variables (ver ver' : chain -> seq V -> prog (seq V * chain)) (L : nat).
Hypotheses (vv : valid_carry vs ver L) (gv : good_carry vs ver L).
Hypothesis wv : forall D c, (forall x, dist (D x)) -> wf vs (ver D c).
Hypothesis wv' : forall D c, (forall x, dist (D x)) ->
  wf vs (ver' D c) /\ always dist_carry (ver' D c).

Lemma T_01 (D : chain) N f c : (forall x, dist (D x)) -> (forall s, 0 <= f s <= 1) ->
  0 <= T vs D N f c <= 1.
Proof. by move=> dD f01; apply: E_01 => //; exact: gen_wf. Qed.

(* One round, seen from the horizon N. *)
Theorem carry_drift N (D : chain) c f : (forall x, dist (D x)) -> (forall s, 0 <= f s <= 1) ->
  `|E vs (ver' D c) (fun o => T vs o.2 N f o.1) - T vs D N f c|
  <= drift_by vs (carry_cost vs N) (ver D c) (ver' D c).
Proof.
move=> dD f01; rewrite distrC -(carry_T N c f vv gv dD); have [w' a'] := wv' c dD.
have a : always dist_carry (ver D c).
  by move: (gv c dD); apply: always_imp => o [].
apply: (drift_by_bound (wv c dD) w' a a') => [o dO|o dO|o o' dO dO']; try exact: T_01.
rewrite /carry_cost; case: eqP => [e|_]; last by apply: dist_le1; exact: T_01.
rewrite /T -e; apply: drift_bound => //; exact: gen_wf.
Qed.

(* N tokens, carries handed from round to round: at most one such drift for every token. *)
Theorem rounds_drift N (D : chain) c f eta : (forall x, dist (D x)) -> (forall s, 0 <= f s <= 1) ->
  (forall D c, (forall x, dist (D x)) -> drift_by vs (carry_cost vs N) (ver D c) (ver' D c)
    <= eta) ->
  (forall D c, always (fun o => size c < size o.1)%N (ver' D c)) -> (size c <= N)%N ->
  `|E vs (rounds ver' (N - size c) N D c) f - E vs (generate D (N - size c) c) f|
  <= (N - size c)%:R * eta.
Proof.
move=> dD f01 de pv cN.
have -> : E vs (generate D (N - size c) c) f = T vs D N f c.
  by apply: E_gen => c'; rewrite subnKC // => sc _; rewrite take_oversize ?sc.
have eta0 : 0 <= eta by apply: le_trans (de D c dD); apply: le_trans (carry_drift N c dD f01).
have : (N <= size c + (N - size c))%N by rewrite subnKC.
move: (N - size c)%N {cN} => fuel; elim: fuel D c dD => [|fuel IH] D c dD Nf /=.
  move: Nf; rewrite addn0 => Nc; rewrite Nc /T mul0r.
  have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
  by rewrite /= subrr normr0.
case: leqP => [Nc|cN].
  rewrite /T; have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
  by rewrite /= subrr normr0 mulr_ge0 ?ler0n.
have [w' a'] := wv' c dD.
rewrite E_bind; set X := E vs (ver' D c) _; set Y := E vs (ver' D c) (fun o => T vs o.2 N f o.1).
have -> : X - T vs D N f c = (Y - T vs D N f c) + (X - Y) by rng R.
apply: le_trans (ler_norm_add _ _) _; rewrite mulrS mulrDl mul1r; apply: ler_add.
  exact: le_trans (carry_drift N c dD f01) (de D c dD).
rewrite /X /Y E_sub; apply: le_trans (E_norm _ w') _; rewrite -[X in _ <= X](E_cst _ w').
have a2 : always (fun o => dist_carry o /\ (size c < size o.1)%N) (ver' D c).
  move: a' (pv D c); elim: (ver' D c) => [o|r t IHt e IHe|d k IHk] //=.
    by move=> [? ?] [? ?]; split; [exact: IHt | exact: IHe].
  by move=> h1 h2 x; exact: IHk.
apply: (E_le w' a2) => o [dO co]; apply: IH => //.
by apply: leq_trans Nf _; rewrite addnS -addSn leq_add2r.
Qed.
End DriftRounds.

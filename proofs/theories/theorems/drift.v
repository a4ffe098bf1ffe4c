(* Robustness: how far the law of a program moves when its coins are off and its rows are off. The
   errors of the decisions on a branch add up, each weighted with the probability that the exact
   program gets there. No decision is assumed to be anything but a number in [0,1] or a row. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import drafting validity rounds drift.
From Draftproof.theorems Require Import block decode running block_optimal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Robust.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation tv := (tv vs).
Notation drift := (drift vs).
Notation close := (close vs).

Lemma tv_ge0 (d d' : V -> R) : 0 <= tv d d'.
Proof. by apply: sumr_ge0 => x _; rewrite le_maxr lexx orbT. Qed.

Lemma tv_refl (d : V -> R) : tv d d = 0.
Proof. by rewrite /tv big1 // => x _; rewrite subrr maxxx. Qed.

(* For two laws: half the sum of the absolute differences. *)
Lemma tv_half (d d' : V -> R) : \sum_(x <- vs) d x = \sum_(x <- vs) d' x ->
  tv d d' *+ 2 = \sum_(x <- vs) `|d x - d' x|.
Proof.
move=> dd.
have e : \sum_(x <- vs) Order.max (d x - d' x) 0 = \sum_(x <- vs) Order.max (d' x - d x) 0.
  apply/eqP; rewrite -subr_eq0 -sumrB (eq_sum _ (g := fun x => d x - d' x)) => [|x].
    by rewrite sumrB dd subrr.
  rewrite /Order.max -[d' x - d x]opprB oppr_lt0; case: ltgtP => h.
  - by rewrite sub0r opprK.
  - by rewrite subr0.
  - by rewrite h oppr0 subr0.
rewrite mulr2n {2}/tv e -big_split; apply: eq_sum => x /=.
rewrite /Order.max -[d' x - d x]opprB oppr_lt0; case: ltgtP => h.
- by rewrite ltr0_norm // add0r.
- by rewrite gtr0_norm // addr0.
- by rewrite h oppr0 addr0 normr0.
Qed.

(* Two laws, a test function with values in [0,1]. *)
Lemma tv_test (d d' f : V -> R) : \sum_(x <- vs) d x = \sum_(x <- vs) d' x ->
  (forall x, 0 <= f x <= 1) ->
  `|\sum_(x <- vs) (d x - d' x) * f x| <= tv d d'.
Proof.
move=> dd f01.
have up (a b : V -> R) : \sum_(x <- vs) (a x - b x) * f x <= tv a b.
  apply: ler_sum => x _; have /andP[f0 f1] := f01 x.
  rewrite le_maxr; case: (ltP (a x - b x) 0) => h.
    by rewrite [X in _ || X]mulr_le0_ge0 ?orbT // ltW.
  by rewrite ler_pimulr.
rewrite ler_norml up andbT ler_oppl -sumrN.
have -> : tv d d' = tv d' d.
  have := tv_half dd; rewrite (eq_sum _ (g := fun x => `|d' x - d x|)) => [|x].
    by rewrite -(tv_half (esym dd)) => /eqP; rewrite eqr_muln2r /= => /eqP.
  by rewrite distrC.
apply: le_trans (up d' d); rewrite le_eqVlt; apply/orP; left; apply/eqP.
by apply: eq_sum => x; rewrite -mulNr opprB.
Qed.

Lemma E_01 A (m : prog A) f : wf vs m -> (forall a, 0 <= f a <= 1) -> 0 <= E vs m f <= 1.
Proof.
move=> wm f01; rewrite E_ge0 => [|//|a]; last by case/andP: (f01 a).
rewrite -[X in _ <= X](E_cst 1 wm); apply: (E_le wm (always_true _)) => a _.
by case/andP: (f01 a).
Qed.

Lemma dist_le1 (x y : R) : 0 <= x <= 1 -> 0 <= y <= 1 -> `|x - y| <= 1.
Proof.
move=> /andP[x0 x1] /andP[y0 y1]; rewrite ler_norml; apply/andP; split.
  by rewrite ler_oppl opprB ler_subl_addr (le_trans y1) // ler_addl.
by rewrite ler_subl_addr (le_trans x1) // ler_addl.
Qed.

(* The law moves by at most the drift: no test function with values in [0,1],
   so no event, changes its expectation by more.                              *)
Theorem drift_bound (A : eqType) (m m' : prog A) f : wf vs m -> wf vs m' ->
  (forall a, 0 <= f a <= 1) -> `|E vs m f - E vs m' f| <= drift m m'.
Proof.
move=> wm wm' f01.
have triv (n n' : prog A) : wf vs n -> wf vs n' -> `|E vs n f - E vs n' f| <= 1.
  by move=> wn wn'; apply: dist_le1; exact: E_01.
elim: m m' wm wm' => [a|r t IHt e IHe|d k IH] [b|r' t' e'|d' k'] wm wm';
  try by exact: (triv _ _ wm wm').
- rewrite /=; case: (eqVneq a b) => [->|_]; first by rewrite subrr normr0.
  exact: dist_le1.
- case: wm => /andP[r0 r1] [wt we]; case: wm' => _ [wt' we'] /=.
  set a := E vs t f; set b := E vs e f; set a' := E vs t' f; set b' := E vs e' f.
  have -> : r * a + (1 - r) * b - (r' * a' + (1 - r') * b')
      = (r - r') * (a' - b') + (r * (a - a') + (1 - r) * (b - b')) by rng R.
  apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
    by rewrite normrM ler_pimulr // dist_le1 // E_01.
  apply: le_trans (ler_norm_add _ _) _;
    rewrite !normrM (ger0_norm r0) [`|1 - r|]ger0_norm ?subr_ge0 //.
  by apply: ler_add; rewrite ler_wpmul2l ?subr_ge0 // ?IHt ?IHe.
- case: wm => [[d0 d1] wk]; case: wm' => [[_ d1'] wk'] /=; rewrite !sumfE.
  have {}wk x : wf vs (k x) by exact: wk.
  have {}wk' x : wf vs (k' x) by exact: wk'.
  rewrite -sumrB (eq_sum _ (g := fun x => (d x - d' x) * E vs (k' x) f
      + d x * (E vs (k x) f - E vs (k' x) f))) => [|x]; last by rng R.
  rewrite big_split /=; apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
    by apply: tv_test => [|x]; [rewrite d1 d1' | exact: E_01].
  apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => x _.
  by rewrite normrM (ger0_norm (d0 x)) ler_wpmul2l // IH.
Qed.

Corollary drift_law (A : eqType) (m m' : prog A) a : wf vs m -> wf vs m' ->
  `|law vs m a - law vs m' a| <= drift m m'.
Proof.
by move=> wm wm'; apply: drift_bound => // b; case: (b == a); rewrite ?lexx ?ler01.
Qed.

Lemma drift_ge0 (A : eqType) (m m' : prog A) : wf vs m -> 0 <= drift m m'.
Proof.
elim: m m' => [a|r t IHt e IHe|d k IH] [b|r' t' e'|d' k'] /=;
  try by move=> _; rewrite ?ler01 ?ler0n.
  by move=> [/andP[r0 r1] [wt we]]; rewrite !addr_ge0 ?mulr_ge0 ?IHt ?IHe ?subr_ge0.
move=> [[d0 _] wk]; rewrite addr_ge0 ?tv_ge0 // sumr_ge0 // => x _.
by rewrite mulr_ge0 ?IH.
Qed.

Lemma drift_refl (A : eqType) (m : prog A) : drift m m = 0.
Proof.
elim: m => [a|r t IHt e IHe|d k IH] /=; first by rewrite eqxx.
  by rewrite subrr normr0 IHt IHe !mulr0 !addr0.
by rewrite tv_refl add0r big1 // => x _; rewrite IH mulr0.
Qed.

(* Uniform local errors: n coins and k rows on every branch. *)
Theorem close_bound (A : eqType) eps del n k (m m' : prog A) : 0 <= eps -> 0 <= del ->
  wf vs m -> close eps del m m' -> budget n k m -> drift m m' <= n%:R * eps + k%:R * del.
Proof.
move=> e0 d0; elim: m m' n k => [a|r t IHt e IHe|d g IH] [b|r' t' e'|d' g'] n k //=.
- by move=> _ -> _; rewrite eqxx addr_ge0 // mulr_ge0 // ler0n.
- case: n => // n [/andP[r0 r1] [wt we]] [re ct ce] [bt be].
  have -> : n.+1%:R * eps + k%:R * del = eps + (n%:R * eps + k%:R * del).
    by rewrite mulrS; move: n%:R k%:R => u v; rng R.
  apply: ler_add => //; set B := n%:R * eps + _.
  have -> : B = r * B + (1 - r) * B by rewrite mulrBl mul1r addrCA subrr addr0.
  by apply: ler_add; rewrite ler_wpmul2l ?subr_ge0 ?IHt ?IHe.
- case: k => // k [[p0 p1] wg] [cd cg] bg.
  have -> : n%:R * eps + k.+1%:R * del = del + (n%:R * eps + k%:R * del).
    by rewrite mulrS; move: n%:R k%:R => u v; rng R.
  apply: ler_add => //; set B := n%:R * eps + _.
  rewrite -[B]mul1r -p1 mulr_suml; apply: ler_sum => x _.
  by rewrite ler_wpmul2l // IH.
Qed.

Corollary close_law (A : eqType) eps del n k (m m' : prog A) f : 0 <= eps -> 0 <= del ->
  wf vs m -> wf vs m' -> close eps del m m' -> budget n k m -> (forall a, 0 <= f a <= 1) ->
  `|E vs m f - E vs m' f| <= n%:R * eps + k%:R * del.
Proof.
move=> e0 d0 wm wm' cm bm f01; apply: le_trans (drift_bound wm wm' f01) _.
exact: close_bound.
Qed.

(* --- One program after another -------------------------------------------------- *)
Lemma E_norm A (m : prog A) f : wf vs m -> `|E vs m f| <= E vs m (fun a => `|f a|).
Proof.
move=> wm; rewrite ler_norml -mulN1r -E_scale; apply/andP; split.
  by apply: (E_le wm (always_true _)) => a _; rewrite mulN1r ler_oppl -normrN ler_norm.
by apply: (E_le wm (always_true _)) => a _; exact: ler_norm.
Qed.

Lemma E_sub A (m : prog A) f g : E vs m f - E vs m g = E vs m (fun a => f a - g a).
Proof.
rewrite -[E vs m f]mul1r -mulN1r -E_lin; apply: E_ext => a.
by rewrite mul1r mulN1r.
Qed.

Theorem drift_bind (A B : eqType) (m m' : prog A) (g g' : A -> prog B) f :
  wf vs m -> wf vs m' -> (forall a, wf vs (g a)) -> (forall a, wf vs (g' a)) ->
  (forall b, 0 <= f b <= 1) ->
  `|E vs (bind m g) f - E vs (bind m' g') f|
  <= drift m m' + E vs m (fun a => `|E vs (g a) f - E vs (g' a) f|).
Proof.
move=> wm wm' wg wg' f01; rewrite !E_bind.
set h := fun a => E vs (g a) f; set h' := fun a => E vs (g' a) f.
have -> : E vs m h - E vs m' h' = (E vs m h' - E vs m' h') + (E vs m h - E vs m h') by rng R.
apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
  by apply: drift_bound => // a; exact: E_01.
by rewrite E_sub; exact: E_norm.
Qed.

(* --- Verifiers ---------------------------------------------------------------------- *)
Section Verifier.
Variable (qt : seq V -> V -> R).
Hypothesis dqt : forall c, is_dist vs (qt c).

(* One round: what an inexact verifier emits, continued by the target, is as far
   from the target law as its program is from that of a valid verifier.        *)
Theorem valid_drift (ver ver' : seq V -> prog (seq V)) L c f :
  valid vs qt ver L -> wf vs (ver c) -> wf vs (ver' c) -> (forall s, 0 <= f s <= 1) ->
  `|E vs (bind (ver' c) (fill qt (size c + L.+1)%N)) f - E vs (generate qt L.+1 c) f|
  <= drift (ver c) (ver' c).
Proof.
move=> vv wv wv' f01; rewrite distrC -(vv c f) !E_bind.
apply: drift_bound => // s; apply: E_01 => //; exact: gen_wf.
Qed.

Corollary valid_close (ver ver' : seq V -> prog (seq V)) L c f eps del n k : 0 <= eps -> 0 <= del ->
  valid vs qt ver L -> wf vs (ver c) -> wf vs (ver' c) ->
  close eps del (ver c) (ver' c) -> budget n k (ver c) -> (forall s, 0 <= f s <= 1) ->
  `|E vs (bind (ver' c) (fill qt (size c + L.+1)%N)) f - E vs (generate qt L.+1 c) f|
  <= n%:R * eps + k%:R * del.
Proof.
move=> e0 d0 vv wv wv' cv bv f01; apply: le_trans (valid_drift vv wv wv' f01) _.
exact: close_bound.
Qed.

Lemma decode_wf (ver : seq V -> prog (seq V)) fuel N c : (forall c, wf vs (ver c)) ->
  wf vs (decode ver fuel N c).
Proof.
move=> wv; elim: fuel c => [|fuel IH] c /=; case: ifP => _ //.
exact: wf_bind.
Qed.

(* N tokens: at most one verifier drift for every token.                        *)
Theorem decode_drift (ver ver' : seq V -> prog (seq V)) L N c f eta :
  valid vs qt ver L -> progress ver L ->
  (forall c, wf vs (ver c)) -> (forall c, wf vs (ver' c)) ->
  (forall c, drift (ver c) (ver' c) <= eta) -> (size c <= N)%N ->
  (forall s, 0 <= f s <= 1) ->
  `|E vs (decode ver' (N - size c) N c) f - E vs (generate qt (N - size c) c) f|
  <= (N - size c)%:R * eta.
Proof.
move=> vv pv wv wv' de cN f01; rewrite distrC.
rewrite -(decode_exact dqt f vv pv (fuel := (N - size c)%N)) ?subnKC //.
have eta0 : 0 <= eta by apply: le_trans (de c); exact: drift_ge0.
move: (N - size c)%N {cN} => fuel.
elim: fuel c => [|fuel IH] c /=.
  by rewrite mul0r; case: ifP => _; rewrite /= subrr normr0.
case: ifP => _ /=; first by rewrite subrr normr0 mulr_ge0 ?ler0n.
apply: le_trans (drift_bind _ _ _ _ f01) _ => //; try by move=> a; exact: decode_wf.
rewrite mulrS mulrDl mul1r; apply: ler_add => //.
rewrite -[X in _ <= X](E_cst _ (wv c)).
by apply: (E_le (wv c) (always_true _)) => a _; exact: IH.
Qed.
End Verifier.
End Robust.

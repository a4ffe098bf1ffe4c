(* Whole generation: repeat any valid verifier until N tokens are there; the text has exactly the
   target law, whatever the verifier and the block length.                       *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity token_by_token block rounds.
From Draftproof.theorems Require Import maximal block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Loop.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Variables (qt : seq V -> V -> R).
Hypothesis dqt : forall c, is_dist vs (qt c).
Notation prog := (prog R V).
Notation generate := (generate qt).

(* Target model to length N, cut at N. *)
Definition T N (f : seq V -> R) c : R := E vs (generate (N - size c) c) (fun s => f (take N s)).

Lemma gen_split m n c f :
  E vs (generate (m + n) c) f = E vs (generate m c) (fun c' => E vs (generate n c') f).
Proof.
elim: m c => //= m IH c; rewrite !sumfE; apply: eq_sum => x; by rewrite IH.
Qed.

Lemma E_gen n c f g : (forall c', size c' = (size c + n)%N -> take (size c) c' = c -> f c' = g c') ->
  E vs (generate n c) f = E vs (generate n c) g.
Proof.
elim: n c => [|n IH] c fg /=; first by apply: fg; rewrite ?addn0 ?take_size.
rewrite !sumfE; apply: eq_sum => x; congr (_ * _); apply: IH => c' sc tc.
apply: fg; first by rewrite sc size_rcons addSnnS.
have := congr1 (take (size c)) tc.
by rewrite take_take ?size_rcons // -cats1 take_size_cat.
Qed.

Lemma T_le N M f c : (N <= M)%N -> T N f c = T M (fun s => f (take N s)) c.
Proof.
move=> NM; rewrite /T; have [cN|Nc] := leqP N (size c).
  have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
  rewrite /=; have [cM|Mc] := leqP M (size c).
    have /eqP-> : (M - size c)%N == 0%N by rewrite subn_eq0.
    by rewrite /= take_take.
  rewrite -[LHS](E_cst (f (take N c)) (gen_wf (M - size c) c dqt)).
  apply: E_gen => c' sc tc; congr f.
  by rewrite take_take // -[in LHS]tc take_take.
have cM := leq_trans (ltnW Nc) NM.
rewrite -[in RHS](subnKC NM) -addnBAC ?(ltnW Nc) // gen_split.
apply: E_gen => c'; rewrite subnKC ?(ltnW Nc) // => sc tc.
rewrite -[LHS](E_cst _ (gen_wf (M - N) c' dqt)).
apply: E_gen => s ss ts; congr f; rewrite subnKC // take_take //.
by rewrite -[in LHS]ts sc take_take.
Qed.

Lemma T_ge N M f c : (size c <= M)%N -> (M <= N)%N ->
  T N f c = T M (fun s => T N f s) c.
Proof.
move=> cM MN; rewrite /T.
have -> : (N - size c = (M - size c) + (N - M))%N by rewrite addnBAC // subnKC.
rewrite gen_split.
apply: E_gen => c'; rewrite subnKC // => sc tc.
by rewrite [take M c']take_oversize ?sc.
Qed.

Theorem decode_exact ver L fuel N c f :
  valid vs qt ver L -> progress ver L -> (N <= size c + fuel)%N ->
  (size c <= N)%N ->
  E vs (decode ver fuel N c) f = E vs (generate (N - size c) c) f.
Proof.
move=> vv pv Nf cN.
have -> : E vs (generate (N - size c) c) f = T N f c.
  by apply: E_gen => c'; rewrite subnKC // => sc _; rewrite take_oversize ?sc.
elim: fuel c Nf {cN} => [|fuel IH] c Nf /=.
  move: Nf; rewrite addn0 => Nc; rewrite Nc /T.
  by have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
case: leqP => [Nc|cN].
  rewrite /T; by have /eqP-> : (N - size c)%N == 0%N by rewrite subn_eq0.
rewrite E_bind.
have -> : E vs (ver c) (fun a => E vs (decode ver fuel N a) f) = E vs (ver c) (T N f).
  apply: (E_always _ (pv c)) => c' /andP[cc' _]; apply: IH.
  by apply: leq_trans Nf _; rewrite addnS -addSn leq_add2r.
set M := (size c + L.+1)%N.
have vT g : E vs (ver c) (T M g) = T M g c.
  have := vv c (fun s => g (take M s)).
  by rewrite E_bind /T /fill -/M => ->; rewrite addKn.
have [NM|MN] := leqP N M.
  by rewrite (T_le f c NM) -vT; apply: E_ext => c'; exact: T_le.
rewrite (T_ge f (leq_addr _ _) (ltnW MN)) -vT.
apply: (E_always _ (pv c)) => c' /andP[_ c'M].
exact: T_ge (ltnW MN).
Qed.
End Loop.

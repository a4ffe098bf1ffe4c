(* Coins and labels drawn by one uniform each. With an ideal uniform the label is l exactly on an
   interval of length pi(l); with a uniform from a grid of N points every probability is off by
   less than 1/N, and exact when it is a multiple of 1/N: the generator's share of the errors in
   theorems/drift.v. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import selection one_uniform.
From Draftproof.theorems Require Import selection.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section OneUniform.
Variable R : realFieldType.
Add Ring Rring : (ring_th R).

(* --- The ideal uniform ------------------------------------------------------------------- *)
Lemma csum_mono (pi : nat -> R) k l : (forall l, 0 <= pi l) -> (k <= l)%N -> csum pi k <= csum pi l.
Proof.
move=> p0; elim: l => [|l IH]; first by rewrite leqn0 => /eqP->.
rewrite leq_eqVlt => /orP[/eqP->//|]; rewrite ltnS => /IH h.
by apply: le_trans h _; rewrite /= ler_addl.
Qed.

(* Label l is drawn exactly for u in [S_l, S_{l+1}), an interval of length pi(l). *)
Theorem inverse_cdf_interval J (pi : nat -> R) u l : (forall l, 0 <= pi l) -> 0 <= u -> (l < J)%N ->
  (inverse_cdf J pi u == l) = (csum pi l <= u < csum pi l.+1).
Proof.
move=> p0 u0 lJ; rewrite /inverse_cdf; set a := fun k => u < csum pi k.+1.
have nthi k : (k < J)%N -> nth 0%N (iota 0 J) k = k by move=> kJ; rewrite nth_iota.
apply/eqP/andP => [fl|[lo hi]].
  have hs : has a (iota 0 J) by rewrite has_find fl size_iota.
  split; last by have := nth_find 0%N hs; rewrite fl nthi.
  case: l lJ fl => [|l] lJ fl //=; have ll : (l < find a (iota 0 J))%N by rewrite fl.
  by have := before_find 0%N ll; rewrite nthi 1?ltnW // /a => /negbT; rewrite -leNgt.
have hs : has a (iota 0 J) by apply/hasP; exists l; rewrite ?mem_iota.
apply/eqP; rewrite eqn_leq; apply/andP; split; rewrite leqNgt; apply/negP => h.
  by have := before_find 0%N h; rewrite nthi // /a hi.
have fJ : (find a (iota 0 J) < J)%N by apply: ltn_trans h lJ.
have := nth_find 0%N hs; rewrite nthi // /a ltNge; case/negP.
by apply: le_trans lo; apply: csum_mono.
Qed.

(* --- A uniform from a grid ----------------------------------------------------------------- *)
Variable N : nat.
Hypothesis N0 : (0 < N)%N.
Let n : R := N%:R.
Let n0 : 0 < n. Proof. by rewrite ltr0n. Qed.
Notation Eu := (E (iota 0 N) (uniform R N)).

Lemma uniform_E (f : R -> R) : Eu f = n^-1 * \sum_(i <- iota 0 N) f (i%:R / n).
Proof. by rewrite E_Draw big_distrr. Qed.

Lemma uniform_wf : wf (iota 0 N) (uniform R N).
Proof.
split=> //; split=> [i|]; first by rewrite invr_ge0 ltW.
by rewrite big_const_seq count_predT size_iota iter_addr addr0 -[LHS]mulr_natl divff // gt_eqF.
Qed.

(* How many grid points are below b: the first that is not. *)
Definition below (b : R) : nat := find (fun i => b <= i%:R / n) (iota 0 N).

Lemma below_lt (b : R) i : (i < N)%N -> (i%:R / n < b) = (i < below b)%N.
Proof.
move=> iN; rewrite /below; set a := fun i => _.
have nthi k : (k < N)%N -> nth 0%N (iota 0 N) k = k by move=> kN; rewrite nth_iota.
apply/idP/idP => [ib|lt]; last first.
  by have := before_find 0%N lt; rewrite nthi // /a => /negbT; rewrite -ltNge.
rewrite ltnNge; apply/negP => fi; have fN : (find a (iota 0 N) < N)%N by apply: leq_ltn_trans fi iN.
have hs : has a (iota 0 N) by rewrite has_find size_iota.
have := nth_find 0%N hs; rewrite nthi // /a leNgt; case/negP; apply: le_lt_trans ib.
by rewrite ler_pmul2r ?invr_gt0 // ler_nat.
Qed.

Lemma uniform_below (b : R) : Eu (fun u => (u < b)%R%:R) = (below b)%:R / n.
Proof.
rewrite uniform_E mulrC; congr (_ / _).
have bN : (below b <= N)%N by rewrite -[X in (_ <= X)%N](size_iota 0 N) find_size.
rewrite big_seq (eq_bigr (fun i => (i < below b)%N%:R)) => [|i]; last first.
  by rewrite mem_iota => /andP[_ iN]; rewrite below_lt.
rewrite -big_seq -(subnK bN) addnC iotaD big_cat /= add0n.
rewrite big_seq (eq_bigr (fun=> 1)) => [|i]; last by rewrite mem_iota => /andP[_ ib]; rewrite ib.
rewrite -big_seq big_const_seq count_predT size_iota iter_addr addr0.
rewrite big_seq big1 ?addr0 // => i; rewrite mem_iota => /andP[bi _].
by rewrite ltnNge bi.
Qed.

(* P(u < b) is b rounded up to the grid: at least b, and less than b + 1/N. *)
Theorem uniform_accept (b : R) : 0 <= b <= 1 -> b <= Eu (fun u => (u < b)%R%:R) < b + n^-1.
Proof.
move=> /andP[b0 b1]; rewrite uniform_below; apply/andP; split.
  have bN : (below b <= N)%N by rewrite -[X in (_ <= X)%N](size_iota 0 N) find_size.
  move: bN; rewrite leq_eqVlt => /orP[/eqP->|lt]; first by rewrite divff ?gt_eqF.
  by rewrite leNgt below_lt // ltnn.
case e: (below b) => [|k]; first by rewrite mul0r ltr_spaddr ?invr_gt0.
have kN : (k < N)%N by rewrite -e -[X in (_ <= X)%N](size_iota 0 N) find_size.
by rewrite mulrSr mulrDl mul1r ltr_add2r below_lt // e.
Qed.

Theorem uniform_accept_exact k : (k <= N)%N -> Eu (fun u => (u < k%:R / n)%R%:R) = k%:R / n.
Proof.
move=> kN; rewrite uniform_below; congr (_%:R / _).
apply/eqP; rewrite eqn_leq; apply/andP; split; rewrite leqNgt; apply/negP => h.
  have kN' : (k < N)%N by apply: leq_trans h _; rewrite -[X in (_ <= X)%N](size_iota 0 N) find_size.
  by have := below_lt (k%:R / n) kN'; rewrite h ltxx.
have bN : (below (k%:R / n) < N)%N by apply: leq_trans h kN.
have := below_lt (k%:R / n) bN; rewrite ltnn ltr_pmul2r ?invr_gt0 // ltr_nat.
by rewrite h.
Qed.

(* Labels (or tokens) by one uniform: every probability within 1/N. *)
Theorem uniform_label J (pi : nat -> R) l : is_law J pi -> (l < J)%N ->
  `|Eu (fun u => (inverse_cdf J pi u == l)%:R) - pi l| < n^-1.
Proof.
move=> [p0 p1] lJ; have S01 k : (k <= J)%N -> 0 <= csum pi k <= 1.
  by move=> kJ; rewrite csum_ge0 //= -p1 csum_mono.
have -> : Eu (fun u => (inverse_cdf J pi u == l)%:R)
    = Eu (fun u => (u < csum pi l.+1)%R%:R) - Eu (fun u => (u < csum pi l)%R%:R).
  rewrite !uniform_E -mulrBr -sumrB; congr (_ * _); apply: eq_bigr => i _.
  have u0 : 0 <= i%:R / n by rewrite divr_ge0 ?ler0n.
  rewrite inverse_cdf_interval //; have m : csum pi l <= csum pi l.+1 by apply: csum_mono.
  case: (leP (csum pi l) _) => h /=; first by rewrite subr0.
  by rewrite (lt_le_trans h m) subrr.
have /andP[a0 a1] := uniform_accept (S01 l.+1 lJ);
  have /andP[b0 b1] := uniform_accept (S01 l (ltnW lJ)).
set A := Eu _ in a0 a1 *; set B := Eu _ in b0 b1 *.
have -> : A - B - pi l = (A - csum pi l.+1) - (B - csum pi l).
  have e (a b c d : R) : a - b - d = (a - (c + d)) - (b - c) by rng R.
  exact: e.
rewrite -subr_ge0 in a0; rewrite -ltr_subl_addl in a1; rewrite -subr_ge0 in b0;
  rewrite -ltr_subl_addl in b1.
rewrite ltr_norml; apply/andP; split.
  by rewrite ltr_subr_addr addrC (lt_le_trans _ a0) // subr_lt0.
by apply: le_lt_trans a1; rewrite ler_subl_addr ler_addl.
Qed.

(* ... and exactly the law when its edges are on the grid. *)
Theorem uniform_label_exact J (pi : nat -> R) (k : nat -> nat) (f : nat -> R) : is_law J pi ->
  (forall l, (l <= J)%N -> csum pi l = (k l)%:R / n) -> (forall l, (l <= J)%N -> (k l <= N)%N) ->
  Eu (fun u => f (inverse_cdf J pi u)) = csum (fun l => pi l * f l) J.
Proof.
move=> [p0 p1] ke kN.
have one l : (l < J)%N -> Eu (fun u => (inverse_cdf J pi u == l)%:R) = pi l.
  move=> lJ; transitivity (Eu (fun u => (u < csum pi l.+1)%R%:R)
    - Eu (fun u => (u < csum pi l)%R%:R)).
    rewrite !uniform_E -mulrBr -sumrB; congr (_ * _); apply: eq_bigr => i _.
    have u0 : 0 <= i%:R / n by rewrite divr_ge0 ?ler0n.
    rewrite inverse_cdf_interval //; have m : csum pi l <= csum pi l.+1 by apply: csum_mono.
    case: (leP (csum pi l) _) => h /=; first by rewrite subr0.
    by rewrite (lt_le_trans h m) subrr.
  rewrite (ke l) ?(ltnW lJ) // (ke l.+1) // !uniform_accept_exact ?kN ?(ltnW lJ) //.
  by rewrite -(ke l) ?(ltnW lJ) // -(ke l.+1) //= addrAC subrr add0r.
rewrite (eq_csum (g := fun l => Eu (fun u => (inverse_cdf J pi u == l)%:R) * f l)) => [|l lJ];
  last by rewrite one.
under eq_csum => l lJ do rewrite -E_scaler.
rewrite -(E_csum (iota 0 N) (uniform R N) (fun u l => (inverse_cdf J pi u == l)%:R * f l)).
rewrite !uniform_E; congr (_ * _); rewrite big_seq [RHS]big_seq; apply: eq_bigr => i.
rewrite mem_iota => /andP[_ iN].
have u1 : i%:R / n < csum pi J by rewrite p1 ltr_pdivr_mulr // mul1r ltr_nat.
set u := _ / n in u1 *; have u0 : 0 <= u by rewrite divr_ge0 ?ler0n.
have dJ : (inverse_cdf J pi u < J)%N.
  rewrite ltnNge; apply/negP => Jd.
  case: J Jd ke kN p1 u1 one => [|J'] Jd _ _ p1 u1 _; first by rewrite /= ltNge u0 in u1.
  have := before_find 0%N (leq_trans (ltnSn J') Jd); rewrite nth_iota // add0n u1; by [].
by rewrite -[LHS](csum_one f dJ); apply: eq_csum => l lJ; rewrite eq_sym.
Qed.
End OneUniform.

(* Maximal coupling: the law, the acceptance probability, and maximality.      *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Single.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Implicit Types (p q : V -> R) (f : V -> R).
Notation dist := (is_dist vs).

Local Notation res := (res vs).
Local Notation maximal := (maximal vs).

Lemma min_acc p q x : 0 <= p x -> 0 <= q x ->
  p x * acc p q x = Order.min (p x) (q x).
Proof.
move=> p0 q0; rewrite /acc minr_pmulr // mulr1.
have [->|pn0] := eqVneq (p x) 0; first by rewrite mul0r minxx; apply/esym/min_idPl.
by rewrite mulrCA divff ?mulr1.
Qed.

Lemma acc01 p q x : 0 <= p x -> 0 <= q x -> 0 <= acc p q x <= 1.
Proof. by move=> p0 q0; rewrite /acc le_minl lexx andbT le_minr ler01 divr_ge0. Qed.

Lemma excess_ge0 p q x : 0 <= excess p q x.
Proof. by rewrite /excess le_maxr lexx orbT. Qed.

Lemma excessE p q x : excess p q x = q x - Order.min (p x) (q x).
Proof.
rewrite /excess /Order.max /Order.min subr_lt0.
by case: ltgtP => [||->]; rewrite ?subrr.
Qed.

Lemma sum_excess p q : \sum_(x <- vs) excess p q x = \sum_(x <- vs) q x - \sum_(x <- vs) Order.min (p x) (q x).
Proof. by rewrite -sumrB; apply: eq_sum => x; rewrite excessE. Qed.

Lemma sum_seq_eq0 (f : V -> R) : (forall x, 0 <= f x) -> \sum_(x <- vs) f x = 0 ->
  forall x, x \in vs -> f x = 0.
Proof.
move=> f0 /eqP; rewrite psumr_eq0 => [/allP fz x xv|x _ //].
exact/eqP/fz.
Qed.

(* Routing the rejected mass through the residual repays the whole deficit.  *)
Lemma res_repay p q f :
  (\sum_(x <- vs) excess p q x) * (\sum_(y <- vs) res p q y * f y) = \sum_(y <- vs) excess p q y * f y.
Proof.
rewrite /res sumfE; case: eqVneq => [s0|sn0].
  rewrite s0 mul0r big_seq big1 // => y yv.
  by rewrite (sum_seq_eq0 (excess_ge0 p q) s0 yv) mul0r.
rewrite big_distrr /=; apply: eq_sum => y.
by rewrite mulrA mulrCA divff ?mulr1.
Qed.

Lemma res_dist p q : dist q -> dist (res p q).
Proof.
move=> [q0 q1]; rewrite /res sumfE; case: eqVneq => [_|sn0]; first by split.
split=> [x|]; first by rewrite divr_ge0 ?excess_ge0 ?sumr_ge0 // => y _; exact: excess_ge0.
by rewrite -big_distrl /= divff.
Qed.

Lemma maximal_wf p q : dist p -> dist q -> wf vs (maximal p q).
Proof.
move=> dp dq; split=> // x; split; first by apply: acc01; [case: dp|case: dq].
by split=> //; split=> //; apply: res_dist.
Qed.

Lemma maximal_E p q (f : bool * V -> R) : dist p -> dist q ->
  E vs (maximal p q) f = \sum_(x <- vs) Order.min (p x) (q x) * f (true, x)
                    + \sum_(y <- vs) excess p q y * f (false, y).
Proof.
move=> [p0 p1] [q0 q1]; rewrite E_Draw /=.
under eq_bigr do
  rewrite mulrDr mulrA min_acc // [X in _ + X]mulrA mulrBr mulr1 min_acc //.
rewrite big_split /=; congr (_ + _).
rewrite -big_distrl /= sumrB p1 -q1 -sum_excess sumfE.
exact: (res_repay p q (fun y => f (false, y))).
Qed.

(* Exactness: the output token has the target law. *)
Theorem maximal_law p q f : dist p -> dist q ->
  E vs (maximal p q) (fun o => f o.2) = \sum_(y <- vs) q y * f y.
Proof.
move=> dp dq; rewrite maximal_E // -big_split /=; apply: eq_sum => x.
by rewrite -mulrDl excessE addrC subrK.
Qed.

(* Acceptance probability. *)
Theorem maximal_acceptance p q : dist p -> dist q ->
  E vs (maximal p q) (fun o => o.1%:R) = \sum_(x <- vs) Order.min (p x) (q x).
Proof.
move=> dp dq; rewrite maximal_E //= [X in _ + X]big1 => [|x _]; last by rewrite mulr0.
by rewrite addr0; apply: eq_sum => x; rewrite mulr1.
Qed.

(* Maximality: no coupling of p and q agrees more often. *)
Definition coupling (g : V -> V -> R) p q :=
  [/\ forall x y, 0 <= g x y,
      forall x, x \in vs -> \sum_(y <- vs) g x y = p x
    & forall y, y \in vs -> \sum_(x <- vs) g x y = q y].

Lemma le_sum_mem (f : V -> R) x : (forall y, 0 <= f y) -> x \in vs -> f x <= \sum_(y <- vs) f y.
Proof. by move=> f0 xv; rewrite (big_rem x) //= ler_addl sumr_ge0. Qed.

Theorem coupling_bound g p q : coupling g p q ->
  \sum_(x <- vs) g x x <= \sum_(x <- vs) Order.min (p x) (q x).
Proof.
move=> [g0 gp gq]; rewrite big_seq [X in _ <= X]big_seq; apply: ler_sum => x xv.
rewrite le_minr -gp // -gq // (le_sum_mem (g0 x) xv) /=.
exact: (@le_sum_mem (g^~ x) x (fun y => g0 y x) xv).
Qed.

(* The same, for programs: any verifier that maps a draft x to an output
   program, and whose output has law q, keeps the draft token at most as often
   as speculative sampling does. *)
Hypothesis vs_uniq : uniq vs.

Lemma sum_eq_mem (F : V -> R) y : y \in vs ->
  \sum_(x <- vs) F x * (x == y)%:R = F y.
Proof.
move=> yv; rewrite (bigD1_seq y) //= eqxx mulr1 big1 ?addr0 // => x /negPf->.
by rewrite mulr0.
Qed.

Theorem maximal_optimal (ver : V -> prog R V V) p q :
  dist p -> dist q ->
  (forall x, wf vs (ver x)) -> (forall x, always (fun y => y \in vs) (ver x)) ->
  (forall f, E vs (Draw p ver) f = \sum_(y <- vs) q y * f y) ->
  E vs (Draw p (fun x => bind (ver x) (fun y => Ret (x == y)))) (fun b => b%:R)
    <= E vs (maximal p q) (fun o => o.1%:R).
Proof.
move=> dp dq wv iv vq; rewrite maximal_acceptance //; case: dp dq => [p0 p1] [q0 q1].
pose g x y := p x * E vs (ver x) (fun z => (z == y)%:R).
have gE : E vs (Draw p (fun x => bind (ver x) (fun y => Ret (x == y))))
            (fun b => b%:R) = \sum_(x <- vs) g x x.
  rewrite E_Draw; apply: eq_sum => x; rewrite E_bind /g; congr (_ * _).
  by apply: E_ext => z /=; rewrite eq_sym.
rewrite gE; apply: coupling_bound; split=> [x y|x xv|y yv].
- by rewrite mulr_ge0 ?p0 // E_ge0 // => z; rewrite ler0n.
- rewrite -big_distrr /= -E_sum -[RHS]mulr1; congr (_ * _).
  rewrite -[RHS](E_cst 1 (wv x)); apply: (E_always _ (iv x)) => z zv.
  by rewrite -[RHS](sum_eq_mem (fun=> 1) zv); apply: eq_sum => y; rewrite mul1r eq_sym.
- by have := vq (fun z => (z == y)%:R); rewrite E_Draw sum_eq_mem.
Qed.
End Single.

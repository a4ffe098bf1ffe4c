(* Traversal verification is lossless for trees whose siblings are drawn one after another
   (without replacement, or by any other rule that is used in the tests too), whatever the shape
   of the tree; and for the merged tree of K i.i.d. paths with children in order of first
   appearance. *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity rounds traversal.
From Draftproof.theorems Require Import maximal block decode running block_optimal paths.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Traversal.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation dist := (is_dist vs).

(* --- One node --------------------------------------------------------------------------- *)
Section Node.
Variables (p q : V -> R) (w : R).
Hypotheses (dp : dist p) (dq : dist q) (w01 : 0 <= w <= 1).
Let w0 : 0 <= w. Proof. by case/andP: w01. Qed.
Let w1 : w <= 1. Proof. by case/andP: w01. Qed.
Let p0 x : 0 <= p x. Proof. exact: dp.1. Qed.
Let wq0 x : 0 <= w * q x. Proof. by rewrite mulr_ge0 ?dq.1. Qed.
Notation S := (node_surplus vs p q w).
Notation q' := (node_row vs p q w).
Notation w' := (node_weight vs p q w).
Let kept x := Order.min (p x) (w * q x).

Lemma child_weightE x : p x * child_weight p q w x = kept x.
Proof. exact: min_acc. Qed.

Lemma child_weight01 x : 0 <= child_weight p q w x <= 1.
Proof. exact: acc01. Qed.

Lemma surplus_ge0 : 0 <= S.
Proof. by rewrite /node_surplus sumfE sumr_ge0 // => v _; exact: excess_ge0. Qed.

Lemma surplusE : S = w - \sum_(x <- vs) kept x.
Proof. by rewrite /node_surplus sumfE sum_excess -big_distrr /= dq.2 mulr1. Qed.

Lemma surplus_den : 0 <= S + 1 - w.
Proof. by rewrite -addrA addr_ge0 ?surplus_ge0 // subr_ge0. Qed.

Lemma node_weight01 : 0 <= w' <= 1.
Proof.
rewrite /node_weight divr_ge0 ?surplus_ge0 ?surplus_den //=.
have [->|dn0] := eqVneq (S + 1 - w) 0; first by rewrite invr0 mulr0 ler01.
rewrite ler_pdivr_mulr ?mul1r; last by rewrite lt_def dn0 surplus_den.
by rewrite -addrA ler_addl subr_ge0.
Qed.

Lemma node_row_dist : dist q'.
Proof.
rewrite /node_row; case: eqVneq => [_|sn0]; first exact: dq.
split=> [x|]; first by rewrite divr_ge0 ?excess_ge0 ?surplus_ge0.
by rewrite -big_distrl /= -sumfE divff.
Qed.

Lemma row_repay (g : V -> R) :
  S * (\sum_(v <- vs) q' v * g v) = \sum_(v <- vs) excess p (fun v => w * q v) v * g v.
Proof.
rewrite /node_row; case: eqVneq => [s0|sn0].
  rewrite s0 mul0r big_seq big1 // => y yv; move: s0; rewrite /node_surplus sumfE => s0.
  by rewrite (sum_seq_eq0 (excess_ge0 _ _) s0 yv) mul0r.
by rewrite big_distrr /=; apply: eq_sum => y; rewrite mulrA mulrCA divff ?mulr1.
Qed.

Let failed : 1 - \sum_(x <- vs) kept x = S + 1 - w.
Proof. by rewrite surplusE addrAC [w - _]addrC addrK addrC. Qed.

(* A first child of law p; accepted below it, it is worth g; else the node goes on with the weight
   w' and the row q'.                                                                       *)
Lemma node_E (g : V -> R) G :
  \sum_(x <- vs) p x * (child_weight p q w x * g x + (1 - child_weight p q w x)
     * (w' * (\sum_(v <- vs) q' v * g v) + (1 - w') * G))
  = w * (\sum_(v <- vs) q v * g v) + (1 - w) * G.
Proof.
set T := \sum_(v <- vs) q' v * g v; set K := w' * T + (1 - w') * G.
have -> : \sum_(x <- vs) p x * (child_weight p q w x * g x + (1 - child_weight p q w x) * K)
    = \sum_(x <- vs) kept x * g x + (1 - \sum_(x <- vs) kept x) * K.
  rewrite -dp.2 -sumrB big_distrl -big_split; apply: eq_sum => x /=.
  by rewrite -child_weightE dp.2; move: (child_weight _ _ _ _) => a; rng R.
have dw : (1 - \sum_(x <- vs) kept x) * w' = S.
  rewrite failed /node_weight; have [d0|dn0] := eqVneq (S + 1 - w) 0; last by rewrite mulrC divfK.
  rewrite d0 mul0r; move/eqP: d0; rewrite -addrA paddr_eq0 ?surplus_ge0 ?subr_ge0 //.
  by case/andP=> /eqP.
have -> : (1 - \sum_(x <- vs) kept x) * K = S * T + (1 - w) * G.
  have -> : (1 - \sum_(x <- vs) kept x) * K
      = ((1 - \sum_(x <- vs) kept x) * w') * T
        + (1 - \sum_(x <- vs) kept x - (1 - \sum_(x <- vs) kept x) * w') * G.
    by rewrite /K; move: (1 - _) => a; rng R.
  by rewrite dw failed; congr (_ + _ * _); move: (node_surplus _ _ _ _) => t; rng R.
rewrite row_repay addrA -big_split; congr (_ + _); rewrite big_distrr; apply: eq_sum => x /=.
by rewrite -mulrDl excessE addrC subrK mulrA.
Qed.

(* The same at the root, where the weight is 1, or 0 once all is accepted. *)
Definition root_ok : Prop := w = 1 \/ w = 0.
Lemma root_weight : root_ok -> w' = 1 \/ w' = 0.
Proof.
case=> e; have [s0|n0] := eqVneq S 0; rewrite /node_weight.
- by right; rewrite s0 mul0r.
- left; have -> : S + 1 - w = S by rewrite [X in _ - X]e addrK.
  by rewrite divff.
- by right; rewrite s0 mul0r.
case/eqP: n0; rewrite surplusE e big1 ?subr0 // => x _; rewrite /kept e mul0r.
by apply/min_idPr.
Qed.

Lemma root_E (g : V -> R) : root_ok ->
  \sum_(x <- vs) p x * (child_weight p q w x * g x + (1 - child_weight p q w x)
     * (\sum_(v <- vs) q' v * g v))
  = \sum_(v <- vs) q v * g v.
Proof.
set X := \sum_(v <- vs) q' v * g v => ok.
have -> : \sum_(x <- vs) p x * (child_weight p q w x * g x + (1 - child_weight p q w x) * X)
    = \sum_(x <- vs) kept x * g x + (S + 1 - w) * X.
  rewrite -failed -[X in (X - _) * _]dp.2 -sumrB big_distrl -big_split; apply: eq_sum => x /=.
  by rewrite -child_weightE; move: (child_weight _ _ _ _) => a; rng R.
case: ok => e.
  have -> : S + 1 - w = S by rewrite [X in _ - X]e addrK.
  rewrite row_repay -big_split; apply: eq_sum => x /=.
  by rewrite -mulrDl excessE addrC subrK e mul1r.
have s0 : S = 0.
  by rewrite surplusE e big1 ?subr0 // => x _; rewrite /kept e mul0r; apply/min_idPr.
rewrite s0 e add0r subr0 mul1r big1 ?add0r => [|x _]; last first.
  by rewrite /kept e mul0r (min_idPr (p0 x)) mul0r.
by rewrite /X /node_row s0 eqxx.
Qed.
End Node.

(* --- It can be run, and it makes progress ---------------------------------------------------- *)
Section Safe.
Variable sibling : (V -> R) -> V -> V -> R.
Hypothesis sib_dist : forall p x, dist p -> dist (sibling p x).
Notation visit := (visit vs pd qt sibling).

Lemma visit_wf t root c w p q : dist p -> dist q -> 0 <= w <= 1 -> wf vs (visit t root c w p q).
Proof.
elim: t root c w p q => [|x b IHb r IHr] root c w p q dp dq w01; first by case: root.
apply: wf_bind => [|[s|]] //; first by apply: IHb => //; exact: child_weight01.
by apply: IHr; [exact: sib_dist | exact: node_row_dist | exact: node_weight01].
Qed.

Lemma visit_size t root c w p q : always (fun o =>
  if o is Some s then (size c < size s <= size c + (depth t).+1)%N else ~~ root)
    (visit t root c w p q).
Proof.
elim: t root c w p q => [|x b IHb r IHr] root c w p q /=.
  have h y : (size c < size (rcons c y) <= size c + 1)%N by rewrite size_rcons addn1 !leqnn.
  by case: root.
apply: (always_bind (IHb false _ _ _ _)) => -[s|_] /=.
  rewrite size_rcons addSnnS => /andP[cs sc]; rewrite (ltnW cs) (leq_trans sc) //.
  by rewrite leq_add2l ltnS leq_maxl.
apply: always_imp (IHr root c _ _ _) => -[s|] //= /andP[-> sc].
by rewrite (leq_trans sc) // leq_add2l ltnS leq_maxr.
Qed.

Lemma traverse_wf t c : wf vs (traverse vs pd qt sibling t c).
Proof. by apply: wf_bind => //; apply: visit_wf; rewrite ?ler01 ?lexx. Qed.

Lemma traverse_size t c L : (depth t <= L)%N ->
  always (fun c' => size c < size c' <= size c + L.+1)%N (traverse vs pd qt sibling t c).
Proof.
move=> tL; apply: (always_bind (visit_size t true c 1 (pd c) (qt c))) => -[s|] //= /andP[-> sc].
by rewrite (leq_trans sc) // leq_add2l ltnS.
Qed.
End Safe.

Section Value.
Variable sibling : (V -> R) -> V -> V -> R.
Variables (N : nat) (f : seq V -> R).
Notation Phi := (Phi vs qt N f).
Notation visit := (visit vs pd qt sibling).

(* The value of an outcome: G if all is rejected. *)
Definition val G (o : option (seq V)) : R := if o is Some s then Phi s else G.
(* The value of a node of weight w whose next token has law q. *)
Definition worth G (root : bool) c w (q : V -> R) : R :=
  let T := \sum_(v <- vs) q v * Phi (rcons c v) in if root then T else w * T + (1 - w) * G.

Lemma visit_none G root c w p q : E vs (visit NoChild root c w p q) (val G) = worth G root c w q.
Proof. by case: root; rewrite /= sumfE. Qed.

(* A node whose first child is x, everything below and beside it random: if the tree below x is
   worth what it should, and the later siblings are worth K. *)
Lemma visit_step A (below : prog A) (tr : A -> tree V) (rest : prog (tree V)) G root c w p q x K :
  wf vs rest ->
  (forall G', E vs below (fun a => E vs (visit (tr a) false (rcons c x) (child_weight p q w x)
     (pd (rcons c x)) (qt (rcons c x))) (val G'))
     = child_weight p q w x * Phi (rcons c x) + (1 - child_weight p q w x) * G') ->
  E vs rest (fun r => E vs (visit r root c (node_weight vs p q w) (sibling p x) (node_row vs p q w))
    (val G)) = K ->
  E vs below (fun a => E vs rest (fun r => E vs (visit (Child x (tr a) r) root c w p q) (val G)))
  = child_weight p q w x * Phi (rcons c x) + (1 - child_weight p q w x) * K.
Proof.
move=> wr IHb IHr; rewrite -IHb; apply: E_ext => a.
under E_ext => r do rewrite [visit _ _ _ _ _ _]/= E_bind.
rewrite E_comm; apply: E_ext => -[s|] /=; last exact: IHr.
exact: E_cst.
Qed.

(* The sum over the first child. *)
Lemma worth_sum G (root : bool) c w p q : dist p -> dist q -> 0 <= w <= 1 -> (root -> root_ok w) ->
  \sum_(x <- vs) p x * (child_weight p q w x * Phi (rcons c x) + (1 - child_weight p q w x)
    * worth G root c (node_weight vs p q w) (node_row vs p q w)) = worth G root c w q.
Proof.
by move=> dp dq w01 r1; case: root r1 => r1; [apply: root_E => //; exact: r1 | exact: node_E].
Qed.
End Value.

(* --- Trees of any shape -------------------------------------------------------------------- *)
Section Shape.
Variable sibling : (V -> R) -> V -> V -> R.
Hypothesis sib_dist : forall p x, dist p -> dist (sibling p x).
Notation grow_tree := (grow_tree pd sibling).
Notation visit := (visit vs pd qt sibling).

Lemma grow_tree_wf s c p : dist p -> wf vs (grow_tree s c p).
Proof.
elim: s c p => [|s1 IH1 s2 IH2] c p dp //=; split=> // x.
apply: wf_bind => [|t]; first exact: IH1.
by apply: wf_bind => // ; apply: IH2; exact: sib_dist.
Qed.

Lemma visit_tree_E N f s G (root : bool) c w p q : dist p -> dist q -> 0 <= w <= 1 ->
  (root -> root_ok w) ->
  (size c + height s < N)%N ->
  E vs (grow_tree s c p) (fun t => E vs (visit t root c w p q) (val N f G))
    = worth N f G root c w q.
Proof.
elim: s G root c w p q => [|s1 IH1 s2 IH2] G root c w p q dp dq w01 r1 cN.
  exact: visit_none.
have h1 : (size c + (height s1).+1 < N)%N.
  by apply: leq_ltn_trans cN; rewrite leq_add2l leq_max leqnn.
have h2 : (size c + height s2 < N)%N.
  by apply: leq_ltn_trans cN; rewrite leq_add2l leq_max leqnn orbT.
have cN0 : (size c < N)%N by apply: leq_ltn_trans cN; rewrite leq_addr.
rewrite E_Draw -(worth_sum N f G c dp dq w01 r1); apply: eq_sum => x; congr (_ * _).
have w'01 : 0 <= node_weight vs p q w <= 1 by exact: node_weight01.
have dq' : dist (node_row vs p q w) by exact: node_row_dist.
rewrite E_bind; under E_ext => t do rewrite E_bind.
apply: (visit_step (below := grow_tree s1 (rcons c x) (pd (rcons c x))) (tr := id)).
- by apply: grow_tree_wf; exact: sib_dist.
- move=> G'; have c'N : (size (rcons c x) + height s1 < N)%N by rewrite size_rcons addSnnS.
  have c01 := child_weight01 dp dq w01 x.
  rewrite (IH1 G' false) //; rewrite /worth -Phi_step //.
  by apply: leq_ltn_trans c'N; rewrite leq_addr.
- by apply: IH2 => //; [exact: sib_dist | move=> /r1; exact: root_weight].
Qed.

Theorem traversal_tree_valid s L : (height s <= L)%N ->
  valid vs qt (traversal_tree vs pd qt sibling s) L.
Proof.
move=> sL c f; rewrite E_bind; set N := (size c + L.+1)%N.
have cN : (size c + height s < N)%N by rewrite /N addnS ltnS leq_add2l.
have cN0 : (size c < N)%N by rewrite /N addnS ltnS leq_addr.
rewrite -[LHS]/(E vs (traversal_tree vs pd qt sibling s c) (Phi vs qt N f)) E_bind.
have -> : E vs (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have w01 : 0 <= (1 : R) <= 1 by rewrite ler01 lexx.
have := visit_tree_E f (Phi vs qt N f c) (dpd c) (dqt c) w01 (fun=> or_introl erefl) cN
  (root := true).
rewrite /worth -Phi_step // => <-; apply: E_ext => t.
by rewrite /traverse E_bind; apply: E_ext => -[].
Qed.

Lemma grow_tree_depth s c p : always (fun t => depth t <= height s)%N (grow_tree s c p).
Proof.
elim: s c p => [|s1 IH1 s2 IH2] c p //= x.
apply: (always_bind (IH1 _ _)) => t t1; apply: (always_bind (IH2 _ _)) => r r2 /=.
by rewrite geq_max !leq_max ltnS t1 r2 orbT.
Qed.

(* N tokens, a tree of the same shape every round. *)
Theorem traversal_tree_decode_exact s N c f : (size c <= N)%N ->
  E vs (decode (traversal_tree vs pd qt sibling s) (N - size c) N c) f
    = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (traversal_tree_valid (leqnn (height s))) _ _ cN).
  by move=> c'; apply: (always_bind (grow_tree_depth s c' _)) => t; exact: traverse_size.
by rewrite subnKC.
Qed.
End Shape.

(* --- K i.i.d. paths ------------------------------------------------------------------------ *)
Section Paths.
Hypothesis vs_uniq : uniq vs.
Notation visit := (visit vs pd qt (masked vs)).

Lemma masked_mass (p : V -> R) x : dist p -> x \in vs ->
  sumf vs (fun y => if y == x then 0 else p y) = 1 - p x.
Proof.
move=> dp xv; rewrite sumfE -dp.2 -[X in _ - X](sum_eq_mem vs_uniq p xv) -sumrB; apply: eq_sum => y.
by case: eqP => _; rewrite ?mulr1 ?subrr // mulr0 subr0.
Qed.

Lemma masked_dist (p : V -> R) x : dist p -> dist (masked vs p x).
Proof.
move=> dp; rewrite /masked; case: eqVneq => [_|n0]; first exact: dp.
have m0 y : 0 <= (if y == x then 0 else p y) by case: ifP => // _; exact: dp.1.
split=> [v|]; first by rewrite divr_ge0 // sumfE sumr_ge0.
by rewrite -big_distrl /= -sumfE divff.
Qed.

Lemma maskedE (p : V -> R) x y : dist p -> x \in vs -> y \in vs ->
  (if y == x then 0 else p y) = (1 - p x) * masked vs p x y.
Proof.
move=> dp xv yv; rewrite /masked masked_mass //; have [z|n0] := eqVneq (1 - p x) 0;
  last by rewrite mulrC divfK.
rewrite z mul0r; have m0 u : 0 <= (if u == x then 0 else p u) by case: ifP => // _; exact: dp.1.
have s0 : \sum_(u <- vs) (if u == x then 0 else p u) = 0 by rewrite -sumfE masked_mass.
exact: (sum_seq_eq0 m0 s0 yv).
Qed.

(* n independent paths of length m below c, the first tokens of law p. *)
Fixpoint npaths (p : V -> R) n m c : prog (seq (seq V)) :=
  if n is n'.+1 then
    if m is m'.+1 then
      Draw p (fun x => bind (draft pd m' (rcons c x)) (fun s =>
        bind (npaths p n' m c) (fun ps => Ret ((x :: s) :: ps))))
    else bind (npaths p n' m c) (fun ps => Ret ([::] :: ps))
  else Ret [::].

Lemma npaths_wf p n m c : dist p -> wf vs (npaths p n m c).
Proof.
move=> dp; elim: n => //= n IH; case: m IH => [|m] IH; first exact: wf_bind.
split=> // x; apply: wf_bind => [|s]; first exact: draft_wf.
exact: wf_bind.
Qed.

Lemma npaths_S p n m c F : E vs (npaths p n.+1 m.+1 c) F
  = \sum_(x <- vs) p x * E vs (draft pd m (rcons c x)) (fun s =>
    E vs (npaths p n m.+1 c) (fun ps => F ((x :: s) :: ps))).
Proof.
rewrite E_Draw; apply: eq_sum => x; congr (_ * _); rewrite E_bind; apply: E_ext => s.
by rewrite E_bind.
Qed.

Lemma npaths_drafts n m c F : E vs (npaths (pd c) n m c) F = E vs (drafts pd n m c) F.
Proof.
elim: n F => [|n IH] F //; rewrite drafts_S; case: m IH => [|m] IH.
  by rewrite /= E_bind IH.
rewrite npaths_S [RHS]E_Draw; apply: eq_sum => x; congr (_ * _); rewrite [RHS]E_bind.
by apply: E_ext => s; rewrite IH.
Qed.

Lemma npaths_size p n m c : always (fun ps => size ps = n) (npaths p n m c).
Proof.
elim: n => //= n IH; case: m IH => [|m] IH.
  by apply: (always_bind IH) => ps /= ->.
move=> x; apply: (always_bind (always_true _)) => s _.
by apply: (always_bind IH) => ps /= ->.
Qed.

(* Of n paths those that start with x are drafts below x, the others are paths that do not, and how
   many there are of each does not matter if the value does not depend on it.                  *)
Lemma npaths_split (p : V -> R) x n m c (phi : seq (seq V) -> seq (seq V) -> R) C : dist p ->
  x \in vs ->
  (forall j k, (j + k)%N = n ->
     E vs (drafts pd j m (rcons c x)) (fun fs => E vs (npaths (masked vs p x) k m.+1 c) (phi fs))
       = C) ->
  E vs (npaths p n m.+1 c) (fun ps => phi (follow x ps) (others x ps)) = C.
Proof.
move=> dp xv; elim: n phi => [|n IH] phi H; first exact: (H 0%N 0%N).
rewrite npaths_S.
pose same s := E vs (npaths p n m.+1 c) (fun ps => phi (s :: follow x ps) (others x ps)).
pose diff y s := E vs (npaths p n m.+1 c) (fun ps => phi (follow x ps) ((y :: s) :: others x ps)).
rewrite (eq_bigr (fun y => p y * (y == x)%:R * E vs (draft pd m (rcons c x)) same
   + (if y == x then 0 else p y) * E vs (draft pd m (rcons c y)) (diff y))) => [|y _]; last first.
  case: (eqVneq y x) => [->|yx].
    rewrite mulr1 mul0r addr0; congr (_ * _); apply: E_ext => s; apply: E_ext => ps.
    by rewrite /= eqxx.
  rewrite mulr0 mul0r add0r; congr (_ * _); apply: E_ext => s; apply: E_ext => ps.
  by rewrite /= (negPf yx).
rewrite big_split /= -big_distrl /= sum_eq_mem //.
have -> : E vs (draft pd m (rcons c x)) same = C.
  rewrite /same -E_comm (IH (fun fs os =>
    E vs (draft pd m (rcons c x)) (fun s => phi (s :: fs) os))) //.
  move=> j k jk; rewrite -(H j.+1 k); last by rewrite addSn jk.
  rewrite drafts_S [RHS]E_comm; apply: E_ext => fs.
  by rewrite E_comm.
have -> : \sum_(y <- vs) (if y == x then 0 else p y) * E vs (draft pd m (rcons c y)) (diff y)
    = (1 - p x) * C; last by rewrite mulrBl mul1r addrCA subrr addr0.
rewrite big_seq; under eq_bigr => y yv do rewrite (maskedE dp xv yv) -mulrA.
rewrite -big_seq -big_distrr /=; congr (_ * _).
have mp := masked_dist x dp.
transitivity (E vs (Draw (masked vs p x) (fun y =>
  bind (draft pd m (rcons c y)) (fun s => Ret (y :: s))))
    (fun t => E vs (npaths p n m.+1 c) (fun ps => phi (follow x ps) (t :: others x ps)))).
  by rewrite E_Draw; apply: eq_sum => y; rewrite E_bind.
rewrite -E_comm (IH (fun fs os =>
  E vs (Draw (masked vs p x) (fun y => bind (draft pd m (rcons c y)) (fun s => Ret (y :: s))))
   (fun t => phi fs (t :: os)))) // => j k jk.
rewrite -(H j k.+1); last by rewrite addnS jk.
apply: E_ext => fs; rewrite npaths_S E_comm E_Draw; apply: eq_sum => y.
by rewrite E_bind.
Qed.

Lemma visit_paths_E N f fuel n m G (root : bool) c w p q : dist p -> dist q -> 0 <= w <= 1 ->
  (root -> root_ok w) -> (size c + m < N)%N -> (n * m <= fuel)%N ->
  E vs (npaths p n m c) (fun ps => E vs (visit (merged fuel ps) root c w p q) (val N f G))
  = worth N f G root c w q.
Proof.
elim: fuel n m G root c w p q => [|fuel IH] n m G root c w p q dp dq w01 r1 cN nm.
  rewrite -[RHS](E_cst _ (npaths_wf n m c dp)); apply: E_ext => ps.
  exact: visit_none.
case: n nm => [|n] nm; first exact: visit_none.
case: m cN nm => [|m] cN nm.
  rewrite [npaths _ _ _ _]/= E_bind -[RHS](E_cst _ (npaths_wf n 0 c dp)); apply: E_ext => ps.
  exact: visit_none.
have cN0 : (size c < N)%N by apply: leq_ltn_trans cN; rewrite leq_addr.
have w'01 : 0 <= node_weight vs p q w <= 1 by exact: node_weight01.
have dq' : dist (node_row vs p q w) by exact: node_row_dist.
rewrite npaths_S -(worth_sum N f G c dp dq w01 r1) big_seq [RHS]big_seq; apply: eq_bigr => x xv.
congr (_ * _).
pose phi fs os := E vs (draft pd m (rcons c x)) (fun s =>
   E vs (visit (Child x (merged fuel (s :: fs)) (merged fuel os)) root c w p q) (val N f G)).
rewrite E_comm; apply: (npaths_split (phi := phi)) => // j k jk; rewrite /phi.
have mp := masked_dist x dp.
transitivity (E vs (drafts pd j.+1 m (rcons c x)) (fun fs =>
  E vs (bind (npaths (masked vs p x) k m.+1 c)
    (fun os => Ret (merged fuel os))) (fun r =>
      E vs (visit (Child x (merged fuel fs) r) root c w p q) (val N f G)))).
  rewrite drafts_S [RHS]E_comm; apply: E_ext => fs; rewrite E_comm; apply: E_ext => s.
  by rewrite E_bind.
apply: visit_step.
- by apply: wf_bind => //; exact: npaths_wf.
- move=> G'; rewrite -npaths_drafts.
  have c'N : (size (rcons c x) + m < N)%N by rewrite size_rcons addSnnS.
  have c01 := child_weight01 dp dq w01 x.
  rewrite (IH j.+1 m G' false) //.
    by rewrite /worth -Phi_step //; apply: leq_ltn_trans c'N; rewrite leq_addr.
  rewrite -ltnS; apply: leq_trans nm; apply: (@leq_ltn_trans (n.+1 * m)%N).
    by rewrite leq_mul2r ltnS -jk leq_addr orbT.
  by rewrite ltn_mul2l /=.
- rewrite E_bind; apply: IH => //; first by move=> /r1; exact: root_weight.
  rewrite -ltnS; apply: leq_trans nm.
  by rewrite ltn_mul2r /= ltnS -jk leq_addl.
Qed.

(* K i.i.d. paths, merged. *)
Theorem traversal_valid K L : valid vs qt (traversal vs pd qt (masked vs) K L) L.
Proof.
move=> c f; rewrite E_bind; set N := (size c + L.+1)%N.
have cN : (size c + L < N)%N by rewrite /N addnS.
have cN0 : (size c < N)%N by rewrite /N addnS ltnS leq_addr.
rewrite -[LHS]/(E vs (traversal vs pd qt (masked vs) K L c) (Phi vs qt N f)) E_bind.
have -> : E vs (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have w01 : 0 <= (1 : R) <= 1 by rewrite ler01 lexx.
have := visit_paths_E f (Phi vs qt N f c) (dpd c) (dqt c) w01 (fun=> or_introl erefl) cN
  (leqnn (K * L)) (root := true).
rewrite /worth -Phi_step // => <-; rewrite npaths_drafts; apply: E_ext => ps.
by rewrite /traverse E_bind; apply: E_ext => -[].
Qed.

Lemma merged_depth fuel m (ps : seq (seq V)) : all (fun s : seq V => size s <= m)%N ps ->
  (depth (merged fuel ps) <= m)%N.
Proof.
elim: fuel m ps => [|fuel IH] m [|[|x s] ps] //= /andP[sm pm].
case: m sm pm => // m; rewrite ltnS => sm pm; rewrite geq_max ltnS; apply/andP; split.
  apply: IH; rewrite /= sm /=; elim: ps pm => //= -[|y t] ps IHp //= /andP[tm /IHp pm] //.
  by case: ifP => //= _; rewrite pm andbT.
by apply: IH; apply/allP => t; rewrite mem_filter => /andP[_ /(allP pm)].
Qed.

Theorem traversal_wf K L c : wf vs (traversal vs pd qt (masked vs) K L c).
Proof.
by apply: wf_bind => [|ps]; [exact: drafts_wf | apply: traverse_wf => p x; exact: masked_dist].
Qed.

Theorem traversal_progress K L : progress (traversal vs pd qt (masked vs) K L) L.
Proof.
move=> c; have al : always (fun ps => all (fun s : seq V => size s <= L)%N ps) (drafts pd K L c).
  elim: K => //= K IH; apply: (always_bind (draft_size pd L c)) => s sL.
  by apply: (always_bind IH) => ss /= ->; rewrite sL leqnn.
by apply: (always_bind al) => ps psL; apply: traverse_size; exact: merged_depth.
Qed.

Theorem traversal_decode_exact K L N c f : (size c <= N)%N ->
  E vs (decode (traversal vs pd qt (masked vs) K L) (N - size c) N c) f
    = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (traversal_valid K L) (@traversal_progress K L) _ cN).
by rewrite subnKC.
Qed.
End Paths.
End Traversal.

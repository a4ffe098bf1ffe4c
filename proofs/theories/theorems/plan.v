(* A program offers some items; items can be chosen from what is offered with given probabilities
   as soon as no set of items is wanted more often than it is offered (Strassen 1965, for finite
   laws). *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.theorems Require Import maximal running block_optimal selection flow.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- The outcomes of a program, each with its probability ---------------------------- *)
Section Support.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (A : eqType).
Notation prog := (prog R V).

Fixpoint outs (m : prog A) : seq A :=
  match m with
  | Ret a => [:: a]
  | Flip _ t e => outs t ++ outs e
  | Draw _ k => flatten [seq outs (k x) | x <- vs]
  end.

Lemma E_outs (m : prog A) (s : seq A) f : uniq s -> {subset outs m <= s} ->
  E vs m f = \sum_(a <- s) law vs m a * f a.
Proof.
rewrite /law => us; elim: m => [a|r t IHt e IHe|d k IH] /= sub.
- have as_ : a \in s by apply: sub; rewrite inE.
  rewrite -[LHS](sum_eq_mem us f as_); apply: eq_sum => b.
  by rewrite mulrC eq_sym.
- rewrite IHt => [|a ha]; last by apply: sub; rewrite mem_cat ha.
  rewrite IHe => [|a ha]; last by apply: sub; rewrite mem_cat ha orbT.
  rewrite !big_distrr -big_split; apply: eq_sum => a /=.
  by rewrite [RHS]mulrDl !mulrA.
- rewrite sumfE (eq_big_seq (fun x =>
  \sum_(a <- s) d x * (E vs (k x) (fun b => (b == a)%:R) * f a))) /=; last first.
    move=> x xv; rewrite IH => [|a ha]; first by rewrite big_distrr.
    by apply: sub; apply/flattenP; exists (outs (k x)) => //; apply/mapP; exists x.
  rewrite exchange_big; apply: eq_sum => a /=; rewrite sumfE big_distrl.
  by apply: eq_sum => x; rewrite mulrA.
Qed.

Definition supp (m : prog A) : seq A := undup (outs m).
Lemma E_supp (m : prog A) f : E vs m f = \sum_(a <- supp m) law vs m a * f a.
Proof. by apply: E_outs; [exact: undup_uniq | move=> a; rewrite mem_undup]. Qed.

Lemma law_ge0 (m : prog A) a : wf vs m -> 0 <= law vs m a.
Proof. by move=> wm; apply: E_ge0 => // b; exact: ler0n. Qed.

(* Only outcomes that can happen count. *)
Lemma E_live (m : prog A) f g : wf vs m -> (forall a, 0 < law vs m a -> f a = g a) ->
  E vs m f = E vs m g.
Proof.
move=> wm fg; rewrite !E_supp; apply: eq_bigr => a _.
have [->|n0] := eqVneq (law vs m a) 0; first by rewrite !mul0r.
by rewrite fg // lt_def n0 law_ge0.
Qed.

(* A nonnegative function of mean 0 is 0 where it counts. *)
Lemma E_eq0 (m : prog A) f a : wf vs m -> (forall b, 0 <= f b) -> E vs m f = 0 ->
  0 < law vs m a -> f a = 0.
Proof.
move=> wm f0 z la; have : E vs m (fun b => (b == a)%:R * f a) <= E vs m f.
  apply: (E_le wm (always_true _)) => b _; case: eqP => [->|_]; first by rewrite mul1r.
  by rewrite mul0r.
rewrite E_scaler z -/(law vs m a) => h; apply/eqP; rewrite eq_le f0 andbT.
by rewrite -(ler_pmul2l la) mulr0.
Qed.
End Support.

(* --- Plans --------------------------------------------------------------------------------- *)
Section Plan.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (A B : eqType) (bs : seq B).
Hypothesis bs_uniq : uniq bs.
Variables (D : prog R V A) (offers : A -> seq B).
Hypothesis D_wf : wf vs D.

Let T := ordinal_finType (size bs).
Let item (i : T) : B := tnth (in_tuple bs) i.
Let num (b : B) : option T := insub (index b bs).

Let item_in i : item i \in bs. Proof. exact: mem_tnth. Qed.
Let num_item i : num (item i) = Some i.
Proof.
rewrite /num; have e : index (item i) bs = i.
  by rewrite /item (tnth_nth (item i)) index_uniq.
by rewrite e; apply: valK.
Qed.
Let item_num b i : num b = Some i -> item i = b.
Proof.
rewrite /num; case: insubP => // j jb ej [<-].
have bb : b \in bs by rewrite -index_mem.
by rewrite /item (tnth_nth b) ej nth_index.
Qed.
Let sum_items (F : B -> R) : \sum_(b <- bs) F b = \sum_i F (item i).
Proof. by rewrite big_tnth. Qed.

(* How often a set of items is offered. *)
Definition offered (H : pred B) : R := E vs D (fun a => (has H (offers a))%:R).

Let serves (a : A) : {set T} := [set i | item i \in offers a].
Let memS (H : {set T}) : pred B := fun b => if num b is Some i then i \in H else false.

Let capacity_offered (H : {set T}) : capacity serves (law vs D) (supp vs D) H = offered (memS H).
Proof.
rewrite /offered E_supp; apply: eq_bigr => a _; congr (_ * _%:R); congr nat_of_bool.
apply/hitsP/hasP => [[i]|[b bo]].
  by rewrite inE => io iH; exists (item i) => //; rewrite /memS num_item.
rewrite /memS; case e: (num b) => [i|//] iH; exists i => //.
by rewrite inE (item_num e).
Qed.

Let smass_memS (r : B -> R) (H : {set T}) :
  smass (fun i => r (item i)) H = \sum_(b <- bs) (memS H b)%:R * r b.
Proof. by rewrite sum_items; apply: eq_bigr => i _; rewrite /memS num_item. Qed.

(* pl a b: the probability to choose b when a is offered; what is missing to 1 is
   the probability to choose nothing.                                          *)
Definition is_plan (pl : A -> B -> R) (r : B -> R) : Prop :=
  [/\ forall a b, 0 <= pl a b,
      forall a b, ~~ ((b \in bs) && (b \in offers a)) -> pl a b = 0,
      forall a, \sum_(b <- bs) pl a b <= 1
    & forall b, b \in bs -> E vs D (fun a => pl a b) = r b].

Theorem plan_exists (r : B -> R) : (forall b, 0 <= r b) ->
  (forall H : pred B, \sum_(b <- bs) (H b)%:R * r b <= offered H) -> exists pl, is_plan pl r.
Proof.
move=> r0 rH; have l0 a : 0 <= law vs D a by exact: law_ge0.
have dem H : smass (fun i => r (item i)) H <= capacity serves (law vs D) (supp vs D) H.
  by rewrite capacity_offered smass_memS.
have [z [z0 zs zw zx]] := flow l0 (undup_uniq _) (fun i => r0 (item i)) dem.
exists (fun a b => if num b is Some i then z a i / law vs D a else 0); split.
- by move=> a b; case: num => // i; rewrite divr_ge0.
- move=> a b; case e: (num b) => [i|//]; have ib := item_num e.
  rewrite -ib item_in /= => bo; rewrite zs ?mul0r //; by rewrite inE.
- move=> a; rewrite sum_items; under eq_bigr => i _ do rewrite num_item.
  rewrite -big_distrl /=; have [->|n0] := eqVneq (law vs D a) 0.
    by rewrite invr0 mulr0 ler01.
  by rewrite ler_pdivr_mulr ?mul1r // lt_def n0 l0.
- move=> b bb; have [i e] : exists i, num b = Some i.
    by rewrite /num; case: insubP => [i|]; [exists i | rewrite index_mem bb].
  rewrite e -(item_num e) -zx E_supp; apply: eq_bigr => a _.
  have [l|n0] := eqVneq (law vs D a) 0; last by rewrite mulrC divfK.
  rewrite l mul0r; apply/esym/eqP; rewrite eq_le z0 andbT -l; apply: le_trans (zw a).
  by rewrite (bigD1 i) //= ler_addl sumr_ge0.
Qed.

(* The most that can be chosen, when item b is wanted at most q b of the time. *)
Theorem plan_most (q : B -> R) : (forall b, 0 <= q b) -> exists pl x (H : pred B),
  [/\ is_plan pl x, forall b, 0 <= x b <= q b
    & \sum_(b <- bs) x b = offered (predC H) + \sum_(b <- bs) (H b)%:R * q b].
Proof.
move=> q0; have l0 a : 0 <= law vs D a by exact: law_ge0.
set c := capacity serves (law vs D) (supp vs D).
have c0 : below c (fun=> 0).
  move=> H; rewrite /smass big1 => [|i _]; last by rewrite mulr0.
  by apply: sumr_ge0 => a _; rewrite mulr_ge0 ?ler0n.
have [y [S [by_ yy tS cS]]] := saturate (capacity0 serves (law vs D) (supp vs D))
  (capacity_sub serves l0 (supp vs D)) c0 (fun i => q0 (item i)).
pose x b : R := if num b is Some i then y i else 0.
have xi i : x (item i) = y i by rewrite /x num_item.
have x0 b : 0 <= x b <= q b.
  rewrite /x; case e: (num b) => [i|]; last by rewrite lexx q0.
  by rewrite -(item_num e).
have [pl plx] : exists pl, is_plan pl x.
  apply: plan_exists => [b|H]; first by case/andP: (x0 b).
  pose HS : {set T} := [set i | H (item i)].
  have -> : \sum_(b <- bs) (H b)%:R * x b = smass y HS.
    by rewrite sum_items; apply: eq_bigr => i _; rewrite xi inE.
  apply: le_trans (by_ HS) _; rewrite capacity_offered; apply: (E_le D_wf (always_true _)) => a _.
  rewrite ler_nat; case: hasP => // -[b bo]; rewrite /memS; case e: (num b) => [i|//].
  rewrite inE => iH; rewrite lt0b; apply/hasP; exists b => //.
  by rewrite -(item_num e).
exists pl, x, (predC (memS S)); split=> //.
have -> : offered (predC (predC (memS S))) = offered (memS S).
  by apply: E_ext => a; congr (nat_of_bool _)%:R; apply: eq_has => b /=; rewrite negbK.
rewrite -capacity_offered -(tS : smass y S = _) /smass !sum_items -big_split.
apply: eq_bigr => i _ /=; rewrite /memS num_item /x num_item.
case: (boolP (i \in S)) => iS /=; first by rewrite mul1r mul0r addr0.
by rewrite mul0r mul1r add0r cS.
Qed.
End Plan.

(* Traversal verification (Weng et al. 2505.12398): test the tree of drafts leaf by leaf, from the
   first leaf up. Python: draftproof.reference.verifiers.traversal; the tree of the code is
   `merged`.
   theorems/traversal.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* A tree of drafts, as the children of its root: no child (left), or the first child's token, the
   tree below it, and the later siblings.  A shape says how many children are drawn where.       *)
Inductive tree (V : Type) : Type := NoChild | Child of V & tree V & tree V.
Arguments NoChild {V}.
Inductive shape : Type := Stop | Grow of shape & shape.
Fixpoint height (s : shape) : nat :=
  if s is Grow below rest then maxn (height below).+1 (height rest) else 0%N.

Fixpoint depth V (t : tree V) : nat :=
  if t is Child _ below rest then maxn (depth below).+1 (depth rest) else 0%N.

Section TraversalCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Notation prog := (prog R V).
(* The law of the next sibling, after one of law p turned out to be x. *)
Variable sibling : (V -> R) -> V -> V -> R.

(* The child x of a node of weight w; what is still owed at the node when x is rejected, its mass,
   and the node's weight then.                                                              *)
Definition child_weight (p q : V -> R) w x : R := acc p (fun v => w * q v) x.
Definition node_surplus (p q : V -> R) w : R := sumf vs (excess p (fun v => w * q v)).
Definition node_row (p q : V -> R) w v : R :=
  let s := node_surplus p q w in if s == 0 then q v else excess p (fun u => w * q u) v / s.
Definition node_weight (p q : V -> R) w : R :=
  let s := node_surplus p q w in s / (s + 1 - w).

(* Verify the children t of the node c; None when all of it is rejected (never at the root). *)
Fixpoint visit (t : tree V) (root : bool) c w (p q : V -> R) : prog (option (seq V)) :=
  match t with
  | NoChild =>
      let accept := Draw q (fun y => Ret (Some (rcons c y))) in
      if root then accept else Flip w accept (Ret None)
  | Child x below rest =>
      let c' := rcons c x in
      bind (visit below false c' (child_weight p q w x) (pd c') (qt c')) (fun o =>
        if o is Some s then Ret (Some s)
        else visit rest root c (node_weight p q w) (sibling p x) (node_row p q w))
  end.
Definition traverse (t : tree V) c : prog (seq V) :=
  bind (visit t true c 1 (pd c) (qt c)) (fun o => Ret (odflt c o)).

(* A tree of a given shape below c, the first child of law p. *)
Fixpoint grow_tree (s : shape) c (p : V -> R) : prog (tree V) :=
  if s is Grow below rest then
    Draw p (fun x =>
      bind (grow_tree below (rcons c x) (pd (rcons c x))) (fun t =>
      bind (grow_tree rest c (sibling p x)) (fun r => Ret (Child x t r))))
  else Ret NoChild.
Definition traversal_tree (s : shape) c : prog (seq V) :=
  bind (grow_tree s c (pd c)) (fun t => traverse t c).

(* The merged tree of some paths, children in order of first appearance. *)
Definition others x (ps : seq (seq V)) : seq (seq V) :=
  filter (fun s => if s is y :: _ then y != x else false) ps.
Fixpoint merged fuel (ps : seq (seq V)) : tree V :=
  match fuel, ps with
  | fuel'.+1, (x :: s) :: ps' =>
      Child x (merged fuel' (s :: follow x ps')) (merged fuel' (others x ps'))
  | _, _ => NoChild
  end.
Definition traversal K L c : prog (seq V) :=
  bind (drafts pd K L c) (fun ps => traverse (merged (K * L) ps) c).
End TraversalCode.

(* Without replacement: p(x) <- 0, renormalised; the same row when nothing is left. *)
Definition masked (R : realFieldType) (V : eqType) (vs : seq V) (p : V -> R) (x v : V) : R :=
  let m y := if y == x then 0 else p y in
  let s := sumf vs m in if s == 0 then p v else m v / s.

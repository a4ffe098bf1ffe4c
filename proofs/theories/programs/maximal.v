(* One token, one draft: maximal coupling (Leviathan et al. 2211.17192; Chen et al.
   2302.01318).  Python: draftproof.reference.couplings.maximal.               *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Maximal.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Implicit Types (p q : V -> R).

(* The general shape: draft weight p against target weight q (unnormalised). *)
Definition acc p q x : R := Order.min 1 (q x / p x).
Definition excess p q x : R := Order.max (q x - p x) 0.
Definition res p q y : R :=
  let s := sumf vs (excess p q) in
  if s == 0 then q y else excess p q y / s.

(* It reports whether the draft was accepted, and the token that is output.  *)
Definition maximal p q : prog R V (bool * V) :=
  Draw p (fun x =>
    Flip (acc p q x)
      (Ret (true, x))
      (Draw (res p q) (fun y => Ret (false, y)))).
End Maximal.

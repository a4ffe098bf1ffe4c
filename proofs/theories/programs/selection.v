(* Draw K i.i.d. items with a label each; keep the first item of the highest
   label.  The law of the winner, and drawing a label from a finite law.
   Python: (selection of a draft by labels).  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SelectCode.
Variables (R : realFieldType) (V : eqType).
Notation prog := (prog R V).

(* Cumulative sum: S_n = pi 0 + ... + pi (n-1). *)
Fixpoint csum (pi : nat -> R) n : R := if n is n'.+1 then csum pi n' + pi n' else 0.
(* A law over the labels 0 .. J-1. *)
Definition is_law J (pi : nat -> R) : Prop := (forall l, 0 <= pi l) /\ csum pi J = 1.

(* Draw a label, highest first, by coins. *)
Fixpoint draw_label J (pi : nat -> R) : prog nat :=
  if J is J'.+1 then Flip (pi J' / csum pi J) (Ret J') (draw_label J' pi) else Ret 0%N.

(* geoS K s t = sum_{i<K} s^(K-1-i) t^i = (s^K - t^K) / (s - t), no division. *)
Fixpoint power_quotient K (s t : R) : R := if K is K'.+1 then s ^+ K' + t * power_quotient K' s t else 0.
(* u(l): how much more often than the average a draft with label l is selected. *)
Definition boost K (pi : nat -> R) l : R := power_quotient K (csum pi l.+1) (csum pi l).

Section Champ.
Variables (A : Type) (lab : A -> nat).
(* The first item with the highest label of a non-empty list a :: xs. *)
Fixpoint champion a xs : A :=
  if xs is b :: xs' then champion (if (lab a < lab b)%N then b else a) xs' else a.

Variable m : prog A.
Fixpoint repeated K : prog (seq A) :=
  if K is K'.+1 then bind m (fun a => bind (repeated K') (fun s => Ret (a :: s))) else Ret [::].
(* Of K+1 i.i.d. items. *)
Definition select K : prog A := bind m (fun a => bind (repeated K) (fun xs => Ret (champion a xs))).
End Champ.
End SelectCode.

(* One token, any law of the drafts: the output from a transport plan, and the canonical two-step
   scheme (Khisti et al. 2410.18234): select a draft, then couple the selected law maximally with
   the target. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section TransportCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).

(* The output from a plan: a draft with the plan's probabilities, else the residual. *)
Definition plan_row (pl : seq V -> V -> R) (x q : V -> R) (xs : seq V) (v : V) : R :=
  pl xs v + (1 - sumf vs (pl xs)) * res vs x q v.
Definition planned pl x q (xs : seq V) : prog V := Draw (plan_row pl x q xs) (fun y => Ret y).

(* Canonical two-step scheme: a selection sel of one token from the drafts, whose
   law is r; then the maximal coupling of r and q.                            *)
Definition two_step (D : prog (seq V)) (sel : seq V -> prog V) (r q : V -> R) : prog (bool * V) :=
  bind D (fun xs => bind (sel xs) (fun x =>
    Flip (acc r q x) (Ret (true, x)) (Draw (res vs r q) (fun y => Ret (false, y))))).

(* The plan's draft, or the first one. *)
Definition first_row (pl : seq V -> V -> R) (xs : seq V) (v : V) : R :=
  pl xs v + (1 - sumf vs (pl xs)) * (v == head v xs)%:R.
Definition chosen pl (xs : seq V) : prog V := Draw (first_row pl xs) (fun y => Ret y).
End TransportCode.

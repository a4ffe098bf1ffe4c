(* How far two programs of the same shape are apart: total variation of rows, the expected sum of
   the errors of the decisions along a run (drift), uniform errors (close) and the number of
   decisions on a branch (budget). theorems/drift.v bounds the laws by these. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RobustDefs.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).

(* Total variation of two rows: the mass of d that d' lacks. *)
Definition tv (d d' : V -> R) : R := \sum_(x <- vs) Order.max (d x - d' x) 0.

(* Expected sum of the local errors along a run of the first program.  Programs
   that do not have the same shape somewhere count 1 there.                    *)
Fixpoint drift (A : eqType) (m m' : prog A) : R :=
  match m, m' with
  | Ret a, Ret b => (a != b)%:R
  | Flip r t e, Flip r' t' e' => `|r - r'| + (r * drift t t' + (1 - r) * drift e e')
  | Draw d k, Draw d' k' => tv d d' + \sum_(x <- vs) d x * drift (k x) (k' x)
  | _, _ => 1
  end.

(* The same for programs with outcomes of different types or outcomes that cannot be compared:
   cost a b is charged where they return. *)
Fixpoint drift_by (A B : Type) (cost : A -> B -> R) (m : prog A) (m' : prog B) : R :=
  match m, m' with
  | Ret a, Ret b => cost a b
  | Flip r t e, Flip r' t' e' =>
      `|r - r'| + (r * drift_by cost t t' + (1 - r) * drift_by cost e e')
  | Draw d k, Draw d' k' => tv d d' + \sum_(x <- vs) d x * drift_by cost (k x) (k' x)
  | _, _ => 1
  end.
(* For verifiers with a carry: another text costs 1; the same text with another chain what the
   chains drift apart until N tokens are there. *)
Definition carry_cost N (o o' : seq V * (seq V -> V -> R)) : R :=
  if o.1 == o'.1 then
    drift (generate o.2 (N - size o.1) o.1) (generate o'.2 (N - size o.1) o.1)
  else 1.

(* The same shape, every coin off by at most eps, every row by at most del. *)
Fixpoint close (A : Type) (eps del : R) (m m' : prog A) : Prop :=
  match m, m' with
  | Ret a, Ret b => a = b
  | Flip r t e, Flip r' t' e' => [/\ `|r - r'| <= eps, close eps del t t' & close eps del e e']
  | Draw d k, Draw d' k' => tv d d' <= del /\ forall x, close eps del (k x) (k' x)
  | _, _ => False
  end.

(* At most n coins and k rows on every branch. *)
Fixpoint budget (A : Type) n k (m : prog A) : Prop :=
  match m with
  | Ret _ => True
  | Flip _ t e => if n is n'.+1 then budget n' k t /\ budget n' k e else False
  | Draw _ g => if k is k'.+1 then forall x, budget n k' (g x) else False
  end.
End RobustDefs.

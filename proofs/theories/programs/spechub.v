(* SpecHub (Sun et al. 2411.05289): two drafts, one of which is the hub a, the likeliest token of
   the draft row; the optimal transport for that draft law goes through the hub.
   Python: draftproof.reference.couplings.spechub and draftproof.reference.tree.hub_drafts.
   theorems/spechub.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting contract.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SpecHub.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (a : V) (p q : V -> R).
Notation prog := (prog R V).

(* m_x = p(x)/(1 - p(a)): the probability of the pair {a, x}. *)
Definition hub_pair v : R := if v == a then 0 else p v / (1 - p a).
(* The first draft is drawn from p; the second is the hub, unless the first is (and the row has
   another token).                                                                          *)
Definition hub_drafter (h : seq V) : V -> R :=
  if h is x :: _ then fun v => if (x == a) && (p a != 1) then hub_pair v else (v == a)%:R else p.

(* What the pairs pass on to the hub, (m - q)+; the part of it that the hub takes; what the target
   is still owed, and the correction. *)
Definition hub_offered : R := if p a == 1 then 1 else sumf vs (excess q hub_pair).
Definition to_hub : R := Order.min hub_offered (q a) / hub_offered.
Definition hub_owed v : R :=
  if v == a then q a - Order.min hub_offered (q a) else excess hub_pair q v.
Definition hub_correction v : R :=
  let s := sumf vs hub_owed in if s == 0 then q v else hub_owed v / s.

(* The law of the token given the pair {a, x}; x = a if both drafts are the hub. *)
Definition hub_kept x : R := Order.min (hub_pair x) (q x) / hub_pair x.
Definition hub_row x v : R :=
  hub_kept x * (v == x)%:R + (1 - hub_kept x)
    * (to_hub * (v == a)%:R + (1 - to_hub) * hub_correction v).
Definition hub_other (xs : seq V) : V := if xs is [:: x; y] then if x == a then y else x else a.
Definition spechub (xs : seq V) : prog V := answer vs (hub_row (hub_other xs)) xs.
End SpecHub.

(* What is claimed of a verifier: lossless without a carry (valid), with a carry (valid_carry); what
   it must do besides (progress).                                               *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Validity.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (qt : seq V -> V -> R).
Notation prog := (prog R V).
Notation fill := (fill qt).

(* A verifier is valid for blocks of length L when its output, completed by the
   target model to L+1 new tokens, has the target law.                         *)
Definition valid (ver : seq V -> prog (seq V)) L : Prop :=
  forall c f, E vs (bind (ver c) (fill (size c + L.+1)%N)) f = E vs (generate qt L.+1 c) f.

(* A verifier adds at least one and at most L+1 tokens. *)
Definition progress (ver : seq V -> prog (seq V)) L : Prop :=
  forall c, always (fun c' => (size c < size c' <= size c + L.+1)%N) (ver c).
End Validity.

(* A stateful verifier also returns the chain to verify against from now on. It
   is valid for blocks of length L when its output, continued by the returned
   chain to L+1 tokens, has the law of L+1 tokens of the chain it was given.   *)
Definition valid_carry (R : realFieldType) (V : eqType) (vs : seq V)
    (ver : (seq V -> V -> R) -> seq V -> prog R V (seq V * (seq V -> V -> R))) L : Prop :=
  forall D c f, (forall x, is_dist vs (D x)) ->
  E vs (bind (ver D c) (fun o => fill o.2 (size c + L.+1)%N o.1)) f = E vs (generate D L.+1 c) f.

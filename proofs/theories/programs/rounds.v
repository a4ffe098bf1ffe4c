(* Generating N tokens round after round: with a stateless verifier (decode), with a carry (rounds).
   Python: draftproof.reference.rounds.                                          *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Decode.
Variables (R : realFieldType) (V : eqType).
Notation prog := (prog R V).

(* fuel >= N - size c is always enough, since every round adds a token. *)
Fixpoint decode (ver : seq V -> prog (seq V)) fuel N c : prog (seq V) :=
  if (N <= size c)%N then Ret (take N c)
  else if fuel is fuel'.+1 then bind (ver c) (decode ver fuel' N) else Ret c.
End Decode.

Section RoundsCode.
Variables (R : realFieldType) (V : eqType).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Variable ver : chain -> seq V -> prog (seq V * chain).
Fixpoint rounds fuel N (D : chain) c : prog (seq V) :=
  if (N <= size c)%N then Ret (take N c)
  else if fuel is fuel'.+1 then bind (ver D c) (fun o => rounds fuel' N o.2 o.1) else Ret c.
End RoundsCode.

(* Testing one drafted path: at every depth i >= 1 an own coin of bias h_i, the
   last depth that accepts wins.  One exact formula for the expectation of any
   payoff; block verification and greedy block verification are instances.
   Python: (the scan rule of every block verifier).  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section ScanCode.
Variables (R : realFieldType) (V : eqType).
Notation prog := (prog R V).
(* nxt w c x : weight after the token x;  hac w c last : bias of the coin there. *)
Variables (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R).

(* A mark: context, its weight, whether it is the end of the path.  None is
   returned when no depth accepts and best was None.                          *)
Fixpoint scan c w xs (best : option (mark R V)) : prog (option (mark R V)) :=
  if xs is x :: xs' then
    let c' := rcons c x in
    let w' := nxt w c x in
    let last := xs' == [::] in
    Flip (hac w' c' last)
      (scan c' w' xs' (Some (c', w', last)))
      (scan c' w' xs' best)
  else Ret best.

(* The weight after a whole string. *)
Fixpoint wfold w c s : R :=
  if s is x :: s' then wfold (nxt w c x) (rcons c x) s' else w.
End ScanCode.

(* The randomness contract tests depths L, L-1, .., 1 and stops at the first success: *)
Section OrderCode.
Variables (R : realFieldType) (V : eqType).
Notation prog := (prog R V).
Variables (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R).

(* All marks of a path, depth 1 first; test a list of marks, stop at a success. *)
Fixpoint marks c w xs : seq (mark R V) :=
  if xs is x :: xs' then
    (rcons c x, nxt w c x, xs' == [::]) :: marks (rcons c x) (nxt w c x) xs'
  else [::].
Definition bias (k : mark R V) : R := hac k.1.2 k.1.1 k.2.
Fixpoint down (ms : seq (mark R V)) (b : option (mark R V)) : prog (option (mark R V)) :=
  if ms is k :: ms' then Flip (bias k) (Ret (Some k)) (down ms' b) else Ret b.
End OrderCode.

(* The scale that is computed: the first point of the grid 1 + j/g that passes the test
   c(beta, n) <= rho; n itself always passes.  Python: draftproof.reference.clip. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import kseq.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RhoCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (g : nat).
Definition rho_grid (p q : V -> R) (n : nat) : R :=
  if n is n'.+1 then
    let ok r := (0 < r) && (cover vs p q r n <= r) in
    let cands := [seq 1 + j%:R / g%:R | j <- iota 0 (n' * g)] in
    nth n%:R cands (find ok cands)
  else 1.
End RhoCode.

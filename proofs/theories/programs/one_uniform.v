(* The randomness contract draws with uniforms: a test accepts iff u < h, a label or token is the
   smallest l with u < cumulative sum. A generator's uniform is a multiple of 1/N in [0, 1) (N =
   2^53 or 2^24).
   Python: draftproof.reference.chance.Replay. theorems/one_uniform.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import selection.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section OneUniform.
Variable R : realFieldType.

(* One of 0, 1/N, .., (N-1)/N, all equally likely; the tokens drawn are the numerators. *)
Definition uniform N : prog R nat_eqType R := Draw (fun=> N%:R^-1) (fun i => Ret (i%:R / N%:R)).
(* The smallest label l < J with u < S_{l+1}; J if there is none. *)
Definition inverse_cdf J (pi : nat -> R) (u : R) : nat := find (fun l => u < csum pi l.+1)
  (iota 0 J).
End OneUniform.

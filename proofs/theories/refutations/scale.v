(* Small exact instances that correct or sharpen the specification.            *)
From Coq Require Import ZArith QArith Qcanon.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block spectr_gbv.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block spectr_gbv.
From Draftproof.refutations Require Import published.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* "The residual is >= 0 iff c <= rho" holds in one direction only:
   p = (1/4,3/4), q = (1,0), n = 2, rho = 1 has c = 7/4 > rho, yet the residual
   is (9/16, 0), and K-SEQ with this scale is lossless.                        *)
Definition pS := pair_ (fr 1 4) (fr 3 4).
Definition qS := pair_ (fr 1 1) (fr 0 1).
Example scale_not_iff :
  [/\ cover vs2 pS qS (fr 1 1) 2 = fr 7 4, owed vs2 pS qS (fr 1 1) 2 0%N = fr 9 16,
      owed vs2 pS qS (fr 1 1) 2 1%N = fr 0 1,
      E vs2 (kseq vs2 pS qS (fr 1 1) 2) (tok 0%N) = fr 1 1
    & E vs2 (kseq vs2 pS qS (fr 1 1) 2) (tok 1%N) = fr 0 1].
Proof. by split; apply/eqP; vm_compute. Qed.

(* Rounding the scale down is a bug: p = (1/2,1/2), q = (3/4,1/4), n = 2, rho = 1 has a
   negative residual.                                                         *)
Definition pH := pair_ (fr 1 2) (fr 1 2).
Example scale_rounded_down : owed vs2 pH (pair_ (fr 3 4) (fr 1 4)) (fr 1 1) 2 1%N = fr (-1) 16.
Proof. by apply/eqP; vm_compute. Qed.

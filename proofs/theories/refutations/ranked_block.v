(* Ranked block verification, wrong variants refuted on the smallest instances. *)
From Coq Require Import ZArith QArith Qcanon.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block selection ranked_block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block paths
   selection ranked_block.
From Draftproof.refutations Require Import published.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* L = 1, K = 2, J = 2, p = q = (1/2,1/2), labels (1/2,1/2); the token 0 has label 1 for certain. *)
Definition pN (c : seq nat) := pair_ (fr 1 2) (fr 1 2).
Definition piN := pair_ (fr 1 2) (fr 1 2).
Definition postN (c x : seq nat) : nat -> qc_realFieldType :=
  match drop (size c) x with [::] => piN | 0%N :: _ => pair_ (fr 0 1) (fr 1 1) | _ => pair_ (fr 1 1) (fr 0 1) end.
Definition first (c : seq nat) : qc_realFieldType := (head 9%N c == 0%N)%:R.

(* The selected path verified with the draft's rows p in place of r: 3/4, not 1/2. *)
Definition ranked_p K L c : prog qc_realFieldType nat_eqType (seq nat) :=
  bind (selected pN 2 postN K L c) (fun xs =>
  bind (block_scan vs2 pN pN c 1 xs (c, 1, xs == [::])) (block_emit vs2 pN pN)).
Example ranked_p_biased :
  [/\ E vs2 (ranked_p 2 1 [::]) first = fr 3 4, E vs2 (generate pN 1 [::]) first = fr 1 2
    & E vs2 (ranked_block vs2 pN pN 2 piN postN 2 1 [::]) first = fr 1 2].
Proof. by split; apply/eqP; vm_compute. Qed.

(* Label laws of the children that do not average to the node's (column sums
   (3/8, 5/8) instead of (1/2, 1/2)): a bias, whatever the rows.              *)
Definition postB (c x : seq nat) : nat -> qc_realFieldType :=
  match drop (size c) x with [::] => piN | 0%N :: _ => pair_ (fr 0 1) (fr 1 1) | _ => pair_ (fr 3 4) (fr 1 4) end.

(* rows r = (3/4, 3/8), which is no distribution; output 0 has probability 11/24. *)
Example column_sums_needed :
  E vs2 (ranked_block vs2 pN pN 2 piN postB 2 1 [::]) first = fr 11 24.
Proof. by apply/eqP; vm_compute. Qed.

(* Hypotheses of the headline theorems that cannot be dropped: without each of them the statement is
   false, on small instances.  (refutations/ranked_block.v: column sums; refutations/controls.v: the
   carry, one order for selection and law, drafts drawn from the law they are tested with.)         *)
From Coq Require Import ZArith QArith Qcanon.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity rounds
   block scan spectr_gbv greedy_block selection ranked_block ranked_greedy_block contract.
From Draftproof.refutations Require Import published controls.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* maximal_law without "p sums to 1": p = (1/2,1/4), q = (1/2,1/2): P(0) = 1/2, P(1) = 1/4. *)
Definition p_short := pair_ (fr 1 2) (fr 1 4).
Example distribution_needed :
  E vs2 (maximal vs2 p_short q11) (fun o => tok 0%N o.2) = fr 1 2
  /\ E vs2 (maximal vs2 p_short q11) (fun o => tok 1%N o.2) = fr 1 4.
Proof. by split; apply/eqP; vm_compute. Qed.

(* kseq_coupling_valid without a valid scale: p = (1/2,1/2), q = (3/4,1/4), K = 2, scale 1. What is
   owed is negative, so the program cannot be run; and a sampler that takes (.)+ of it is biased.  *)
Definition kseq_clamped rho K : prog Q nat_eqType nat :=
  let w y := Order.max (owed vs2 ph2 q31 rho K y) 0 in
  let scan := fix scan xs := if xs is x :: xs' then Flip (kseq_bias ph2 q31 rho x) (Ret x) (scan xs')
    else Draw (fun y => w y / sumf vs2 w) (fun y => Ret y) in
  bind (draws (fun=> ph2) K [::]) scan.
Example scale_needed :
  [/\ owed vs2 ph2 q31 (fr 1 1) 2 1%N = fr (-1) 16,
      E vs2 (kseq_clamped (fr 1 1) 2) (tok 0%N) = fr 11 16
    & E vs2 (kseq_clamped (fr 2 1) 2) (tok 0%N) = fr 3 4].
Proof. by split; apply/eqP; vm_compute. Qed.

(* recursive_rejection_law when the tests use another law than the drafts have: p = (1/2,3/8,1/8),
   q = (0,1/2,1/2), two drafts without replacement, tested as if drawn independently: P(1) = 5/8. *)
Definition p431 := triple (fr 1 2) (fr 3 8) (fr 1 8).
Definition q011 := triple (fr 0 1) (fr 1 2) (fr 1 2).
Definition two_distinct tested := E vs3 (bind (draws (without vs3 p431) 2 [::])
  (recursive_rejection_scan vs3 tested [::] q011)) (tok 1%N).
Example drafter_needed :
  two_distinct (fun=> p431) = fr 5 8 /\ two_distinct (without vs3 p431) = fr 1 2.
Proof. by split; apply/eqP; vm_compute. Qed.

(* ranked_greedy_block_contract_valid without a draft (K = 0 in place of K.+1): it would still take
   min(p, q) out of the target: P(0) = 1 instead of 3/4.                                            *)
Definition one_label (l : nat) : Q := (l == 0%N)%:R.
Definition ranked_greedy K :=
  E vs2 (bind (ranked_greedy_block_contract vs2 (always_ ph2) 1 one_label (fun _ _ _ => one_label) K 1
    (always_ q31) [::]) (fun o => fill o.2 2 o.1)) (at_position 0 0%N).
Example one_draft_needed : ranked_greedy 0 = fr 1 1 /\ ranked_greedy 1 = fr 3 4.
Proof. by split; apply/eqP; vm_compute. Qed.

(* answer_exact with a vocabulary list that repeats a token: [0; 0; 1], weights (1/4, 1/2), candidate 0:
   the total is 1, the test of 0 has probability 1/4, and what is left is not drawn from either.     *)
Definition q_twice := pair_ (fr 1 4) (fr 1 2).
Example uniq_needed :
  sumf [:: 0; 0; 1]%N q_twice = fr 1 1
  /\ E [:: 0; 0; 1]%N (answer [:: 0; 0; 1]%N q_twice [:: 0%N]) (tok 0%N) = fr 1 4
  /\ \sum_(y <- [:: 0; 0; 1]%N) q_twice y * tok 0%N y = fr 1 2.
Proof. by rewrite -sumfE; repeat split; apply/eqP; vm_compute. Qed.

(* The controls of the reference, refuted on their own smallest counterexamples: the numbers are those
   of draftproof.reference.controls.*.COUNTEREXAMPLE, found there by exhaustive search and computed here
   from the programs.                                                                              *)
From Coq Require Import ZArith QArith Qcanon.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection validity block scan
   greedy_block selection ranked_block multipath contract.
From Draftproof.refutations Require Import published.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- The wrong programs that refutations/published.v does not have ----------------------------- *)
Section Wrong.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Notation prog := (prog R V).

(* Greedy block verification that forgets its carry. *)
Definition greedy_block_without_carry L c : prog (seq V) :=
  bind (greedy_block_contract vs pd L qt c) (fun o => Ret o.1).

(* Each distinct child of a node tested once against the same target row. *)
Fixpoint siblings_scan (p q : V -> R) seen xs : prog V :=
  if xs is x :: xs' then
    if x \in seen then siblings_scan p q seen xs'
    else Flip (acc p q x) (Ret x) (siblings_scan p q (x :: seen) xs')
  else Draw (res vs p q) (fun y => Ret y).
Definition siblings_without_update K (p q : V -> R) : prog V :=
  bind (draws (fun=> p) K [::]) (siblings_scan p q [::]).

(* Selected by one key, verified with the law of the largest by another. *)
Definition largest_by_two_keys J L (key_selected key_law : seq V -> seq V -> nat) K c : prog (seq V) :=
  let score (c x : seq V) l : R := (l == key_law c x)%:R in
  let r := selected_row pd J (cond vs pd L score c c) (post_at vs pd L score c) K c in
  largest_and_verify vs r pd qt L key_selected K c.
End Wrong.

(* --- The counterexamples --------------------------------------------------------------------------- *)
Definition at_position i v (c : seq nat) : Q := tok v (nth 9%N c i).
Definition always_ (row : nat -> Q) : seq nat -> nat -> Q := fun=> row.
Definition p21 := pair_ (fr 2 3) (fr 1 3).
Definition q12 := pair_ (fr 1 3) (fr 2 3).
Definition triple (a b c : Q) (v : nat) : Q := match v with 0%N => a | 1%N => b | 2%N => c | _ => fr 0 1 end.
Definition vs3 : seq nat := [:: 0; 1; 2]%N.

(* K = 2, L = 1, p = (0,1), q = (1/2,1/2): P(1) = 3/4 instead of 1/2. *)
Example independent_trials_refuted :
  E vs2 (independent_trials vs2 2 p01 q11) (tok 1%N) = fr 3 4.
Proof. by apply/eqP; vm_compute. Qed.

(* K = 2, L = 1, p = (2/3,1/3), q = (1/3,2/3): P(0) = 31/120 instead of 1/3. *)
Example spectr_gbv_published_refuted :
  E vs2 (spectr_gbv_published vs2 2 true false p21 q12) (tok 0%N) = fr 31 120.
Proof. by apply/eqP; vm_compute. Qed.

(* K = 2, L = 1, p = (0,1), q = (1/2,1/2): P(1) = 3/4 instead of 1/2. *)
Example spectr_gbv_released_refuted :
  E vs2 (spectr_gbv_published vs2 2 false true p01 q11) (tok 1%N) = fr 3 4.
Proof. by apply/eqP; vm_compute. Qed.

(* K = 1, L = 2, p = (2/3,1/3), q = (1/3,2/3): P(0 at position 2) = 4/9 instead of 1/3. *)
Example hsd_released_refuted :
  E vs2 (bind (hsd_released vs2 (always_ p21) (always_ q12) 2 [::]) (fill (always_ q12) 3))
    (at_position 1 0%N) = fr 4 9.
Proof. by apply/eqP; vm_compute. Qed.

(* The same instance: 4/9 instead of 1/3; with the carry it is 1/3. *)
Example greedy_block_without_carry_refuted :
  E vs2 (bind (greedy_block_without_carry vs2 (always_ p21) (always_ q12) 2 [::])
      (fill (always_ q12) 3)) (at_position 1 0%N) = fr 4 9
  /\ E vs2 (bind (greedy_block_contract vs2 (always_ p21) 2 (always_ q12) [::])
      (fun o => fill o.2 3 o.1)) (at_position 1 0%N) = fr 1 3.
Proof. by split; apply/eqP; vm_compute. Qed.
Corollary greedy_block_without_carry_biased :
  ~ valid vs2 (always_ q12) (greedy_block_without_carry vs2 (always_ p21) (always_ q12) 2) 2.
Proof. by move/(_ [::] (at_position 1 0%N)); apply/eqP; vm_compute. Qed.

(* K = 2, L = 1, p = q = (1/2,1/2), ties (all ratios are 1): selected with the smaller index on top,
   verified with the law for the larger index on top: P(0) = 5/6 instead of 1/2.  One order for both,
   either one: 1/2.                                                                                 *)
Definition larger_on_top (c x : seq nat) : nat := head 0%N x.
Definition smaller_on_top (c x : seq nat) : nat := (1 - head 0%N x)%N.
Definition two_keys selected law := bind
  (largest_by_two_keys vs2 (always_ ph2) (always_ ph2) 2 1 selected law 2 [::]) (fill (always_ ph2) 2).
Example multipath_released_refuted :
  [/\ E vs2 (two_keys smaller_on_top larger_on_top) (at_position 0 0%N) = fr 5 6,
      E vs2 (two_keys smaller_on_top smaller_on_top) (at_position 0 0%N) = fr 1 2
    & E vs2 (two_keys larger_on_top larger_on_top) (at_position 0 0%N) = fr 1 2].
Proof. by split; apply/eqP; vm_compute. Qed.

(* K = 2, L = 1, p = (1/2,1/2,0), q = (1/2,0,1/2): P(0) = 3/4 instead of 1/2. *)
Example siblings_without_update_refuted :
  E vs3 (siblings_without_update vs3 2 (triple (fr 1 2) (fr 1 2) (fr 0 1))
    (triple (fr 1 2) (fr 0 1) (fr 1 2))) (tok 0%N) = fr 3 4.
Proof. by apply/eqP; vm_compute. Qed.

(* K = 1, L = 1, p = q = (1/2,1/2), the draft is 0 for certain: P(0) = 1 instead of 1/2. *)
Example unsampled_drafts_refuted :
  E vs2 (recursive_rejection_scan vs2 (fun=> ph2) [::] ph2 [:: 0%N]) (tok 0%N) = fr 1 1.
Proof. by apply/eqP; vm_compute. Qed.

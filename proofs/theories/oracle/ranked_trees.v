(* Ranked block verification over exact rationals, as JSON trees.             *)
From Coq Require Import ZArith QArith Qcanon String DecimalString.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block selection ranked_block ranked_block_design.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block selection
   ranked_block ranked_block_design.
From Draftproof.oracle Require Import trees.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope string_scope.

Definition mat (rows : seq (seq F)) : nat -> nat -> F := fun b => tab (nth [::] rows b).
(* A table from context to matrix. *)
Definition mats (rows : seq (seq nat * seq (seq F))) (x : seq nat) : nat -> nat -> F :=
  mat (foldr (fun r acc => if r.1 == x then r.2 else acc) [::] rows).

(* Any family of label laws, given as a table. *)
Definition jranked (vs : seq nat) pd qt J (pi0 : seq F) (post : seq nat -> nat -> F) K L c :=
  jtree vs jseq (ranked_block vs pd qt J (tab pi0) (fun _ => post) K L c).

(* The family computed by the scheme, from type mixtures and proposals. *)
Fixpoint ctxs (vs : seq nat) n : seq (seq nat) :=
  if n is n'.+1 then [::] :: flatten [seq [seq v :: s | s <- ctxs vs n'] | v <- vs] else [:: [::]].
Definition design_post (vs : seq nat) pd NT J (pi0 : seq F)
    (theta M0 : seq (seq nat * seq (seq F))) : seq nat -> nat -> F :=
  design vs NT J pd tt (mats theta) (fun x _ => mats M0 x) (fun _ _ _ => tt) (tab pi0) [::].
Definition jdesign (vs : seq nat) pd qt NT J (pi0 : seq F) theta M0 K L :=
  let post := design_post vs pd NT J pi0 theta M0 in
  let rows := [seq (x, let p := post x in mkseq p J) | x <- ctxs vs L] in
  jranked vs pd qt J pi0 (model rows [::]) K L [::].

(* Whole paths drawn without replacement, each from the draft model given that it is a new path; SpecTr
   with recursive rejection without replacement on them.
   Python: draftproof.reference.tree.distinct_drafts, draftproof.reference.verifiers.spectr.
   theorems/distinct_paths.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting spectr skip_repetitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section DistinctPaths.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Notation prog := (prog R V).

(* P(a path with m more tokens after x is none of the taken ones), whole contexts both. *)
Fixpoint new_share (taken : seq (seq V)) m x : R :=
  if m is m'.+1 then sumf vs (fun v => pd x v * new_share taken m' (rcons x v))
  else (x \notin taken)%:R.
(* The m tokens after x of a new path, drawn one by one. *)
Fixpoint new_path (taken : seq (seq V)) m x : prog (seq V) :=
  if m is m'.+1 then
    Draw (fun v => pd x v * new_share taken m' (rcons x v) / new_share taken m x) (fun v =>
      bind (new_path taken m' (rcons x v)) (fun s => Ret (v :: s)))
  else Ret [::].
(* K paths of length m below c; once every path has been taken, paths are drawn as if for the first
   time.                                                                                            *)
Fixpoint distinct_drafts (taken : seq (seq V)) K m c : prog (seq (seq V)) :=
  if K is K'.+1 then
    bind (new_path (if new_share taken m c == 0 then [::] else taken) m c) (fun s =>
    bind (distinct_drafts ((c ++ s) :: taken) K' m c) (fun ss => Ret (s :: ss)))
  else Ret [::].

Definition spectr_distinct K L c : prog (seq V) :=
  bind (distinct_drafts [::] K L c) (spectr_walk qt (node_skip vs pd qt) L c).
End DistinctPaths.

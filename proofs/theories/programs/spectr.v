(* SpecTr at the sequence level: any exact token coupling, run at each depth on
   the next tokens of the paths still alive, is valid for blocks of length L.
   Python: draftproof.reference.verifiers.spectr.  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq target_match.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SpectrCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Notation prog := (prog R V).

(* node c xs : the output token at context c, given the alive paths' next tokens *)
Variable node : seq V -> seq V -> prog V.

Fixpoint spectr_walk m c ps : prog (seq V) :=
  if m is m'.+1 then
    bind (node c (heads ps)) (fun y =>
      let ps' := follow y ps in
      if ps' == [::] then Ret (rcons c y) else spectr_walk m' (rcons c y) ps')
  else emit (qt c) c.
Definition spectr K L c : prog (seq V) := bind (drafts pd K L c) (spectr_walk L c).

(* A token that was drawn, not kept from a draft, ends the block. The couplings above never draw a token
   that is a draft, unless with probability 0; K-SEQ does, when its scale is not the smallest one.   *)
Variable node_kept : seq V -> seq V -> prog (bool * V).
Fixpoint spectr_kept_walk m c ps : prog (seq V) :=
  if m is m'.+1 then
    bind (node_kept c (heads ps)) (fun o =>
      if o.1 then spectr_kept_walk m' (rcons c o.2) (follow o.2 ps) else Ret (rcons c o.2))
  else emit (qt c) c.
Definition spectr_kept K L c : prog (seq V) := bind (drafts pd K L c) (spectr_kept_walk L c).
End SpectrCode.

(* Node couplings: K-SEQ with a scale that may depend on both rows and on the
   number of alive paths; recursive rejection; plain target match.             *)
Section Nodes.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Definition node_kseq c xs := let n := size xs in
  kseq_kept vs (pd c) (qt c) (rho (pd c) (qt c) n) n xs.
Definition node_rrs c xs := recursive_rejection_scan vs (fun=> pd c) [::] (qt c) xs.
End Nodes.

(* Block verification (Sun et al. 2403.10444).  Python: draftproof.reference.verifiers.block. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Block.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Variables (pd qt : seq V -> V -> R).
Notation draft := (draft pd).

(* w_i = min(1, w_{i-1} q/p);  S_i = sum max(w_i q - p, 0). *)
Definition wq (w : R) c x : R := w * qt c x.
Definition block_weight w c x : R := acc (pd c) (wq w c) x.
Definition block_surplus w c : R := sumf vs (excess (pd c) (wq w c)).
Definition block_residual w c y : R :=
  let s := block_surplus w c in
  if s == 0 then qt c y else excess (pd c) (wq w c) y / s.
Definition block_bias w c (last : bool) : R :=
  if last then w else block_surplus w c / (block_surplus w c + 1 - w).

(* Scan the block left to right; every position flips its own coin; keep the
   last position that accepted: its context, its w, and whether it is L. *)
Definition mark : Type := (seq V * R * bool)%type.
Fixpoint block_scan c w xs (best : mark) : prog mark :=
  if xs is x :: xs' then
    let c' := rcons c x in
    let w' := block_weight w c x in
    let last := xs' == [::] in
    Flip (block_bias w' c' last)
      (block_scan c' w' xs' (c', w', last))
      (block_scan c' w' xs' best)
  else Ret best.
Definition block_emit (b : mark) : prog (seq V) :=
  let: (c, w, last) := b in
  emit (if last then qt c else block_residual w c) c.
Definition block L c : prog (seq V) :=
  bind (draft L c) (fun xs =>
  bind (block_scan c 1 xs (c, 1, xs == [::])) block_emit).
End Block.

(* Ranked block verification with a draft model for each draft: the drafts compete by their labels, and
   the winner's path is verified with the law of that draft given that it is the one selected.
   Python: draftproof.reference.verifiers.ranked_block (own_boost, select, finish).
   theorems/ranked_block_models.v.                                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting block scan spectr_gbv greedy_block selection.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RankedModels.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (qt : seq V -> V -> R).
Variables (J : nat) (pi0 : nat -> R) (L : nat) (c : seq V).
Notation prog := (prog R V).

(* A draft model, and the label law of a draft of it that passes through a context. *)
Definition entrant : Type := ((seq V -> V -> R) * (seq V -> nat -> R))%type.
Definition enter (e : entrant) : prog (seq V * nat) :=
  bind (draft e.1 L c) (fun s => bind (draw_label V J (e.2 (c ++ s))) (fun l => Ret (s, l))).

(* k: the number of the next draft; b labels do not beat the best draft so far, w. *)
Fixpoint compete k b (w : nat * seq V) (es : seq entrant) : prog (nat * seq V) :=
  if es is e :: es' then
    bind (enter e) (fun a =>
      if (b <= a.2)%N then compete k.+1 a.2.+1 (k, a.1) es' else compete k.+1 b w es')
  else Ret w.

(* P(draft k of n is selected | its label is l): those before it have lower labels, those after it at
   most the same; the weight of a context, and the rows of draft k given that it is selected.      *)
Definition wins n k l : R := csum pi0 l ^+ k * csum pi0 l.+1 ^+ (n - k).-1.
Definition own_weight n k (e : entrant) x : R := csum (fun l => e.2 x l * wins n k l) J.
Definition own_row n k (e : entrant) x v : R :=
  if own_weight n k e x == 0 then e.1 x v
  else e.1 x v * own_weight n k e (rcons x v) / own_weight n k e x.

Definition ranked_block_models (e0 : entrant) (es : seq entrant) : prog (seq V) :=
  bind (compete 0 0 (0%N, [::]) es) (fun o =>
    let r := own_row (size es) o.1 (nth e0 es o.1) in
    bind (block_scan vs r qt c 1 o.2 (c, 1, o.2 == [::])) (block_emit vs r qt)).

(* The stateful form: greedy block verification of the winner's path, with its carry. *)
Definition ranked_greedy_block_models (D : seq V -> V -> R) (e0 : entrant) (es : seq entrant)
  : prog (seq V * (seq V -> V -> R)) :=
  bind (compete 0 0 (0%N, [::]) es) (fun o =>
    let r := own_row (size es) o.1 (nth e0 es o.1) in
    bind (scan (joint_ratio r D) (greedy_bias vs r D) c 1 o.2 None) (greedy_block_out vs r L D c)).
End RankedModels.

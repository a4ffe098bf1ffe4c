(* Ranked block verification with a draft model for each draft: the drafts compete by their labels, and
   the winner's path is verified with the law of that draft given that it is the one selected.
   Python: draftproof.reference.verifiers.ranked_block (own_boost, select, finish).
   theorems/ranked_block_models.v.                                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting block scan spectr_gbv greedy_block selection contract.

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

(* As the code runs it: all drafts first, then the labels, drawn as far as they matter. *)
Fixpoint entrant_drafts (es : seq entrant) : prog (seq (seq V)) :=
  if es is e :: es' then
    bind (draft e.1 L c) (fun s => bind (entrant_drafts es') (fun ss => Ret (s :: ss)))
  else Ret [::].
Fixpoint compete_rising k b (w : nat * seq V) (es : seq entrant) (ps : seq (seq V))
  : prog (nat * seq V) :=
  match es, ps with
  | e :: es', s :: ps' =>
      let pi := e.2 (c ++ s) in
      if es' is [::] then
        bind (draw_label V 2 (beats J pi b)) (fun i => Ret (if i is 0%N then w else (k, s)))
      else
        bind (draw_label V (J - b).+1 (rise pi b)) (fun i =>
          if i is 0%N then compete_rising k.+1 b w es' ps'
          else compete_rising k.+1 (b + i)%N (k, s) es' ps')
  | _, _ => Ret w
  end.
Definition compete_contract (es : seq entrant) : prog (nat * seq V) :=
  if L is 0 then Ret (0%N, [::])
  else bind (entrant_drafts es) (compete_rising 0 0 (0%N, [::]) es).

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

(* Both with the tests in the order of the contract; r: the rows of the draft that is selected. *)
Definition models_and_verify (r : nat -> seq V -> V -> R) (es : seq entrant) : prog (seq V) :=
  bind (compete_contract es) (fun o => block_path vs (r o.1) qt c o.2).
Definition models_and_verify_greedy (r : nat -> seq V -> V -> R) (D : seq V -> V -> R)
    (es : seq entrant) : prog (seq V * (seq V -> V -> R)) :=
  bind (compete_contract es) (fun o =>
    bind (deepest_first (joint_ratio (r o.1) D) (greedy_bias vs (r o.1) D) c 1 o.2)
      (greedy_block_out vs (r o.1) L D c)).
Definition ranked_block_models_contract (e0 : entrant) (es : seq entrant) : prog (seq V) :=
  models_and_verify (fun k => own_row (size es) k (nth e0 es k)) es.
Definition ranked_greedy_block_models_contract (D : seq V -> V -> R) (e0 : entrant)
    (es : seq entrant) : prog (seq V * (seq V -> V -> R)) :=
  models_and_verify_greedy (fun k => own_row (size es) k (nth e0 es k)) D es.
End RankedModels.

(* A draft model for each draft: SpecTr with recursive rejection (SpecInfer 2305.09781) and with
   target match, and SpecTr-GBV of scale "unit". A path carries the number of its model.
   Python: draftproof.reference.verifiers.spectr, .spectr_gbv with a sequence of models.
   theorems/several_models.v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting block scan spectr spectr_gbv contract.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SeveralModels.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (model : nat -> seq V -> V -> R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).

(* One path of length m below c from each of the models ks. *)
Fixpoint model_drafts (ks : seq nat) m c : prog (seq (nat * seq V)) :=
  if ks is k :: ks' then
    bind (draft (model k) m c) (fun s =>
    bind (model_drafts ks' m c) (fun ps => Ret ((k, s) :: ps)))
  else Ret [::].

(* The next tokens of the paths; the paths that go on with y, cut; those through the prefix s,
   cut. *)
Fixpoint model_heads (ps : seq (nat * seq V)) : seq (nat * V) :=
  if ps is p :: ps' then
    if p.2 is x :: _ then (p.1, x) :: model_heads ps' else model_heads ps'
  else [::].
Fixpoint model_follow y (ps : seq (nat * seq V)) : seq (nat * seq V) :=
  if ps is p :: ps' then
    if p.2 is x :: s then if x == y then (p.1, s) :: model_follow y ps' else model_follow y ps'
    else model_follow y ps'
  else [::].
Fixpoint model_through s (ps : seq (nat * seq V)) : seq (nat * seq V) :=
  if s is x :: s' then model_through s' (model_follow x ps) else ps.

(* --- SpecTr with recursive rejection --------------------------------------------------- *)
Fixpoint model_rejection c (q : V -> R) (hs : seq (nat * V)) : prog V :=
  if hs is h :: hs' then
    Flip (acc (model h.1 c) q h.2) (Ret h.2) (model_rejection c (res vs (model h.1 c) q) hs')
  else Draw q (fun y => Ret y).
Variable qt : chain.
Fixpoint model_spectr_walk m c ps : prog (seq V) :=
  if m is m'.+1 then
    bind (model_rejection c (qt c) (model_heads ps)) (fun y =>
      let ps' := model_follow y ps in
      if ps' == [::] then Ret (rcons c y) else model_spectr_walk m' (rcons c y) ps')
  else emit (qt c) c.
Definition model_spectr ks L c : prog (seq V) :=
  bind (model_drafts ks L c) (model_spectr_walk L c).

(* --- SpecTr with target match, and tree match: the models are not looked at ------------- *)
Definition model_match ks L c : prog (seq V) :=
  bind (model_drafts ks L c) (fun ps => spectr_walk qt (node_answer vs qt) L c [seq p.2 | p <- ps]).

(* --- SpecTr-GBV, scale "unit" ------------------------------------------------------------- *)
(* Node c, m tokens left on the paths, the target chain D. *)
Fixpoint model_gbv_walk fuel c m (D : chain) ps : prog (seq V * chain) :=
  match fuel, ps with
  | fuel'.+1, (k, xs) :: ps' =>
      bind (deepest_first (joint_ratio (model k) D) (gbv_bias vs (model k) D) c 1 xs) (fun o =>
        let D' := gbv_chain vs (model k) D 1 1 c (size c + m)%N in
        if o is Some (c', w, last) then
          let s := drop (size c) c' in
          model_gbv_walk fuel' c' (m - size s)%N D' (if last then [::] else model_through s ps')
        else model_gbv_walk fuel' c m D' ps')
  | _, _ => Draw (D c) (fun y => Ret (rcons c y, D))
  end.
Definition model_gbv ks L (D : chain) c : prog (seq V * chain) :=
  let ks := if L is 0 then [::] else ks in
  bind (model_drafts ks L c) (model_gbv_walk (size ks) c L D).
End SeveralModels.

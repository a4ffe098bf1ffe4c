(* Drafting, and the target alone: what every verifier is given and compared with. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The joint probability of a string under a model, after the context c. *)
Fixpoint pmass (R : realFieldType) (V : eqType) (d : seq V -> V -> R) c s : R :=
  if s is x :: s' then d c x * pmass d (rcons c x) s' else 1.

Section Drafting.
Variables (R : realFieldType) (V : eqType).
Notation prog := (prog R V).

(* All K drafts are drawn first; d h is the law of the next draft given the
   drafts h before it (constant for i.i.d., masked for without-replacement). *)
Fixpoint draws (d : seq V -> V -> R) n h : prog (seq V) :=
  if n is n'.+1 then
    Draw (d h) (fun x => bind (draws d n' (rcons h x)) (fun s => Ret (x :: s)))
  else Ret [::].

(* pd, qt : next-token laws of draft and target after a context. *)
Variables (pd qt : seq V -> V -> R).

(* Plain autoregressive generation; the result is the whole context. *)
Fixpoint generate (m : seq V -> V -> R) n c : prog (seq V) :=
  if n is n'.+1 then Draw (m c) (fun x => generate m n' (rcons c x)) else Ret c.

(* The drafted tokens alone. *)
Fixpoint draft n c : prog (seq V) :=
  if n is n'.+1 then
    Draw (pd c) (fun x => bind (draft n' (rcons c x)) (fun s => Ret (x :: s)))
  else Ret [::].

Definition emit (d : V -> R) c : prog (seq V) := Draw d (fun y => Ret (rcons c y)).

(* Fill up with target tokens to the full horizon N. *)
Definition fill N c : prog (seq V) := generate qt (N - size c) c.
End Drafting.

Section PathsCode.
Variables (R : realFieldType) (V : eqType) (pd : seq V -> V -> R).
Notation prog := (prog R V).

(* K independent paths of length m below c. *)
Fixpoint drafts K m c : prog (seq (seq V)) :=
  if K is K'.+1 then
    bind (draft pd m c) (fun s => bind (drafts K' m c) (fun ss => Ret (s :: ss)))
  else Ret [::].

(* The next tokens of the paths; the paths that go on with y, cut; the paths
   that go through the prefix s, cut.                                         *)
Fixpoint heads (ps : seq (seq V)) : seq V :=
  if ps is p :: ps' then (if p is x :: _ then x :: heads ps' else heads ps') else [::].
Fixpoint follow y (ps : seq (seq V)) : seq (seq V) :=
  if ps is p :: ps' then
    if p is x :: p' then if x == y then p' :: follow y ps' else follow y ps'
    else follow y ps'
  else [::].
Fixpoint through s (ps : seq (seq V)) : seq (seq V) :=
  if s is x :: s' then through s' (follow x ps) else ps.
End PathsCode.

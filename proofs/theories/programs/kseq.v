(* One token, K i.i.d. drafts, K-SEQ (SpecTr 2310.15141): the clip with a scale rho.  The cover factor
   is c(beta, n) = 1 + (1-beta) + .. + (1-beta)^(n-1).  Python: draftproof.reference.couplings.kseq and
   draftproof.reference.clip.                                                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section KSeq.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Variables (p q : V -> R) (rho : R).

Definition kseq_bias x : R := Order.min 1 (q x / (rho * p x)).
Definition covered x : R := Order.min (p x) (q x / rho).
Definition beta : R := sumf vs covered.
(* cover n = 1 + (1-beta) + ... + (1-beta)^(n-1) *)
Fixpoint cover n : R := if n is n'.+1 then 1 + (1 - beta) * cover n' else 0.
Definition owed K y : R := q y - cover K * covered y.
Definition clip_residual K y : R :=
  let s := sumf vs (owed K) in if s == 0 then q y else owed K y / s.

Fixpoint kseq_scan K xs : prog V :=
  if xs is x :: xs' then Flip (kseq_bias x) (Ret x) (kseq_scan K xs')
  else Draw (clip_residual K) (fun y => Ret y).
(* The same, with whether the token was kept from a draft. *)
Fixpoint kseq_kept K xs : prog (bool * V) :=
  if xs is x :: xs' then Flip (kseq_bias x) (Ret (true, x)) (kseq_kept K xs')
  else Draw (clip_residual K) (fun y => Ret (false, y)).
Definition kseq K : prog V := bind (draws (fun=> p) K [::]) (kseq_scan K).
End KSeq.

(* What makes a scale valid for a pair of rows and n drafts: c(beta, n) <= rho. *)
Definition rho_ok (R : realFieldType) (V : eqType) (vs : seq V)
    (rho : (V -> R) -> (V -> R) -> nat -> R) : Prop :=
  forall p q n, is_dist vs p -> is_dist vs q ->
    0 < rho p q n /\ cover vs p q (rho p q n) n <= rho p q n.

(* Building the label laws: at every context any coupling of token types and
   labels with the two right marginals will do, and any proposal at all can be
   repaired to have them.
   Python: draftproof.reference.verifiers.ranked_block (the design of the label laws).  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal selection.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section DesignCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V).

(* A family that is computed along the path: a state, the label law it stands
   for, and the state of a child.  Tokens the draft cannot produce keep it.   *)
Section Step.
Variables (pd : seq V -> V -> R) (St : Type) (labst : St -> nat -> R) (init : St).
Variables (step : seq V -> St -> V -> St) (pi0 : nat -> R).
Definition live x v : bool := (v \in vs) && (pd x v != 0).
Fixpoint sfold x st s : St :=
  if s is v :: s' then sfold (rcons x v) (if live x v then step x st v else st) s' else st.
Definition post_of (c x : seq V) : nat -> R :=
  if take (size c) x == c then labst (sfold c init (drop (size c) x)) else pi0.
End Step.

(* Tables, so that nothing is computed twice. *)
Definition tabl n (f : nat -> R) : nat -> R := let t := mkseq f n in fun l => nth 0 t l.
Definition tab2 n k (F : nat -> nat -> R) : nat -> nat -> R :=
  let t := mkseq (fun b => mkseq (F b) k) n in fun b l => nth 0 (nth [::] t b) l.

(* NT types, J labels; theta v: the type mixture of the token v. *)
Variables (NT J : nat).
Section Mix.
Variables (p : V -> R) (theta : V -> nat -> R) (M : nat -> nat -> R).
Definition tmass b : R := sumf vs (fun v => p v * theta v b).
Definition mix v l : R := csum (fun b => theta v b * (M b l / tmass b)) NT.
End Mix.

(* Exact repair of any proposal to the marginals P and pi. *)
Section Repair.
Variables (P pi : nat -> R) (M0 : nat -> nat -> R).
Definition rowsum (M : nat -> nat -> R) b : R := csum (M b) J.
Definition colsum (M : nat -> nat -> R) l : R := csum (fun b => M b l) NT.
Definition pos_part : nat -> nat -> R := fun b l => Order.max (M0 b l) 0.
Definition cut_cols (M : nat -> nat -> R) : nat -> nat -> R :=
  let a := tabl J (acc (colsum M) pi) in fun b l => M b l * a l.
Definition cut_rows (M : nat -> nat -> R) : nat -> nat -> R :=
  let a := tabl NT (acc (rowsum M) P) in fun b l => M b l * a b.
Definition fill_up (M : nat -> nat -> R) : nat -> nat -> R :=
  let er := tabl NT (fun b => P b - rowsum M b) in
  let ec := tabl J (fun l => pi l - colsum M l) in
  let t := csum er NT in fun b l => M b l + er b * ec l / t.
Definition repair : nat -> nat -> R :=
  let M1 := tab2 NT J (cut_cols (tab2 NT J pos_part)) in
  let M2 := tab2 NT J (cut_rows M1) in tab2 NT J (fill_up M2).
End Repair.

(* The scheme of the specification: types from the rows, a proposal from the
   rows, the label law and whatever else is carried along (T, w).             *)
Section Scheme.
Variables (pd : seq V -> V -> R) (X : Type) (x0 : X) (theta : seq V -> V -> nat -> R).
Variables (propose : seq V -> (nat -> R) * X -> nat -> nat -> R).
Variables (carry : seq V -> (nat -> R) * X -> V -> X).
Definition design_step x (st : (nat -> R) * X) v : (nat -> R) * X :=
  let P := tabl NT (tmass (pd x) (theta x)) in
  let M := repair P st.1 (propose x st) in
  (tabl J (mix (pd x) (theta x) M v), carry x st v).
Definition design pi0 : seq V -> seq V -> nat -> R :=
  post_of pd (fun st : (nat -> R) * X => st.1) (pi0, x0) design_step pi0.
End Scheme.
End DesignCode.

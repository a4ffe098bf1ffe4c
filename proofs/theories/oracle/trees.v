(* Print program trees as JSON: the proved definitions, run over Qc. *)
From Coq Require Import ZArith QArith Qcanon String DecimalString.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block rounds target_match spectr scan walk kseq_block spectr_gbv greedy_block
   scale.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block decode paths
   spectr scan walk kseq_block spectr_gbv greedy_block scale.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope string_scope.

Definition F := qc_realFieldType.
Definition fr (a : Z) (b : positive) : F := Q2Qc (Qmake a b).
Definition tab (l : seq F) : nat -> F := nth (0%Qc : F) l.
(* A model given by a table from context to row; missing rows use the default. *)
Definition model (rows : seq (seq nat * seq F)) (dflt : seq F) (c : seq nat) : nat -> F :=
  tab (foldr (fun r acc => if r.1 == c then r.2 else acc) dflt rows).

Definition jZ (z : Z) : string := NilZero.string_of_int (Z.to_int z).
Definition jN (n : nat) : string := jZ (Z.of_nat n).
Definition jQ (q : Qc) : string :=
  """" ++ jZ (Qnum q) ++ "/" ++ jZ (Zpos (Qden q)) ++ """".
Definition jL (l : seq string) : string := "[" ++ String.concat "," l ++ "]".
Definition jB (b : bool) : string := if b then "true" else "false".

Section Tree.
Variables (V : eqType) (A : Type) (vs : seq V) (jA : A -> string).
Fixpoint jtree (m : prog F V A) : string :=
  match m with
  | Ret a => "{""ret"":" ++ jA a ++ "}"
  | Flip r t e => "{""flip"":" ++ jQ r ++ ",""t"":" ++ jtree t ++ ",""f"":" ++ jtree e ++ "}"
  | Draw d k => "{""draw"":" ++ jL [seq jQ (d x) | x <- vs]
                ++ ",""k"":" ++ jL [seq jtree (k x) | x <- vs] ++ "}"
  end.
End Tree.

Definition jspec vs p q :=
  jtree vs (fun o : bool * nat => jL [:: jB o.1; jN o.2]) (maximal vs (tab p) (tab q)).
Definition jseq (s : seq nat) := jL (map jN s).
Definition jblk vs pd qt L c := jtree vs jseq (block vs pd qt L c).
Definition jtok vs pd qt L c := jtree vs jseq (token_by_token vs pd qt L c).
Definition jrrs vs d n q := jtree vs jN (recursive_rejection vs d n (tab q)).
Definition jkseq vs p q rho K := jtree vs jN (kseq vs (tab p) (tab q) rho K).

(* Several drafts. The scale is rho_grid g; vs is needed by the couplings too. *)
Definition jspectr (vs : seq nat) pd qt g K L c :=
  jtree vs jseq (spectr pd qt (node_kseq vs pd qt (rho_grid vs g)) K L c).
Definition jspecrrs (vs : seq nat) pd qt K L c :=
  jtree vs jseq (spectr pd qt (node_rrs vs pd qt) K L c).
Definition jkblock (vs : seq nat) pd qt g ext K L c :=
  jtree vs jseq (kseq_block vs pd qt (rho_grid vs g) ext K L c).
(* Stateful schemes: the carry is shown by drawing the rest of the block from it. *)
Definition carried (N : nat) (o : seq nat * (seq nat -> nat -> F)) : prog F nat_eqType (seq nat) :=
  fill o.2 N o.1.
Definition jgreedy (vs : seq nat) pd D L c :=
  jtree vs jseq (bind (greedy_block vs pd L D c) (carried (size c + L.+1)%N)).
Definition jgbv (vs : seq nat) pd D g unit ext K L c :=
  jtree vs jseq (bind (spectr_gbv vs pd (rho_grid vs g) unit ext K L D c) (carried (size c + L.+1)%N)).

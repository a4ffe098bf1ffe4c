(* Several drafted paths tested one after another, starting again at the node
   of an accepted prefix with the later paths that pass through it.
   Python: (shared by kseq_block and spectr_gbv).  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* S: state at a node; X: what an acceptance reports; O: output.               *)
Section WalkCode.
Variables (R : realFieldType) (V : eqType) (S X O : Type).
Notation prog := (prog R V).
Variables
  (test : S -> seq V -> prog (option X)) (* test one path at a node           *)
  (pre : S -> X -> seq V) (leaf : X -> bool) (* accepted prefix; is it a full path *)
  (mk : S -> X -> nat -> S)                  (* new node, reached by n later paths *)
  (rej : S -> S)                         (* after a path is rejected           *)
  (fin : S -> prog O)                    (* no path left: draw the next token  *)
  (ext : bool).                          (* go on with later paths at all?     *)

Definition alive st (x : X) (ps : seq (seq V)) : seq (seq V) :=
  if ext && ~~ leaf x then through (pre st x) ps else [::].

(* Every step uses up a path, so fuel = number of paths is enough. *)
Fixpoint walk fuel st ps : prog O :=
  match fuel, ps with
  | fuel'.+1, xs :: ps' =>
      bind (test st xs) (fun o =>
        if o is Some x then let ps'' := alive st x ps' in walk fuel' (mk st x (size ps'')) ps''
        else walk fuel' (rej st) ps')
  | _, _ => fin st
  end.
End WalkCode.

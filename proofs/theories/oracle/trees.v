(* The oracle: the proved programs, run over exact binary rationals, printed as decision trees.
   A flip shows its bias, a draw its row, a leaf what is returned; a branch of probability 0 is
   null.  This file and the extraction are trusted, not proved.                                  *)
From Coq Require Import ZArith NArith QArith Qcanon String DecimalString.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq token_by_token
   block target_match spectr scan walk kseq_block spectr_gbv greedy_block selection ranked_block
   ranked_block_design ranked_greedy_block multipath traversal spechub contract.

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

(* --- The printer ---------------------------------------------------------------------- *)
Definition show_int (z : Z) : string := NilZero.string_of_int (Z.to_int z).
Definition show_nat (n : nat) : string := show_int (Z.of_nat n).
Definition show_rational (q : Qc) : string :=
  """" ++ show_int (Qnum q) ++ "/" ++ show_int (Zpos (Qden q)) ++ """".
Definition show_list (l : seq string) : string := "[" ++ String.concat "," l ++ "]".
Definition show_nats (s : seq nat) : string := show_list (map show_nat s).
(* Of a stateful scheme: how many tokens were emitted, and the tokens of the whole block. *)
Definition show_emitted (o : nat * seq nat) : string := show_nats (o.1 :: o.2).

Section Tree.
Variables (A : Type) (vs : seq nat) (show : A -> string).
Fixpoint show_tree (m : prog F nat_eqType A) : string :=
  match m with
  | Ret a => "{""ret"":" ++ show a ++ "}"
  | Flip r t e => "{""flip"":" ++ show_rational r
      ++ ",""t"":" ++ (if qc_eqb r 0 then "null" else show_tree t)
      ++ ",""f"":" ++ (if qc_eqb r 1 then "null" else show_tree e) ++ "}"
  | Draw d k => "{""draw"":" ++ show_list [seq show_rational (d x) | x <- vs]
      ++ ",""k"":" ++ show_list [seq if qc_eqb (d x) 0 then "null" else show_tree (k x) | x <- vs]
      ++ "}"
  end.
End Tree.

(* --- One entry for each scheme of the catalogue ------------------------------------------ *)
Section Schemes.
Variables (vs : seq nat) (pd qt : seq nat -> nat -> F) (g : N) (K L : nat).
Notation prog := (prog F nat_eqType).
Notation chain := (seq nat -> nat -> F).
Let rho := @smallest_scale F nat_eqType vs g.
Let p := pd [::].
Let q := qt [::].
Definition stateless (m : prog (seq nat)) : string := show_tree vs show_nats m.
(* The carry is shown by drawing the rest of the block from it. *)
Definition stateful (m : prog (seq nat * chain)) : string :=
  show_tree vs show_emitted
    (bind m (fun o => bind (fill o.2 L.+1 o.1) (fun s => Ret (size o.1, s)))).
Definition coupled d (coupling : seq nat -> prog nat) : string :=
  stateless (one_token qt d coupling K [::]).

Definition tree_maximal := coupled (fun=> p) (maximal_coupling vs p q).
Definition tree_kseq := coupled (fun=> p) (kseq_coupling vs p q rho).
Definition tree_recursive_rejection :=
  coupled (fun=> p) (recursive_rejection_scan vs (fun=> p) [::] q).
Definition tree_without_replacement :=
  coupled (without vs p) (recursive_rejection_scan vs (without vs p) [::] q).
Definition tree_target_match := coupled (fun=> p) (answer vs q).
(* The candidate is chosen by the row that a table gives for the candidates' tokens. *)
Definition tree_choose (choice : seq nat -> nat -> F) :=
  let row f := tab [seq f v | v <- vs] in
  let r := row (chosen_law vs (fun=> p) K choice) in
  coupled (fun=> p) (fun xs => answer vs (row (verified vs choice q r xs)) xs).

(* The hub is the likeliest token, the first among equals. *)
Definition tree_spechub :=
  let hub := foldl (fun a v => if qc_ltb (p a) (p v) then v else a) (head 0%N vs) vs in
  stateless (one_token qt (hub_drafter hub p) (spechub vs hub p q) 2 [::]).

Definition tree_traversal := stateless (traversal vs pd qt (masked vs) K L [::]).
Definition tree_token_by_token := stateless (token_by_token vs pd qt L [::]).
Definition tree_block := stateless (block_contract vs pd qt L [::]).
Definition tree_spectr_kseq := stateless (spectr pd qt (node_kseq vs pd qt rho) K L [::]).
Definition tree_spectr_recursive_rejection := stateless (spectr pd qt (node_rrs vs pd qt) K L [::]).
Definition tree_spectr_target_match := stateless (spectr pd qt (node_answer vs qt) K L [::]).
Definition tree_kseq_block := stateless (kseq_block_contract vs pd qt rho true K L [::]).
Definition tree_greedy_block := stateful (greedy_block_contract vs pd L qt [::]).
Definition tree_spectr_gbv unit := stateful (spectr_gbv_contract vs pd rho unit true K L qt [::]).

(* All contexts of up to n tokens. *)
Fixpoint contexts n : seq (seq nat) :=
  if n is n'.+1 then [::] :: flatten [seq [seq v :: s | s <- contexts n'] | v <- vs] else [:: [::]].

(* Rows computed once and kept in a table. *)
Definition row_table (r : chain) : chain := model [seq (x, [seq r x v | v <- vs]) | x <- contexts L] [::].

(* J labels with the law pi0, ratio edges e, and a proposal M0 x for the coupling at every prefix x;
   the label laws are computed once and kept in a table.                                          *)
Section Ranked.
Variables (J : nat) (pi0 : nat -> F) (e : seq F) (proposals : seq (seq nat * seq (seq F))).
Definition proposal (x : seq nat) : nat -> nat -> F :=
  let m := foldr (fun r acc => if r.1 == x then r.2 else acc) [::] proposals in
  fun b => tab (nth [::] m b).
Definition label_laws : seq nat -> nat -> F :=
  let theta x v := ratio_types e (pd x v) (qt x v) in
  let post := design vs (size e) J pd tt theta (fun x _ => proposal x) (fun _ _ _ => tt) pi0 [::] in
  model [seq (x, let law := post x in mkseq law J) | x <- contexts L] [::].
Definition tree_ranked_block :=
  let laws := label_laws in
  let r := row_table (selected_row pd J pi0 (fun=> laws) K [::]) in
  stateless (select_and_verify vs r pd qt J (fun=> laws) K L [::]).
Definition tree_ranked_block_stateful :=
  let laws := label_laws in
  let r := row_table (selected_row pd J pi0 (fun=> laws) K [::]) in
  stateful (select_and_verify_greedy vs r pd J (fun=> laws) K L qt [::]).
End Ranked.
(* The keys and their laws are computed once and kept in tables. *)
Definition tree_multipath :=
  let J := (size vs ^ L)%N in
  let keys := [seq (x, path_key pd qt (size vs) [::] x) | x <- contexts L & size x == L] in
  let key (c x : seq nat) := foldr (fun r acc => if r.1 == x then r.2 else acc) 0%N keys in
  let score c x l : F := if l == key c x then 1%Qc : F else 0%Qc in
  let laws := model [seq (x, let law := cond vs pd L score [::] x in mkseq law J)
    | x <- contexts L] [::] in
  let r := row_table (selected_row pd J (laws [::]) (fun=> laws) K [::]) in
  stateless (largest_and_verify vs r pd qt L key K [::]).
End Schemes.

(* The oracle: the proved programs, run over exact binary rationals, printed as decision trees.
   A flip shows its bias, a draw its row, a leaf what is returned; a branch of probability 0 is
   null.  This file and the extraction are trusted, not proved.                                  *)
From Coq Require Import ZArith NArith QArith Qcanon String DecimalString.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq token_by_token
   block target_match spectr scan walk kseq_block spectr_gbv greedy_block selection ranked_block
   ranked_block_design ranked_greedy_block ranked_block_models several_models skip_repetitions
   distinct_paths multipath traversal spechub contract.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope string_scope.

Definition F := qc_realFieldType.
Definition fr (a : Z) (b : positive) : F := Q2Qc (Qmake a b).
Definition tab (l : seq F) : nat -> F := nth (0%Qc : F) l.
(* The entry of a table at a key. *)
Definition look_up (A : Type) (dflt : A) (table : seq (seq nat * A)) (key : seq nat) : A :=
  foldr (fun r acc => if r.1 == key then r.2 else acc) dflt table.
(* A model given by a table from context to row; missing rows use the default. *)
Definition model (rows : seq (seq nat * seq F)) (dflt : seq F) (c : seq nat) : nat -> F :=
  tab (look_up dflt rows c).

(* --- The printer ---------------------------------------------------------------------- *)
Definition show_int (z : Z) : string := NilZero.string_of_int (Z.to_int z).
Definition show_nat (n : nat) : string := show_int (Z.of_nat n).
Definition show_rational (q : Qc) : string :=
  """" ++ show_int (Qnum q) ++ "/" ++ show_int (Zpos (Qden q)) ++ """".
Definition show_list (l : seq string) : string := "[" ++ String.concat "," l ++ "]".
Definition show_nats (s : seq nat) : string := show_list (map show_nat s).
(* Of a stateful scheme: how many tokens were emitted, and the tokens of the whole block. *)
Definition show_emitted (o : nat * seq nat) : string := show_nats (o.1 :: o.2).
(* Of two rounds: where each of them ended, and the tokens. *)
Definition show_rounds (o : nat * nat * seq nat) : string := show_nats [:: o.1.1, o.1.2 & o.2].

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
(* Row tables: what is looked at several times is computed once. *)
Section Tables.
Variable vs : seq nat.
(* All contexts of up to n tokens. *)
Fixpoint contexts n : seq (seq nat) :=
  if n is n'.+1 then [::] :: flatten [seq [seq v :: s | s <- contexts n'] | v <- vs] else [:: [::]].
(* The rows r from c to n tokens below it. *)
Definition row_table n (c : seq nat) (r : seq nat -> nat -> F) : seq nat -> nat -> F :=
  model [seq ((c ++ x)%SEQ, [seq r (c ++ x)%SEQ v | v <- vs]) | x <- contexts n] [::].
End Tables.

(* pds: the draft models; a scheme of one model uses the first. *)
Section Schemes.
Variables (vs : seq nat) (pds : seq (seq nat -> nat -> F)) (qt : seq nat -> nat -> F).
Variables (g : N) (K L : nat).
Notation prog := (prog F nat_eqType).
Notation chain := (seq nat -> nat -> F).
Let rho := @smallest_scale F nat_eqType vs g.
Let pd := nth qt pds 0.
Let p := pd [::].
Let q := qt [::].
Let of_draft k : chain := nth qt pds k.
Let each := iota 0 K.
Definition stateless (m : prog (seq nat)) : string := show_tree vs show_nats m.
(* The carry is shown by drawing the rest of the block from it. *)
Definition stateful (m : prog (seq nat * chain)) : string :=
  show_tree vs show_emitted
    (bind m (fun o => bind (fill o.2 L.+1 o.1) (fun s => Ret (size o.1, s)))).
(* One round of length L, or a second one of length l that verifies against what the first carries. *)
Definition by_rounds (second : option nat) (ver : nat -> chain -> seq nat -> prog (seq nat * chain))
  : string :=
  if second is Some l then
    show_tree vs show_rounds
      (bind (ver L qt [::]) (fun o =>
       bind (ver l (row_table vs l o.1 o.2) o.1) (fun o' =>
       bind (fill o'.2 (size o.1 + l.+1)%N o'.1) (fun s => Ret (size o.1, size o'.1, s)))))
  else stateful (ver L qt [::]).
Definition coupled d (coupling : seq nat -> prog nat) : string :=
  stateless (one_token qt d coupling K [::]).

(* One token. *)
Definition tree_maximal := coupled (fun=> p) (maximal_coupling vs p q).
Definition tree_kseq :=
  stateless (one_token_kept qt (fun=> p) (kseq_coupling vs p q rho) K [::]).
Definition tree_recursive_rejection :=
  let row h := of_draft (size h) [::] in coupled row (recursive_rejection_scan vs row [::] q).
Definition tree_without_replacement :=
  coupled (without vs p) (recursive_rejection_scan vs (without vs p) [::] q).
Definition tree_target_match := coupled (fun h => of_draft (size h) [::]) (answer vs q).
(* The hub is the likeliest token, the first among equals. *)
Definition tree_spechub :=
  let hub := foldl (fun a v => if qc_ltb (p a) (p v) then v else a) (head 0%N vs) vs in
  stateless (one_token qt (hub_drafter hub p) (spechub vs hub p q) 2 [::]).

(* The candidate is chosen by the row that a table gives for the node and the candidates' tokens; the
   laws of the chosen token are computed once for each node and number of candidates.            *)
Section Planned.
(* d c h: the law of the next draft at c after the drafts h. *)
Variables (d : seq nat -> seq nat -> nat -> F) (plan : seq (seq nat * seq (seq nat * seq F))).
Definition plan_row (c xs : seq nat) : nat -> F := tab (look_up [::] (look_up [::] plan c) xs).
Definition node_planned : seq nat -> seq nat -> prog nat :=
  let row f := [seq f v | v <- vs] in
  let ch := planned_choice vs pd plan_row in
  let laws := [seq (c, [seq row (chosen_law vs (d c) n (ch c n)) | n <- iota 0 K.+1])
    | c <- contexts vs L.-1] in
  fun c xs => let n := size xs in
    answer vs (tab (row (verified vs (ch c n) (qt c) (tab (nth [::] (look_up [::] laws c) n)) xs))) xs.
End Planned.
Definition tree_planned (distinct : bool) plan :=
  let d := if distinct then without vs p else fun=> p in
  let node := node_planned (fun=> d) plan in coupled d (node [::]).
Definition tree_spectr_planned plan :=
  let node := node_planned (fun c _ => pd c) plan in stateless (spectr pd qt node K L [::]).

(* Blocks, one model. *)
Definition tree_traversal := stateless (traversal vs pd qt (masked vs) K L [::]).
Definition tree_token_by_token := stateless (token_by_token vs pd qt L [::]).
Definition tree_block := stateless (block_contract vs pd qt L [::]).
Definition tree_spectr_kseq := stateless (spectr_kept pd qt (node_kseq vs pd qt rho) K L [::]).
Definition tree_spectr_without_replacement := stateless (spectr pd qt (node_skip vs pd qt) K L [::]).
Definition tree_spectr_distinct := stateless (spectr_distinct vs pd qt K L [::]).
Definition tree_kseq_block := stateless (kseq_block_contract vs pd qt rho true K L [::]).
Definition tree_greedy_block second := by_rounds second (greedy_block_contract vs pd).
Definition tree_spectr_gbv_kseq second :=
  by_rounds second (spectr_gbv_contract vs pd rho false true K).

(* Blocks, a model for each draft. *)
Definition tree_spectr_recursive_rejection :=
  stateless (model_spectr vs of_draft qt each L [::]).
Definition tree_spectr_target_match := stateless (model_match vs of_draft qt each L [::]).
Definition tree_spectr_gbv_unit second := by_rounds second (model_gbv vs of_draft each).

(* J labels with the law pi0, ratio edges e, and a proposal for the coupling at every prefix of the
   block (for all models and rounds the same); the label laws are computed once and kept in a table. *)
Section Ranked.
Variables (J : nat) (pi0 : nat -> F) (e : seq F) (proposals : seq (seq nat * seq (seq F))).
Definition label_laws l (pm D : chain) (c : seq nat) : seq nat -> nat -> F :=
  let theta x v := ratio_types e (pm x v) (D x v) in
  let proposal x : nat -> nat -> F :=
    let m := look_up [::] proposals (drop (size c) x) in fun b => tab (nth [::] m b) in
  let post := design vs (size e) J pm tt theta (fun x _ => proposal x) (fun _ _ _ => tt) pi0 c in
  model [seq ((c ++ x)%SEQ, let law := post (c ++ x)%SEQ in mkseq law J) | x <- contexts vs l] [::].
(* All drafts of one model. *)
Definition tree_ranked_block :=
  let laws := label_laws L pd qt [::] in
  let r := row_table vs L [::] (selected_row pd J pi0 (fun=> laws) K [::]) in
  stateless (select_and_verify vs r pd qt J (fun=> laws) K L [::]).
Definition tree_ranked_block_stateful second :=
  by_rounds second (fun l D c =>
    let laws := label_laws l pd D c in
    let r := row_table vs l c (selected_row pd J pi0 (fun=> laws) K c) in
    select_and_verify_greedy vs r pd J (fun=> laws) K l D c).
(* A model for each draft. *)
Definition entrants l D c : seq (entrant F nat_eqType) :=
  [seq (of_draft k, label_laws l (of_draft k) D c) | k <- each].
Definition own_rows l c (es : seq (entrant F nat_eqType)) : nat -> chain :=
  let rows := [seq row_table vs l c (own_row J pi0 K k (nth (qt, fun=> pi0) es k)) | k <- each] in
  fun k => nth qt rows k.
Definition tree_ranked_block_models :=
  let es := entrants L qt [::] in let r := own_rows L [::] es in
  stateless (models_and_verify vs qt J L [::] r es).
Definition tree_ranked_block_stateful_models second :=
  by_rounds second (fun l D c => let es := entrants l D c in let r := own_rows l c es in
    models_and_verify_greedy vs J l c r D es).
End Ranked.
(* The keys and their laws are computed once and kept in tables. *)
Definition tree_multipath :=
  let J := (size vs ^ L)%N in
  let keys := [seq (x, path_key pd qt (size vs) [::] x) | x <- contexts vs L & size x == L] in
  let key (c x : seq nat) := look_up 0%N keys x in
  let score c x l : F := if l == key c x then 1%Qc : F else 0%Qc in
  let laws := model [seq (x, let law := cond vs pd L score [::] x in mkseq law J)
    | x <- contexts vs L] [::] in
  let r := row_table vs L [::] (selected_row pd J (laws [::]) (fun=> laws) K [::]) in
  stateless (largest_and_verify vs r pd qt L key K [::]).
End Schemes.

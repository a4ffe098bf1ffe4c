(* The schemes exactly as the Python reference runs them: the tests of a path go from its deepest
   token upwards and stop at the first success (the randomness contract), a one-token coupling is a
   block of length 1, and the scale is the smallest valid multiple of 1/g.
   theorems/contract.v: each has the law of the scheme that is proved lossless.
   Python: draftproof.reference.verifiers.*, draftproof.reference.couplings.*,
   draftproof.reference.clip.smallest_scale.                                            *)
From Coq Require Import NArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting kseq block scan walk kseq_block spectr_gbv
   greedy_block selection ranked_block ranked_greedy_block multipath spectr.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Testing a path ----------------------------------------------------------------- *)
Section Contract.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).

(* Depths L, L-1, .., 1; the first that accepts wins. *)
Definition deepest_first (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R) c w xs
  : prog (option (mark R V)) := down hac (rev (marks nxt c w xs)) None.

(* Block verification of one given path xs below c. *)
Definition block_path (pd qt : chain) c xs : prog (seq V) :=
  bind (deepest_first (block_weight pd qt) (block_bias vs pd qt) c 1 xs) (fun o =>
    block_emit vs pd qt (if o is Some k then k else (c, 1, xs == [::]))).
Definition block_contract (pd qt : chain) L c : prog (seq V) :=
  bind (draft pd L c) (block_path pd qt c).

Definition greedy_block_contract (pd : chain) L (D : chain) c : prog (seq V * chain) :=
  bind (bind (draft pd L c) (deepest_first (joint_ratio pd D) (greedy_bias vs pd D) c 1))
    (greedy_block_out vs pd L D c).

Section Several.
Variables (pd qt : chain) (rho : (V -> R) -> (V -> R) -> nat -> R).
Definition kseq_block_test_contract (st : kseq_block_state R V) xs : prog (option (mark R V)) :=
  let: (c, m, T, n) := st in let D := row_at qt c T in
  deepest_first (block_weight pd D) (block_bias vs pd D) c (kseq_block_scale pd rho st)^-1 xs.
Definition kseq_block_contract ext K L c : prog (seq V) :=
  bind (drafts pd K L c) (fun ps =>
    let ps := if L is 0 then [::] else ps in
    walk kseq_block_test_contract (@kseq_block_prefix R V) snd (kseq_block_node vs pd qt) id
      (kseq_block_correction vs pd rho) ext (size ps) (c, L, qt c, size ps) ps).

Variable unit : bool.
Definition gbv_test_contract (st : gbv_state R V) xs : prog (option (mark R V)) :=
  let: (c, m, D, n) := st in
  deepest_first (joint_ratio pd D) (gbv_bias vs pd D) c (gbv_scale pd rho unit st)^-1 xs.
Definition spectr_gbv_contract ext K L (D : chain) c : prog (seq V * chain) :=
  bind (drafts pd K L c) (fun ps =>
    let ps := if L is 0 then [::] else ps in
    walk gbv_test_contract (@gbv_prefix R V) snd (gbv_node vs pd rho unit)
      (gbv_rejected vs pd rho unit) (gbv_correction vs pd rho unit) ext (size ps)
      (c, L, D, size ps) ps).
End Several.

(* Select a path, then block-verify it with the rows of the selected law.  The labels are drawn
   draft by draft; b counts the labels that do not beat the best draft w so far.  Labels that give the
   same winner are drawn as one: those b, and for the last draft also the others.                  *)
Section Select.
Variables (J : nat) (post : seq V -> seq V -> nat -> R).
Definition rise (pi : nat -> R) b i : R := if i is i'.+1 then pi (b + i')%N else csum pi b.
Definition beats (pi : nat -> R) b i : R := if i is 0%N then csum pi b else csum pi J - csum pi b.
Fixpoint select_rising c b w (ps : seq (seq V)) : prog (seq V) :=
  if ps is s :: ps' then
    let pi := post c (c ++ s) in
    if ps' is [::] then
      bind (draw_label V 2 (beats pi b)) (fun i => Ret (if i is 0%N then w else s))
    else
      bind (draw_label V (J - b).+1 (rise pi b)) (fun i =>
        if i is 0%N then select_rising c b w ps' else select_rising c (b + i)%N s ps')
  else Ret w.
(* Nothing is selected in a block of length 0. *)
Definition selected_contract (pd : chain) K L c : prog (seq V) :=
  if L is 0 then Ret [::]
  else bind (drafts pd K L c) (fun ps => select_rising c 0 (head [::] ps) ps).
End Select.
(* r: the rows of the selected path. *)
Definition select_and_verify (r pd qt : chain) J post K L c : prog (seq V) :=
  bind (selected_contract J post pd K L c) (block_path r qt c).
Definition ranked_block_contract (pd qt : chain) J pi0 post K L c : prog (seq V) :=
  select_and_verify (selected_row pd J pi0 post K c) pd qt J post K L c.
Definition select_and_verify_greedy (r pd : chain) J post K L (D : chain) c
  : prog (seq V * chain) :=
  bind (bind (selected_contract J post pd K L c)
    (deepest_first (joint_ratio r D) (greedy_bias vs r D) c 1)) (greedy_block_out vs r L D c).
Definition ranked_greedy_block_contract (pd : chain) J pi0 post K L (D : chain) c
  : prog (seq V * chain) :=
  select_and_verify_greedy (selected_row pd J pi0 (post D) K c) pd J (post D) K L D c.

(* The largest path by its key. *)
Definition largest_and_verify (r pd qt : chain) L key K c : prog (seq V) :=
  bind (top pd L key K c) (block_path r qt c).
Definition multipath_contract (pd qt : chain) J L score key K c : prog (seq V) :=
  let r := selected_row pd J (cond vs pd L score c c) (post_at vs pd L score c) K c in
  largest_and_verify r pd qt L key K c.

(* --- A one-token coupling as a block of length 1 ------------------------------------- *)
(* d h is the law of the next draft after the drafts h; the bonus follows a token that is a draft. *)
Definition one_token (qt : chain) (d : seq V -> V -> R) (coupling : seq V -> prog V) K c
  : prog (seq V) :=
  bind (draws d K [::]) (fun xs => bind (coupling xs) (fun y =>
    if y \in xs then emit (qt (rcons c y)) (rcons c y) else Ret (rcons c y))).
(* The same with a coupling that says whether its token was kept from a draft: the bonus follows if so. *)
Definition one_token_kept (qt : chain) (d : seq V -> V -> R) (coupling : seq V -> prog (bool * V)) K c
  : prog (seq V) :=
  bind (draws d K [::]) (fun xs => bind (coupling xs) (fun o =>
    let c' := rcons c o.2 in if o.1 then emit (qt c') c' else Ret c')).
End Contract.

(* The couplings of one token, on drafts that are given. *)
Section Couplings.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (p q : V -> R).
Notation prog := (prog R V).
Definition maximal_coupling (xs : seq V) : prog V :=
  if xs is x :: _ then Flip (acc p q x) (Ret x) (Draw (res vs p q) (fun y => Ret y))
  else Draw q (fun y => Ret y).
Definition kseq_coupling (rho : (V -> R) -> (V -> R) -> nat -> R) (xs : seq V) : prog (bool * V) :=
  let n := size xs in kseq_kept vs p q (rho p q n) n xs.
End Couplings.

(* A token of the law w, decided by one test of each candidate in order; then a draw from what is
   left.  It is how a coupling that knows the law of its token given the candidates is run.       *)
Section Answer.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Definition without_token (w : V -> R) x : V -> R := fun v => if v == x then 0 else w v.
Fixpoint answer (w : V -> R) (xs : seq V) : prog R V V :=
  let s := sumf vs w in
  if xs is x :: xs' then Flip (w x / s) (Ret x) (answer (without_token w x) xs')
  else Draw (fun v => w v / s) (fun y => Ret y).
Definition node_answer (qt : seq V -> V -> R) c xs : prog R V V := answer (qt c) xs.

(* Choose one of the candidates xs with the law ch xs, then couple the chosen token, whose law is r,
   maximally with q: the law of the token given xs.                                               *)
Variables (d : seq V -> V -> R) (K : nat) (ch : seq V -> V -> R) (q : V -> R).
Definition chosen_law : V -> R := fun y => E vs (draws d K [::]) (fun xs => ch xs y).
Definition verified (r : V -> R) xs y : R :=
  ch xs y * acc r q y + sumf vs (fun x => ch xs x * (1 - acc r q x)) * res vs r q y.
Definition choose_coupling xs : prog R V V := let r := chosen_law in answer (verified r xs) xs.
End Answer.
Definition node_choose (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R)
    (ch : seq V -> nat -> seq V -> V -> R) c xs : prog R V V :=
  choose_coupling vs (fun=> pd c) (size xs) (ch c (size xs)) (qt c) xs.

(* A choice that is given as data, by a table from the node and the candidates to a row: a row that is
   no law is not used; the token is then chosen by the draft row.                                  *)
Section Planned.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Definition is_law_row (w : V -> R) : bool := all (fun v => 0 <= w v) vs && (sumf vs w == 1).
Definition checked (p w : V -> R) : V -> R :=
  if is_law_row w then fun v => if v \in vs then w v else 0 else p.
Definition planned_choice (table : seq V -> seq V -> V -> R) c (n : nat) xs : V -> R :=
  checked (pd c) (table c xs).
Definition spectr_planned table K L c : prog R V (seq V) :=
  spectr pd qt (node_choose vs pd qt (planned_choice table)) K L c.
End Planned.

(* --- Drafts without replacement ------------------------------------------------------- *)
(* p without the tokens of h, renormalised; the plain row when nothing is left. *)
Definition without (R : realFieldType) (V : eqType) (vs : seq V) (p : V -> R) (h : seq V) : V -> R :=
  let m v := if v \in h then 0 else p v in
  let s := sumf vs m in fun v => if s == 0 then p v else m v / s.

(* --- Ranked block: the ratio types of the tokens ------------------------------------------ *)
(* min(q/p, e_last) = (1-f) e_k + f e_{k+1}: type k with probability 1-f, type k+1 with f. *)
Section Types.
Variables (R : realFieldType) (e : seq R).
Definition ratio_types (p q : R) : nat -> R :=
  let ratio := Order.min (q / p) (last 0 e) in
  let k := minn (find (fun x => ratio < x) (behead e)) (size e).-2 in
  let f := (ratio - nth 0 e k) / (nth 0 e k.+1 - nth 0 e k) in
  fun b => if b == k then 1 - f else if b == k.+1 then f else 0.
End Types.

(* --- The scale -------------------------------------------------------------------------- *)
Section Scale.
Variables (R : realFieldType) (V : eqType) (vs : seq V).

Fixpoint of_pos (n : positive) : R :=
  match n with xH => 1 | xO m => let r := of_pos m in r + r | xI m => let r := of_pos m in 1 + (r + r) end.
Definition of_N (n : N) : R := if n is Npos m then of_pos m else 0.

(* The code's test, c(beta, n) <= rho multiplied by beta; bisection for the least j with
   j/g valid; and the final check, which alone makes the answer a valid scale (where nothing is
   covered the test holds for every scale, the clip is the same for all of them, and n is taken). *)
Definition passes (p q : V -> R) n r : bool := 1 - (1 - beta vs p q r) ^+ n <= r * beta vs p q r.
Fixpoint bisect (ok : N -> bool) fuel (low high : N) : N :=
  if fuel is fuel'.+1 then
    if (low <? high)%num then
      let middle := N.div2 (low + high) in
      if ok middle then bisect ok fuel' low middle else bisect ok fuel' (N.succ middle) high
    else low
  else low.
Definition smallest_scale (g : N) (p q : V -> R) (n : nat) : R :=
  let N_ := N.of_nat (maxn n 1) in
  let j := bisect (fun j => passes p q n (of_N j / of_N g)) (N.size_nat (N_ * g)).+1 g (N_ * g)%num in
  let r := of_N j / of_N g in
  if (0 < r) && (cover vs p q r n <= r) then r else (maxn n 1)%:R.
End Scale.

(* --- Greedy multi-path: the order -------------------------------------------------------- *)
(* One strict order of the tokens at every node, by q/p, ties by index (p = 0 counts as the least);
   the key of a path is its place in the lexicographic order, the root's token first.             *)
Section PathKey.
Variables (R : realFieldType) (pd qt : seq nat -> nat -> R) (nv : nat).
Definition token_before x (u v : nat) : bool :=
  let ratio w := qt x w / pd x w in (ratio u < ratio v) || ((ratio u == ratio v) && (u < v)%N).
Definition token_place x v : nat := count (fun u => token_before x u v) (iota 0 nv).
Fixpoint path_place x s : nat :=
  if s is v :: s' then (token_place x v * nv ^ size s' + path_place (rcons x v) s')%N else 0%N.
Definition path_key (c x : seq nat) : nat := path_place c (drop (size c) x).
End PathKey.

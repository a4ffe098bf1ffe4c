(* K-SEQ block verification: K whole paths; the first path that is accepted at
   some depth >= 1 wins; optionally the later paths that pass through the
   accepted prefix are tried again from there.
   Python: draftproof.reference.verifiers.kseq_block.  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting kseq block scan walk.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The chain that is T at c and D elsewhere. *)
Definition row_at (R : Type) (V : eqType) (D : seq V -> V -> R) c (T : V -> R) : seq V -> V -> R :=
  fun x => if x == c then T else D x.

Section KBlockCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Variable ext : bool.   (* with or without the extension by later paths *)
Notation prog := (prog R V).

(* node, tokens left on the paths below it, its target row, its number of paths *)
Definition kseq_block_state : Type := (seq V * nat * (V -> R) * nat)%type.
Definition kseq_block_scale (st : kseq_block_state) : R := let: (c, m, T, n) := st in rho (pd c) T n.
Definition kseq_block_test (st : kseq_block_state) xs : prog (option (mark R V)) :=
  let: (c, m, T, n) := st in let D := row_at qt c T in
  scan (block_weight pd D) (block_bias vs pd D) c (kseq_block_scale st)^-1 xs None.
Definition kseq_block_prefix (st : kseq_block_state) (k : mark R V) : seq V := drop (size st.1.1.1) k.1.1.
Definition kseq_block_node (st : kseq_block_state) (k : mark R V) n : kseq_block_state :=
  let: (c', w', last) := k in
  (c', (st.1.1.2 - size (kseq_block_prefix st k))%N, if last then qt c' else block_residual vs pd qt w' c', n).
Definition kseq_block_correction (st : kseq_block_state) : prog (seq V) :=
  let: (c, m, T, n) := st in emit (clip_residual vs (pd c) T (kseq_block_scale st) n) c.

Definition kseq_block K L c : prog (seq V) :=
  bind (drafts pd K L c) (fun ps =>
    let ps := if L is 0 then [::] else ps in
    walk kseq_block_test kseq_block_prefix snd kseq_block_node id kseq_block_correction ext (size ps) (c, L, qt c, size ps) ps).
End KBlockCode.

(* Eager drafting: the Fubini facts that make K whole paths drafted up front the same as drafting
   next tokens when they are needed.                                             *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Paths.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypothesis dpd : forall c, is_dist vs (pd c).
Notation prog := (prog R V).
Notation draft := (draft pd).
Notation drafts := (drafts pd).

(* Fubini: two independent programs may be run in either order. *)
Lemma E_comm A B (m1 : prog A) (m2 : prog B) (F : A -> B -> R) :
  E vs m1 (fun a => E vs m2 (F a)) = E vs m2 (fun b => E vs m1 (F^~ b)).
Proof.
elim: m1 => [a|r t IHt e IHe|d k IH] //=; first by rewrite IHt IHe -E_lin.
rewrite sumfE; under [RHS]E_ext do rewrite sumfE.
by rewrite E_sum; apply: eq_sum => x; rewrite IH -E_scale.
Qed.

Lemma drafts_wf K m c : wf vs (drafts K m c).
Proof.
elim: K => //= K IH; apply: wf_bind => [|s]; first exact: draft_wf.
exact: wf_bind.
Qed.

Lemma drafts_size K m c : always (fun ps => size ps = K) (drafts K m c).
Proof.
elim: K => //= K IH; apply: (always_bind (always_true _)) => s _.
by apply: (always_bind IH) => ss /= ->.
Qed.

Lemma draws_size d n h : always (fun xs => size xs = n) (@draws R V d n h).
Proof.
by elim: n h => //= n IH h x; apply: (always_bind (IH _)) => s /= ->.
Qed.

Lemma drafts_S K m c (F : seq (seq V) -> R) :
  E vs (drafts K.+1 m c) F
  = E vs (draft m c) (fun s => E vs (drafts K m c) (fun ss => F (s :: ss))).
Proof. by rewrite /= E_bind; apply: E_ext => s; rewrite E_bind. Qed.

(* First all the next tokens, then the rest of each path. *)
Fixpoint tails m c xs : prog (seq (seq V)) :=
  if xs is x :: xs' then
    bind (draft m (rcons c x)) (fun t => bind (tails m c xs') (fun ts => Ret ((x :: t) :: ts)))
  else Ret [::].

Lemma drafts_tails K m c h (F : seq (seq V) -> R) :
  E vs (drafts K m.+1 c) F
  = E vs (draws (fun=> pd c) K h) (fun xs => E vs (tails m c xs) F).
Proof.
elim: K h F => [|K IH] h F //; rewrite drafts_S !E_Draw; apply: eq_sum => x.
congr (_ * _); rewrite !E_bind.
transitivity (E vs (draft m (rcons c x)) (fun t => E vs (draws (fun=> pd c) K (rcons h x))
    (fun xs => E vs (tails m c xs) (fun ss => F ((x :: t) :: ss))))).
  by apply: E_ext => t; rewrite -IH.
rewrite E_comm; apply: E_ext => xs; rewrite [RHS]E_bind; apply: E_ext => t.
by rewrite E_bind.
Qed.

Lemma tails_wf m c xs : wf vs (tails m c xs).
Proof.
by elim: xs => //= x xs IH; apply: wf_bind => [|t]; [exact: draft_wf | exact: wf_bind].
Qed.

Lemma tails_heads m c xs : always (fun ps => heads ps = xs) (tails m c xs).
Proof.
elim: xs => //= x xs IH; apply: (always_bind (always_true _)) => t _.
by apply: (always_bind IH) => ts /= ->.
Qed.

(* The paths that go on with y are independent drafts below y; how many there
   are is decided by the next tokens alone.                                   *)
Lemma tails_follow m c xs y (g : seq (seq V) -> R) :
  E vs (tails m c xs) (fun ps => g (follow y ps))
  = E vs (drafts (count_mem y xs) m (rcons c y)) g.
Proof.
elim: xs g => [|x xs IH] g //; rewrite [LHS]/= E_bind.
rewrite [count_mem _ _]/=; case: (eqVneq x y) => [->|xy].
  rewrite add1n drafts_S; apply: E_ext => t.
  by rewrite E_bind /= eqxx (IH (fun ss => g (t :: ss))).
rewrite add0n -IH -[RHS](E_cst _ (draft_wf dpd m (rcons c x))).
by apply: E_ext => t; rewrite E_bind /= (negPf xy).
Qed.

Lemma drafts_node K m c (node : seq V -> prog V) (G : V -> seq (seq V) -> R) :
  E vs (drafts K m.+1 c) (fun ps => E vs (node (heads ps)) (fun y => G y (follow y ps)))
  = E vs (draws (fun=> pd c) K [::]) (fun xs => E vs (node xs) (fun y =>
      E vs (drafts (count_mem y xs) m (rcons c y)) (G y))).
Proof.
rewrite (drafts_tails _ _ _ [::]); apply: E_ext => xs.
under [RHS]E_ext do rewrite -tails_follow.
rewrite -(E_comm (tails m c xs)).
by apply: (E_always _ (tails_heads m c xs)) => ps ->.
Qed.

(* If a continuation is worth C however many drafts reach the prefix s, it is
   worth C when run on those of the K drafts that go through s.               *)
Lemma through_E s K m c (g : seq (seq V) -> R) C :
  (forall j, (j <= K)%N -> E vs (drafts j m (c ++ s)) g = C) ->
  E vs (drafts K (size s + m) c) (fun ps => g (through s ps)) = C.
Proof.
elim: s K c => [|x s IH] K c gC; first by rewrite -(gC K) ?cats0.
rewrite [size (x :: s)]/= addSn (drafts_tails _ _ _ [::]).
rewrite -[RHS](E_cst C (draws_wf K [::] (fun=> dpd c))).
apply: (E_always _ (draws_size _ _ _)) => xs sx.
rewrite [LHS](tails_follow _ _ _ _ (fun ps => g (through s ps))); apply: IH => j jK.
by rewrite cat_rcons gC // -sx (leq_trans jK) // count_size.
Qed.
End Paths.

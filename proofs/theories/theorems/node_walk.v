(* Trees of drafts: any exact one-token verifier at each node gives a valid
   verifier of any depth. Also the textbook kernel form over a finType.       *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Tree.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (qt : seq V -> V -> R).
Notation prog := (prog R V).

(* node c reports a token and whether to descend (it was one of the drafts). *)
Variable node : seq V -> prog (bool * V).
Hypothesis node_exact : forall c f,
  E vs (node c) (fun o => f o.2) = \sum_(y <- vs) qt c y * f y.

Fixpoint walk d c : prog (seq V) :=
  if d is d'.+1 then
    bind (node c) (fun o => if o.1 then walk d' (rcons c o.2) else Ret (rcons c o.2))
  else emit (qt c) c.

Theorem walk_valid L : valid vs qt (walk L) L.
Proof.
move=> c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (walk L c) (Phi vs qt N f)).
have -> : E vs (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have : (size c + L < N)%N by rewrite ltn_add2l.
move: N => N; elim: L c => [|d IH] c.
  by rewrite addn0 => cN; rewrite -[LHS]/(E vs (emit (qt c) c) _) emit_E -Phi_step.
move=> cN; have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite E_bind (Phi_step _ _ _ c'N) -(node_exact c (fun y => Phi vs qt N f (rcons c y))).
by apply: E_ext => [[[] y]] //=; apply: IH; rewrite size_rcons addSnnS.
Qed.
End Tree.

Section Kernel.
Variables (R : realFieldType) (V : finType) (p q : V -> R).
Hypotheses (p0 : forall x, 0 <= p x) (p1 : \sum_x p x = 1).
Hypotheses (q0 : forall x, 0 <= q x) (q1 : \sum_x q x = 1).
Let vs := index_enum V.

Theorem maximal_kernel y :
  \sum_x p x * (acc p q x * (x == y)%:R + (1 - acc p q x) * res vs p q y) = q y.
Proof.
have := maximal_law (fun z => (z == y)%:R) (conj p0 p1 : is_dist vs p) (conj q0 q1 : is_dist vs q).
rewrite E_Draw /= => h; rewrite -[RHS](sum_eq_mem (index_enum_uniq V) q (mem_index_enum y)) -h.
apply: eq_sum => x; congr (_ * (_ + _ * _)).
by rewrite sumfE (sum_eq_mem (index_enum_uniq V) (res vs p q) (mem_index_enum y)).
Qed.
End Kernel.

(* Greedy block verification is optimal among all couplings of the two blocks,
   prefix by prefix, hence also among stateful verifiers.                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity token_by_token block rounds
   scan spectr_gbv greedy_block.
From Draftproof.theorems Require Import maximal block decode running block_optimal scan
   spectr_gbv greedy_block expected_length.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section MaxCouple.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd D : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dD : forall c, is_dist vs (D c)).
Hypothesis vs_uniq : uniq vs.
Notation prog := (prog R V).

(* The probability that the generated text goes on with s. *)
Lemma gen_prefix s n c : all (mem vs) s -> (size s <= n)%N ->
  E vs (generate D n c) (fun u => (take (size c + size s) u == c ++ s)%:R) = pmass D c s.
Proof.
elim: s n c => [|x s IH] n c.
  move=> _ _; rewrite -[RHS](E_cst 1 (gen_wf n c dD)); apply: E_gen => u _ tu.
  by rewrite addn0 cats0 tu eqxx.
case: n => // n /andP[xv sv]; rewrite ltnS => sn; rewrite /= sumfE.
rewrite (eq_bigr (fun y => D c y * pmass D (rcons c y) s * (y == x)%:R)) => [|y _].
  by rewrite (sum_eq_mem vs_uniq (fun y => D c y * pmass D (rcons c y) s) xv).
rewrite -mulrA; congr (_ * _); case: (eqVneq y x) => [->|yx].
  by rewrite mulr1 -(IH n (rcons c x) sv sn); apply: E_ext => u; rewrite size_rcons addSnnS cat_rcons.
rewrite mulr0 -[RHS](E_0 vs (generate D n (rcons c y))); apply: E_gen => u _ tu.
case: eqP => // e; case/eqP: yx; move: (congr1 (take (size c).+1) e).
rewrite take_take; last by rewrite addnS ltnS leq_addr.
rewrite -(size_rcons c y) tu size_rcons -cat_rcons take_cat size_rcons ltnn subnn take0 cats0.
by move/rcons_inj => [].
Qed.

(* Any joint law of a drafted block X (length L) and a target text Y (at least
   as long): X and Y share the prefix s with probability at most min(p(s), q(s)). *)
Theorem block_coupling_bound L L' c s (m : prog (seq V * seq V)) :
  wf vs m ->
  (forall f, E vs m (fun o => f o.1) = E vs (draft pd L c) f) ->
  (forall f, E vs m (fun o => f o.2) = E vs (generate D L' c) f) ->
  all (mem vs) s -> (size s <= L)%N -> (size s <= L')%N ->
  E vs m (fun o => ((take (size s) o.1 == s) && (take (size c + size s) o.2 == c ++ s))%:R)
  <= Order.min (pmass pd c s) (pmass D c s).
Proof.
move=> wm mX mY sv sL sL'; rewrite le_minr; apply/andP; split.
  rewrite -(draft_prefix vs_uniq dpd c sv sL) -(mX (fun xs => (take (size s) xs == s)%:R)).
  apply: (E_le wm (always_true _)) => o _; case: (_ == s) => /=; last exact: lexx.
  by case: (_ == _); rewrite ?ler01 ?lexx.
rewrite -(gen_prefix c sv sL') -(mY (fun u => (take (size c + size s) u == c ++ s)%:R)).
by apply: (E_le wm (always_true _)) => o _; case: (take (size s) o.1 == s) => /=; rewrite ?lexx ?ler0n.
Qed.

(* --- Summed: E[tau] of greedy block verification is the best of all couplings --- *)
Notation best L c := (\sum_(0 <= i < L) SS vs i.+1 (fun s => Order.min (pmass pd c s) (pmass D c s))).

Theorem greedy_block_tau_min L c : E vs (greedy_block_mark vs pd L D c) (tau_of c) = best L c.
Proof.
rewrite (greedy_block_tau dpd L c dD); apply: eq_bigr => i _; rewrite -(SS_draft vs pd).
by apply: SS_eq => s _ _; rewrite (joint_min dpd c s dD ler01) mul1r.
Qed.

(* The length of the common prefix of the block and the target text, up to L.  *)
Definition overlap (L : nat) (c : seq V) (o : seq V * seq V) : R :=
  \sum_(0 <= i < L) (take (size c + i.+1) o.2 == c ++ take i.+1 o.1)%:R.

Theorem tau_coupling_bound L L' c (m : prog (seq V * seq V)) : (L <= L')%N ->
  wf vs m ->
  (forall f, E vs m (fun o => f o.1) = E vs (draft pd L c) f) ->
  (forall f, E vs m (fun o => f o.2) = E vs (generate D L' c) f) ->
  E vs m (overlap L c) <= best L c.
Proof.
move=> LL wm mX mY; rewrite E_sum; apply: ler_sum_nat => i /andP[_ iL].
pose bad (xs : seq V) : R := (~~ (all (mem vs) xs && (size xs == L)))%:R.
have bad0 : E vs m (fun o => bad o.1) = 0.
  rewrite (mX bad) -[RHS](E_0 vs (draft pd L c)); apply: draft_in => xs xv sx.
  by rewrite /bad xv sx eqxx.
pose hit (o : seq V * seq V) (s : seq V) : R :=
  ((take (size s) o.1 == s) && (take (size c + size s) o.2 == c ++ s))%:R.
apply: (@le_trans _ _ (E vs m (fun o => 1 * SS vs i.+1 (hit o) + 1 * bad o.1))).
  apply: (E_le wm (always_true _)) => o _; rewrite !mul1r.
  have hit0 : 0 <= SS vs i.+1 (hit o).
    rewrite -[X in X <= _](mul0r (SS vs i.+1 (fun=> 0))) -SS_scale; apply: SS_le => s _ _.
    by rewrite mul0r ler0n.
  rewrite /bad; case: (boolP (all (mem vs) o.1 && (size o.1 == L))) => [/andP[xv /eqP sx]|_] /=.
    rewrite addr0; case: eqP => [e|_] /=; last exact: hit0.
    have st : size (take i.+1 o.1) = i.+1 by rewrite size_takel // sx.
    have tv : all (mem vs) (take i.+1 o.1).
      by apply/allP => x xt; apply: (allP xv); exact: mem_take xt.
    rewrite -[X in X <= _](SS_one R vs_uniq tv st); apply: SS_le => s _ si; rewrite /hit si.
    by case: eqP => [<-|_]; rewrite ?e ?eqxx ?ler0n.
  by apply: (@le_trans _ _ 1); [case: (_ == _); rewrite ?ler01 | rewrite ler_addr].
rewrite E_lin bad0 mulr0 addr0 mul1r SS_E; apply: SS_le => s sv si.
by apply: (block_coupling_bound wm mX mY sv); rewrite si // (leq_trans iL).
Qed.
End MaxCouple.

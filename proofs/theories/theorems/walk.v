(* The walk over several paths is worth what one test makes it worth.             *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block walk.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorem ------------------------------------------------------------------- *)
(* The walk is worth I st k if k drafts are still to be tested at st, as soon as
   one test is: J st x if it accepts x, I (rej st) k if it does not.                *)
Section Walk.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Hypothesis dpd : forall c, is_dist vs (pd c).
Notation prog := (prog R V).
Variables (S X O : Type) (test : S -> seq V -> prog (option X)).
Variables (pre : S -> X -> seq V) (leaf : X -> bool) (mk : S -> X -> nat -> S) (rej : S -> S).
Variables (fin : S -> prog O) (ext : bool) (F : O -> R).

Variables (ctx : S -> seq V) (len : S -> nat) (ok : S -> Prop) (okX : S -> X -> Prop).
Variables (I : S -> nat -> R) (J : S -> X -> R).
Hypothesis fin_E : forall st, ok st -> E vs (fin st) F = I st 0.
Hypothesis mk_ok : forall st x k, ok st -> okX st x ->
  [/\ ok (mk st x k), ctx (mk st x k) = ctx st ++ pre st x, len st = (size (pre st x) + len (mk st x k))%N
    & leaf x || (0 < len (mk st x k))%N].
Hypothesis mk_E : forall st x (k : nat), ok st -> okX st x -> (~~ leaf x || (k == 0%N)) ->
  I (mk st x k) k = J st x.
Hypothesis rej_ok : forall st, ok st -> [/\ ok (rej st), ctx (rej st) = ctx st & len (rej st) = len st].
Hypothesis test_ok : forall st xs, ok st -> size xs = len st ->
  always (fun o => if o is Some x then okX st x else True) (test st xs).
Hypothesis test_E : forall st k, ok st -> (0 < len st)%N ->
  E vs (draft pd (len st) (ctx st)) (fun xs => E vs (test st xs) (fun o =>
     if o is Some x then J st x else I (rej st) k)) = I st k.+1.
Notation walk := (walk test pre leaf mk rej fin ext).

Theorem walk_E fuel st k : ok st -> (k <= fuel)%N -> (k == 0%N) || (0 < len st)%N ->
  E vs (drafts pd k (len st) (ctx st)) (fun ps => E vs (walk fuel st ps) F) = I st k.
Proof.
elim: fuel st k => [|fuel IH] st [|k] okst kf kl //; try exact: fin_E.
have {}kl : (0 < len st)%N by [].
rewrite drafts_S -(test_E k okst kl).
apply: (E_always _ (draft_size pd (len st) (ctx st))) => xs sx.
transitivity (E vs (drafts pd k (len st) (ctx st)) (fun ps => E vs (test st xs) (fun o =>
    E vs (if o is Some x then walk fuel (mk st x (size (alive pre leaf ext st x ps))) (alive pre leaf ext st x ps)
          else walk fuel (rej st) ps) F))).
  by apply: E_ext => ps; rewrite /= E_bind.
rewrite E_comm; apply: (E_always _ (test_ok okst sx)) => [[x|_]]; last first.
  by have [ok' <- <-] := rej_ok okst; apply: IH => //; have [_ _ ->] := rej_ok okst; rewrite kl orbT.
move=> okx; rewrite /alive; case: (boolP (ext && ~~ leaf x)) => [/andP[_ nl]|_]; last first.
  rewrite (E_cst _ (drafts_wf dpd _ _ _)) /=.
  have [ok' _ _ _] := mk_ok 0%N okst okx.
  rewrite -(mk_E okst okx (k := 0%N)) ?orbT // -(fin_E ok').
  by case: (fuel).
have [_ _ -> _] := mk_ok 0%N okst okx.
apply: (through_E dpd (g := fun ps => E vs (walk fuel (mk st x (size ps)) ps) F)) => j jk.
have [ok' <- _ lx] := mk_ok j okst okx.
rewrite -(mk_E (k := j) okst okx) ?nl //.
have l0 : len (mk st x 0%N) = len (mk st x j).
  have [_ _ e0 _] := mk_ok 0%N okst okx; have [_ _ ej _] := mk_ok j okst okx.
  by apply/eqP; rewrite -(eqn_add2l (size (pre st x))) -e0 -ej.
rewrite l0 -(IH _ j ok') ?(leq_trans jk) //; last first.
  by move: lx; rewrite (negPf nl) /= => ->; rewrite orbT.
by apply: (E_always _ (drafts_size _ _ _ _)) => ps ->.
Qed.

End Walk.

(* The walk can be run and its outcomes satisfy P, if that holds of fin and of
   one test.                                                                  *)
Section Safe.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Variables (S X O : Type) (test : S -> seq V -> prog (option X)).
Variables (pre : S -> X -> seq V) (leaf : X -> bool) (mk : S -> X -> nat -> S) (rej : S -> S).
Variables (fin : S -> prog O) (ext : bool) (P : O -> Prop).
Variables (len : S -> nat) (ok : S -> Prop) (okX : S -> X -> Prop).
Hypothesis fin_ok : forall st, ok st -> wf vs (fin st) /\ always P (fin st).
Hypothesis mk_ok : forall st x k, ok st -> okX st x ->
  ok (mk st x k) /\ len st = (size (pre st x) + len (mk st x k))%N.
Hypothesis rej_ok : forall st, ok st -> ok (rej st) /\ len (rej st) = len st.
Hypothesis test_ok : forall st xs, ok st -> size xs = len st -> wf vs (test st xs) /\
  always (fun o => if o is Some x then okX st x else True) (test st xs).

Definition sized n (ps : seq (seq V)) := all (fun p : seq V => size p == n) ps.

Lemma follow_sized n y ps : sized n.+1 ps -> sized n (follow y ps).
Proof.
elim: ps => //= [[|x p]] ps IH //= /andP[sp /IH sf].
by case: ifP => _ //=; rewrite sf andbT.
Qed.

Lemma through_sized s n ps : sized (size s + n)%N ps -> sized n (through s ps).
Proof. by elim: s ps => //= x s IH ps sp; apply: IH; exact: follow_sized. Qed.

Lemma walk_safe fuel st ps : ok st -> sized (len st) ps ->
  let m := walk test pre leaf mk rej fin ext fuel st ps in wf vs m /\ always P m.
Proof.
elim: fuel st ps => [|fuel IH] st [|xs ps] okst /=; try by move=> _; exact: fin_ok.
case/andP=> /eqP sx sps; have [wt at_] := test_ok okst sx.
have next o : (if o is Some x then okX st x else True) ->
  let m := if o is Some x
    then walk test pre leaf mk rej fin ext fuel (mk st x (size (alive pre leaf ext st x ps)))
           (alive pre leaf ext st x ps)
    else walk test pre leaf mk rej fin ext fuel (rej st) ps in wf vs m /\ always P m.
  case: o => [x okx|_] /=; last by have [ok' l'] := rej_ok okst; apply: IH => //; rewrite l'.
  have [ok' l'] := mk_ok (size (alive pre leaf ext st x ps)) okst okx; apply: IH => //.
  rewrite /alive; case: ifP => // _; apply: (through_sized (s := pre st x)).
  by have [_ <-] := mk_ok (size (through (pre st x) ps)) okst okx.
split; first by apply: (wf_bindP wt at_) => o /next [].
by apply: (always_bind at_) => o /next [].
Qed.
End Safe.

Lemma drafts_sized (R : realFieldType) (V : eqType) (pd : seq V -> V -> R) K m c :
  always (sized m) (drafts pd K m c).
Proof.
elim: K => //= K IH; apply: (always_bind (draft_size pd m c)) => s sm.
by apply: (always_bind IH) => ss sss; rewrite /= sm eqxx.
Qed.

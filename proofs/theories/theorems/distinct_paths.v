(* SpecTr with recursive rejection without replacement is lossless on whole paths drawn without
   replacement. The law of a new path depends on all earlier ones, but given that it leaves the current
   node by a token that was not rejected there, its next token has the draft row without the rejected
   tokens, and what follows is fresh: so paths can be looked at one after the other.              *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity spectr traversal skip_repetitions
  distinct_paths contract.
From Draftproof.theorems Require Import maximal draws running block paths selection spectr traversal
  skip_repetitions contract.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section DistinctPaths.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Hypothesis vs_uniq : uniq vs.
Notation dist := (is_dist vs).
Notation Ev := (E vs).
Local Notation new_share := (new_share vs pd).
Local Notation new_path := (new_path vs pd).
Local Notation distinct_drafts := (distinct_drafts vs pd).

(* --- The law of a new path ------------------------------------------------------------- *)
Lemma new_shareE taken m x :
  new_share taken m x = Ev (draft pd m x) (fun s => ((x ++ s) \notin taken)%:R).
Proof.
elim: m x => [|m IH] x /=; first by rewrite cats0.
rewrite !sumfE; apply: eq_sum => v; congr (_ * _); rewrite IH E_bind; apply: E_ext => s.
by rewrite /= cat_rcons.
Qed.

Lemma new_share_ge0 taken m x : 0 <= new_share taken m x.
Proof. by rewrite new_shareE; apply: E_ge0 => [|s]; [exact: draft_wf | exact: ler0n]. Qed.

Lemma new_share_nil m x : new_share [::] m x = 1.
Proof. by rewrite new_shareE; exact: (E_cst _ (draft_wf dpd m x)). Qed.

Lemma new_path_E taken m x G : new_share taken m x * Ev (new_path taken m x) G
  = Ev (draft pd m x) (fun s => ((x ++ s) \notin taken)%:R * G s).
Proof.
elim: m x G => [|m IH] x G; first by rewrite /= cats0.
rewrite !E_Draw big_distrr /= big_seq [RHS]big_seq; apply: eq_bigr => v vv.
rewrite E_bind [RHS]/= E_bind.
transitivity (pd x v * Ev (draft pd m (rcons x v)) (fun s =>
    ((rcons x v ++ s) \notin taken)%:R * G (v :: s))); last first.
  by congr (_ * _); apply: E_ext => s; rewrite /= cat_rcons.
rewrite -(IH (rcons x v) (fun s => G (v :: s))) [LHS]mulrA [RHS]mulrA;
  congr (_ * _).
set S := new_share taken m.+1 x; have [S0|Sn] := eqVneq S 0; last by rewrite mulrC divfK.
transitivity (0 : R); first by rewrite -[X in X * _]/S S0 mul0r.
apply/esym; move: S0; rewrite /S /= sumfE => S0; apply: (sum_seq_eq0 _ S0 vv) => y; rewrite mulr_ge0 ?(dpd x).1 //.
exact: new_share_ge0.
Qed.

Lemma share_neq0 A m c : new_share (if new_share A m c == 0 then [::] else A) m c != 0.
Proof. by case: (boolP (new_share A m c == 0)) => [_|//]; rewrite new_share_nil oner_neq0. Qed.

Lemma distinct_cst A n m c (k : R) : Ev (distinct_drafts A n m c) (fun=> k) = k.
Proof.
elim: n A => // n IH A; rewrite E_bind; set A' := if _ then _ else _.
transitivity (Ev (new_path A' m c) (fun=> k)).
  by apply: E_ext => s; rewrite E_bind; exact: IH.
have S0 : new_share A' m c != 0 by exact: share_neq0.
apply: (mulfI S0); rewrite new_path_E E_scaler -new_shareE //.
Qed.

Lemma distinct_S A n m c (F : seq (seq V) -> R) : Ev (distinct_drafts A n.+1 m c) F
  = Ev (new_path (if new_share A m c == 0 then [::] else A) m c) (fun s =>
      Ev (distinct_drafts ((c ++ s) :: A) n m c) (fun ss => F (s :: ss))).
Proof. by rewrite E_bind; apply: E_ext => s; rewrite E_bind. Qed.

(* --- Paths through a node ----------------------------------------------------------------- *)
Lemma through_cons (u s : seq V) ss : through u (s :: ss)
  = if take (size u) s == u then drop (size u) s :: through u ss else through u ss.
Proof.
elim: u s ss => [|x u IH] [|y s] ss //=; first by rewrite eqseq_cons; case: eqP => //= ->; rewrite IH.
Qed.
Lemma through_nil (u : seq V) : through u [::] = [::].
Proof. by elim: u. Qed.
Lemma through_rcons (u : seq V) v ss : through (rcons u v) ss = follow v (through u ss).
Proof. by elim: u ss => //= x u IH ss; rewrite IH. Qed.

(* Two payoffs that agree off the node and in expectation below it. *)
Lemma draft_prefix u m c (H1 H2 : seq V -> R) :
  (forall s, take (size u) s != u -> H1 s = H2 s) ->
  Ev (draft pd m (c ++ u)) (fun t => H1 (u ++ t)) = Ev (draft pd m (c ++ u)) (fun t => H2 (u ++ t)) ->
  Ev (draft pd (size u + m) c) H1 = Ev (draft pd (size u + m) c) H2.
Proof.
elim: u c H1 H2 => [|x u IH] c H1 H2 off on; first by move: on; rewrite cats0.
rewrite [size _]/= addSn !E_Draw; apply: eq_sum => v; rewrite !E_bind; congr (_ * _).
case: (eqVneq v x) => [->|vx]; last first.
  by apply: E_ext => s; apply: off; rewrite /= eqseq_cons (negPf vx).
apply: (IH (rcons c x) (fun s => H1 (x :: s)) (fun s => H2 (x :: s))) => [s us|]; last by rewrite cat_rcons.
by apply: off; rewrite /= eqseq_cons eqxx.
Qed.

Section Block.
Variables (L N : nat) (c : seq V) (f : seq V -> R).
Hypothesis cN : (size c + L < N)%N.
Local Notation F := (Phi vs qt N f).
Local Notation node := (node_skip vs pd qt).

(* The value at the node x, m + 1 tokens before the end: h rejected, rows p and q, the alive drafts ts;
   J, whatever it is, for a token that was rejected, which has probability 0.                         *)
Definition node_value (J : V -> R) x m h p q (ts : seq (seq V)) : R :=
  Ev (skip_scan vs h p q (heads ts)) (fun y =>
    if y \in h then J y else
    Ev (if follow y ts == [::] then Ret (rcons x y) else spectr_walk qt node m (rcons x y) (follow y ts)) F).

Lemma walk_value J x m ts : Ev (spectr_walk qt node m.+1 x ts) F
  = node_value J x m [::] (pd x) (qt x) ts.
Proof. by rewrite [LHS]/= E_bind. Qed.

Definition owed_value x (q : V -> R) : R := \sum_(y <- vs) q y * F (rcons x y).

Definition main n : Prop := forall u m A h (p q : V -> R) mm (J : seq (seq V) -> V -> R),
  (size u + m.+1)%N = L -> dist p -> dist q ->
  (forall y, y \in vs -> (y \notin h)%:R * pd (c ++ u) y = mm * p y) ->
  (forall y, y \in h -> q y = 0) ->
  (forall y t, c ++ u ++ y :: t \in A -> y \in h) ->
  Ev (distinct_drafts A n L c) (fun ss => node_value (J ss) (c ++ u) m h p q (through u ss))
  = owed_value (c ++ u) q.

(* A fresh path below the node, and later ones. *)
Definition fresh n m : Prop := forall u A, (size u + m)%N = L -> (forall t, c ++ u ++ t \notin A) ->
  Ev (draft pd m (c ++ u)) (fun t => Ev (distinct_drafts ((c ++ u ++ t) :: A) n L c) (fun ss =>
    Ev (spectr_walk qt node m (c ++ u) (t :: through u ss)) F)) = F (c ++ u).

(* A token that was not rejected, and what follows it. *)
Lemma test_new n u m A h (p q : V -> R) mm (J : seq V -> seq (seq V) -> V -> R) v : main n ->
  fresh n m -> (size u + m.+1)%N = L -> dist p -> dist q ->
  (forall y, y \in vs -> (y \notin h)%:R * pd (c ++ u) y = mm * p y) ->
  (forall y, y \in h -> q y = 0) ->
  (forall y t, c ++ u ++ y :: t \in A -> y \in h) ->
  v \in vs -> v \notin h -> p v != 0 ->
  Ev (draft pd m (rcons (c ++ u) v)) (fun t => Ev (distinct_drafts ((c ++ u ++ v :: t) :: A) n L c)
    (fun ss => node_value (J t ss) (c ++ u) m h p q ((v :: t) :: through u ss)))
  = acc p q v * F (rcons (c ++ u) v) + (1 - acc p q v) * owed_value (c ++ u) (res vs p q).
Proof.
move=> M C uL dp dq inv hq Ah vv vh pv; set x := c ++ u.
pose J2 t ss y := if y \in h then J t ss y else
  Ev (if follow y ((v :: t) :: through u ss) == [::] then Ret (rcons x y)
      else spectr_walk qt node m (rcons x y) (follow y ((v :: t) :: through u ss))) F.
transitivity (Ev (draft pd m (rcons x v)) (fun t =>
    Ev (distinct_drafts ((c ++ u ++ v :: t) :: A) n L c) (fun ss =>
      acc p q v * Ev (spectr_walk qt node m (rcons x v) (t :: through (rcons u v) ss)) F
      + (1 - acc p q v) * node_value (J2 t ss) x m (v :: h) (masked vs p v) (res vs p q) (through u ss)))).
  apply: E_ext => t; apply: E_ext => ss; rewrite /node_value /= (negPf vh) eqxx /= -through_rcons.
  congr (_ * _ + _ * _); apply: E_ext => y; rewrite inE /J2 /=.
  by have [e|yv] := eqVneq y v; rewrite /= ?e ?(negPf vh) //; case: ifP.
under E_ext => t do rewrite E_lin.
rewrite E_lin; congr (_ * _ + _).
  have xE : rcons x v = c ++ rcons u v by rewrite rcons_cat.
  rewrite xE -(C (rcons u v) A); first 1 last.
  - by rewrite size_rcons addSnnS.
  - by move=> t; apply: contra vh; rewrite cat_rcons => /Ah.
  by apply: E_ext => t; rewrite cat_rcons.
case: (res_rejected dp dq vv) => [/eqP|->|rv]; first by rewrite (negPf pv).
  by rewrite subrr !mul0r.
congr (_ * _).
transitivity (Ev (draft pd m (rcons x v)) (fun=> owed_value x (res vs p q))); last first.
  exact: (E_cst _ (draft_wf dpd m _)).
apply: E_ext => t; apply: (M u m _ _ _ _ (mm * (1 - p v)) (J2 t)) => //.
- exact: masked_dist.
- exact: res_dist.
- move=> y yv; rewrite inE negb_or -mulrA -(maskedE vs_uniq dp vv yv) andbC -mulnb natrM.
  case: (eqVneq y v) => [->|yx] /=; first by rewrite !mulr0 mul0r.
  by rewrite mulr1 inv.
- by move=> y; rewrite inE => /orP[/eqP->//|/hq]; apply: res_owed0; exact: dp.1.
- move=> y t'; rewrite !inE => /orP[/eqP/(congr1 (drop (size x)))|/Ah->]; last by rewrite orbT.
  by rewrite /x !(catA c u) !drop_size_cat // => -[->]; rewrite eqxx.
Qed.

Lemma tested_once (p q : V -> R) x : dist p -> dist q ->
  \sum_(v <- vs) p v * (acc p q v * F (rcons x v) + (1 - acc p q v) * owed_value x (res vs p q))
  = owed_value x q.
Proof.
move=> dp dq; rewrite /owed_value -(maximal_law (fun y => F (rcons x y)) dp dq) E_Draw.
by apply: eq_sum => v /=; rewrite sumfE.
Qed.

Lemma main_fresh n m : main n -> fresh n m.
Proof.
move=> M; elim: m => [|m IH] u A uL Au.
  by rewrite /= distinct_cst sumfE -Phi_step // size_cat; rewrite addn0 in uL; rewrite uL.
set x := c ++ u; have xN : (size x < N)%N.
  by apply: leq_ltn_trans cN; rewrite size_cat leq_add2l -uL leq_addr.
rewrite (Phi_step _ _ _ xN) -[RHS]/(owed_value x (qt x)) -(tested_once x (dpd x) (dqt x)) E_Draw.
rewrite big_seq [RHS]big_seq; apply: eq_bigr => v vv; rewrite E_bind.
have [p0|pn] := eqVneq (pd x v) 0; first by rewrite p0 !mul0r.
have inv y : y \in vs -> (y \notin ([::] : seq V))%:R * pd x y = 1 * pd x y by [].
have A0 y t : c ++ u ++ y :: t \in A -> y \in ([::] : seq V) by rewrite (negPf (Au (y :: t))).
congr (_ * _); rewrite -(@test_new n u m A [::] (pd x) (qt x) 1 (fun _ _ _ => 0) v) //.
apply: E_ext => t.
rewrite -[LHS]/(Ev (distinct_drafts ((c ++ u ++ v :: t) :: A) n L c) (fun ss =>
  Ev (spectr_walk qt node m.+1 x ((v :: t) :: through u ss)) F)).
apply: E_ext => ss; exact: walk_value.
Qed.

Lemma main_holds n : main n.
Proof.
elim: n => [|n IH] u m A h p q mm J uL dp dq inv hq Ah.
  rewrite /= through_nil /node_value /= sumfE; apply: eq_sum => y.
  by case: ifP => // /hq->; rewrite !mul0r.
set x := c ++ u; set T := owed_value x q; rewrite distinct_S; set A' := if _ then _ else _.
have S0 : new_share A' L c != 0 by exact: share_neq0.
have subA s : s \in A' -> s \in A by rewrite /A'; case: ifP.
apply: (mulfI S0); rewrite new_path_E new_shareE -E_scaler -uL.
apply: draft_prefix => [s us|].
  congr (_ * _); rewrite /T -(IH u m ((c ++ s) :: A) h p q mm (fun ss => J (s :: ss))) //; last first.
    move=> y t; rewrite inE => /orP[/eqP/(congr1 (drop (size c)))|/Ah//].
    by rewrite !drop_size_cat // => e; move: us; rewrite -e take_size_cat // eqxx.
  by rewrite uL; apply: E_ext => ss; rewrite through_cons (negPf us).
rewrite uL !E_Draw.
pose R' v := acc p q v * F (rcons x v) + (1 - acc p q v) * owed_value x (res vs p q).
transitivity (\sum_(v <- vs) ((v \in h)%:R * (pd x v * Ev (draft pd m (rcons x v)) (fun t =>
    (c ++ u ++ v :: t \notin A')%:R * T)) + mm * (p v * R' v))).
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => v vv; rewrite E_bind.
  rewrite [mm * _]mulrA -inv //; case: (boolP (v \in h)) => vh /=.
    rewrite mul1r !mul0r addr0; congr (_ * _); apply: E_ext => t; congr (_ * _).
    rewrite /T -(IH u m ((c ++ u ++ v :: t) :: A) h p q mm (fun ss => J ((u ++ v :: t) :: ss))) //; last first.
      move=> y t'; rewrite inE => /orP[/eqP/(congr1 (drop (size x)))|/Ah//].
      by rewrite /x !(catA c u) !drop_size_cat // => -[->].
    apply: E_ext => ss; rewrite through_cons take_size_cat // eqxx drop_size_cat //.
    rewrite /node_value /= vh (acc_owed0 _ (hq v vh)) mul0r add0r subr0 mul1r.
    by apply: E_ext => y; case: ifP => // yh; case: (eqVneq v y) => // e; rewrite -e vh in yh.
  rewrite mul1r !mul0r add0r; have [pv|pv] := eqVneq (p v) 0.
    by have := inv v vv; rewrite vh mul1r pv mulr0 => ->; rewrite !mul0r.
  congr (_ * _); rewrite /R' /x -(@test_new n u m A h p q mm (fun t ss => J ((u ++ v :: t) :: ss)) v) //.
    apply: E_ext => t /=.
    have -> : (c ++ u ++ v :: t) \notin A' by apply: contra vh => /subA /Ah.
    rewrite mul1r; apply: E_ext => ss.
    by rewrite through_cons take_size_cat // eqxx drop_size_cat.
  exact: main_fresh.
rewrite big_split /= -big_distrr /= (tested_once x dp dq) -/T.
have mT : mm * T = \sum_(v <- vs) (v \notin h)%:R * pd x v * T.
  rewrite -big_distrl /= big_seq (eq_bigr (fun v => mm * p v)) => [|v vv]; last exact: inv.
  by rewrite -big_seq -big_distrr /= dp.2 mulr1.
rewrite mT -big_split /=; apply: eq_sum => v; rewrite E_bind.
case: (boolP (v \in h)) => vh /=; rewrite ?mul1r ?mul0r ?addr0 ?add0r //.
congr (_ * _); rewrite -[LHS](E_cst T (draft_wf dpd m (rcons x v))); apply: E_ext => t /=.
have -> : (c ++ u ++ v :: t) \notin A' by apply: contra vh => /subA /Ah.
by rewrite mul1r.
Qed.
End Block.

(* One token: a candidate chosen by any table, then coupled; drafts without replacement. *)
Theorem planned_distinct_valid table K : valid vs qt (fun c => one_token qt (without vs (pd c))
  (choose_coupling vs (without vs (pd c)) K (planned_choice vs pd table c K) (qt c)) K c) 1.
Proof.
apply: (choose_coupling_valid dqt (d := fun c => without vs (pd c))
  (ch := fun c => planned_choice vs pd table c K)) => // [c h|c xs]; first exact: without_dist.
exact: checked_dist.
Qed.

(* A first path is fresh at the root. *)
Theorem spectr_distinct_valid K L : valid vs qt (spectr_distinct vs pd qt K L) L.
Proof.
move=> c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(Ev (spectr_distinct vs pd qt K L c) (Phi vs qt N f)) E_bind.
have -> : Ev (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have cN : (size c + L < N)%N by rewrite ltn_add2l.
case: L N cN => [|m] N cN.
  by rewrite /= distinct_cst sumfE -Phi_step //; move: cN; rewrite addn0.
have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite (Phi_step _ _ _ c'N) -[RHS]/(owed_value N f c (qt c)).
have inv y : y \in vs -> (y \notin ([::] : seq V))%:R * pd (c ++ [::]) y = 1 * pd c y by rewrite cats0.
have := @main_holds m.+1 N c f cN K [::] m [::] [::] (pd c) (qt c) 1 (fun _ _ => 0) erefl (dpd c)
  (dqt c) inv.
by rewrite cats0 => <- //; apply: E_ext => ss; exact: walk_value.
Qed.
End DistinctPaths.

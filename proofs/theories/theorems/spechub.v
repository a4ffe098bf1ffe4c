(* SpecHub is lossless for its draft law, and no exact verifier of that draft law keeps a draft more
   often.  (That the hub is the likeliest token is not needed.)                             *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity contract transport spechub.
From Draftproof.theorems Require Import maximal draws running block_optimal selection contract
  kseq_bound
   drift plan transport.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SpecHub.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (a : V) (p q : V -> R).
Hypotheses (vs_uniq : uniq vs) (a_in : a \in vs).
Hypotheses (dp : is_dist vs p) (dq : is_dist vs q).
Add Ring Rring : (ring_th R).
Notation m := (hub_pair a p).
Notation off := (hub_offered vs a p q).
Notation t := (to_hub vs a p q).
Notation owed := (hub_owed vs a p q).
Notation corr := (hub_correction vs a p q).
Notation kept := (hub_kept a p q).
Notation row := (hub_row vs a p q).
Notation mass := (mass vs).
Notation d := (hub_drafter a p).
Let p0 v : 0 <= p v. Proof. exact: dp.1. Qed.
Let q0 v : 0 <= q v. Proof. exact: dq.1. Qed.

Lemma pa_le1 : p a <= 1.
Proof. by rewrite -dp.2; apply: (le_sum_mem p0 a_in). Qed.

Lemma qa_le1 : q a <= 1.
Proof. by rewrite -dq.2; apply: (le_sum_mem q0 a_in). Qed.

Lemma pair_ge0 v : 0 <= m v.
Proof. by rewrite /hub_pair; case: ifP => // _; rewrite divr_ge0 // subr_ge0 pa_le1. Qed.

Lemma without_a (f : V -> R) : \sum_(v <- vs) (if v == a then 0 else f v) = \sum_(v <- vs) f v
  - f a.
Proof.
rewrite -[X in _ - X](sum_eq_mem vs_uniq f a_in) -sumrB; apply: eq_sum => v.
by case: eqP => _; rewrite ?mulr1 ?subrr // mulr0 subr0.
Qed.

Lemma pair_sum : p a != 1 -> \sum_(v <- vs) m v = 1.
Proof.
move=> pa; rewrite /hub_pair (without_a (fun v => p v / (1 - p a))) -big_distrl /= dp.2 -mulrBl.
by rewrite divff // subr_eq0 eq_sym.
Qed.

Lemma drafter_dist h : is_dist vs (d h).
Proof.
case: h => [|x h] //=; split=> [v|].
  by case: ifP => _; [exact: pair_ge0 | exact: ler0n].
case: (boolP ((x == a) && (p a != 1))) => [/andP[_ pa]|_]; first exact: pair_sum.
by rewrite -[RHS](sum_eq_mem vs_uniq (fun=> 1) a_in); apply: eq_sum => v; rewrite /= mul1r.
Qed.

Lemma off_ge0 : 0 <= off.
Proof.
rewrite /hub_offered; case: eqP => _; first exact: ler01.
by rewrite sumfE sumr_ge0 // => v _; exact: excess_ge0.
Qed.

(* t is a probability, and off t is what the hub takes. *)
Lemma off_t : off * t = Order.min off (q a).
Proof.
rewrite /to_hub mulrC; have [->|n0] := eqVneq off 0; last by rewrite divfK.
by rewrite mulr0; apply/esym/min_idPl.
Qed.

Lemma t01 : 0 <= t <= 1.
Proof.
have o0 := off_ge0; rewrite /to_hub divr_ge0 ?le_minr ?o0 ?q0 //=.
have [->|n0] := eqVneq off 0; first by rewrite invr0 mulr0 ler01.
by rewrite ler_pdivr_mulr ?lt_def ?n0 // mul1r le_minl lexx.
Qed.

Lemma kept_m x : m x * kept x = Order.min (m x) (q x).
Proof.
rewrite /hub_kept mulrC; have [->|n0] := eqVneq (m x) 0; last by rewrite divfK.
by rewrite mulr0; apply/esym/min_idPl.
Qed.

Lemma kept01 x : 0 <= kept x <= 1.
Proof.
have m0 := pair_ge0 x; rewrite /hub_kept divr_ge0 ?le_minr ?m0 ?q0 //=.
have [->|n0] := eqVneq (m x) 0; first by rewrite invr0 mulr0 ler01.
by rewrite ler_pdivr_mulr ?lt_def ?n0 // mul1r le_minl lexx.
Qed.

Lemma owed_ge0 v : 0 <= owed v.
Proof. by rewrite /hub_owed; case: eqP => _;
  [rewrite subr_ge0 le_minl lexx orbT | exact: excess_ge0]. Qed.

(* What is owed in all is what nobody kept. *)
Lemma owed_sum : \sum_(v <- vs) owed v = off - Order.min off (q a).
Proof.
have -> : \sum_(v <- vs) owed v
    = \sum_(v <- vs) (if v == a then 0 else excess m q v) + (q a - Order.min off (q a)).
  rewrite -[X in _ + X](sum_eq_mem vs_uniq (fun=> q a - Order.min off (q a)) a_in) -big_split.
  apply: eq_sum => v /=; rewrite /hub_owed; case: eqP => _; first by rewrite mulr1 add0r.
  by rewrite mulr0 addr0.
rewrite addrA; congr (_ - _); rewrite without_a.
have ma : m a = 0 by rewrite /hub_pair eqxx.
have -> : excess m q a = q a by rewrite /excess ma subr0; apply/max_idPl.
rewrite subrK sum_excess dq.2 /hub_offered; case: eqP => [pa|/eqP pa].
  rewrite big1 ?subr0 // => v _; rewrite /hub_pair pa subrr invr0 mulr0.
  by case: eqP => _; apply/min_idPl.
rewrite sumfE sum_excess pair_sum //; congr (_ - _).
by apply: eq_sum => v; rewrite minC.
Qed.

Lemma corr_dist : is_dist vs corr.
Proof.
rewrite /hub_correction sumfE; case: eqVneq => [_|n0]; first exact: dq.
split=> [v|]; first by rewrite divr_ge0 ?owed_ge0 // sumr_ge0 // => u _; exact: owed_ge0.
by rewrite -big_distrl /= divff.
Qed.

Lemma corr_repay v : v \in vs -> (off - Order.min off (q a)) * corr v = owed v.
Proof.
move=> vv; rewrite -owed_sum /hub_correction sumfE; case: eqVneq => [s0|n0];
  last by rewrite mulrC divfK.
by rewrite s0 mul0r (sum_seq_eq0 owed_ge0 s0 vv).
Qed.

Lemma row_dist x : x \in vs -> is_dist vs (row x).
Proof.
move=> xv; have /andP[k0 k1] := kept01 x; have /andP[s0 s1] := t01; have [c0 c1] := corr_dist.
split=> [v|].
  by rewrite addr_ge0 // mulr_ge0 ?ler0n ?subr_ge0 // addr_ge0 // mulr_ge0 ?ler0n ?subr_ge0.
have one y : y \in vs -> \sum_(v <- vs) (v == y)%:R = 1 :> R.
  move=> yv; rewrite -[RHS](sum_eq_mem vs_uniq (fun=> 1) yv).
  by apply: eq_sum => v; rewrite /= mul1r.
rewrite big_split -!big_distrr /= big_split -!big_distrr /= !one // c1 !mulr1.
by rewrite [t + _]addrC subrK mulr1 addrC subrK.
Qed.

(* The pair {a, x} has probability m_x. *)
Lemma pair_law (F : V -> R) : p a != 1 ->
  E vs (draws d 2 [::]) (fun xs => F (hub_other a xs)) = \sum_(x <- vs) m x * F x.
Proof.
move=> pa; have pa1 : 1 - p a != 0 by rewrite subr_eq0 eq_sym.
rewrite /= sumfE.
transitivity (\sum_(x <- vs) ((if x == a then 0 else p x) * F x
    + p a * (\sum_(v <- vs) m v * F v) * (x == a)%:R)).
  apply: eq_sum => x; rewrite sumfE; case: (eqVneq x a) => [->|xa] /=.
    by rewrite pa /= mul0r add0r mulr1.
  rewrite mulr0 addr0 -[in RHS](sum_eq_mem vs_uniq (fun=> F x) a_in); congr (_ * _).
  by apply: eq_sum => v; rewrite mulrC.
rewrite big_split /= sum_eq_mem //.
have -> : \sum_(x <- vs) (if x == a then 0 else p x) * F x = (1 - p a) * (\sum_(v <- vs) m v * F v).
  rewrite big_distrr; apply: eq_sum => x /=; rewrite mulrA /hub_pair; case: eqP => _.
    by rewrite mulr0 !mul0r.
  by rewrite [(1 - p a) * _]mulrC divfK.
by rewrite -mulrDl subrK mul1r.
Qed.

Lemma pair_law1 (F : V -> R) : p a = 1 ->
  E vs (draws d 2 [::]) (fun xs => F (hub_other a xs)) = F a.
Proof.
move=> pa; have pz x : x \in vs -> x != a -> p x = 0.
  move=> xv xa; have z : \sum_(v <- vs) (if v == a then 0 else p v) = 0.
    by rewrite without_a dp.2 pa subrr.
  have nn v : 0 <= (if v == a then 0 else p v) by case: ifP.
  by have := sum_seq_eq0 nn z xv; rewrite (negPf xa).
rewrite /= sumfE -[RHS](sum_eq_mem vs_uniq F a_in) big_seq [RHS]big_seq; apply: eq_bigr => x xv.
case: (eqVneq x a) => [->|xa]; last by rewrite pz // mul0r mulr0.
rewrite pa mul1r mulr1 sumfE /= eqxx.
by rewrite -[RHS](sum_eq_mem vs_uniq F a_in); apply: eq_sum => v; rewrite mulrC.
Qed.

Lemma row_mean v : v \in vs -> E vs (draws d 2 [::]) (fun xs => row (hub_other a xs) v) = q v.
Proof.
move=> vv; have ma : m a = 0 by rewrite /hub_pair eqxx.
have [pa|pa] := eqVneq (p a) 1.
  rewrite (pair_law1 (fun x => row x v) pa).
  have o1 : off = 1 by rewrite /hub_offered pa eqxx.
  have mo : Order.min off (q a) = q a by rewrite o1; apply/min_idPr; exact: qa_le1.
  have ta : t = q a by rewrite /to_hub mo o1 divr1.
  have ka : kept a = 0 by rewrite /hub_kept ma invr0 mulr0.
  rewrite /hub_row ka mul0r add0r subr0 mul1r ta.
  have := corr_repay vv; rewrite mo o1 => ->; rewrite /hub_owed.
  case: eqP => [->|_]; first by rewrite mo mulr1 subrr addr0.
  rewrite mulr0 add0r /excess /hub_pair pa subrr invr0 mulr0.
  by case: ifP => _; rewrite subr0; apply/max_idPl.
rewrite (pair_law (fun x => row x v) pa).
transitivity (\sum_(x <- vs) (Order.min (m x) (q x) * (x == v)%:R
   + (m x - Order.min (m x) (q x)) * (t * (v == a)%:R + (1 - t) * corr v))).
  apply: eq_sum => x; rewrite -kept_m /hub_row eq_sym.
  by move: (kept x) (m x) _%:R (t * _ + _) => k u e r; rng R.
rewrite big_split /= sum_eq_mem // -big_distrl /= sumrB pair_sum //.
have -> : 1 - \sum_(x <- vs) Order.min (m x) (q x) = off.
  rewrite /hub_offered (negPf pa) sumfE sum_excess pair_sum //; congr (_ - _).
  by apply: eq_sum => x; rewrite minC.
have -> : off * (t * (v == a)%:R + (1 - t) * corr v) = (off * t) * (v == a)%:R + (off - off * t)
  * corr v.
  by move: off t _%:R (corr v) => o u e r; rng R.
rewrite off_t corr_repay // /hub_owed.
case: eqP => [->|_].
  by rewrite ma (min_idPl (q0 a)) add0r mulr1 addrC subrK.
by rewrite mulr0 add0r excessE addrC subrK.
Qed.

Lemma other_in xs : all (mem vs) xs -> hub_other a xs \in vs.
Proof.
case: xs => [|x [|y []]] //= /andP[xv /andP[yv _]].
by case: ifP.
Qed.

(* SpecHub is lossless for its draft law. *)
Theorem spechub_exact f :
  E vs (bind (draws d 2 [::]) (spechub vs a p q)) f = \sum_(y <- vs) q y * f y.
Proof.
pose w xs := if all (mem vs) xs then row (hub_other a xs) else q.
rewrite -(answer_exact (d := d) (w := w) (q := q) (K := 2) f vs_uniq drafter_dist).
- rewrite !E_bind; apply: draws_mem => // xs xv.
  by rewrite /w xv.
- move=> xs; rewrite /w; case: ifP => [xv|_]; last exact: dq.
  by apply: row_dist; exact: other_in.
- move=> y yv; rewrite -[RHS]row_mean //; apply: draws_mem => // xs xv.
  by rewrite /w xv.
Qed.

(* One of the two drafts is the hub. *)
Lemma draws_pair (F G : seq V -> R) : 
  (forall x y, x \in vs -> y \in vs -> (x == a) || (y == a) -> F [:: x; y] = G [:: x; y]) ->
  E vs (draws d 2 [::]) F = E vs (draws d 2 [::]) G.
Proof.
move=> FG; rewrite /= !sumfE big_seq [RHS]big_seq; apply: eq_bigr => x xv; congr (_ * _).
rewrite !sumfE big_seq [RHS]big_seq; apply: eq_bigr => y yv.
case: (eqVneq x a) => [xa|xa] /=; first by rewrite FG // xa eqxx.
case: (eqVneq y a) => [ya|ya]; last by rewrite !mul0r.
by rewrite FG // ya eqxx orbT.
Qed.

(* It keeps a draft with probability at least 1 - off + min(off, q(a)) ... *)
Lemma row_accept : p a != 1 ->
  1 - off + Order.min off (q a)
  <= E vs (draws d 2 [::]) (fun xs => \sum_(y <- vs) row (hub_other a xs) y
    * ((y == hub_other a xs) || (y == a))%:R).
Proof.
move=> pa; rewrite (pair_law (fun x => \sum_(y <- vs) row x y * ((y == x) || (y == a))%:R) pa).
have -> : 1 - off + Order.min off (q a) = \sum_(x <- vs) m x * (kept x + (1 - kept x) * t).
  have o : 1 - \sum_(x <- vs) Order.min (m x) (q x) = off.
    rewrite /hub_offered (negPf pa) sumfE sum_excess pair_sum //; congr (_ - _).
    by apply: eq_sum => x; rewrite minC.
  rewrite -off_t -{1}o subKr -o -[X in (X - _) * _](pair_sum pa) -sumrB big_distrl -big_split.
  apply: eq_sum => x /=; rewrite -kept_m; move: (kept x) (m x) => k u; rng R.
rewrite big_seq [X in _ <= X]big_seq; apply: ler_sum => x xv; rewrite ler_wpmul2l ?pair_ge0 //.
have /andP[k0 k1] := kept01 x; have /andP[s0 s1] := t01; have [c0 c1] := corr_dist.
apply: (@le_trans _ _ (\sum_(y <- vs) (kept x * (y == x)%:R + (1 - kept x) * t * (y == a)%:R))).
  by rewrite big_split /= !(sum_eq_mem vs_uniq (fun=> _)).
apply: ler_sum => y _; rewrite /hub_row.
have r0 : 0 <= (1 - kept x) * ((1 - t) * corr y) by rewrite !mulr_ge0 ?subr_ge0.
case: (boolP ((y == x) || (y == a))) => [_|]; rewrite /=.
  by rewrite mulr1 mulrDr addrA [(1 - kept x) * (t * _)]mulrA ler_addl.
by rewrite negb_or => /andP[/negPf-> /negPf->]; rewrite !mulr0 addr0 lexx.
Qed.

Theorem spechub_accept : p a != 1 ->
  1 - off + Order.min off (q a)
  <= E vs (draws d 2 [::]) (fun xs => E vs (spechub vs a p q xs) (fun y => (y \in xs)%:R)).
Proof.
move=> pa; apply: le_trans (row_accept pa) _; rewrite le_eqVlt; apply/orP; left; apply/eqP.
apply: draws_pair => x y xv yv h.
have xyv : all (mem vs) [:: x; y] by rewrite /= xv yv.
have [r0 r1] := row_dist (other_in xyv).
rewrite -[RHS]mul1r -[X in _ = X * _]r1 big_distrl /= (answer_E _ vs_uniq xyv r0).
apply: eq_sum => v; congr (_ * _); congr (_%:R); congr nat_of_bool; rewrite !inE /=.
case: (eqVneq x a) h => [->|xa] /=; first by rewrite orbC.
by move=> /eqP->; rewrite orbC.
Qed.

(* ... which is the most that any exact verifier of these drafts can do. *)
Theorem spechub_optimal (ver : seq V -> prog R V V) : p a != 1 ->
  (forall xs, wf vs (ver xs)) ->
  (forall f, E vs (bind (draws d 2 [::]) ver) f = \sum_(y <- vs) q y * f y) ->
  E vs (draws d 2 [::]) (fun xs => E vs (ver xs) (fun y => (y \in xs)%:R))
  <= 1 - off + Order.min off (q a).
Proof.
move=> pa wv vq; have Dw : wf vs (draws d 2 [::]) by apply: draws_wf; exact: drafter_dist.
have [oq|qo] := leP off (q a).
  rewrite subrK -[X in _ <= X](E_cst 1 Dw); apply: (E_le Dw (always_true _)) => xs _.
  rewrite -[X in _ <= X](E_cst 1 (wv xs)); apply: (E_le (wv xs) (always_true _)) => y _.
  by case: (y \in xs); rewrite ?lexx ?ler01.
pose H v := (v == a) || (q v < m v).
apply: le_trans (transport_bound Dw H wv vq) _.
have -> : inside vs (draws d 2 [::]) H = \sum_(x <- vs) m x * (H x)%:R.
  rewrite -(pair_law (fun x => (H x)%:R) pa) /inside.
  rewrite /= !sumfE big_seq [RHS]big_seq; apply: eq_bigr => x xv; congr (_ * _).
  rewrite !sumfE; case: (eqVneq x a) => [->|xa] /=.
    by apply: eq_sum => v; rewrite {1}/H eqxx andbT.
  apply: eq_sum => v; case: (eqVneq v a) => [->|va]; last by rewrite !mul0r.
  by rewrite {2}/H eqxx !andbT.
have ma : m a = 0 by rewrite /hub_pair eqxx.
have e : mass q H - \sum_(x <- vs) m x * (H x)%:R + off = q a.
  rewrite /hub_offered (negPf pa) sumfE /kseq_bound.mass -sumrB -big_split
    -[RHS](sum_eq_mem vs_uniq q a_in).
  apply: eq_sum => x /=; rewrite /H /excess; case: eqP => [->|_] /=.
    by rewrite ma mul1r mul0r subr0 sub0r mulr1 (max_idPr _) ?addr0 // oppr_le0.
  case: (ltP (q x) (m x)) => h; rewrite mulr0.
    by rewrite mul1r mulr1 (max_idPl _) ?subr_ge0 ?(ltW h) // addrA subrK subrr.
  by rewrite mul0r mulr0 subrr add0r; apply/max_idPr; rewrite subr_le0.
by rewrite -addrA -[X in _ <= X]addrA ler_add2l -e [X in _ <= X]addrC addrK.
Qed.
End SpecHub.

(* As a block of length 1, the hub any function of the context. *)
Theorem spechub_valid (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R)
  (hub : seq V -> V) :
  uniq vs -> (forall c, hub c \in vs) -> (forall c, is_dist vs (pd c)) ->
    (forall c, is_dist vs (qt c)) ->
  valid vs qt (fun c => one_token qt (hub_drafter (hub c) (pd c)) (spechub vs (hub c) (pd c) (qt c))
    2 c) 1.
Proof.
move=> vu hv dpd dqt; apply: (one_token_valid (d := fun c => hub_drafter (hub c) (pd c))) => c f.
exact: spechub_exact.
Qed.

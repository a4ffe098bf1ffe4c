(* The law of the first item with the highest of K i.i.d. labels.                *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block selection.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block running
   paths.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorems ------------------------------------------------------------------ *)
Section Select.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Implicit Types (pi : nat -> R).

Lemma csumE (f : nat -> R) n : csum f n = \sum_(0 <= l < n) f l.
Proof. by elim: n => [|n IH] /=; rewrite ?big_nil // IH big_nat_recr. Qed.

Lemma csum_ge0 (f : nat -> R) n : (forall l, 0 <= f l) -> 0 <= csum f n.
Proof. by move=> f0; elim: n => //= n IH; rewrite addr_ge0. Qed.

Lemma eq_csum (f g : nat -> R) n : (forall l, (l < n)%N -> f l = g l) -> csum f n = csum g n.
Proof.
elim: n => //= n IH fg; rewrite fg // IH // => l ln.
by apply: fg; rewrite ltnW // ltnS.
Qed.

Lemma csumZ a (f : nat -> R) n : csum (fun l => a * f l) n = a * csum f n.
Proof. by elim: n => [|n IH] /=; rewrite ?mulr0 // IH mulrDr. Qed.

Lemma csum_lt_id (f : nat -> R) J k : (k <= J)%N -> csum (fun l => (l < k)%N%:R * f l) J = csum f k.
Proof.
elim: J => [|J IH]; first by case: k.
rewrite leq_eqVlt => /orP[/eqP->|kJ] /=.
  rewrite ltnSn mul1r; congr (_ + _); apply: eq_csum => l lJ.
  by rewrite ltnS ltnW ?mul1r.
by rewrite IH // ltnNge -ltnS kJ mul0r addr0.
Qed.

Lemma csum_one (f : nat -> R) J k : (k < J)%N -> csum (fun l => (l == k)%:R * f l) J = f k.
Proof.
elim: J => //= J IH; rewrite ltnS leq_eqVlt => /orP[/eqP->|kJ].
  rewrite eqxx mul1r -[RHS]add0r; congr (_ + _).
  rewrite -[RHS](mul0r (csum f J)) -csumZ; apply: eq_csum => l lJ.
  by rewrite ltn_eqF.
by rewrite IH // gtn_eqF // mul0r addr0.
Qed.

(* E m is linear, also in finite sums over labels. *)
Lemma E_add A (m : prog A) f1 f2 : E vs m (fun a => f1 a + f2 a) = E vs m f1 + E vs m f2.
Proof.
rewrite -[E vs m f1]mul1r -[E vs m f2]mul1r -E_lin.
by apply: E_ext => a; rewrite !mul1r.
Qed.

Lemma E_csum A (m : prog A) (F : A -> nat -> R) n :
  E vs m (fun a => csum (F a) n) = csum (fun l => E vs m (F^~ l)) n.
Proof. by elim: n => [|n IH] /=; rewrite ?E_0 // E_add IH. Qed.

Lemma E_scaler A (m : prog A) c f : E vs m (fun a => f a * c) = E vs m f * c.
Proof. by rewrite mulrC -E_scale; apply: E_ext => a; rewrite mulrC. Qed.

(* --- Drawing a label ---------------------------------------------------------- *)
Lemma pick_E J pi (f : nat -> R) : (forall l, 0 <= pi l) ->
  csum pi J * E vs (draw_label V J pi) f = csum (fun l => pi l * f l) J.
Proof.
move=> pi0; elim: J => [|J IH] /=; first by rewrite mul0r.
rewrite -IH; move: (csum_ge0 J pi0); set s := csum pi J; set e := E _ _ _ => s0.
have [s1|s1] := eqVneq (s + pi J) 0.
  move/eqP: s1; rewrite paddr_eq0 // => /andP[/eqP-> /eqP->].
  by rewrite !(addr0, mul0r).
have hx : pi J / (s + pi J) * (s + pi J) = pi J by rewrite divfK.
set x := _ / _ in hx *; move: (f J) (pi J) hx => a b hx.
transitivity (x * (s + b) * a + (s + b - x * (s + b)) * e); first by rng R.
by rewrite hx; rng R.
Qed.

Lemma law_E J pi (f : nat -> R) : is_law J pi ->
  E vs (draw_label V J pi) f = csum (fun l => pi l * f l) J.
Proof. by case=> pi0 pi1; rewrite -pick_E // pi1 mul1r. Qed.

Lemma pick_wf J pi : (forall l, 0 <= pi l) -> wf vs (draw_label V J pi).
Proof.
move=> pi0; elim: J => //= J IH; split=> //; have s0 := csum_ge0 J pi0.
rewrite divr_ge0 ?addr_ge0 //=; have [->|sn0] := eqVneq (csum pi J + pi J) 0.
  by rewrite invr0 mulr0 ler01.
by rewrite ler_pdivr_mulr ?mul1r ?ler_addr // lt_def sn0 addr_ge0.
Qed.

Lemma pick_lt J pi : (0 < J)%N -> always (fun l => l < J)%N (draw_label V J pi).
Proof.
case: J => //= J _; split; first exact: ltnSn.
elim: J => [|J IH] //=; split; first exact: leqW.
by move: IH; elim: (draw_label V J pi) => [l|r t IHt e IHe [? ?]|d k IH Pk x] //=;
  [exact: leqW | split; [exact: IHt | exact: IHe] | exact: IH].
Qed.

(* --- The geometric factor -------------------------------------------------------- *)
Lemma geoS_sum K s t : power_quotient K s t = \sum_(i < K) s ^+ (K.-1 - i) * t ^+ i :> R.
Proof.
elim: K => [|K IH] /=; first by rewrite big_ord0.
rewrite big_ord_recl subn0 mulr1 IH big_distrr; congr (_ + _).
apply: eq_bigr => i _; rewrite /= exprS mulrCA; congr (_ ^+ _ * _).
by case: K {IH} i => [[]|K i] //=; rewrite /bump /= add1n subSS.
Qed.

Lemma geoS_E K s t : power_quotient K s t * (s - t) = s ^+ K - t ^+ K :> R.
Proof.
elim: K => [|K IH] /=; first by rewrite mul0r !expr0 subrr.
rewrite !exprS mulrDl -mulrA IH; move: (s ^+ K) (t ^+ K) => a b; rng R.
Qed.

Lemma geoS_ge0 K (s t : R) : 0 <= s -> 0 <= t -> 0 <= power_quotient K s t.
Proof. by move=> s0 t0; elim: K => //= K IH; rewrite addr_ge0 ?mulr_ge0 ?exprn_ge0. Qed.

(* boost K pi l * pi l = S_{l+1}^K - S_l^K; hence the mean of boost is 1. *)
Lemma boost_E K pi l : boost K pi l * pi l = csum pi l.+1 ^+ K - csum pi l ^+ K.
Proof. by rewrite -geoS_E /boost /=; congr (_ * _); rewrite addrAC subrr add0r. Qed.

Lemma boost_ge0 K pi l : (forall l, 0 <= pi l) -> 0 <= boost K pi l.
Proof. by move=> pi0; apply: geoS_ge0; exact: csum_ge0. Qed.

Lemma boost_sum K pi n : csum (fun l => pi l * boost K.+1 pi l) n = csum pi n ^+ K.+1.
Proof.
elim: n => [|n IH]; first by rewrite /= expr0n.
by rewrite [LHS]/= IH mulrC boost_E addrC subrK.
Qed.

Lemma boost_mean K pi J : is_law J pi -> csum (fun l => pi l * boost K.+1 pi l) J = 1.
Proof. by case=> _ pi1; rewrite boost_sum pi1 expr1n. Qed.

(* --- The champion is the first item with the highest label ------------------------- *)
Section Winner.
Variables (A : Type) (lab : A -> nat).
Notation champion := (champion lab).

Lemma champ_first a xs : exists i, [/\ (i < size (a :: xs))%N, nth a (a :: xs) i = champion a xs,
  forall j, (lab (nth a (a :: xs) j) <= lab (champion a xs))%N
  & forall j, (j < i)%N -> (lab (nth a (a :: xs) j) < lab (champion a xs))%N].
Proof.
elim: xs a => [|b xs IH] a /=; first by exists 0%N; split=> // -[|[]].
case: ltnP => ab.
  have [i [ix ci up lo]] := IH b.
  have nd j : (j < size (b :: xs))%N -> nth a (b :: xs) j = nth b (b :: xs) j.
    by move=> jx; apply: set_nth_default.
  have abc : (lab a < lab (champion b xs))%N by apply: leq_trans (up 0%N).
  exists i.+1; split=> //; first by rewrite [LHS](nd i).
    move=> [|j] /=; first exact: ltnW.
    have [jx|jx] := ltnP j (size (b :: xs)); first by rewrite [nth _ _ _]nd.
    by rewrite nth_default //= ltnW.
  move=> [|j] //=; rewrite ltnS => ji.
  by rewrite [nth _ _ _]nd; [exact: lo | exact: ltn_trans ji ix].
have [[|i] [ix ci up lo]] := IH a.
  exists 0%N; split=> // -[|[|j]] /=; first exact: (up 0%N).
    by apply: leq_trans ab (up 0%N).
  exact: (up j.+1).
exists i.+2; split=> //.
  by move=> [|[|j]] /=; [exact: (up 0%N) | apply: leq_trans ab (up 0%N) | exact: (up j.+1)].
move=> [|[|j]] /= ji; first exact: (lo 0%N).
  exact: leq_ltn_trans ab (lo 0%N isT).
exact: (lo j.+1).
Qed.

(* --- The law of the winner ------------------------------------------------------------ *)
Variable m : prog A.
(* P(label <= k), P(label < k) of one item. *)
Definition Sle k : R := E vs m (fun b => (lab b <= k)%N%:R).
Definition Slt k : R := E vs m (fun b => (lab b < k)%N%:R).
Definition gain K a : R := power_quotient K (Sle (lab a)) (Slt (lab a)).

Lemma reps_S K (F : seq A -> R) :
  E vs (repeated m K.+1) F = E vs m (fun a => E vs (repeated m K) (fun s => F (a :: s))).
Proof. by rewrite /= E_bind; apply: E_ext => a; rewrite E_bind. Qed.

Lemma champ_E K a f : E vs (repeated m K) (fun xs => f (champion a xs))
  = Sle (lab a) ^+ K * f a + E vs m (fun b => (lab a < lab b)%N%:R * (gain K b * f b)).
Proof.
elim: K a => [|K IH] a.
  rewrite /= expr0 mul1r -[LHS]addr0; congr (_ + _); rewrite -[LHS](E_0 vs m).
  by apply: E_ext => b; rewrite /gain /= mul0r mulr0.
rewrite reps_S; under E_ext => b do rewrite (IH (if _ then _ else _)).
rewrite E_add.
have -> : E vs m (fun b => Sle (lab (if (lab a < lab b)%N then b else a)) ^+ K
                           * f (if (lab a < lab b)%N then b else a))
  = E vs m (fun b => (lab a < lab b)%N%:R * (Sle (lab b) ^+ K * f b)) + Sle (lab a) * (Sle (lab a) ^+ K * f a).
  rewrite -E_scaler -E_add; apply: E_ext => b; case: ltnP => ab /=.
    by rewrite mul1r mul0r addr0.
  by rewrite mul0r mul1r add0r.
have -> : E vs m (fun b => E vs m (fun b' =>
      (lab (if (lab a < lab b)%N then b else a) < lab b')%N%:R * (gain K b' * f b')))
  = E vs m (fun b' => (lab a < lab b')%N%:R * (Slt (lab b') * (gain K b' * f b'))).
  rewrite E_comm; apply: E_ext => b'; rewrite E_scaler [RHS]mulrA; congr (_ * _).
  rewrite /Slt -E_scale; apply: E_ext => b; rewrite -natrM mulnb; congr (_%:R); congr nat_of_bool.
  case: (ltnP (lab a) (lab b)) => ab.
    by case: (ltnP (lab b) (lab b')) => bb'; rewrite ?andbF ?(ltn_trans ab bb').
  by case: (ltnP (lab a) (lab b')) => ab' //=; rewrite (leq_ltn_trans ab ab').
rewrite [E _ _ _ + _]addrC -addrA -E_add exprS mulrA; congr (_ + _).
apply: E_ext => b; rewrite -mulrDr; congr (_ * _).
by rewrite mulrA -mulrDl.
Qed.

(* The selection law: the winner of K+1 is one item, reweighted by its label. *)
Theorem select_E K f : E vs (select lab m K) f = E vs m (fun b => gain K.+1 b * f b).
Proof.
rewrite E_bind; under E_ext => a do rewrite E_bind (champ_E K a f).
rewrite E_add E_comm -E_add; apply: E_ext => b.
by rewrite E_scaler -/(Slt (lab b)) mulrA -mulrDl.
Qed.
End Winner.

(* --- Items with a label from a law that depends on the item -------------------------- *)
Section Labelled.
Variables (A : eqType) (J : nat) (item : prog A) (post : A -> nat -> R) (pi : nat -> R).
Hypothesis post_law : forall a, is_law J (post a).
(* pi is the law of the label. *)
Hypothesis post_pi : forall l, (l < J)%N -> E vs item (fun a => post a l) = pi l.
Definition pairs : prog (A * nat) := bind item (fun a => bind (draw_label V J (post a)) (fun l => Ret (a, l))).

Lemma pairs_E f : E vs pairs f = E vs item (fun a => csum (fun l => post a l * f (a, l)) J).
Proof. by rewrite E_bind; apply: E_ext => a; rewrite E_bind law_E. Qed.

Lemma pairs_lt k : (k <= J)%N -> E vs pairs (fun b => (b.2 < k)%N%:R) = csum pi k.
Proof.
move=> kJ; rewrite pairs_E -(csum_lt_id pi kJ).
rewrite (E_csum item (fun a l => post a l * (l < k)%N%:R)); apply: eq_csum => l lJ.
by rewrite E_scaler post_pi // mulrC.
Qed.

(* P(item = a, label = l) *)
Definition pair_law a l : R := E vs pairs (fun b => (b == (a, l))%:R).

(* The winner of K+1 drafts, for all test functions of item and label. *)
Theorem select_pairs K f : E vs (select snd pairs K) f
  = E vs item (fun a => csum (fun l => post a l * (boost K.+1 pi l * f (a, l))) J).
Proof.
rewrite select_E pairs_E; apply: E_ext => a; apply: eq_csum => l lJ.
congr (_ * (_ * _)); rewrite /gain /boost; congr power_quotient.
  by rewrite -pairs_lt //; apply: E_ext => b.
by rewrite -pairs_lt // ltnW.
Qed.

Lemma pair_lawE a l : (l < J)%N ->
  pair_law a l = E vs item (fun b => (b == a)%:R * post b l).
Proof.
move=> lJ; rewrite /pair_law pairs_E; apply: E_ext => b.
rewrite -(csum_one (fun l => (b == a)%:R * post b l) lJ); apply: eq_csum => k kJ.
rewrite xpair_eqE -mulnb natrM; move: (b == a)%:R (k == l)%:R (post b k) => x y z; rng R.
Qed.

(* Statement 1: P(winner = a) = sum_l u(l) P(item = a, label = l), and
   u(l) pi(l) = S_{l+1}^K - S_l^K  (boost_E).                                  *)
Theorem select_law K a :
  E vs (select snd pairs K) (fun b => (b.1 == a)%:R)
  = csum (fun l => boost K.+1 pi l * pair_law a l) J.
Proof.
rewrite select_pairs E_csum; apply: eq_csum => l lJ.
rewrite pair_lawE // -E_scale; apply: E_ext => b /=.
by rewrite mulrCA; congr (_ * _); rewrite mulrC.
Qed.

(* P(label of the winner = l) = S_{l+1}^K - S_l^K. *)
Theorem select_label K l : (l < J)%N ->
  E vs (select snd pairs K) (fun b => (b.2 == l)%:R) = csum pi l.+1 ^+ K.+1 - csum pi l ^+ K.+1.
Proof.
move=> lJ; rewrite select_pairs -boost_E -(post_pi lJ) -E_scale; apply: E_ext => a.
rewrite -[RHS]mulrC -[RHS](csum_one (fun l => post a l * boost K.+1 pi l) lJ).
by apply: eq_csum => k kJ /=; rewrite mulrA mulrC.
Qed.
End Labelled.
End Select.

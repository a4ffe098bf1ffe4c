(* Suppliers with capacities w, each serving a set of items; demands x can be met as soon as every
   set of items can be supplied in total. By raising one demand at a time until a set is tight: a
   submodular argument, no duality theorem is used. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Saturate.
Variables (R : realFieldType) (T : finType).
Implicit Types (x y cap : T -> R) (H A B : {set T}).

Definition smass y A : R := \sum_v (v \in A)%:R * y v.

Lemma smassUI y A B : smass y (A :|: B) + smass y (A :&: B) = smass y A + smass y B.
Proof.
rewrite -!big_split; apply: eq_bigr => v _ /=; rewrite !inE -!mulrDl; congr (_ * _).
by case: (v \in A); case: (v \in B); rewrite /= ?addr0 ?add0r.
Qed.

Lemma smass_le y y' A : (forall v, y v <= y' v) -> smass y A <= smass y' A.
Proof. by move=> yy; apply: ler_sum => v _; case: (v \in A); rewrite ?mul1r ?mul0r. Qed.

Lemma smass1 y v : smass y [set v] = y v.
Proof.
rewrite /smass (bigD1 v) //= inE eqxx mul1r big1 ?addr0 // => u uv.
by rewrite inE (negPf uv) mul0r.
Qed.

Lemma smass0 y : smass y set0 = 0.
Proof. by rewrite /smass big1 // => v _; rewrite inE mul0r. Qed.

Lemma smassT y : smass y setT = \sum_v y v.
Proof. by apply: eq_bigr => v _; rewrite inE mul1r. Qed.

Variable f : {set T} -> R.
Hypothesis f0 : f set0 = 0.
Hypothesis f_sub : forall A B, f (A :|: B) + f (A :&: B) <= f A + f B.

Definition below y : Prop := forall A, smass y A <= f A.
Definition tight y A : Prop := smass y A = f A.

Lemma tightU y A B : below y -> tight y A -> tight y B -> tight y (A :|: B).
Proof.
move=> by_ tA tB; apply/eqP; rewrite eq_le by_ /=.
have := f_sub A B; rewrite -tA -tB -smassUI => h.
by rewrite -(ler_add2r (smass y (A :&: B))); apply: le_trans h; rewrite ler_add2l.
Qed.

Lemma tight_up y y' A : below y' -> (forall v, y v <= y' v) -> tight y A -> tight y' A.
Proof. by move=> b' yy tA; apply/eqP; rewrite eq_le b' -tA smass_le. Qed.

(* Raise the demand of one item as far as it goes. *)
Lemma raise_one y cap v : below y -> (forall u, y u <= cap u) ->
  exists y', [/\ below y', forall u, y u <= y' u <= cap u
    & y' v = cap v \/ exists A, v \in A /\ tight y' A].
Proof.
move=> by_ yc.
have vT : v \in [set: T] by rewrite inE.
pose F A := f A - smass y A.
pose A0 := [arg min_(A < [set: T] | v \in A) F A]%O.
have [A0v A0m] : v \in A0 /\ forall A, v \in A -> F A0 <= F A.
  by rewrite /A0; case: arg_minP => // A vA m.
pose a := Order.min (cap v - y v) (F A0).
have a0 : 0 <= a by rewrite le_minr !subr_ge0 yc by_.
pose y' u := if u == v then y u + a else y u.
have sy A : smass y' A = smass y A + (v \in A)%:R * a.
  rewrite /smass (bigD1 v) // [in RHS](bigD1 v) //= /y' eqxx mulrDr addrAC; congr (_ + _ + _).
  by apply: eq_bigr => u /negPf->.
exists y'; split.
- move=> A; rewrite sy; case: (boolP (v \in A)) => vA; last by rewrite mul0r addr0.
  rewrite mul1r -ler_subr_addl; apply: le_trans (A0m A vA).
  by rewrite le_minl lexx orbT.
- move=> u; rewrite /y'; case: eqP => [->|_]; last by rewrite lexx yc.
  by rewrite ler_addl a0 /= -ler_subr_addl le_minl lexx.
case: (leP (cap v - y v) (F A0)) => h; [left | right].
  by rewrite /y' eqxx /a (min_idPl h) addrC subrK.
exists A0; split=> //; rewrite /tight sy A0v mul1r /a (min_idPr (ltW h)) /F.
by rewrite addrC subrK.
Qed.

(* Raise all of them: what is not at its cap lies in one tight set. *)
Theorem saturate y cap : below y -> (forall u, y u <= cap u) ->
  exists y' S, [/\ below y', forall u, y u <= y' u <= cap u, tight y' S
    & forall u, u \notin S -> y' u = cap u].
Proof.
move=> by_ yc.
suff [y' [S [b' yy tS cS]]] : exists y' S, [/\ below y', forall u, y u <= y' u <= cap u, tight y' S
    & forall u, u \in enum T -> u \notin S -> y' u = cap u].
  by exists y', S; split=> // u uS; apply: cS; rewrite ?mem_enum.
elim: (enum T) => [|v s [y1 [S [b1 yy1 tS cS]]]].
  by exists y, set0; split=> // [u|]; rewrite ?lexx ?yc // /tight smass0 f0.
have y1c u : y1 u <= cap u by case/andP: (yy1 u).
have [y2 [b2 yy2 c2]] := raise_one v b1 y1c.
have up u : y1 u <= y2 u by case/andP: (yy2 u).
have tS2 := tight_up b2 up tS.
have sat2 u : y1 u = cap u -> y2 u = cap u.
  move=> e; apply/eqP; rewrite eq_le; have /andP[h ->] := yy2 u; by rewrite -e.
have yy u : y u <= y2 u <= cap u.
  have /andP[h1 _] := yy1 u; have /andP[h2 ->] := yy2 u; by rewrite (le_trans h1).
case: c2 => [c2|[A [vA tA]]].
  exists y2, S; split=> // u; rewrite inE => /orP[/eqP->|us] uS //.
  by apply: sat2; exact: cS.
exists y2, (S :|: A); split=> //; first exact: tightU.
move=> u; rewrite !inE negb_or => /orP[/eqP->|us] /andP[uS uA]; first by rewrite vA in uA.
by apply: sat2; exact: cS.
Qed.
End Saturate.

(* --- Suppliers ------------------------------------------------------------------------ *)
Section Flow.
Variables (R : realFieldType) (T : finType) (A : eqType).
Variables (serves : A -> {set T}) (w : A -> R).
Hypothesis w0 : forall a, 0 <= w a.

Definition hits a (H : {set T}) : bool := serves a :&: H != set0.
(* The capacity of the suppliers of s that serve some item of H. *)
Definition capacity (s : seq A) (H : {set T}) : R := \sum_(a <- s) w a * (hits a H)%:R.

Lemma hitsP a (H : {set T}) : reflect (exists2 v, v \in serves a & v \in H) (hits a H).
Proof.
rewrite /hits; apply: (iffP (set0Pn _)) => [[v]|[v va vH]]; first by rewrite inE => /andP[];
  exists v.
by exists v; rewrite inE va.
Qed.

Lemma hits_mono a (H H' : {set T}) : H \subset H' -> hits a H -> hits a H'.
Proof. by move=> /subsetP s /hitsP[v va /s vH]; apply/hitsP; exists v. Qed.

Lemma capacity0 s : capacity s set0 = 0.
Proof.
rewrite /capacity big1 // => a _; case: hitsP => [[v _]|_]; first by rewrite inE.
by rewrite mulr0.
Qed.

Lemma capacity_sub s (H H' : {set T}) :
  capacity s (H :|: H') + capacity s (H :&: H') <= capacity s H + capacity s H'.
Proof.
rewrite /capacity -!big_split; apply: ler_sum => a _ /=; rewrite -!mulrDr ler_wpmul2l //.
rewrite -!natrD ler_nat.
have u : hits a (H :|: H') -> hits a H || hits a H'.
  by move=> /hitsP[v va]; rewrite inE => /orP[vH|vH]; apply/orP; [left | right]; apply/hitsP;
    exists v.
have i : hits a (H :&: H') -> hits a H && hits a H'.
  by move=> m; rewrite (hits_mono (subsetIl H H') m) (hits_mono (subsetIr H H') m).
move: u i; case: (hits a (H :|: H')); case: (hits a (H :&: H')); case: (hits a H);
  case: (hits a H');
  by move=> // u i; try (move: (u isT)); try (move: (i isT)).
Qed.

Lemma capacity_mono s (H H' : {set T}) : H \subset H' -> capacity s H <= capacity s H'.
Proof.
move=> sub; apply: ler_sum => a _; rewrite ler_wpmul2l // ler_nat.
by case: (boolP (hits a H)) => // /(hits_mono sub) ->.
Qed.

(* If no set of items asks for more than the suppliers that serve it can give,
   the demands can be met.                                                     *)
Theorem flow s (x : T -> R) : uniq s -> (forall v, 0 <= x v) ->
  (forall H, smass x H <= capacity s H) ->
  exists z : A -> T -> R, [/\ forall a v, 0 <= z a v, forall a v, v \notin serves a -> z a v = 0,
    forall a, \sum_v z a v <= w a & forall v, \sum_(a <- s) z a v = x v].
Proof.
elim: s x => [|a s IH] x us x0 xs.
  exists (fun _ _ => 0); split=> // [a|v]; first by rewrite big1.
  rewrite big_nil; apply/eqP; rewrite eq_le x0 -smass1.
  by apply: le_trans (xs _) _; rewrite /capacity big_nil.
case/andP: us => as_ us.
have f0 := capacity0 s; have fs := capacity_sub s.
pose y0 v := if v \in serves a then 0 else x v.
have b0 : below (capacity s) y0.
  move=> H; pose H' := H :\: serves a.
  have -> : smass y0 H = smass x H'.
    apply: eq_bigr => v _; rewrite /y0 /H' !inE; case: (v \in serves a) => //=.
    by rewrite mulr0 mul0r.
  apply: le_trans (xs H') _; rewrite /capacity big_cons.
  have -> : hits a H' = false.
    by apply/negbTE/negP => /hitsP[v va]; rewrite /H' inE va.
  by rewrite mulr0 add0r; apply: capacity_mono; exact: subsetDl.
have y0x u : y0 u <= x u by rewrite /y0; case: ifP.
have [y [S [by_ yy tS cS]]] := saturate f0 fs b0 y0x.
have y0' v : 0 <= y v.
  by case/andP: (yy v) => h _; apply: le_trans h; rewrite /y0; case: ifP.
have yx v : y v <= x v by case/andP: (yy v).
have [z [z0 zs zw zy]] := IH y us y0' by_.
exists (fun b v => if b == a then x v - y v else z b v); split.
- by move=> b v; case: eqP => // _; rewrite subr_ge0.
- move=> b v vb; case: eqP => [e|_]; last exact: zs.
  apply/eqP; rewrite subr_eq0 eq_le yx andbT; case/andP: (yy v) => h _.
  by move: h; rewrite /y0 -e (negPf vb).
- move=> b; case: eqP => [->|_] //.
  have -> : \sum_v (x v - y v) = smass x S - smass y S.
    rewrite /smass -sumrB; apply: eq_bigr => v _; case: (boolP (v \in S)) => [vS|vS].
      by rewrite !mul1r.
    by rewrite (cS v vS) !mul0r !subrr.
  rewrite (tS : smass y S = _) ler_subl_addr; apply: le_trans (xs S) _.
  rewrite /capacity big_cons ler_add2r; case: hits; rewrite ?mulr1 ?mulr0 //.
- move=> v; rewrite big_cons eqxx -[RHS](subrK (y v)); congr (_ + _); rewrite -zy.
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => b bs; case: eqP => // e.
  by rewrite -e bs in as_.
Qed.
End Flow.

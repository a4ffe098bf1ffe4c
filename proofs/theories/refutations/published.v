(* Schemes that are not lossless, refuted by exact computation on the smallest
   instances: the proved machinery applied to wrong algorithms.               *)
From Coq Require Import ZArith QArith Qcanon.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability rationals.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block spectr_gbv.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block spectr_gbv.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- The wrong algorithms, over any field ---------------------------------------- *)
Section Wrong.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Notation min1 := (Order.min 1).

(* K independent tests: every draft is tested with min(1, q/p) against the same
   q; after K rejections one draw from the residual (q - p)+.                 *)
Fixpoint independent_trials_scan (p q : V -> R) xs : prog V :=
  if xs is x :: xs' then Flip (acc p q x) (Ret x) (independent_trials_scan p q xs')
  else Draw (res vs p q) (fun y => Ret y).
Definition independent_trials K p q : prog V := bind (draws (fun=> p) K [::]) (independent_trials_scan p q).

(* The SpecTr-GBV rule as published (2604.25925) at L = 1, K drafts:
   r = min(1, p/q), E(z) = (1-z)^K, h = q (1 - E(r)) / (1 - E(p)),
   residual proportional to q (1 - r)^K (paper) or q (1 - r^K) (code);
   skip: a token once rejected is not tested again.                           *)
Variables (K : nat) (skip code : bool).
Definition pr (p q : V -> R) x : R := min1 (p x / q x).
Definition pE (z : R) : R := (1 - z) ^+ K.
Definition ph (p q : V -> R) x : R := q x * (1 - pE (pr p q x)) / (1 - pE (p x)).
Definition pres (p q : V -> R) x : R :=
  let w x := q x * (if code then 1 - pr p q x ^+ K else pE (pr p q x)) in w x / sumf vs w.
Fixpoint spectr_gbv_published_scan p q seen xs : prog V :=
  if xs is x :: xs' then
    if skip && (x \in seen) then spectr_gbv_published_scan p q seen xs'
    else Flip (ph p q x) (Ret x) (spectr_gbv_published_scan p q (x :: seen) xs')
  else Draw (pres p q) (fun y => Ret y).
Definition spectr_gbv_published p q : prog V := bind (draws (fun=> p) K [::]) (spectr_gbv_published_scan p q [::]).

(* HSD as released: block verification whose full-block test uses the uncapped
   joint ratio min(1, q(x)/p(x)) instead of w_L.                              *)
Variables (pd qt : seq V -> V -> R).
Fixpoint hsd_released_scan c w r xs (best : mark R V) : prog (mark R V) :=
  if xs is x :: xs' then
    let c' := rcons c x in
    let w' := block_weight pd qt w c x in
    let r' := joint_ratio pd qt r c x in
    let last := xs' == [::] in
    Flip (if last then min1 r' else block_bias vs pd qt w' c' false)
      (hsd_released_scan c' w' r' xs' (c', w', last))
      (hsd_released_scan c' w' r' xs' best)
  else Ret best.
Definition hsd_released L c : prog (seq V) :=
  bind (draft pd L c) (fun xs =>
  bind (hsd_released_scan c 1 1 xs (c, 1, xs == [::])) (block_emit vs pd qt)).
End Wrong.

(* K independent tests, in general: p = (0,1), q = (1/2,1/2) over any field and for
   every K, token 1 comes out with probability 1 - 2^-K.                       *)
Section IndepGeneral.
Variable R : realFieldType.
Let vs := [:: false; true].
Definition pT (b : bool) : R := b%:R.
Definition half (b : bool) : R := 2%:R^-1.

Theorem independent_trials_law K : E vs (independent_trials vs K pT half) (fun b => b%:R) = 1 - 2%:R^-1 ^+ K.
Proof.
have h0 : (0 : R) < 2%:R^-1 by rewrite invr_gt0 ltr0n.
have h1 : (2%:R^-1 : R) <= 1 by rewrite invf_le1 ?ltr0n // ler1n.
have hh : (1 : R) - 2%:R^-1 = 2%:R^-1.
  by apply/eqP; rewrite subr_eq -mulr2n -[_ *+ 2]mulr_natr mulVf // pnatr_eq0.
have r1 : res vs pT half true = 0.
  rewrite /res /sumf /= /excess /pT /half subr0 addr0 (max_l (ltW h0)).
  have -> : Order.max (2%:R^-1 - 1) 0 = 0 :> R by rewrite max_r // subr_le0.
  by rewrite addr0 (gt_eqF h0) mul0r.
rewrite E_bind; move: [::] => h; elim: K h => [|K IH] h.
  by rewrite expr0 subrr /= r1 mulr0 mul0r !add0r.
rewrite E_Draw !big_cons big_nil /pT mul0r add0r addr0 mul1r E_bind /=.
rewrite E_lin E_cst; last by apply: draws_wf => _; split=> [[]|]; rewrite ?ler01 ?lexx // !big_cons big_nil add0r addr0.
rewrite IH mulr1 /acc /half /pT divr1 (min_r h1) hh.
by rewrite exprS mulrBr mulr1 addrA -mulr2n -[_ *+ 2]mulr_natr mulVf ?pnatr_eq0.
Qed.
End IndepGeneral.

(* --- Instances over exact rationals ------------------------------------------------ *)
Definition Q := qc_realFieldType.
Definition fr (a : Z) (b : positive) : Q := Q2Qc (Qmake a b).
Definition vs2 : seq nat := [:: 0; 1]%N.
Definition pair_ (a b : Q) (v : nat) : Q := if v == 0%N then a else b.
Definition tok v (x : nat) : Q := (x == v)%:R.

(* p = (0,1), q = (1/2,1/2): token 1 comes out with probability 1 - 2^-K. *)
Definition p01 := pair_ (fr 0 1) (fr 1 1).
Definition q11 := pair_ (fr 1 2) (fr 1 2).
Example independent_trials_biased :
  [/\ E vs2 (independent_trials vs2 1 p01 q11) (tok 1%N) = fr 1 2,
      E vs2 (independent_trials vs2 2 p01 q11) (tok 1%N) = fr 3 4,
      E vs2 (independent_trials vs2 3 p01 q11) (tok 1%N) = fr 7 8
    & E vs2 (independent_trials vs2 4 p01 q11) (tok 1%N) = fr 15 16].
Proof. by split; apply/eqP; vm_compute. Qed.

(* p = (1/2,1/2), q = (3/4,1/4), L = 1, K = 2: P(0) should be 3/4. *)
Definition ph2 := pair_ (fr 1 2) (fr 1 2).
Definition q31 := pair_ (fr 3 4) (fr 1 4).
Example spectr_gbv_published_values :
  [/\ E vs2 (spectr_gbv_published vs2 2 false false ph2 q31) (tok 0%N) = fr 83 108,
      E vs2 (spectr_gbv_published vs2 2 true false ph2 q31) (tok 0%N) = fr 89 108,
      E vs2 (spectr_gbv_published vs2 2 false true ph2 q31) (tok 0%N) = fr 83 108
    & E vs2 (spectr_gbv_published vs2 2 true true ph2 q31) (tok 0%N) = fr 89 108].
Proof. by split; apply/eqP; vm_compute. Qed.
Corollary spectr_gbv_published_biased skip code :
  exists f, E vs2 (spectr_gbv_published vs2 2 skip code ph2 q31) f <> \sum_(y <- vs2) q31 y * f y.
Proof.
exists (tok 0%N); rewrite -sumfE.
by case: skip; case: code; apply/eqP; vm_compute.
Qed.

(* HSD uncapped, L = 2: the second token has law (11/16, 5/16), not (3/4, 1/4). *)
Definition pd2 (c : seq nat) := ph2.
Definition qt2 (c : seq nat) := q31.
Definition second v (c : seq nat) : Q := tok v (nth 2%N c 1).
Definition hsd2 := bind (hsd_released vs2 pd2 qt2 2 [::]) (fill qt2 3).
Example hsd_second_token :
  [/\ E vs2 hsd2 (second 0%N) = fr 11 16, E vs2 hsd2 (second 1%N) = fr 5 16
    & E vs2 (generate qt2 3 [::]) (second 0%N) = fr 3 4].
Proof. by split; apply/eqP; vm_compute. Qed.
Corollary hsd_released_biased : ~ valid vs2 qt2 (hsd_released vs2 pd2 qt2 2) 2.
Proof. by move/(_ [::] (second 0%N)); apply/eqP; vm_compute. Qed.

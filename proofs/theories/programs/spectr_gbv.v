(* SpecTr-GBV, lossless form: K whole paths, the greedy block rule with unclipped
   joint ratios, a whole target chain that is updated, and a carry.
   Python: draftproof.reference.verifiers.spectr_gbv.  *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import drafting kseq block scan walk.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section GbvCode.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd : seq V -> V -> R).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Notation min1 := (Order.min 1).

(* Unclipped weights s_i = s_{i-1} D(x)/p(x), and the coin
   h_i = (min(1,s_i) - M_i)/(1 - M_i), h_L = min(1,s_L).                      *)
Definition joint_ratio (D : chain) w c x : R := w * D c x / pd c x.
Definition gbv_mass (D : chain) w c : R := sumf vs (fun x => Order.min (pd c x) (w * D c x)).
Definition gbv_bias (D : chain) w c (last : bool) : R :=
  if last then min1 w else
  let M := gbv_mass D w c in if 1 - M == 0 then 1 else (min1 w - M) / (1 - M).

(* What is owed below the node a after clipping by (rho, g): at a context x with
   joint ratio r_x = rho s_x the row r_x D - g min(p, s_x D), normalised; the
   plain row D where nothing is owed (so also where p = 0, s_x = 0) and from
   depth e on.                                                                *)
Definition gbv_ratio (D : chain) rho a x : R := wfold (joint_ratio D) rho^-1 a (drop (size a) x).
Definition gbv_owed (D : chain) rho g w x v : R :=
  rho * w * D x v - g * Order.min (pd x v) (w * D x v).
Definition gbv_row (D : chain) rho g w x v : R :=
  let s := sumf vs (gbv_owed D rho g w x) in
  if s == 0 then D x v else gbv_owed D rho g w x v / s.
Definition gbv_chain (D : chain) rho g a e : chain := fun x =>
  if (size x < e)%N then gbv_row D rho g (gbv_ratio D rho a x) x else D x.

Variable rho : (V -> R) -> (V -> R) -> nat -> R.
Variable unit : bool.   (* scale "unit" or scale "kseq" *)
Variable ext : bool.    (* with or without the extension by later paths *)

(* node, tokens left on the paths, the whole target chain, number of paths *)
Definition gbv_state : Type := (seq V * nat * chain * nat)%type.
Definition gbv_scale (st : gbv_state) : R :=
  let: (c, m, D, n) := st in if unit then 1 else rho (pd c) (D c) n.
Definition gbv_cover (st : gbv_state) : R :=
  let: (c, m, D, n) := st in
  if unit then 1 else cover vs (pd c) (D c) (rho (pd c) (D c) n) n.
Definition gbv_residual (st : gbv_state) : chain :=
  let: (c, m, D, n) := st in gbv_chain D (gbv_scale st) (gbv_cover st) c (size c + m)%N.
Definition gbv_test (st : gbv_state) xs : prog (option (mark R V)) :=
  let: (c, m, D, n) := st in scan (joint_ratio D) (gbv_bias D) c (gbv_scale st)^-1 xs None.
Definition gbv_prefix (st : gbv_state) (k : mark R V) : seq V := drop (size st.1.1.1) k.1.1.
Definition gbv_node (st : gbv_state) (k : mark R V) n : gbv_state :=
  (k.1.1, (st.1.1.2 - size (gbv_prefix st k))%N, gbv_residual st, n).
Definition gbv_rejected (st : gbv_state) : gbv_state :=
  if unit then (st.1.1, gbv_residual st, st.2) else st.
Definition gbv_correction (st : gbv_state) : prog (seq V * chain) :=
  let: (c, m, D, n) := st in
  let D' := if unit || (n == 0)%N then D else gbv_residual st in
  Draw (D' c) (fun y => Ret (rcons c y, D')).

Definition spectr_gbv K L (D : chain) c : prog (seq V * chain) :=
  bind (drafts pd K L c) (fun ps =>
    let ps := if L is 0 then [::] else ps in
    walk gbv_test gbv_prefix snd gbv_node gbv_rejected gbv_correction ext (size ps) (c, L, D, size ps) ps).
End GbvCode.

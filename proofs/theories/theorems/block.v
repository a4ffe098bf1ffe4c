(* Token-by-token and block verification are valid, for every L.                *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting token_by_token block validity.
From Draftproof.theorems Require Import maximal.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Block.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation dist := (is_dist vs).
Notation prog := (prog R V).

(* pd c, qt c : next-token laws of draft and target after the context c. *)
Variables (pd qt : seq V -> V -> R).

Local Notation draft := (draft pd).
Local Notation fill := (fill qt).
Local Notation token_by_token_scan := (token_by_token_scan vs pd qt).
Local Notation token_by_token := (token_by_token vs pd qt).
Local Notation wq := (wq qt).
Local Notation block_weight := (block_weight pd qt).
Local Notation block_surplus := (block_surplus vs pd qt).
Local Notation block_residual := (block_residual vs pd qt).
Local Notation block_bias := (block_bias vs pd qt).
Local Notation block_scan := (block_scan vs pd qt).
Local Notation block_emit := (block_emit vs pd qt).
Local Notation block := (block vs pd qt).
Local Notation valid := (valid vs qt).
Local Notation mark := (mark R V).

Hypotheses (dpd : forall c, dist (pd c)) (dqt : forall c, dist (qt c)).

Lemma pd0 c x : 0 <= pd c x. Proof. exact: (dpd c).1. Qed.
Lemma qt0 c x : 0 <= qt c x. Proof. exact: (dqt c).1. Qed.
Hint Resolve pd0 qt0 : core.

Lemma gen_wf (m : seq V -> V -> R) n c : (forall c, dist (m c)) -> wf vs (generate m n c).
Proof. by move=> dm; elim: n c => [|n IH] c //=; split. Qed.

Lemma draft_wf n c : wf vs (draft n c).
Proof. by elim: n c => [|n IH] c //=; split=> // x; apply: wf_bind. Qed.

Section Horizon.
Variables (N : nat) (f : seq V -> R).
Definition Phi c : R := E vs (fill N c) f.

Lemma Phi_step c : (size c < N)%N -> Phi c = \sum_(x <- vs) qt c x * Phi (rcons c x).
Proof.
move=> cN; rewrite /Phi /fill -(subnSK cN) /= sumfE; apply: eq_sum => x.
by rewrite size_rcons.
Qed.

Lemma emit_E d c : E vs (emit d c) Phi = \sum_(y <- vs) d y * Phi (rcons c y).
Proof. by rewrite E_Draw. Qed.

(* --- Token verification is valid ------------------------------------------- *)
Lemma tok_E n c : (size c + n < N)%N ->
  E vs (bind (draft n c) (token_by_token_scan c)) Phi = Phi c.
Proof.
elim: n c => [|n IH] c; rewrite E_bind.
  by rewrite addn0 => cN; rewrite -[LHS]/(E vs (emit (qt c) c) Phi) emit_E -Phi_step.
move=> cN; have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite (Phi_step c'N).
rewrite -(maximal_law (fun x => Phi (rcons c x)) (dpd c) (dqt c)) [LHS]E_Draw E_Draw.
apply: eq_sum => x; congr (_ * _); rewrite E_bind /= E_lin E_cst; last exact: draft_wf.
by rewrite -E_bind IH ?size_rcons ?addSnnS // sumfE emit_E.
Qed.

(* --- Block verification is valid -------------------------------------------- *)
Section Weights.
Variables (w : R) (c : seq V).
Hypothesis w01 : 0 <= w <= 1.
Let w0 : 0 <= w. Proof. by case/andP: w01. Qed.

Lemma wq0 x : 0 <= wq w c x. Proof. exact: mulr_ge0. Qed.

Definition keep x : R := Order.min (pd c x) (wq w c x).

Lemma wnext01 x : 0 <= block_weight w c x <= 1.
Proof. by apply: acc01 => //; exact: wq0. Qed.

Lemma pd_wnext x : pd c x * block_weight w c x = keep x.
Proof. by apply: min_acc => //; exact: wq0. Qed.

Lemma bsumE : block_surplus w c = w - \sum_(x <- vs) keep x.
Proof. by rewrite /block_surplus sumfE sum_excess -big_distrr /= (dqt c).2 mulr1. Qed.

Lemma bsum_ge0 : 0 <= block_surplus w c.
Proof. by rewrite /block_surplus sumfE sumr_ge0 // => x _; exact: excess_ge0. Qed.

Lemma bres_repay (g : V -> R) :
  block_surplus w c * (\sum_(y <- vs) block_residual w c y * g y)
  = \sum_(y <- vs) excess (pd c) (wq w c) y * g y.
Proof.
rewrite /block_residual; case: eqVneq => [s0|sn0].
  rewrite s0 mul0r big_seq big1 // => y yv; move: s0; rewrite /block_surplus sumfE => s0.
  by rewrite (sum_seq_eq0 (excess_ge0 _ _) s0 yv) mul0r.
rewrite big_distrr /=; apply: eq_sum => y.
by rewrite mulrA mulrCA divff ?mulr1.
Qed.

(* The failed mass times h is exactly the mass the residual must carry. *)
Lemma hacc_repay : (1 - \sum_(x <- vs) keep x) * block_bias w c false = block_surplus w c.
Proof.
have -> : 1 - \sum_(x <- vs) keep x = block_surplus w c + 1 - w.
  by rewrite bsumE addrAC [w - _]addrC addrK addrC.
rewrite /block_bias mulrCA; have [d0|dn0] := eqVneq (block_surplus w c + 1 - w) 0; last first.
  by rewrite divff ?mulr1.
rewrite d0 mul0r mulr0; move/eqP: d0; rewrite -addrA.
by rewrite paddr_eq0 ?bsum_ge0 ?subr_ge0 ?(andP w01).2 // => /andP[/eqP].
Qed.
End Weights.

(* Key lemma: seen from position i with weight w, the rest of the block keeps
   each x with weight min(p, w q) and otherwise leaves the mark unchanged.    *)
Lemma blk_E n c w b : 0 <= w <= 1 -> (size c + n.+2)%N = N ->
  E vs (draft n.+1 c) (fun xs => E vs (bind (block_scan c w xs b) block_emit) Phi)
  = \sum_(x <- vs) keep w c x * Phi (rcons c x)
    + (1 - \sum_(x <- vs) keep w c x) * E vs (block_emit b) Phi.
Proof.
elim: n c w b => [|n IH] c w b w01 cN; rewrite E_Draw.
  under eq_bigr => x _.
    rewrite /= mulrDr mulrA pd_wnext // [X in _ + X]mulrA mulrBr mulr1 pd_wnext //.
    rewrite -/(emit _ _) -[sumf _ _]/(E vs (emit (qt (rcons c x)) (rcons c x)) Phi).
    rewrite emit_E -Phi_step; last by rewrite size_rcons -cN addnS ltnS addn1.
    over.
  by rewrite big_split /= -big_distrl /= sumrB (dpd c).2.
have aux x : let c' := rcons c x in let w' := block_weight w c x in
    E vs (draft n.+1 c') (fun s => E vs (bind (block_scan c w (x :: s) b) block_emit) Phi)
    = w' * Phi c' + (1 - w') * E vs (block_emit b) Phi.
  set c' := rcons c x; set w' := block_weight w c x => /=.
  have w'01 : 0 <= w' <= 1 by exact: wnext01.
  have c'N : (size c' + n.+2)%N = N by rewrite size_rcons addSnnS.
  transitivity (block_bias w' c' false * E vs (draft n.+1 c') (fun xs =>
        E vs (bind (block_scan c' w' xs (c', w', false)) block_emit) Phi)
    + (1 - block_bias w' c' false) * E vs (draft n.+1 c') (fun xs =>
        E vs (bind (block_scan c' w' xs b) block_emit) Phi)).
    rewrite -E_lin [LHS]E_Draw [RHS]E_Draw; apply: eq_sum => y; congr (_ * _).
    by rewrite !E_bind; apply: E_ext => s.
  rewrite !IH // !mulrDr.
  set A := \sum_(y <- vs) keep w' c' y * _; set M := \sum_(y <- vs) keep w' c' y.
  set G := E vs (block_emit b) Phi; set H := E vs (block_emit _) Phi.
  have hM : (1 - M) * block_bias w' c' false = block_surplus w' c' by exact: hacc_repay.
  have AH : A + block_surplus w' c' * H = w' * Phi c'.
    rewrite /H /= sumfE bres_repay // -big_split /= Phi_step; last first.
      by rewrite -c'N addnS ltnS leq_addr.
    rewrite big_distrr /=; apply: eq_sum => y.
    by rewrite -mulrDl excessE addrC subrK mulrA.
  have Mw : (1 - M) * (1 - block_bias w' c' false) = 1 - w'.
    rewrite mulrBr mulr1 hM bsumE // -/M opprB addrA.
    by rewrite [1 - M + M]subrK.
  set h := block_bias w' c' false in hM Mw *.
  rewrite addrACA -mulrDl [h + _]addrC subrK mul1r !mulrA.
  by rewrite [h * _]mulrC hM [(1 - h) * _]mulrC Mw addrA AH.
under eq_bigr => x _.
  rewrite E_bind [X in _ * X]aux.
  rewrite mulrDr mulrA pd_wnext // [X in _ + X]mulrA mulrBr mulr1 pd_wnext //.
  over.
by rewrite big_split /= -big_distrl /= sumrB (dpd c).2.
Qed.
End Horizon.

Theorem token_by_token_valid L : valid (token_by_token L) L.
Proof.
move=> c f; rewrite E_bind -/(Phi (size c + L.+1)%N f).
rewrite [LHS](tok_E (N := (size c + L.+1)%N) f (n := L)) ?ltn_add2l //.
by rewrite /Phi /fill addKn.
Qed.

Theorem block_valid L : valid (block L) L.
Proof.
move=> c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (block L c) (Phi N f)) /block E_bind.
have -> : E vs (generate qt L.+1 c) f = Phi N f c by rewrite /Phi /fill addKn.
have cN : (size c < N)%N by rewrite /N addnS ltnS leq_addr.
case: L @N cN => [|L] N cN.
  by rewrite /= -/(emit _ _) -[LHS]/(E vs (emit (qt c) c) (Phi N f)) emit_E -Phi_step.
have w01 : (0 : R) <= (1 : R) <= 1 by rewrite lexx ler01.
transitivity (E vs (draft L.+1 c) (fun xs =>
   E vs (bind (block_scan c 1 xs (c, 1, false)) block_emit) (Phi N f))).
  by rewrite !E_Draw; apply: eq_sum => x; congr (_ * _); rewrite !E_bind; apply: E_ext.
rewrite (blk_E f _ w01) // /= sumfE.
have -> : 1 - \sum_(x <- vs) keep 1 c x = block_surplus 1 c by rewrite bsumE.
rewrite bres_repay -big_split /= Phi_step //; apply: eq_sum => y.
by rewrite -mulrDl excessE addrC subrK /wq mul1r.
Qed.

End Block.

(* The block verifiers can be run, make progress, and so decode exactly.      *)
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting validity token_by_token block rounds.
From Draftproof.theorems Require Import maximal block decode.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Verify.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Variables (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Notation prog := (prog R V).

Lemma always_bind A B (P : A -> Prop) (Q : B -> Prop) (m : prog A) (g : A -> prog B) :
  always P m -> (forall a, P a -> always Q (g a)) -> always Q (bind m g).
Proof.
move=> Pm Pg; elim: m Pm => [a /Pg //|r t IHt e IHe [/IHt ? /IHe ?] //|d k IH Pk x].
exact: IH.
Qed.

Lemma always_true A (m : prog A) : always (fun=> True) m.
Proof. by elim: m => //=. Qed.

Lemma always_imp A (P Q : A -> Prop) (m : prog A) :
  (forall a, P a -> Q a) -> always P m -> always Q m.
Proof.
move=> PQ; elim: m => [a /PQ //|r t IHt e IHe [/IHt ? /IHe ?] //|d k IH Pk x].
exact: IH.
Qed.

Lemma wf_bindP A B (P : A -> Prop) (m : prog A) (g : A -> prog B) :
  wf vs m -> always P m -> (forall a, P a -> wf vs (g a)) -> wf vs (bind m g).
Proof.
move=> wm Pm Pg; elim: m wm Pm => [a _ /Pg //|r t IHt e IHe /= [r01 [wt we]] [Pt Pe]|d k IH /= [dd wk] Pk].
  by split; [|split; [exact: IHt | exact: IHe]].
by split=> // x; exact: IH.
Qed.

Lemma draft_size n c : always (fun s => size s = n) (draft pd n c).
Proof.
elim: n c => //= n IH c x; apply: (always_bind (IH _)) => s /= -> //.
Qed.

Lemma tok_scan_progress c xs :
  always (fun c' => size c < size c' <= size c + (size xs).+1)%N (token_by_token_scan vs pd qt c xs).
Proof.
elim: xs c => [|x xs IH] c /=; first by move=> y; rewrite size_rcons addn1 !leqnn.
split; last by move=> y; rewrite size_rcons leqnn addnS ltnS leq_addr.
have := IH (rcons c x); move: (token_by_token_scan _ _ _ _ _) => m.
elim: m => [c'|r t IHt e IHe [? ?]|d k IHk Pk z] /=.
- by rewrite size_rcons addSnnS => /andP[/ltnW-> ->].
- by split; [exact: IHt | exact: IHe].
- exact: IHk.
Qed.

Lemma tok_progress L : progress (token_by_token vs pd qt L) L.
Proof.
move=> c; apply: (always_bind (draft_size L c)) => xs <-.
exact: tok_scan_progress.
Qed.

Lemma blk_scan_size c w xs b k : (size c + size xs <= k)%N -> (size b.1.1 <= k)%N ->
  (size c <= size b.1.1)%N ->
  always (fun m => size c <= size m.1.1 <= k)%N (block_scan vs pd qt c w xs b).
Proof.
have generate c0 : (size c0 <= size c)%N -> (size c + size xs <= k)%N -> (size b.1.1 <= k)%N ->
  (size c0 <= size b.1.1)%N ->
  always (fun m => size c0 <= size m.1.1 <= k)%N (block_scan vs pd qt c w xs b).
  elim: xs c w b => [|x xs IH] c1 w1 b1 /= cc ck bk cb; first by rewrite cb bk.
  have ck' : (size (rcons c1 x) + size xs <= k)%N by rewrite size_rcons addSnnS.
  split; apply: IH => //=; rewrite size_rcons ?(leqW cc) //.
  by move: ck'; rewrite size_rcons; apply: leq_trans; rewrite leq_addr.
exact: generate.
Qed.

Lemma blk_progress L : progress (block vs pd qt L) L.
Proof.
move=> c; apply: (always_bind (draft_size L c)) => xs <-.
apply: (always_bind (P := fun m : mark R V => size c <= size m.1.1 <= size c + size xs)%N).
  by apply: blk_scan_size; rewrite /= ?leq_addr.
by move=> [[c' w'] last] /= /andP[cc' c'k] y; rewrite size_rcons ltnS cc' addnS ltnS.
Qed.

(* Every coin is in [0,1] and every draw is from a distribution. *)
Lemma emit_wf (d : V -> R) c : is_dist vs d -> wf vs (emit d c).
Proof. by []. Qed.

Lemma tok_wf L c : wf vs (token_by_token vs pd qt L c).
Proof.
apply: wf_bind => [|xs]; first exact: draft_wf.
elim: xs c => [|x xs IH] c /=; first by split.
split; first by apply: acc01; [case: (dpd c) | case: (dqt c)].
by split=> //; split=> //; apply: res_dist.
Qed.

Definition good (m : mark R V) : Prop := 0 <= m.1.2 <= 1.

Lemma hacc01 w c last : 0 <= w <= 1 -> 0 <= block_bias vs pd qt w c last <= 1.
Proof.
case: last => //= w01; have S0 := bsum_ge0 vs pd qt w c; case/andP: w01 => w0 w1.
have d0 : 0 <= block_surplus vs pd qt w c + 1 - w by rewrite -addrA addr_ge0 ?subr_ge0.
rewrite divr_ge0 //=; have [->|dn0] := eqVneq (block_surplus vs pd qt w c + 1 - w) 0.
  by rewrite invr0 mulr0 ler01.
by rewrite ler_pdivr_mulr ?mul1r -?addrA ?ler_addl ?subr_ge0 // addrA lt_def dn0.
Qed.

Lemma bres_dist w c : is_dist vs (block_residual vs pd qt w c).
Proof.
rewrite /block_residual /block_surplus sumfE; case: eqVneq => [_|sn0]; first exact: dqt.
split=> [x|]; first by rewrite divr_ge0 ?excess_ge0 ?sumr_ge0 // => y _; exact: excess_ge0.
by rewrite -big_distrl /= divff.
Qed.

Lemma blk_scan_wf c w xs b : 0 <= w <= 1 -> wf vs (block_scan vs pd qt c w xs b).
Proof.
elim: xs c w b => //= x xs IH c w b w01.
have w'01 : 0 <= block_weight pd qt w c x <= 1 by exact: (wnext01 dpd dqt).
by split; [exact: hacc01 | split; exact: IH].
Qed.

Lemma blk_wf L c : wf vs (block vs pd qt L c).
Proof.
apply: wf_bind => [|xs]; first exact: draft_wf.
apply: wf_bind => [|[[c' w'] last]]; last first.
  by apply: emit_wf; case: last; [exact: dqt | exact: bres_dist].
by apply: blk_scan_wf; rewrite lexx ler01.
Qed.

(* The end-to-end statements. *)
Theorem block_decode_exact L N c f : (size c <= N)%N ->
  E vs (decode (block vs pd qt L) (N - size c) N c) f
  = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (block_valid dpd dqt L) (@blk_progress L) _ cN).
by rewrite subnKC.
Qed.

Theorem token_by_token_decode_exact L N c f : (size c <= N)%N ->
  E vs (decode (token_by_token vs pd qt L) (N - size c) N c) f
  = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; apply: (decode_exact dqt f (token_by_token_valid dpd dqt L) (@tok_progress L) _ cN).
by rewrite subnKC.
Qed.
End Verify.

(* Ranked block verification with a draft model for each draft is lossless.                     *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity block rounds scan spectr_gbv
   greedy_block selection ranked_block contract ranked_block_models.
From Draftproof.theorems Require Import maximal draws block decode running paths scan
   greedy_block selection ranked_block contract.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Reweighting a model by a non-negative martingale along its paths. *)
Section Reweight.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (p : seq V -> V -> R) (T : seq V -> R).
Hypotheses (dp : forall x, is_dist vs (p x)) (T0 : forall x, 0 <= T x).
Hypothesis T_mart : forall x, \sum_(v <- vs) p x v * T (rcons x v) = T x.
Definition tilted x v : R := if T x == 0 then p x v else p x v * T (rcons x v) / T x.

Lemma tilted_dist x : is_dist vs (tilted x).
Proof.
rewrite /tilted; split=> [v|].
  by case: ifP => _; rewrite ?(dp x).1 // mulr_ge0 ?mulr_ge0 ?invr_ge0 ?T0 ?(dp x).1.
case: eqVneq => [_|Tn0]; first exact: (dp x).2.
by rewrite -big_distrl /= T_mart divff.
Qed.

Lemma T_tilted x v : v \in vs -> T x * tilted x v = p x v * T (rcons x v).
Proof.
move=> vv; rewrite /tilted; case: eqVneq => [Tx0|Tn0]; last by rewrite mulrC divfK.
rewrite Tx0 mul0r; apply/esym; have s0 := T_mart x; rewrite Tx0 in s0.
have nn y : 0 <= p x y * T (rcons x y) by rewrite mulr_ge0 ?T0 ?(dp x).1.
exact: (sum_seq_eq0 nn s0 vv).
Qed.

Lemma draft_tilted n x f : E vs (draft p n x) (fun s => T (x ++ s) * f s)
  = T x * E vs (draft tilted n x) f.
Proof.
elim: n x f => [|n IH] x f; first by rewrite /= cats0.
rewrite !E_Draw big_distrr /= big_seq [RHS]big_seq; apply: eq_bigr => v vv.
rewrite mulrA T_tilted // -mulrA; congr (_ * _); rewrite !E_bind -IH.
by apply: E_ext => s; rewrite /= cat_rcons.
Qed.
End Reweight.

Section Models.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (qt : seq V -> V -> R).
Variables (J : nat) (pi0 : nat -> R) (L : nat) (c : seq V).
Hypothesis dqt : forall x, is_dist vs (qt x).
Hypothesis pi0_law : is_law J pi0.
Add Ring Rring : (ring_th R).
Notation prog := (prog R V).
Notation entrant := (entrant R V).
Notation S := (csum pi0).
Local Notation enter := (enter J L c).
Local Notation compete := (compete J L c).

(* Every entrant: rows and label laws are laws, the label law at the root is pi0, column sums. *)
Definition fair (e : entrant) : Prop :=
  [/\ forall x, is_dist vs (e.1 x), forall x, is_law J (e.2 x), forall l, (l < J)%N -> e.2 c l = pi0 l
    & forall x l, (l < J)%N -> \sum_(v <- vs) e.1 x v * e.2 (rcons x v) l = e.2 x l].
Fixpoint all_fair (es : seq entrant) : Prop := if es is e :: es' then fair e /\ all_fair es' else True.

Lemma enter_E e G : fair e ->
  E vs (enter e) G = E vs (draft e.1 L c) (fun s => csum (fun l => e.2 (c ++ s) l * G (s, l)) J).
Proof. by move=> [_ h _ _]; rewrite E_bind; apply: E_ext => s; rewrite E_bind law_E. Qed.

Lemma enter_csum e (g : nat -> R) : fair e ->
  E vs (enter e) (fun a => g a.2) = csum (fun l => pi0 l * g l) J.
Proof.
move=> fe; rewrite enter_E //; case: fe => [h1 h2 h3 h4].
rewrite E_csum; apply: eq_csum => l lJ.
transitivity (E vs (draft e.1 L c) (fun s => e.2 (c ++ s) l * g l)); first by apply: E_ext.
rewrite E_scaler; congr (_ * _).
rewrite -(h3 l lJ); exact: (mart_E (g := fun x => e.2 x l) (fun x => h4 x l lJ) L c).
Qed.

Lemma enter_lt e n : fair e -> (n <= J)%N -> E vs (enter e) (fun a => (a.2 < n)%N%:R) = S n.
Proof.
move=> fe nJ; rewrite (enter_csum (fun l => (l < n)%N%:R)) // -(csum_lt_id pi0 nJ).
by apply: eq_csum => l _; rewrite mulrC.
Qed.

Lemma enter_wf e : fair e -> wf vs (enter e).
Proof.
move=> [h1 h2 _ _]; apply: wf_bind => [|s]; first exact: draft_wf.
by apply: wf_bind => [|l] //; apply: pick_wf; exact: (h2 _).1.
Qed.

(* Only labels below J matter. *)
Lemma enter_ext e G H : fair e -> (forall a, (a.2 < J)%N -> G a = H a) ->
  E vs (enter e) G = E vs (enter e) H.
Proof.
move=> fe GH; rewrite !enter_E //; apply: E_ext => s; apply: eq_csum => l lJ.
by rewrite GH.
Qed.

Variable F : nat -> seq V -> R.
(* The value of the drafts es, numbered from k, when i drafts before them must have lower labels and
   only labels from b on count.                                                                    *)
Fixpoint value k b i (es : seq entrant) : R :=
  if es is e :: es' then
    E vs (enter e) (fun a => (b <= a.2)%N%:R * (S a.2 ^+ i * S a.2.+1 ^+ size es') * F k a.1)
    + value k.+1 b i.+1 es'
  else 0.

Lemma value_step e k b i es : fair e -> all_fair es -> (b <= J)%N ->
  E vs (enter e) (fun a => if (b <= a.2)%N then value k a.2.+1 i es else value k b i es)
  = value k b i.+1 es.
Proof.
move=> fe; elim: es k i => [|e' es IH] k i /= fes bJ.
  by rewrite -[RHS](E_0 vs (enter e)); apply: E_ext => a; case: ifP.
case: fes => fe' fes; rewrite -(IH k.+1 i.+1) //.
pose X a' : R := S a'.2 ^+ i * S a'.2.+1 ^+ size es * F k a'.1.
transitivity (E vs (enter e) (fun a => E vs (enter e') (fun a' =>
    (if (b <= a.2)%N then (a.2.+1 <= a'.2)%N%:R else (b <= a'.2)%N%:R) * X a'))
  + E vs (enter e) (fun a => if (b <= a.2)%N then value k.+1 a.2.+1 i.+1 es else value k.+1 b i.+1 es)).
  rewrite -E_add; apply: E_ext => a; case: ifP => _; congr (_ + _); apply: E_ext => a';
    by rewrite /X !mulrA.
congr (_ + _); rewrite E_comm; apply: enter_ext => // a' a'J; rewrite E_scaler.
have -> : E vs (enter e) (fun a => if (b <= a.2)%N then (a.2.+1 <= a'.2)%N%:R else (b <= a'.2)%N%:R)
    = (b <= a'.2)%N%:R * S a'.2.
  rewrite -(enter_lt fe (ltnW a'J)) -E_scale; apply: E_ext => a.
  case: (leqP b a.2) => ba; case: (leqP b a'.2) => ba'; rewrite ?mul1r ?mul0r //.
    by rewrite ltnNge (leq_trans (ltnW ba') ba).
  by rewrite (leq_trans ba ba').
by rewrite /X exprS !mulrA.
Qed.

Lemma compete_E k b w es : all_fair es -> (b <= J)%N ->
  E vs (compete k b w es) (fun o => F o.1 o.2)
  = S b ^+ size es * F w.1 w.2 + value k b 0 es.
Proof.
elim: es k b w => [|e es IH] k b w /=; first by rewrite expr0 mul1r addr0.
case=> fe fes bJ; rewrite E_bind.
transitivity (E vs (enter e) (fun a => (b <= a.2)%N%:R * (S a.2.+1 ^+ size es * F k a.1)
    + (a.2 < b)%N%:R * (S b ^+ size es * F w.1 w.2)
    + (if (b <= a.2)%N then value k.+1 a.2.+1 0 es else value k.+1 b 0 es))).
  apply: enter_ext => // a aJ; case: leqP => ba; rewrite IH //=.
    by rewrite ?mul1r ?mul0r ?addr0.
  by rewrite ?mul1r ?mul0r ?add0r.
rewrite !E_add value_step // E_scaler enter_lt // exprS -mulrA [RHS]addrCA addrA; congr (_ + _).
by congr (_ + _); apply: E_ext => a; rewrite expr0 mul1r mulrA.
Qed.
End Models.

Section Valid.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (qt : seq V -> V -> R).
Variables (J : nat) (pi0 : nat -> R) (L : nat) (c : seq V).
Hypothesis dqt : forall x, is_dist vs (qt x).
Hypothesis pi0_law : is_law J pi0.
Notation entrant := (entrant R V).
Notation S := (csum pi0).
Local Notation fair := (fair vs J pi0 c).
Local Notation weight := (own_weight J pi0).

Section One.
Variables (n k : nat) (e : entrant).
Hypothesis fe : fair e.

Lemma wins_ge0 l : 0 <= wins pi0 n k l.
Proof. by rewrite mulr_ge0 ?exprn_ge0 ?csum_ge0 //; exact: pi0_law.1. Qed.

Lemma weight_ge0 x : 0 <= weight n k e x.
Proof. by case: fe => _ h2 _ _; apply: csum_ge0 => l; rewrite mulr_ge0 ?wins_ge0 ?(h2 x).1. Qed.

Lemma weight_mart x : \sum_(v <- vs) e.1 x v * weight n k e (rcons x v) = weight n k e x.
Proof.
case: fe => _ _ _ h4; rewrite /own_weight.
transitivity (csum (fun l => \sum_(v <- vs) e.1 x v * (e.2 (rcons x v) l * wins pi0 n k l)) J).
  by rewrite -sum_csum.
apply: eq_csum => l lJ; rewrite -(h4 x l lJ) big_distrl /=; apply: eq_sum => v.
by rewrite mulrA.
Qed.

Lemma own_dist x : is_dist vs (own_row J pi0 n k e x).
Proof. by case: fe => h1 _ _ _; exact: (tilted_dist h1 weight_ge0 weight_mart). Qed.

Lemma enter_own F : E vs (enter J L c e) (fun a => wins pi0 n k a.2 * F a.1)
  = weight n k e c * E vs (draft (own_row J pi0 n k e) L c) F.
Proof.
case: (fe) => h1 h2 _ _; rewrite (enter_E _ _ fe) -(draft_tilted h1 weight_ge0 weight_mart).
apply: E_ext => s; rewrite /own_weight mulrC -csumZ; apply: eq_csum => l lJ.
by rewrite mulrA mulrC.
Qed.
End One.

Lemma compete_wf k b w es : all_fair vs J pi0 c es -> wf vs (compete J L c k b w es).
Proof.
elim: es k b w => [|e es IH] k b w //= [fe fes]; apply: wf_bind => [|a].
  exact: (enter_wf (pi0 := pi0) L fe).
by case: ifP => _; exact: IH.
Qed.

(* Each draft gives its share of a value that does not depend on it. *)
Lemma value_share (F : nat -> seq V -> R) g n k es : (k + size es = n)%N -> all_fair vs J pi0 c es ->
  (forall i e, (i < size es)%N -> nth e es i = nth e es i -> fair (nth e es i) ->
     E vs (draft (own_row J pi0 n (k + i) (nth e es i)) L c) (F (k + i)%N) = g) ->
  value vs J pi0 L c F k 0 k es = value vs J pi0 L c (fun _ _ => 1) k 0 k es * g.
Proof.
elim: es k => [|e es IH] k /= kn; first by rewrite mul0r.
case=> fe fes Fg; rewrite mulrDl (IH k.+1) //; last first.
  by move=> i e1 iN _ fi; rewrite addSnnS; exact: (Fg i.+1 e1).
  by rewrite addSnnS.
have nk : (n - k).-1 = size es by rewrite -kn addKn.
congr (_ + _); have own F' : E vs (enter J L c e) (fun a =>
    (0 <= a.2)%N%:R * (S a.2 ^+ k * S a.2.+1 ^+ size es) * F' a.1)
    = own_weight J pi0 n k e c * E vs (draft (own_row J pi0 n k e) L c) F'.
  rewrite -(enter_own n k fe); apply: E_ext => a.
  by rewrite leq0n mul1r /wins nk.
have := Fg 0%N e (ltn0Sn _) erefl fe; rewrite addn0 /= => Fk.
rewrite (own (F k)) (own (fun=> 1)) Fk.
by rewrite (E_cst 1 (draft_wf (own_dist n k fe) L c)) mulr1.
Qed.

Lemma all_fair_nth e0 es i : all_fair vs J pi0 c es -> (i < size es)%N -> fair (nth e0 es i).
Proof. by elim: es i => // e es IH [|i] /= [fe fes] //; exact: IH. Qed.

(* Whatever verifies a path of law r with the same value g for every r. *)
Lemma compete_any (ver : (seq V -> V -> R) -> seq V -> R) g e0 es :
  (forall r, (forall x, is_dist vs (r x)) -> E vs (draft r L c) (ver r) = g) ->
  (0 < size es)%N -> all_fair vs J pi0 c es ->
  E vs (compete J L c 0 0 (0%N, [::]) es) (fun o =>
    ver (own_row J pi0 (size es) o.1 (nth e0 es o.1)) o.2) = g.
Proof.
move=> vg es0 fes; set n := size es; pose F k := ver (own_row J pi0 n k (nth e0 es k)).
have n0 : (0 : R) ^+ size es = 0 by rewrite expr0n; case: (size es) es0.
have one := compete_E L (fun _ _ => 1) 0 (0%N, [::]) fes (leq0n J).
rewrite (compete_E L F 0 (0%N, [::]) fes (leq0n J)) /= n0 mul0r add0r.
rewrite (E_cst 1 (compete_wf 0 0 (0%N, [::]) fes)) /= n0 mul0r add0r in one.
rewrite (value_share (g := g) (n := n) _ fes) ?add0n -?one ?mul1r // => i e iN _ fi.
rewrite add0n (set_nth_default e0 e iN); apply: vg; exact: own_dist (all_fair_nth e0 fes iN).
Qed.

Theorem ranked_block_models_valid (e0 : entrant) es f : (0 < size es)%N ->
  all_fair vs J pi0 c es ->
  E vs (bind (ranked_block_models vs qt J pi0 L c e0 es) (fill qt (size c + L.+1)%N)) f
  = E vs (generate qt L.+1 c) f.
Proof.
move=> es0 fes; rewrite E_bind /ranked_block_models E_bind.
apply: (compete_any (ver := fun r xs => E vs (bind (block_scan vs r qt c 1 xs (c, 1, xs == [::]))
  (block_emit vs r qt)) (fun s => E vs (fill qt (size c + L.+1)%N s) f))) => // r dr.
by rewrite -(block_valid dr dqt L c f) /block E_bind [RHS]E_bind.
Qed.

Theorem ranked_greedy_block_models_valid (D : seq V -> V -> R) (e0 : entrant) es f :
  (forall x, is_dist vs (D x)) -> (0 < size es)%N -> all_fair vs J pi0 c es ->
  E vs (bind (ranked_greedy_block_models vs J pi0 L c D e0 es)
    (fun o => fill o.2 (size c + L.+1)%N o.1)) f
  = E vs (generate D L.+1 c) f.
Proof.
move=> dD es0 fes; rewrite E_bind /ranked_greedy_block_models E_bind.
apply: (compete_any (ver := fun r xs => E vs (bind (scan (joint_ratio r D) (greedy_bias vs r D) c 1 xs None)
  (greedy_block_out vs r L D c)) (fun o => E vs (fill o.2 (size c + L.+1)%N o.1) f))) => // r dr.
rewrite -(greedy_block_valid dr L c f dD) [RHS]E_bind /greedy_block [RHS]E_bind /greedy_block_mark.
by rewrite [RHS]E_bind; apply: E_ext => xs; rewrite E_bind.
Qed.

(* --- All drafts first, labels as far as they matter, tests from the deepest token ------------- *)
Lemma compete_rising_E k b w es F : all_fair vs J pi0 c es -> (b <= J)%N ->
  E vs (entrant_drafts L c es) (fun ps => E vs (compete_rising J c k b w es ps) F)
  = E vs (compete J L c k b w es) F.
Proof.
elim: es k b w F => [|e es IH] k b w F //= [fe fes] bJ; case: (fe) => _ lawe _ _.
rewrite !E_bind; apply: E_ext => s; rewrite !E_bind; set pi := e.2 (c ++ s).
have [p0 p1] : is_law J pi by exact: lawe.
have pl : is_law J pi by [].
rewrite (law_E _ _ pl).
have [G GE] : exists G, forall l, G l = E vs (compete J L c k.+1 l.+1 (k, s) es) F.
  by exists (fun l => E vs (compete J L c k.+1 l.+1 (k, s) es) F).
have [H HE] : exists H, H = E vs (compete J L c k.+1 b w es) F by exists (E vs (compete J L c k.+1 b w es) F).
transitivity (csum (fun l => pi l * (if (b <= l)%N then G l else H)) J); last first.
  by apply: eq_csum => l _; congr (_ * _) => /=; case: ifP; rewrite ?GE ?HE.
rewrite (split_label G H pl bJ); case: es IH fes G GE H HE => [|e' es] IH fes G GE H HE.
  rewrite -[LHS]/(E vs (bind (draw_label V 2 (beats J pi b)) (fun i =>
    Ret (if i is 0%N then w else (k, s)))) F) E_bind law_E; last first.
    split=> [[|i]|] /=; rewrite ?csum_ge0 //; last by rewrite add0r addrC subrK.
    by rewrite -{1}(subnKC bJ) csum_cat addrC addKr csum_ge0.
  rewrite /= add0r /beats; congr (_ + _); first by rewrite HE.
  rewrite -{1}(subnKC bJ) csum_cat addrC addKr.
  by rewrite mulrC -csumZ; apply: eq_csum => i _; rewrite GE mulrC.
have rl : is_law (J - b).+1 (rise pi b).
  split=> [[|i]|]; rewrite ?csum_ge0 //= ?p0 //.
  by rewrite -[LHS]/(csum (rise pi b) (J - b).+1) csum_head -p1 -[in RHS](subnKC bJ) csum_cat.
transitivity (E vs (entrant_drafts L c (e' :: es)) (fun ps =>
    E vs (draw_label V (J - b).+1 (rise pi b)) (fun i =>
    E vs (if i is 0%N then compete_rising J c k.+1 b w (e' :: es) ps
          else compete_rising J c k.+1 (b + i)%N (k, s) (e' :: es) ps) F))).
  apply: E_ext => ps; exact: (E_bind vs (draw_label V (J - b).+1 (rise pi b))).
rewrite E_comm (law_E _ _ rl) csum_head; congr (_ + _); first by congr (_ * _); rewrite HE -IH.
apply: eq_csum => i iJ; congr (_ * _); rewrite GE -addnS -IH //.
by rewrite addnS -ltn_subRL.
Qed.

Lemma compete_contract_E es F : all_fair vs J pi0 c es -> (0 < L)%N ->
  E vs (compete_contract J L c es) F = E vs (compete J L c 0 0 (0%N, [::]) es) F.
Proof.
rewrite /compete_contract => fes; case: L (compete_rising_E 0 (0%N, [::]) F fes (leq0n J)) => // l.
by rewrite E_bind.
Qed.

Theorem ranked_block_models_contract_valid (e0 : entrant) es f : (0 < L)%N -> (0 < size es)%N ->
  all_fair vs J pi0 c es ->
  E vs (bind (ranked_block_models_contract vs qt J pi0 L c e0 es) (fill qt (size c + L.+1)%N)) f
  = E vs (generate qt L.+1 c) f.
Proof.
move=> L0 es0 fes; rewrite -(ranked_block_models_valid e0 f es0 fes) E_bind [RHS]E_bind.
rewrite [LHS]E_bind [RHS]E_bind compete_contract_E //; apply: E_ext => o; exact: block_path_E.
Qed.

Theorem ranked_greedy_block_models_contract_valid (D : seq V -> V -> R) (e0 : entrant) es f :
  (0 < L)%N -> (forall x, is_dist vs (D x)) -> (0 < size es)%N -> all_fair vs J pi0 c es ->
  E vs (bind (ranked_greedy_block_models_contract vs J pi0 L c D e0 es)
    (fun o => fill o.2 (size c + L.+1)%N o.1)) f
  = E vs (generate D L.+1 c) f.
Proof.
move=> L0 dD es0 fes; rewrite -(ranked_greedy_block_models_valid e0 f dD es0 fes).
rewrite E_bind [RHS]E_bind [LHS]E_bind [RHS]E_bind compete_contract_E //; apply: E_ext => o.
rewrite [LHS]E_bind [RHS]E_bind; exact: deepest_first_E.
Qed.
End Valid.

(* The programs of programs/contract.v have the laws of the proved schemes, hence are valid.      *)
From Coq Require Import NArith Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting recursive_rejection kseq validity
   token_by_token block target_match scan walk spectr kseq_block spectr_gbv greedy_block selection
   ranked_block ranked_block_design ranked_greedy_block multipath rounds contract.
From Draftproof.theorems Require Import maximal draws recursive_rejection kseq block scan walk
   spectr kseq_block spectr_gbv greedy_block selection ranked_block
   ranked_block_design ranked_greedy_block multipath test_order decode running
   rounds paths.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Order.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation prog := (prog R V).
Notation chain := (seq V -> V -> R).
Local Notation Ev := (@E R V vs _).
Implicit Types (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R).

(* Testing from the deepest token and stopping at the first success has the law of flipping every
   coin and keeping the deepest success.                                                          *)
Theorem deepest_first_E nxt hac c w xs F :
  Ev (deepest_first nxt hac c w xs) F = Ev (scan nxt hac c w xs None) F.
Proof. by rewrite scan_down. Qed.

Lemma scan_some nxt hac c w xs (b b1 b2 : mark R V) F :
  Ev (scan nxt hac c w xs (Some b)) (fun o => F (odflt b1 o))
  = Ev (scan nxt hac c w xs (Some b)) (fun o => F (odflt b2 o)).
Proof. by elim: xs c w b => [|x xs IH] c w b //=; rewrite !IH. Qed.

Lemma scan_default nxt hac c w xs (b : mark R V) F :
  Ev (scan nxt hac c w xs None) (fun o => F (odflt b o))
  = Ev (scan nxt hac c w xs (Some b)) (fun o => F (odflt b o)).
Proof. by elim: xs c w => [|x xs IH] c w //=; rewrite IH. Qed.

Lemma block_scan_E pd qt c w xs b F : Ev (block_scan vs pd qt c w xs b) F
  = Ev (scan (block_weight pd qt) (block_bias vs pd qt) c w xs (Some b))
      (fun o => F (odflt b o)).
Proof.
elim: xs c w b => [|x xs IH] c w b //=; rewrite !IH; congr (_ * _ + _).
exact: scan_some.
Qed.

Lemma block_path_E pd qt c xs F : Ev (block_path vs pd qt c xs) F
  = Ev (bind (block_scan vs pd qt c 1 xs (c, 1, xs == [::])) (block_emit vs pd qt)) F.
Proof.
rewrite /block_path E_bind (@deepest_first_E _ _ c 1 xs) [RHS]E_bind block_scan_E.
rewrite -(scan_default _ _ _ _ _ _ (fun k => Ev (block_emit vs pd qt k) F)).
by apply: E_ext => [[k|]].
Qed.

(* --- Each scheme has the law of the one that is proved ---------------------------------- *)
Theorem block_contract_E pd qt L c F :
  Ev (block_contract vs pd qt L c) F = Ev (block vs pd qt L c) F.
Proof. by rewrite E_bind [RHS]E_bind; apply: E_ext => xs; exact: block_path_E. Qed.

Theorem greedy_block_contract_E pd L (D : chain) c F :
  Ev (greedy_block_contract vs pd L D c) F = Ev (greedy_block vs pd L D c) F.
Proof.
rewrite E_bind [RHS]E_bind /greedy_block_mark [LHS]E_bind [RHS]E_bind; apply: E_ext => xs.
exact: deepest_first_E.
Qed.

Lemma walk_ext (S X O : Type) (t1 t2 : S -> seq V -> prog (option X)) pre leaf mk rej
    (fin : S -> prog O) ext fuel st ps F :
  (forall st xs G, Ev (t1 st xs) G = Ev (t2 st xs) G) ->
  Ev (walk t1 pre leaf mk rej fin ext fuel st ps) F
  = Ev (walk t2 pre leaf mk rej fin ext fuel st ps) F.
Proof.
move=> t12; elim: fuel st ps => [|fuel IH] st [|xs ps] //=.
rewrite !E_bind t12; apply: E_ext => [[x|]]; exact: IH.
Qed.

Theorem kseq_block_contract_E pd qt rho ext K L c F :
  Ev (kseq_block_contract vs pd qt rho ext K L c) F = Ev (kseq_block vs pd qt rho ext K L c) F.
Proof.
rewrite E_bind [RHS]E_bind; apply: E_ext => ps; apply: walk_ext => [[[[c1 m] T] n]] xs G.
exact: deepest_first_E.
Qed.

Theorem spectr_gbv_contract_E pd rho unit ext K L (D : chain) c F :
  Ev (spectr_gbv_contract vs pd rho unit ext K L D c) F
  = Ev (spectr_gbv vs pd rho unit ext K L D c) F.
Proof.
rewrite E_bind [RHS]E_bind; apply: E_ext => ps; apply: walk_ext => [[[[c1 m] D1] n]] xs G.
exact: deepest_first_E.
Qed.

(* --- Selecting a draft, labels drawn as far as they matter ----------------------------------- *)
Lemma csum_cat (f : nat -> R) a n : csum f (a + n) = csum f a + csum (fun i => f (a + i)%N) n.
Proof. by elim: n => [|n IH]; rewrite ?addn0 ?addr0 // addnS /= IH addrA. Qed.

Lemma csum_head (f : nat -> R) n : csum f n.+1 = f 0%N + csum (fun i => f i.+1) n.
Proof. by rewrite -add1n csum_cat /= add0r. Qed.

Lemma champion_shift (a : seq V * nat) r :
  champion snd (a.1, a.2.+1) [seq (x.1, x.2.+1) | x <- r]
  = ((champion snd a r).1, (champion snd a r).2.+1).
Proof. by elim: r a => [|x r IH] a //=; rewrite ltnS -IH; case: ifP. Qed.

Section Select.
Variables (J : nat) (post : seq V -> seq V -> nat -> R).
Hypothesis post_law : forall c x, is_law J (post c x).

Lemma split_label (pi : nat -> R) b (G : nat -> R) H : is_law J pi -> (b <= J)%N ->
  csum (fun l => pi l * (if (b <= l)%N then G l else H)) J
  = csum pi b * H + csum (fun i => pi (b + i)%N * G (b + i)%N) (J - b).
Proof.
move=> _ bJ; rewrite -{1}(subnKC bJ) csum_cat; congr (_ + _).
  rewrite mulrC -csumZ; apply: eq_csum => l lb.
  by rewrite leqNgt lb mulrC.
by apply: eq_csum => i _; rewrite leq_addr.
Qed.

Theorem select_rising_E c b w ps F : (b <= J)%N -> ps != [::] ->
  Ev (select_rising J post c b w ps) F
  = Ev (labels J post c ps) (fun r => F (champion snd (w, b) [seq (x.1, x.2.+1) | x <- r]).1).
Proof.
elim: ps b w F => [|s ps IH] b w F bJ // _; set pi := post c (c ++ s).
have [p0 p1] := post_law c (c ++ s); rewrite -/pi in p0 p1.
have pl : is_law J pi by [].
have tot : csum (rise pi b) (J - b).+1 = 1.
  by rewrite csum_head -p1 -[in RHS](subnKC bJ) csum_cat.
have rl : is_law (J - b).+1 (rise pi b).
  by split=> // [[|i]]; rewrite ?csum_ge0 //= p0.
rewrite [RHS]E_bind -/pi (law_E _ _ pl).
have step l : E vs (bind (labels J post c ps) (fun r => Ret ((s, l) :: r)))
    (fun r => F (champion snd (w, b) [seq (x.1, x.2.+1) | x <- r]).1)
  = if (b <= l)%N then
      Ev (labels J post c ps) (fun r => F (champion snd (s, l.+1) [seq (x.1, x.2.+1) | x <- r]).1)
    else
      Ev (labels J post c ps) (fun r => F (champion snd (w, b) [seq (x.1, x.2.+1) | x <- r]).1).
  by rewrite E_bind /= ltnS; case: ifP.
rewrite (eq_csum (g := fun l => pi l * (if (b <= l)%N then
      Ev (labels J post c ps) (fun r => F (champion snd (s, l.+1) [seq (x.1, x.2.+1) | x <- r]).1)
    else
      Ev (labels J post c ps) (fun r => F (champion snd (w, b) [seq (x.1, x.2.+1) | x <- r]).1)))); last first.
  by move=> l _; rewrite step.
rewrite split_label //; case: ps IH {step} => [|s' ps] IH.
  rewrite [LHS]E_bind -/pi law_E; last first.
    split=> [[|i]|] /=; rewrite ?csum_ge0 //; last by rewrite add0r addrC subrK.
    by rewrite -{1}(subnKC bJ) csum_cat addrC addKr csum_ge0.
  rewrite /= add0r; congr (_ + _); rewrite -{1}(subnKC bJ) csum_cat addrC addKr.
  rewrite mulrC -csumZ; apply: eq_csum => i _; exact: mulrC.
rewrite [LHS]E_bind -/pi (law_E _ _ rl) csum_head; congr (_ + _).
  by congr (_ * _); rewrite IH.
apply: eq_csum => i iJ; congr (_ * _); rewrite IH //; last by rewrite addnS -ltn_subRL.
by rewrite addnS.
Qed.

Theorem selected_contract_E pd K L c F : (0 < L)%N ->
  Ev (selected_contract J post pd K L c) F = Ev (selected pd J post K L c) F.
Proof.
case: L => // L _; rewrite E_bind [RHS]E_bind; apply: E_ext => [[|s ps]] //.
rewrite (select_rising_E _ _ _ (leq0n J)) // [RHS]E_bind [LHS]E_bind [RHS]E_bind.
apply: E_ext => l; rewrite [LHS]E_bind [RHS]E_bind; apply: E_ext => r.
by rewrite /= (champion_shift (s, l)).
Qed.
End Select.

Theorem ranked_block_contract_E pd qt J pi0 post K L c F :
  (forall c x, is_law J (post c x)) -> (0 < L)%N ->
  Ev (ranked_block_contract vs pd qt J pi0 post K L c) F
  = Ev (ranked_block vs pd qt J pi0 post K L c) F.
Proof.
move=> pl L0; rewrite E_bind [RHS]E_bind selected_contract_E //.
by apply: E_ext => xs; exact: block_path_E.
Qed.

Theorem ranked_greedy_block_contract_E pd J pi0 (post : chain -> seq V -> seq V -> nat -> R) K L
    (D : chain) c F : (forall D c x, is_law J (post D c x)) -> (0 < L)%N ->
  Ev (ranked_greedy_block_contract vs pd J pi0 post K L D c) F
  = Ev (ranked_greedy_block vs pd J pi0 post K L D c) F.
Proof.
move=> pl L0; rewrite E_bind [RHS]E_bind /ranked_greedy_block_mark [LHS]E_bind [RHS]E_bind.
rewrite selected_contract_E //.
by apply: E_ext => xs; exact: deepest_first_E.
Qed.

Theorem multipath_contract_E pd qt J L score key K c F :
  Ev (multipath_contract vs pd qt J L score key K c) F
  = Ev (multipath vs pd qt J L score key K c) F.
Proof. by rewrite E_bind [RHS]E_bind; apply: E_ext => xs; exact: block_path_E. Qed.
End Order.

(* --- The ratio types are a law ------------------------------------------------------------------ *)
Lemma ratio_types_law (R : realFieldType) (e : seq R) (p q : R) :
  (1 < size e)%N -> head 0 e = 0 -> 0 <= last 0 e -> 0 <= p -> 0 <= q ->
  is_law (size e) (ratio_types e p q).
Proof.
move=> e1 e0 l0 p0 q0; rewrite /ratio_types; set ratio := Order.min _ _; set k := minn _ _.
have r0 : 0 <= ratio by rewrite le_minr divr_ge0.
have e2 : (size e).-2.+2 = size e by case: (size e) e1 => [|[|n]].
have e1E : (size e).-1 = (size e).-2.+1 by rewrite -{1}e2.
have kN : (k.+1 < size e)%N by rewrite -e2 !ltnS geq_minr.
have lo : nth 0 e k <= ratio.
  case: (posnP k) => [->|kp]; first by rewrite nth0 e0.
  have kf : (k.-1 < find (fun x => (ratio < x)%R) (behead e))%N by rewrite prednK // geq_minl.
  by have := before_find 0 kf; rewrite nth_behead prednK // leNgt => ->.
have hi : ratio <= nth 0 e k.+1.
  have [h|h] := boolP (has (fun x => ratio < x) (behead e)).
    have kE : k = find (fun x => ratio < x) (behead e).
      by apply/minn_idPl; move: h; rewrite has_find size_behead e1E ltnS.
    by rewrite kE -nth_behead; apply: ltW; exact: (nth_find 0 h).
  have -> : k = (size e).-2.
    apply/minn_idPr; move: h; rewrite has_find -leqNgt size_behead; apply: leq_trans.
    exact: leq_pred.
  rewrite le_minl; apply/orP; right.
  by rewrite -nth_last e1E.
set f := _ / _.
have f01 : 0 <= f <= 1.
  have d0 : nth 0 e k <= nth 0 e k.+1 by rewrite (le_trans lo).
  rewrite divr_ge0 ?subr_ge0 //=; have [d|d] := eqVneq (nth 0 e k.+1 - nth 0 e k) 0.
    by rewrite /f d invr0 mulr0 ler01.
  by rewrite ler_pdivr_mulr ?lt_def ?d ?subr_ge0 // mul1r ler_sub.
exact: (interp_law kN f01).
Qed.

(* --- So all of them are valid --------------------------------------------------------------- *)
Section Valid.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
Add Ring Rring : (ring_th R).

Theorem block_contract_valid L : valid vs qt (block_contract vs pd qt L) L.
Proof.
by move=> c f; rewrite -(block_valid dpd dqt L c f) E_bind [RHS]E_bind block_contract_E.
Qed.

Theorem greedy_block_contract_valid L : valid_carry vs (greedy_block_contract vs pd L) L.
Proof.
by move=> D c f dD; rewrite -(greedy_block_valid dpd L c f dD) E_bind [RHS]E_bind
  greedy_block_contract_E.
Qed.

Theorem kseq_block_contract_valid rho ext K L : rho_ok vs rho ->
  valid vs qt (kseq_block_contract vs pd qt rho ext K L) L.
Proof.
move=> rok c f; rewrite -(kseq_block_valid dpd dqt rok ext K L c f).
by rewrite E_bind [RHS]E_bind kseq_block_contract_E.
Qed.

Theorem spectr_gbv_contract_valid rho unit ext K L : rho_ok vs rho ->
  valid_carry vs (spectr_gbv_contract vs pd rho unit ext K L) L.
Proof.
move=> rok D c f dD; rewrite -(spectr_gbv_valid dpd rok unit ext K L c f dD).
by rewrite E_bind [RHS]E_bind spectr_gbv_contract_E.
Qed.

Theorem ranked_block_contract_valid J pi0 post K L :
  is_law J pi0 -> (forall c x, is_law J (post c x)) ->
  (forall c l, (l < J)%N -> post c c l = pi0 l) ->
  (forall c x l, (l < J)%N -> \sum_(v <- vs) pd x v * post c (rcons x v) l = post c x l) ->
  valid vs qt (ranked_block_contract vs pd qt J pi0 post K.+1 L) L.
Proof.
move=> p0 pl pr ps c f; case: L => [|L]; first exact: (block_contract_valid 0 c f).
rewrite -(ranked_block_valid dpd dqt p0 pl pr ps K L.+1 c f).
by rewrite E_bind [RHS]E_bind ranked_block_contract_E.
Qed.

Theorem ranked_greedy_block_contract_valid J pi0 (post : _ -> seq V -> seq V -> nat -> R) K L :
  is_law J pi0 -> (forall D c x, is_law J (post D c x)) ->
  (forall D c l, (l < J)%N -> post D c c l = pi0 l) ->
  (forall D c x l, (l < J)%N ->
     \sum_(v <- vs) pd x v * post D c (rcons x v) l = post D c x l) ->
  valid_carry vs (ranked_greedy_block_contract vs pd J pi0 post K.+1 L) L.
Proof.
move=> p0 pl pr ps D c f dD; case: L => [|L]; first exact: (greedy_block_valid (rd dpd p0 pl ps D K.+1 c) 0 c f dD).
rewrite -(ranked_greedy_block_valid dpd p0 pl pr ps K L.+1 c f dD).
by rewrite E_bind [RHS]E_bind ranked_greedy_block_contract_E.
Qed.

(* Ranked block as it is computed from the rows: ratio edges e, any proposals, any extra state. *)
Theorem ranked_block_computed_valid J pi0 (e : seq R) (X : Type) (x0 : X) propose carry K L :
  is_law J pi0 -> (1 < size e)%N -> head 0 e = 0 -> 0 <= last 0 e ->
  let theta x v := ratio_types e (pd x v) (qt x v) in
  let post := design vs (size e) J pd x0 theta propose carry pi0 in
  valid vs qt (ranked_block_contract vs pd qt J pi0 post K.+1 L) L.
Proof.
move=> p0 e1 e0 el /= c f; case: L => [|L]; first exact: (block_contract_valid 0 c f).
set post := design _ _ _ _ _ _ _ _ _.
have th x v : is_law (size e) (ratio_types e (pd x v) (qt x v)).
  by apply: ratio_types_law => //; rewrite ?(dpd x).1 ?(dqt x).1.
rewrite -(design_valid x0 dpd dqt propose carry th p0 K L.+1 c f) E_bind [RHS]E_bind.
rewrite ranked_block_contract_E // => c1 x.
exact: (design_law x0 dpd dqt propose carry th p0).
Qed.

Theorem multipath_contract_valid J L key K : (forall c x, (key c x < J)%N) ->
  valid vs qt (multipath_contract vs pd qt J L (sure R key) key K.+1) L.
Proof.
move=> kJ c f; rewrite -(multipath_valid L dpd dqt kJ K c f).
by rewrite E_bind [RHS]E_bind multipath_contract_E.
Qed.

(* N tokens, round after round. *)
Lemma decode_ext (v1 v2 : seq V -> prog R V (seq V)) fuel N c f :
  (forall c F, E vs (v1 c) F = E vs (v2 c) F :> R) ->
  E vs (decode v1 fuel N c) f = E vs (decode v2 fuel N c) f.
Proof.
move=> vv; elim: fuel c => [|fuel IH] c //=; case: ifP => // _.
by rewrite !E_bind vv; apply: E_ext => c'; exact: IH.
Qed.

Lemma rounds_ext (v1 v2 : (seq V -> V -> R) -> seq V -> prog R V (seq V * (seq V -> V -> R)))
    fuel N D c f : (forall D c F, E vs (v1 D c) F = E vs (v2 D c) F :> R) ->
  E vs (rounds v1 fuel N D c) f = E vs (rounds v2 fuel N D c) f.
Proof.
move=> vv; elim: fuel D c => [|fuel IH] D c //=; case: ifP => // _.
by rewrite !E_bind vv; apply: E_ext => o; exact: IH.
Qed.

Theorem block_contract_decode_exact L N c f : (size c <= N)%N ->
  E vs (decode (block_contract vs pd qt L) (N - size c) N c) f
  = E vs (generate qt (N - size c) c) f.
Proof.
move=> cN; rewrite -(block_decode_exact dpd dqt L f cN); apply: decode_ext => c' F.
exact: block_contract_E.
Qed.

Theorem kseq_block_contract_decode_exact rho ext K L N c f : rho_ok vs rho -> (size c <= N)%N ->
  E vs (decode (kseq_block_contract vs pd qt rho ext K L) (N - size c) N c) f
  = E vs (generate qt (N - size c) c) f.
Proof.
move=> rok cN; rewrite -(kseq_block_decode_exact dpd rok ext dqt K L f cN).
by apply: decode_ext => c' F; exact: kseq_block_contract_E.
Qed.

Theorem greedy_block_contract_rounds_exact L N (D : seq V -> V -> R) c f :
  (forall x, is_dist vs (D x)) -> (size c <= N)%N ->
  E vs (rounds (greedy_block_contract vs pd L) (N - size c) N D c) f
  = E vs (generate D (N - size c) c) f.
Proof.
move=> dD cN; rewrite -(greedy_block_rounds_exact dpd L f dD cN); apply: rounds_ext => D' c' F.
exact: greedy_block_contract_E.
Qed.

Theorem spectr_gbv_contract_rounds_exact rho unit ext K L N (D : seq V -> V -> R) c f :
  rho_ok vs rho -> (forall x, is_dist vs (D x)) -> (size c <= N)%N ->
  E vs (rounds (spectr_gbv_contract vs pd rho unit ext K L) (N - size c) N D c) f
  = E vs (generate D (N - size c) c) f.
Proof.
move=> rok dD cN; rewrite -(spectr_gbv_rounds_exact dpd rok unit ext K L f dD cN).
by apply: rounds_ext => D' c' F; exact: spectr_gbv_contract_E.
Qed.

(* Any exact coupling of K drafts, as a block of length 1. *)
Theorem one_token_valid d coupling K :
  (forall c f, E vs (bind (draws (d c) K [::]) (coupling c)) f = \sum_(y <- vs) qt c y * f y) ->
  valid vs qt (fun c => one_token qt (d c) (coupling c) K c) 1.
Proof.
move=> ex c f; rewrite !E_bind /= sumfE.
transitivity (\sum_(y <- vs) qt c y * E vs (emit (qt (rcons c y)) (rcons c y)) f); last first.
  by apply: eq_sum => y.
rewrite -(ex c (fun y => E vs (emit (qt (rcons c y)) (rcons c y)) f)) E_bind.
apply: E_ext => xs; rewrite E_bind; apply: E_ext => y.
have N2 : (size c + 2 - size (rcons c y) = 1)%N by rewrite size_rcons addnS subSS addnC addnK.
case: (y \in xs) => /=; last by rewrite /fill N2.
rewrite !sumfE; apply: eq_sum => z; rewrite /fill !size_rcons.
by have -> : (size c + 2 - (size c).+2 = 0)%N by rewrite addnC subnn.
Qed.

Theorem one_token_kept_valid d coupling K :
  (forall c f, E vs (bind (draws (d c) K [::]) (coupling c)) (fun o => f o.2)
    = \sum_(y <- vs) qt c y * f y) ->
  valid vs qt (fun c => one_token_kept qt (d c) (coupling c) K c) 1.
Proof.
move=> ex c f; rewrite !E_bind /= sumfE.
transitivity (\sum_(y <- vs) qt c y * E vs (emit (qt (rcons c y)) (rcons c y)) f); last first.
  by apply: eq_sum => y.
rewrite -(ex c (fun y => E vs (emit (qt (rcons c y)) (rcons c y)) f)) E_bind.
apply: E_ext => xs; rewrite E_bind; apply: E_ext => -[k y] /=.
have N2 : (size c + 2 - size (rcons c y) = 1)%N by rewrite size_rcons addnS subSS addnC addnK.
case: k => /=; last by rewrite /fill N2.
rewrite !sumfE; apply: eq_sum => z; rewrite /fill !size_rcons.
by have -> : (size c + 2 - (size c).+2 = 0)%N by rewrite addnC subnn.
Qed.

Lemma draws1 (p : V -> R) (coupling : seq V -> prog R V V) f :
  E vs (bind (draws (fun=> p) 1 [::]) coupling) f
  = \sum_(x <- vs) p x * E vs (coupling [:: x]) f.
Proof. by rewrite E_bind E_Draw. Qed.

Theorem maximal_coupling_valid :
  valid vs qt (fun c => one_token qt (fun=> pd c) (maximal_coupling vs (pd c) (qt c)) 1 c) 1.
Proof.
apply: (one_token_valid (d := fun c _ => pd c)) => c f.
by rewrite draws1 -(maximal_law f (dpd c) (dqt c)) E_Draw.
Qed.

Theorem kseq_coupling_valid rho K : rho_ok vs rho ->
  valid vs qt (fun c => one_token_kept qt (fun=> pd c) (kseq_coupling vs (pd c) (qt c) rho) K c) 1.
Proof.
move=> rok; apply: (one_token_kept_valid (d := fun c _ => pd c)) => c f.
exact: (node_kseq_exact dpd dqt rok K c f).
Qed.

(* Drafts of any adaptive law, in particular without replacement. *)
Theorem recursive_rejection_coupling_valid (d : seq V -> seq V -> V -> R) K :
  (forall c h, is_dist vs (d c h)) ->
  valid vs qt (fun c => one_token qt (d c) (recursive_rejection_scan vs (d c) [::] (qt c)) K c) 1.
Proof.
move=> dd; apply: one_token_valid => c f.
exact: (recursive_rejection_law K f (dd c) (dqt c)).
Qed.

Lemma without_dist (p : V -> R) h : is_dist vs p -> is_dist vs (without vs p h).
Proof.
move=> dp; have m0 v : 0 <= (if v \in h then 0 else p v) by case: ifP => // _; exact: dp.1.
rewrite /without sumfE; case: eqVneq => [_|s0]; first exact: dp.
split=> [v|]; first by rewrite divr_ge0 ?sumr_ge0.
by rewrite -big_distrl /= divff.
Qed.

Theorem without_replacement_coupling_valid K :
  valid vs qt (fun c => one_token qt (without vs (pd c))
    (recursive_rejection_scan vs (without vs (pd c)) [::] (qt c)) K c) 1.
Proof.
by apply: (recursive_rejection_coupling_valid (d := fun c => without vs (pd c))) => c h;
   exact: without_dist.
Qed.

(* --- Couplings that know the law of their token given the candidates ------------------------ *)
Lemma answer_E (w : V -> R) xs f : uniq vs -> all (mem vs) xs -> (forall v, 0 <= w v) ->
  \sum_(v <- vs) w v * E vs (answer vs w xs) f = \sum_(v <- vs) w v * f v.
Proof.
move=> vu; elim: xs w => [|x xs IH] w /=.
  move=> _ w0; rewrite sumfE; set s := sumf vs w; rewrite -big_distrl /= -sumfE -/s.
  have [s0|sn] := eqVneq s 0; last first.
    by rewrite big_distrr /=; apply: eq_sum => v; rewrite mulrA mulrCA divff // mulr1.
  rewrite s0 mul0r big_seq big1 // => v vv.
  by move: s0; rewrite /s sumfE => s0; rewrite (sum_seq_eq0 w0 s0 vv) mul0r.
case/andP=> xv xsv w0; set s := sumf vs w; set e := E vs (answer _ _ _) f.
have sE : \sum_(v <- vs) w v = s by rewrite /s sumfE.
have wo v : 0 <= without_token w x v by rewrite /without_token; case: ifP.
have split_ g : \sum_(v <- vs) w v * g v = w x * g x + \sum_(v <- vs) without_token w x v * g v.
  rewrite -(sum_eq_mem vu (fun v => w v * g v) xv) -big_split /=; apply: eq_sum => v.
  by rewrite /without_token; case: eqP => [->|_]; rewrite ?mulr1 ?mul0r ?addr0 ?mulr0 ?add0r.
rewrite -big_distrl /= sE (split_ f) -(IH _ xsv wo) -/e -big_distrl /=.
have so : \sum_(v <- vs) without_token w x v = s - w x.
  have := split_ (fun=> 1); rewrite -!big_distrl /= sE !mulr1 => ->.
  by rewrite addrC addKr.
rewrite so; have [s0|sn] := eqVneq s 0.
  have wx : w x = 0 by rewrite (sum_seq_eq0 w0 _ xv) // sE.
  by rewrite s0 wx !(mul0r, subrr, addr0).
have hx : w x / s * s = w x by rewrite divfK.
set h := w x / s in hx *; rewrite -hx; move: (f x) (e) => a b; rng R.
Qed.

(* Drafts are tokens of the vocabulary, as far as expectations can tell. *)
Lemma draws_mem (d : seq V -> V -> R) K h F G : (forall xs, all (mem vs) xs -> F xs = G xs) ->
  E vs (draws d K h) F = E vs (draws d K h) G.
Proof.
elim: K h F G => [|K IH] h F G FG; first exact: FG.
rewrite !E_Draw big_seq [RHS]big_seq; apply: eq_bigr => x xv; rewrite !E_bind; congr (_ * _).
by apply: IH => xs xsv; apply: FG; rewrite /= xv.
Qed.

(* If the laws given the candidates average to the target, the token has the target law: whatever
   the drafts are, fixed ones included.                                                           *)
Theorem answer_exact (d : seq V -> V -> R) (w : seq V -> V -> R) (q : V -> R) K f : uniq vs ->
  (forall h, is_dist vs (d h)) -> (forall xs, is_dist vs (w xs)) ->
  (forall y, y \in vs -> E vs (draws d K [::]) (fun xs => w xs y) = q y) ->
  E vs (bind (draws d K [::]) (fun xs => answer vs (w xs) xs)) f = \sum_(y <- vs) q y * f y.
Proof.
move=> vu dd dw wq; rewrite E_bind.
transitivity (E vs (draws d K [::]) (fun xs => \sum_(y <- vs) w xs y * f y)).
  apply: draws_mem => xs xv; rewrite -(answer_E f vu xv (dw xs).1).
  by rewrite -big_distrl /= (dw xs).2 mul1r.
rewrite E_sum big_seq [RHS]big_seq; apply: eq_bigr => y yv; rewrite -(wq y yv) -E_scaler.
by apply: E_ext.
Qed.

(* --- Choose a candidate, then couple it maximally ---------------------------------------------- *)
Lemma chosen_dist (d : seq V -> V -> R) K (ch : seq V -> V -> R) : (forall h, is_dist vs (d h)) ->
  (forall xs, is_dist vs (ch xs)) -> is_dist vs (chosen_law vs d K ch).
Proof.
move=> dd dc; split=> [v|]; first by apply: E_ge0 => [|xs]; [exact: draws_wf | exact: (dc xs).1].
rewrite -E_sum -[RHS](E_cst 1 (draws_wf K [::] dd)); apply: E_ext => xs; exact: (dc xs).2.
Qed.

Lemma verified_dist (ch : seq V -> V -> R) (r q : V -> R) xs : is_dist vs r -> is_dist vs q ->
  is_dist vs (ch xs) -> is_dist vs (verified vs ch q r xs).
Proof.
move=> dr dq [c0 c1]; have a01 x : 0 <= acc r q x <= 1 by apply: acc01; [exact: dr.1 | exact: dq.1].
have rd : is_dist vs (res vs r q) by apply: res_dist.
split=> [v|].
  rewrite addr_ge0 ?mulr_ge0 ?(rd.1) //; first by case/andP: (a01 v).
  rewrite sumfE sumr_ge0 // => x _; rewrite mulr_ge0 // subr_ge0.
  by case/andP: (a01 x).
rewrite /verified big_split /= -big_distrr /= rd.2 mulr1 sumfE -big_split /= -[RHS]c1.
by apply: eq_sum => x; rewrite -mulrDr addrC subrK mulr1.
Qed.

(* Whatever the choice, the token has the target law: canonical two-step and the transport plan. *)
Theorem choose_coupling_exact (d : seq V -> V -> R) (ch : seq V -> V -> R) (q : V -> R) K f :
  uniq vs -> (forall h, is_dist vs (d h)) -> (forall xs, is_dist vs (ch xs)) -> is_dist vs q ->
  E vs (bind (draws d K [::]) (choose_coupling vs d K ch q)) f = \sum_(y <- vs) q y * f y.
Proof.
move=> vu dd dc dq; have dr := chosen_dist K dd dc; set r := chosen_law vs d K ch in dr.
rewrite -[LHS]/(E vs (bind (draws d K [::]) (fun xs => answer vs (verified vs ch q r xs) xs)) f).
apply: answer_exact => // [xs|y yv]; first exact: verified_dist.
rewrite -[RHS](sum_eq_mem vu q yv).
rewrite -(maximal_law (fun z => (z == y)%:R) dr dq) maximal_E //= -/r.
transitivity (r y * acc r q y + (\sum_(x <- vs) r x * (1 - acc r q x)) * res vs r q y).
  rewrite -[LHS]mul1r -E_scale; transitivity (E vs (draws d K [::]) (fun xs =>
    acc r q y * ch xs y + res vs r q y * \sum_(x <- vs) ch xs x * (1 - acc r q x))).
    apply: E_ext => xs; rewrite mul1r /verified sumfE; congr (_ + _); exact: mulrC.
  rewrite E_lin mulrC; congr (_ + _); rewrite mulrC; congr (_ * _).
  by rewrite E_sum; apply: eq_sum => x; rewrite E_scaler.
congr (_ + _).
  rewrite -(sum_eq_mem vu (fun x => r x * acc r q x) yv); apply: eq_sum => x.
  by rewrite min_acc ?dr.1 ?dq.1.
have mE : \sum_(x <- vs) r x * (1 - acc r q x) = \sum_(x <- vs) excess r q x.
  rewrite sum_excess; have -> : \sum_(x <- vs) q x = \sum_(x <- vs) r x.
    by rewrite dq.2 dr.2.
  rewrite -sumrB; apply: eq_sum => x.
  by rewrite mulrBr mulr1 min_acc ?dr.1 ?dq.1.
rewrite mE -sumfE -(sum_eq_mem vu (res vs r q) yv) sumfE.
exact: res_repay.
Qed.

Theorem choose_coupling_valid (d : seq V -> seq V -> V -> R) (ch : seq V -> seq V -> V -> R) K :
  uniq vs -> (forall c h, is_dist vs (d c h)) -> (forall c xs, is_dist vs (ch c xs)) ->
  valid vs qt (fun c => one_token qt (d c) (choose_coupling vs (d c) K (ch c) (qt c)) K c) 1.
Proof. by move=> vu dd dc; apply: one_token_valid => c f; exact: choose_coupling_exact. Qed.

(* At sequence level, the choice may depend on the node and on the number of alive paths. *)
Theorem spectr_choose_valid (ch : seq V -> nat -> seq V -> V -> R) K L : uniq vs ->
  (forall c n xs, is_dist vs (ch c n xs)) ->
  valid vs qt (spectr pd qt (node_choose vs pd qt ch) K L) L.
Proof.
move=> vu dc; apply: spectr_valid => // n c f.
rewrite -(choose_coupling_exact (d := fun=> pd c) n f vu (fun=> dpd c) (dc c n) (dqt c)) !E_bind.
by apply: (E_always _ (draws_size _ _ _)) => xs sx; rewrite /node_choose sx.
Qed.

(* Whatever the table says: what is no law in it is not used. *)
Lemma checked_dist (p w : V -> R) : is_dist vs p -> is_dist vs (checked vs p w).
Proof.
move=> dp; rewrite /checked; case: ifP => // /andP[/allP w0 /eqP w1].
split=> [v|]; first by case: ifP => // /w0.
by rewrite -w1 sumfE -big_mkcond big_seq_cond [RHS]big_seq; apply: eq_bigl => v; rewrite andbb.
Qed.

Theorem spectr_planned_valid table K L : uniq vs ->
  valid vs qt (spectr_planned vs pd qt table K L) L.
Proof. by move=> vu; apply: spectr_choose_valid => // c n xs; exact: checked_dist. Qed.

Theorem planned_coupling_valid table K : uniq vs ->
  valid vs qt (fun c => one_token qt (fun=> pd c)
    (choose_coupling vs (fun=> pd c) K (planned_choice vs pd table c K) (qt c)) K c) 1.
Proof.
move=> vu; apply: (choose_coupling_valid (d := fun c _ => pd c)
  (ch := fun c => planned_choice vs pd table c K)) => // c xs; exact: checked_dist.
Qed.

(* --- Target match ---------------------------------------------------------------------------------- *)
(* The drafts may be of any law whatever, fixed ones among them. *)
Theorem target_match_coupling_valid (d : seq V -> seq V -> V -> R) K : uniq vs ->
  (forall c h, is_dist vs (d c h)) ->
  valid vs qt (fun c => one_token qt (d c) (answer vs (qt c)) K c) 1.
Proof.
move=> vu dd; apply: one_token_valid => c f.
apply: (answer_exact (w := fun=> qt c)) => // y yv.
exact: (E_cst _ (draws_wf K [::] (dd c))).
Qed.

Lemma answer_law c xs f : uniq vs -> all (mem vs) xs ->
  E vs (node_answer vs qt c xs) f = \sum_(y <- vs) qt c y * f y.
Proof.
by move=> vu xv; rewrite -(answer_E f vu xv (dqt c).1) -big_distrl /= (dqt c).2 mul1r.
Qed.

Theorem spectr_target_match_valid K L : uniq vs ->
  valid vs qt (spectr pd qt (node_answer vs qt) K L) L.
Proof.
move=> vu; apply: spectr_valid => // n c f; rewrite E_bind.
rewrite -[RHS](E_cst _ (draws_wf n [::] (fun=> dpd c))).
by apply: draws_mem => xs xv; exact: answer_law.
Qed.

Lemma heads_mem (ps : seq (seq V)) : all (all (mem vs)) ps -> all (mem vs) (heads ps).
Proof. by elim: ps => // [[|x p] ps IH] /= => [/IH|/andP[/andP[-> _] /IH]]. Qed.
Lemma follow_mem y (ps : seq (seq V)) : all (all (mem vs)) ps -> all (all (mem vs)) (follow y ps).
Proof.
elim: ps => // [[|x p] ps IH] /= => [/IH //|/andP[/andP[_ pv] /IH fv]].
by case: ifP => _ //=; rewrite pv.
Qed.

(* Tree match: for every given set of paths, whatever its law. *)
Theorem tree_match_valid (ps : seq V -> seq (seq V)) L : uniq vs ->
  (forall c, all (all (mem vs)) (ps c)) ->
  valid vs qt (fun c => spectr_walk qt (node_answer vs qt) L c (ps c)) L.
Proof.
move=> vu pv c f; rewrite E_bind; set N := (size c + L.+1)%N.
rewrite -[LHS]/(E vs (spectr_walk qt (node_answer vs qt) L c (ps c)) (Phi vs qt N f)).
have -> : E vs (generate qt L.+1 c) f = Phi vs qt N f c by rewrite /Phi /fill addKn.
have : (size c + L < N)%N by rewrite ltn_add2l.
move: N => N; elim: L c (ps c) (pv c) => [|L IH] c qs qv /=.
  by rewrite addn0 => cN; rewrite -[LHS]/(E vs (emit (qt c) c) _) emit_E -Phi_step.
move=> cN; have c'N : (size c < N)%N by apply: leq_trans cN; rewrite ltnS leq_addr.
rewrite E_bind answer_law ?heads_mem // (Phi_step _ _ _ c'N); apply: eq_sum => y.
congr (_ * _); case: ifP => _ //=.
by apply: IH; rewrite ?follow_mem // size_rcons addSnnS.
Qed.
End Valid.

(* --- The scale -------------------------------------------------------------------------------- *)
Section Scale.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Notation dist := (is_dist vs).

(* The scale that the code computes is valid, whatever the grid. *)
Theorem smallest_scale_ok g : rho_ok vs (@smallest_scale R V vs g).
Proof.
move=> p q n dp dq; rewrite /smallest_scale; set r := _ / _.
have n0 : (0 : R) < (maxn n 1)%:R by rewrite ltr0n leq_max orbT.
case: ifP => [/andP[]|_] //; split=> //.
apply: le_trans (geo_leK dp dq n0 n) _; by rewrite ler_nat leq_maxl.
Qed.

(* Any scale that passes the code's test is valid where something is covered. *)
Theorem passes_valid (p q : V -> R) n r : beta vs p q r > 0 ->
  passes vs p q n r -> cover vs p q r n <= r.
Proof. by move=> b0; rewrite /passes -geo_beta ler_pmul2r. Qed.
End Scale.

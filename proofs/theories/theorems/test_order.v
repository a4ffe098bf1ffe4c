(* The randomness contract tests depths L, L-1, .., 1 and stops at the first
   success; the programs here flip every coin from depth 1 on and keep the last
   success.  The two have the same law, as every depth has its own coin.      *)
From Coq Require Import Ring.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability ring_tactic.
From Draftproof.programs Require Import maximal drafting validity token_by_token block scan.
From Draftproof.theorems Require Import maximal block scan.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* --- Theorem ------------------------------------------------------------------- *)
Section Order.
Variables (R : realFieldType) (V : eqType) (vs : seq V).
Variables (nxt : R -> seq V -> V -> R) (hac : R -> seq V -> bool -> R).
Add Ring Rring : (ring_th R).

Lemma down_rcons ms k b f : E vs (down hac (rcons ms k) b) f
  = bias hac k * E vs (down hac ms (Some k)) f + (1 - bias hac k) * E vs (down hac ms b) f.
Proof.
elim: ms => [|j ms IH] //=; rewrite IH.
by move: (bias hac j) (bias hac k) (f (Some j)) (E _ _ _) (E _ _ _) => a c u v w; rng R.
Qed.

Theorem scan_down c w xs b f :
  E vs (scan nxt hac c w xs b) f = E vs (down hac (rev (marks nxt c w xs)) b) f.
Proof. by elim: xs c w b => //= x xs IH c w b; rewrite rev_cons down_rcons !IH. Qed.
End Order.

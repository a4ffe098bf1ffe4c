(* Extraction of the oracle to OCaml. *)
From Coq Require Import ZArith QArith Qcanon String.
From Coq Require Import ExtrOcamlBasic ExtrOcamlNativeString ExtrOcamlNatInt ExtrOcamlZBigInt.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.oracle Require Import trees.
Set Warnings "-extraction".
Extraction Language OCaml.
(* The greatest common divisor of two numbers and their quotients by it, with which rationals are
   reduced: Coq's own goes bit by bit, and took most of the time.                              *)
Extract Constant Z.ggcd => "(fun a b ->
  let g = Big_int_Z.gcd_big_int a b in
  if Big_int_Z.sign_big_int g = 0 then (g, (a, b))
  else (g, (Big_int_Z.div_big_int a g, Big_int_Z.div_big_int b g)))".

Extraction "oracle.ml" tree_maximal tree_kseq tree_recursive_rejection tree_without_replacement
  tree_target_match tree_spechub tree_planned tree_spectr_planned
  tree_traversal tree_token_by_token tree_block tree_spectr_kseq
  tree_spectr_without_replacement tree_spectr_distinct tree_kseq_block tree_greedy_block
  tree_spectr_gbv_kseq tree_spectr_recursive_rejection tree_spectr_target_match
  tree_spectr_gbv_unit tree_ranked_block tree_ranked_block_stateful tree_ranked_block_models
  tree_ranked_block_stateful_models tree_multipath model fr tab.

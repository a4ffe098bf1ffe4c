(* Extraction of the oracle to OCaml. *)
From Coq Require Import ZArith QArith Qcanon String.
From Coq Require Import ExtrOcamlBasic ExtrOcamlNativeString ExtrOcamlNatInt ExtrOcamlZBigInt.
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.oracle Require Import trees.
Set Warnings "-extraction".
Extraction Language OCaml.

Extraction "oracle.ml" tree_maximal tree_kseq tree_recursive_rejection tree_without_replacement
  tree_target_match tree_spechub tree_planned tree_spectr_planned
  tree_traversal tree_token_by_token tree_block tree_spectr_kseq
  tree_spectr_without_replacement tree_spectr_distinct tree_kseq_block tree_greedy_block
  tree_spectr_gbv_kseq tree_spectr_recursive_rejection tree_spectr_target_match
  tree_spectr_gbv_unit tree_ranked_block tree_ranked_block_stateful tree_ranked_block_models
  tree_ranked_block_stateful_models tree_multipath model fr tab.

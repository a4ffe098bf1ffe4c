"""Mutants: correct verifiers with one known fault each, the suite's own exam.

One for every fault that `cases/faults.json` lists (faults that real projects had), and some more;
beside them the controls of that file: rules that users reported as biased but that are lossless.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from draftproof.conformance.mutants import programs, subjects
from draftproof.reference.catalogue import find

__all__ = ["FAULTS", "Fault", "public_faults"]


@dataclass(frozen=True)
class Fault:
    """A fault, or a control, and how to build its subject."""

    name: str
    build: Callable[[], Any]
    fault: str
    """One line."""
    expected: Literal["biased", "lossless", "lossy by design"] = "biased"
    control: bool = False


@cache
def public_faults() -> dict[str, dict[str, Any]]:
    """The faults of the public record by identifier."""
    text = (files("draftproof.conformance.cases") / "faults.json").read_text(encoding="utf-8")
    return {entry["id"]: entry for entry in json.loads(text)["faults"]}


def _program(name: str, scheme: str, verify: Any = None, **declared: Any) -> Callable[[], Any]:
    return lambda: subjects.Spoilt(name, scheme, verify, **declared)


def _control(name: str, claimed: str, control: str, **declared: Any) -> Callable[[], Any]:
    """A control of the catalogue that claims to be a lossless scheme."""
    return lambda: subjects.Spoilt(name, claimed, find(control).verify, **declared)


_CHAIN = "token_by_token"
_PUBLIC: Mapping[str, Callable[[], Any]] = {
    "residual-is-target": _program("residual-is-target", _CHAIN, programs.residual_is_target),
    "residual-softmaxed": _program("residual-softmaxed", _CHAIN, programs.residual_softmaxed),
    "residual-one-hot": _program("residual-one-hot", _CHAIN, programs.residual_one_hot),
    "stale-bonus-row": _program("stale-bonus-row", _CHAIN, programs.stale_bonus_row),
    "block-tokenwise-accept": _program(
        "block-tokenwise-accept", "block", programs.block_unscaled_residual
    ),
    "residual-floor": _program("residual-floor", _CHAIN, programs.residual_floor),
    "inputs-mutated": lambda: subjects.InputsMutated("inputs-mutated", _CHAIN),
    "mutates-but-right": lambda: subjects.MutatesButRight(
        "mutates-but-right", _CHAIN, drafts=[1, 1]
    ),
    "zero-residual-nan": lambda: subjects.ZeroResidual("zero-residual-nan", _CHAIN, "float32"),
    "argmax-draft-soft-q": lambda: subjects.Drafting("argmax-draft-soft-q", _CHAIN, "argmax"),
    "raw-q-topk-draft": lambda: subjects.Drafting("raw-q-topk-draft", _CHAIN, "top-k"),
    "temperature-ignored": lambda: subjects.Tempered("temperature-ignored", _CHAIN, "ignored"),
    "sample-match": _program("sample-match", _CHAIN, programs.sample_match),
    "one-hot-draft-row": _program("one-hot-draft-row", _CHAIN, programs.one_hot_draft_row),
    "deterministic-top-k-tree": _program(
        "deterministic-top-k-tree", "tree_match", draft_law="deterministic"
    ),
    "uniform-hard-zero": lambda: subjects.FaultyReplay("uniform-hard-zero", _CHAIN, "hard zero"),
    "zero-prob-at-u-zero": lambda: subjects.FaultyReplay(
        "zero-prob-at-u-zero", _CHAIN, "not strict"
    ),
    "boundary-earlier-bucket": lambda: subjects.FaultyReplay(
        "boundary-earlier-bucket", _CHAIN, "earlier bucket"
    ),
    "shared-uniform": _program("shared-uniform", _CHAIN, programs.shared_uniform),
    "per-request-seed-ignored": lambda: subjects.SeedIgnored(
        "per-request-seed-ignored", _CHAIN, uniforms=False, generator=None
    ),
    "padding-draft": lambda: subjects.PaddingVerified("padding-draft", _CHAIN),
    "nan-row": lambda: subjects.NanRow("nan-row", _CHAIN),
    "mixed-greedy": lambda: subjects.Tempered("mixed-greedy", _CHAIN, "greedy"),
    "count-after-rejection": _program(
        "count-after-rejection", _CHAIN, programs.count_after_rejection
    ),
    "siblings-no-update": _control(
        "siblings-no-update", "spectr:recursive_rejection", "independent_trials"
    ),
    "keep-longest-of-B": _program(
        "keep-longest-of-B", "spectr:recursive_rejection", programs.keep_longest
    ),
    "without-replacement-raw-p": _program(
        "without-replacement-raw-p", "recursive_rejection", draft_law="without_replacement"
    ),
    "gbv-no-carry": lambda: subjects.NoCarry("gbv-no-carry", "greedy_block"),
    "hsd-uncapped": _control("hsd-uncapped", "block", "hsd_released"),
    "multipath-ties": _control("multipath-ties", "multipath", "multipath_released"),
    "kseq-scale-too-small": _program(
        "kseq-scale-too-small", "spectr", programs.kseq_scale_too_small
    ),
    "lossy-threshold": _program(
        "lossy-threshold", _CHAIN, programs.lossy_threshold, lossless=False
    ),
}

_MORE: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "accept-times-1.1": (
        "acceptance probabilities scaled by 1.1",
        _program("accept-times-1.1", _CHAIN, programs.accept_scaled_by_1_1),
    ),
    "accept-times-1.01": (
        "acceptance probabilities scaled by 1.01",
        _program("accept-times-1.01", _CHAIN, programs.accept_scaled_by_1_01),
    ),
    "off-by-one-rows": (
        "position i verified with the target row of position i - 1",
        _program("off-by-one-rows", _CHAIN, programs.off_by_one_rows),
    ),
    "swapped-requests": (
        "blocks read the target rows of their neighbour in the batch",
        lambda: subjects.SwappedRequests("swapped-requests", _CHAIN),
    ),
    "wrong-prefix-weight": (
        "block residual scaled by the weight of one token earlier",
        _program("wrong-prefix-weight", "block", programs.block_wrong_prefix_weight),
    ),
    "uniforms-reused": (
        "uniforms reused across the rounds of a request",
        lambda: subjects.PositionIgnored("uniforms-reused", _CHAIN, uniforms=False, generator=None),
    ),
}


def _collect() -> dict[str, Fault]:
    found = {}
    for name, entry in public_faults().items():
        expected: Any = "biased"
        if entry["control"]:
            expected = "lossy by design" if name == "lossy-threshold" else "lossless"
        found[name] = Fault(name, _PUBLIC[name], entry["fault"], expected, entry["control"])
    for name, (fault, build) in _MORE.items():
        found[name] = Fault(name, build, fault)
    return found


FAULTS: Mapping[str, Fault] = _collect()
"""Every fault and control by name."""

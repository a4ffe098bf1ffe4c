"""The fast path holds every lossless scheme of the catalogue, with the same properties."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

import pytest
from draftproof.fast import VERIFIERS, verify
from draftproof.fast.verifiers import HOST_PLANNED, ONE_LENGTH, STATEFUL
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.scheme import Scheme
from fast_blocks import batch_of, random_block, uniforms_for

ALIASES = {"spectr:kseq": "spectr"}
"""Names that the fast path has beside those of the catalogue."""
THROUGH = {"maximal": "token_by_token"}
"""Couplings that are walked by a scheme of another name than spectr:NAME."""


def _wanted(schemes: Iterable[Scheme]) -> dict[str, Scheme]:
    """The schemes that the fast path has to have: exactly lossless, for drafts that it is given."""
    return {
        s.name: s
        for s in schemes
        if s.kind == "verifier" and s.lossless and not s.approximate and s.draft_law != "hub"
    }


WANTED = _wanted(SCHEMES.values())


def test_every_lossless_scheme_is_there() -> None:
    assert set(WANTED) == set(VERIFIERS) - set(ALIASES)
    assert set(ALIASES.values()) <= set(VERIFIERS)
    for name in (s.name for s in SCHEMES.values() if s.kind == "coupling" and s.lossless):
        scheme = SCHEMES[name]
        if not scheme.approximate and scheme.draft_law != "hub":  # SpecHub draws its own pair
            assert THROUGH.get(name, f"spectr:{name}") in VERIFIERS


def test_a_missing_scheme_is_seen() -> None:
    new = dataclasses.replace(SCHEMES["block"], name="new_block")
    assert set(_wanted([*SCHEMES.values(), new])) - set(VERIFIERS) == {"new_block"}


@pytest.mark.parametrize("name", sorted(WANTED))
def test_properties_are_those_of_the_catalogue(name: str) -> None:
    scheme = WANTED[name]
    assert (name in STATEFUL) == scheme.stateful
    assert {*STATEFUL, *HOST_PLANNED, *ONE_LENGTH} <= set(VERIFIERS)
    two = batch_of([random_block(random.Random(1), 3, 2, 2)])
    uniforms = uniforms_for(two, 1)
    if scheme.drafts[1] == 1:
        with pytest.raises(ValueError, match="verifies one draft, but tokens holds K = 2"):
            verify(name, two, uniforms)
        return
    without = dataclasses.replace(uniforms, select=None)
    if scheme.selects:
        with pytest.raises(ValueError, match=f"{name} selects a draft: select uniforms are needed"):
            verify(name, two, without)
    else:
        assert verify(name, two, without).tokens.equal(verify(name, two, uniforms).tokens)

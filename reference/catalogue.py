"""The catalogue: every scheme as data, collected from the modules that define it.

A module in `couplings`, `verifiers` or `controls` registers its scheme by a module constant
`SCHEME`, or several by `SCHEMES`. The command line, the docs, the conformance suite and the tests
read `SCHEMES` here; nothing lists schemes by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from draftproof.reference import controls, couplings, verifiers
from draftproof.reference.scheme import Scheme

__all__ = ["SCHEMES", "find"]

_KINDS = ("coupling", "verifier", "control")


def _registered() -> Iterator[Scheme]:
    for package in (couplings, verifiers, controls):
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            module = importlib.import_module(found.name)
            if hasattr(module, "SCHEME"):
                yield module.SCHEME
            yield from getattr(module, "SCHEMES", ())


def _collect() -> Mapping[str, Scheme]:
    by_name: dict[str, Scheme] = {}
    for scheme in sorted(_registered(), key=lambda s: (_KINDS.index(s.kind), s.name)):
        if scheme.name in by_name:
            raise RuntimeError(f"two schemes are called {scheme.name!r}")
        by_name[scheme.name] = scheme
    return MappingProxyType(by_name)


SCHEMES: Mapping[str, Scheme] = _collect()
"""Every scheme by name: couplings first, then verifiers, then controls."""


def find(name: str) -> Scheme:
    """The scheme called `name`.

    Raises:
        ValueError: no such scheme; the message lists the names.
    """
    try:
        return SCHEMES[name]
    except KeyError:
        raise ValueError(f"unknown scheme {name!r}; known: {', '.join(SCHEMES)}") from None

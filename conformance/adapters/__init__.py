"""Adapters: how a subject is named on the command line, and the subjects that ship.

A module of this package is one way in. It offers `create(argument) -> Subject`, which raises
`Unavailable` where its engine or a device is missing, and imports what it adapts only there. It may
offer `ENVIRONMENT`, variables that must be set before the Python that runs the subject starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

__all__ = ["KNOWN", "environment", "load"]

KNOWN: Mapping[str, str] = {
    "reference": "reference",
    "fast": "fast",
    "transformers": "transformers",
    "vllm": "vllm",
    "sglang": "sglang",
    "flashinfer": "flashinfer",
    "control": "reference",
    "mutant": "mutant",
    "python": "python_factory",
    "program": "program",
}
"""The word before the colon, or the whole name, and the module that answers to it."""

_NEEDS_ARGUMENT = {
    "control": "control:NAME",
    "mutant": "mutant:NAME",
    "python": "python:package.module:factory",
    "program": "program:COMMAND",
}


def _module(spec: str) -> tuple[ModuleType, str]:
    word, _, argument = spec.partition(":")
    if word not in KNOWN:
        forms = [_NEEDS_ARGUMENT.get(name, name) for name in KNOWN]
        raise ValueError(f"unknown subject {spec!r}; known: {', '.join(forms)}")
    if word in _NEEDS_ARGUMENT and not argument:
        raise ValueError(f"subject {spec!r} needs an argument: {_NEEDS_ARGUMENT[word]}")
    return importlib.import_module(f"{__name__}.{KNOWN[word]}"), argument


def environment(spec: str) -> dict[str, str]:
    """The variables that the subject needs to be set before Python starts.

    Raises:
        ValueError: an unknown subject.
    """
    return dict(getattr(_module(spec)[0], "ENVIRONMENT", {}))


def load(spec: str) -> Any:
    """The subject that a name of the command line stands for.

    Raises:
        ValueError: an unknown name or a bad argument.
        Unavailable: it cannot run here.
    """
    module, argument = _module(spec)
    return module.create(spec if spec.startswith("control:") else argument)

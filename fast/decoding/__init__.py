"""Decode with real models: drafts, one target call a round, any verifier of `draftproof.fast`.

    run = generate(shipped_pair(), ["In the beginning"], seeds=[1], settings=Settings())
    print(run.generations[0].text)

Names are imported when they are used: transformers is slow to import and not always installed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draftproof.fast.decoding.models import (
        LanguageModel,
        Pair,
        load_pair,
        pair,
        shipped_pair,
        wrap,
    )
    from draftproof.fast.decoding.rounds import Decoded, Generation, Settings, decode, generate

__all__ = [
    "Decoded",
    "Generation",
    "LanguageModel",
    "Pair",
    "Settings",
    "decode",
    "generate",
    "load_pair",
    "pair",
    "shipped_pair",
    "wrap",
]

_MODULES = {
    "models": ("LanguageModel", "Pair", "load_pair", "pair", "shipped_pair", "wrap"),
    "rounds": ("Decoded", "Generation", "Settings", "decode", "generate"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

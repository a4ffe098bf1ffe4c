"""A subject from anybody's Python: `python:package.module:factory`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

__all__ = ["create"]


def create(argument: str) -> Any:
    """Import `package.module` (the working directory is searched too) and call `factory()`.

    Raises:
        ValueError: the argument has another form, the module cannot be imported, or it has no such
            callable; the message says which.
    """
    module_name, colon, name = argument.partition(":")
    if not colon or not module_name or not name:
        raise ValueError(f"python:{argument} is not of the form python:package.module:factory")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"python:{argument}: cannot import {module_name}: {error}") from None
    factory: Any = module
    for part in name.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        raise ValueError(f"python:{argument}: {module_name} has no function {name!r}")
    return factory()

"""Checks: each module looks for one kind of fault; `CHECKS` is their order.

A check is `run(context) -> CheckResult`; one that does not apply says why in a skipped result.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping

from draftproof.conformance.context import Context
from draftproof.conformance.subject import SubjectError
from draftproof.conformance.verdict import CheckResult

__all__ = ["CHECKS", "perform"]

CHECKS: Mapping[str, tuple[str, float]] = {
    "exact sweep": ("exact_sweep", 1.0),
    "edges": ("edges", 0.5),
    "metamorphic": ("metamorphic", 0.3),
    "statistical": ("statistical", 1.0),
    "rounds": ("rounds", 1.0),
    "drafter": ("drafter", 0.5),
    "acceptance": ("acceptance", 0.3),
}
"""Name → module, and the share of a scheme's time that it may take."""


def perform(name: str, context: Context) -> CheckResult:
    """The result of one check; what the subject breaks becomes an error result."""
    module = importlib.import_module(f"{__name__}.{CHECKS[name][0]}")
    try:
        result: CheckResult = module.run(context)
    except SubjectError as error:
        status = "skipped" if error.kind == "skipped" else "error"
        return context.result(name, status, str(error), details={"kind": error.kind})  # type: ignore[arg-type]
    except Exception as error:  # the other checks go on
        message = f"the suite failed: {type(error).__name__}: {error}"
        details = {"kind": "suite", "traceback": traceback.format_exc()}
        return context.result(name, "error", message, details=details)
    return result

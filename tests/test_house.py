"""The rules of the house: imports point one way, and every package is shipped."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("reference", "fast", "conformance")

# What a folder must not import, anywhere, also not inside a function.
FORBIDDEN = {
    "reference": ("numpy", "torch", "scipy", "draftproof.fast", "draftproof.conformance"),
    "fast": ("draftproof.reference", "draftproof.conformance"),
    "conformance": ("draftproof.fast",),
}
# The one adapter through which the suite reaches the fast implementation.
ALLOWED = {("conformance/adapters/fast.py", "draftproof.fast")}
# The core of the suite must import without these; adapters reach them lazily.
HEAVY = ("torch", "transformers", "vllm", "sglang", "flashinfer")


def imported(source: str, *, top_level_only: bool = False) -> set[str]:
    """Names of the modules that a source text imports."""
    tree = ast.parse(source)
    nodes = tree.body if top_level_only else ast.walk(tree)
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("import_module", "__import__") and node.args:
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    names.add(argument.value)
    return names


def violations(folder: str, path: str, source: str) -> list[str]:
    """Forbidden modules that a file of `folder` imports."""
    return [
        f"{path} imports {name}"
        for name in sorted(imported(source))
        for forbidden in FORBIDDEN[folder]
        if (name == forbidden or name.startswith(forbidden + "."))
        and (path, forbidden) not in ALLOWED
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_point_one_way(folder: str) -> None:
    found = [
        violation
        for file in sorted((ROOT / folder).rglob("*.py"))
        for violation in violations(
            folder, file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
        )
    ]
    assert found == []


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("reference", "import numpy as np"),
        ("reference", "def f():\n    from torch import nn"),
        ("fast", "from draftproof.reference.clip import excess"),
        ("fast", "from draftproof import reference"),
        ("conformance", "import importlib\nimportlib.import_module('draftproof.fast')"),
    ],
)
def test_a_wrong_import_is_seen(folder: str, source: str) -> None:
    assert violations(folder, f"{folder}/planted.py", source)


def test_the_suite_imports_no_framework_at_the_top() -> None:
    for file in sorted((ROOT / "conformance").rglob("*.py")):
        names = imported(file.read_text(encoding="utf-8"), top_level_only=True)
        heavy = [name for name in names if name.split(".")[0] in HEAVY]
        assert heavy == [], f"{file.relative_to(ROOT)} imports {heavy} at the top"


def test_every_package_is_shipped() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = settings["tool"]["setuptools"]["packages"]
    present = {
        "draftproof." + ".".join(file.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("__init__.py")
    }
    assert sorted(listed) == sorted(present)
    assert listed == sorted(listed)


def test_every_module_says_what_it_does() -> None:
    silent = [
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_modules_named_alike_exist_in_both_folders() -> None:
    """`fast/verifiers/x.py` is read beside `reference/verifiers/x.py`."""
    for file in (ROOT / "fast" / "verifiers").glob("*.py"):
        if not file.stem.startswith("_"):
            assert (ROOT / "reference" / "verifiers" / file.name).exists(), file.name

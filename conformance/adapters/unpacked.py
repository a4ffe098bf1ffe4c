"""Run single files of an engine that is unpacked somewhere but not installed.

An engine's verification function often needs a GPU, a compiled extension or a hundred packages only
because its *package* does; the file itself is plain torch or Triton. `load` executes such files
from an unpacked wheel or checkout, with an inert stub in place of every other module.

A stub may be imported, subclassed, used as a decorator or an annotation. Once loading is done the
stubs are sealed: a verification that reaches one raises `StubReachedError` instead of returning a
result that the engine would not have returned.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from draftproof.conformance.subject import Unavailable

__all__ = [
    "TRITON_ENVIRONMENT",
    "StubReachedError",
    "choose",
    "device",
    "engine_path",
    "how_triton_runs",
    "interpreted_triton",
    "load",
    "version_of",
]

# Triton chooses its interpreter when it is imported, so this must be set before Python starts.
TRITON_ENVIRONMENT: dict[str, str] = (
    {} if Path("/dev/nvidia0").exists() else {"TRITON_INTERPRET": "1"}
)


class StubReachedError(RuntimeError):
    """A verification called a part of the engine that was replaced by a stub."""


class _Stub:
    """Stands for anything until it is sealed; afterwards every use of it is an error."""

    def __init__(self, name: str, seal: list[bool]) -> None:
        self.__dict__.update(_name=name, _seal=seal)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute.endswith("__"):
            raise AttributeError(attribute)
        return _Stub(f"{self._name}.{attribute}", self._seal)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._seal[0]:
            raise StubReachedError(
                f"{self._name} was called, but only a stub of it is loaded; load its module too"
            )
        # As a decorator it hands back what it decorates.
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return _Stub(f"{self._name}()", self._seal)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[()]:
        return ()

    def __getitem__(self, item: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        if self._seal[0]:
            raise StubReachedError(f"{self._name} was tested for truth, but it is only a stub")
        return False


class _StubModule(ModuleType):
    def __init__(self, name: str, seal: list[bool], given: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # so that submodules can be imported
        self.__dict__.update(given)
        self._seal = seal

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute.endswith("__"):
            raise AttributeError(attribute)
        return _Stub(f"{self.__name__}.{attribute}", self._seal)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves the modules of some packages: a few from files, the rest as stubs."""

    def __init__(
        self, packages: Collection[str], given: Mapping[str, Mapping[str, Any]], seal: list[bool]
    ) -> None:
        self._packages = frozenset(packages)
        self._given = given
        self._seal = seal

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StubModule(spec.name, self._seal, self._given.get(spec.name, {}))

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def _served(finder: _Finder, packages: Collection[str]) -> Any:
    """Put the finder first and hide what `sys.modules` already has of the packages."""

    def ours() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in packages]

    hidden = {name: sys.modules.pop(name) for name in ours()}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in ours():
            del sys.modules[name]
        sys.modules.update(hidden)


def load(
    root: Path,
    modules: Mapping[str, str],
    *,
    stubbed: Collection[str],
    given: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Execute files under `root` as modules, with stubs for the rest of their packages.

    Args:
        root: where the engine is unpacked.
        modules: module name to file, relative to `root`, in the order of execution (a module comes
            after the modules it needs).
        stubbed: top-level packages whose other modules become stubs.
        given: names to define in stub modules, `{"engine.config": {"FLAG": False}}`.

    Raises:
        Unavailable: a file is missing, as in another version of the engine.
    """
    seal = [False]
    loaded: dict[str, Any] = {}
    with _served(_Finder(stubbed, given or {}, seal), stubbed):
        for name, file in modules.items():
            path = root / file
            if not path.is_file():
                raise Unavailable(f"{file} is not under {root}: another version of the engine?")
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise Unavailable(f"{path} cannot be loaded as Python")
            if "." in name:
                importlib.import_module(name.rpartition(".")[0])
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = loaded[name] = module
            spec.loader.exec_module(module)
    seal[0] = True
    return loaded


def choose(engine: str, kinds: Mapping[str, Callable[[], Any]], argument: str) -> Any:
    """The subject called `argument`, the first one for an empty name.

    Raises:
        ValueError: another name.
    """
    name = argument or next(iter(kinds))
    if name not in kinds:
        known = ", ".join(f"{engine}:{kind}" for kind in kinds)
        raise ValueError(f"unknown subject '{engine}:{name}'; known: {known}")
    return kinds[name]()


def device() -> str:
    """Where torch runs: "cuda" or "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def engine_path(variable: str, engine: str) -> Path:
    """The folder in which the user unpacked an engine.

    Raises:
        Unavailable: the environment variable is not set, or is not a folder.
    """
    value = os.environ.get(variable)
    if not value:
        raise Unavailable(
            f"{engine} is not installed; set {variable} to a folder with its unpacked wheel"
        )
    path = Path(value)
    if not path.is_dir():
        raise Unavailable(f"{variable} is {value!r}, which is not a folder")
    return path


def version_of(root: Path, adapted: str) -> str:
    """The commit of a checkout or the version of an unpacked wheel; where neither can be read, the
    one that the adapter was written for, and that it is assumed."""
    for info in root.glob("*.dist-info"):
        return info.name.removesuffix(".dist-info").rpartition("-")[2]
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "rev-parse", "--short=7", "HEAD"]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=10
            ).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return f"{adapted} (assumed)"


def interpreted_triton() -> dict[str, Any]:
    """The names `triton`, `tl` and `tldevice`, on a GPU or in Triton's interpreter.

    The interpreter has no device library, so `tldevice.log1p` is Kahan's there.

    Raises:
        Unavailable: no GPU and no interpreter, which must be chosen before Triton is imported.
    """
    import torch

    if importlib.util.find_spec("triton") is None:
        raise Unavailable("triton is not installed")
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreted and not torch.cuda.is_available():
        raise Unavailable("no GPU, and TRITON_INTERPRET=1 was not set before Python started")
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    def log1p(x: Any) -> Any:
        raised = 1.0 + x
        step = tl.where(raised == 1.0, 1.0, raised - 1.0)
        return tl.where(raised == 1.0, x, tl.log(raised) * x / step)

    device_library = SimpleNamespace(log1p=log1p) if interpreted else libdevice
    return {"triton": triton, "tl": tl, "tldevice": device_library, "HAS_TRITON": True}


def how_triton_runs() -> str:
    """For the note of a declaration."""
    return "Triton interpreter" if os.environ.get("TRITON_INTERPRET") == "1" else "compiled Triton"

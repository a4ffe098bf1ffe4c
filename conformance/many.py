"""Many independent computations on all cores, or on a cluster, behind one option.

joblib runs them, so a backend is a name: ``loky`` (processes, the default), ``threading``,
``sequential``, ``dask`` (a local Dask cluster, or ``dask:ADDRESS`` for the scheduler of a running
one) and ``ray`` (a local Ray runtime, or the one that the environment points to).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["BACKENDS", "backend_context", "map_all"]

A = TypeVar("A")
B = TypeVar("B")

BACKENDS = ("loky", "threading", "sequential", "dask", "dask:ADDRESS", "ray")


@contextmanager
def backend_context(backend: str, jobs: int = -1) -> Iterator[None]:
    """Make `backend` the one that joblib uses inside the context.

    Raises:
        ValueError: an unknown backend, or one whose library is not installed.
    """
    name, _, address = backend.partition(":")
    if name == "dask":
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise ValueError(
                "backend 'dask' needs the package distributed: pip install 'draftproof[cluster]'"
            ) from None
        if address:
            with Client(address), joblib.parallel_config("dask"):
                yield
        else:
            workers = None if jobs < 1 else jobs
            with (
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None
                ) as own,
                Client(own),
                joblib.parallel_config("dask"),
            ):
                yield
        return
    if address or name not in BACKENDS:
        raise ValueError(f"backend is {backend!r}, not one of {', '.join(BACKENDS)}")
    if name == "ray":
        try:
            from ray.util.joblib import register_ray
        except ImportError:
            raise ValueError("backend 'ray' needs the package ray") from None
        register_ray()
    with joblib.parallel_config(name, n_jobs=jobs), warnings.catch_warnings():
        # loky replaces a worker whose memory has grown; nothing is lost, and nobody need act
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        yield


def map_all(
    function: Callable[[A], B],
    items: Sequence[A],
    *,
    backend: str = "loky",
    jobs: int = -1,
    progress: str | None = None,
) -> list[B]:
    """[function(item) for item in items], in order, `jobs` at a time (-1: all cores).

    `progress` is the title of a progress bar, shown on standard error when that is a terminal.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        backend_context(backend, jobs),
        Progress(
            *columns,
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=progress is None or not console.is_terminal,
        ) as bar,
    ):
        task = bar.add_task(progress or "", total=len(items))
        results: list[Any] = []
        calls = (joblib.delayed(function)(item) for item in items)
        for result in joblib.Parallel(return_as="generator")(calls):
            results.append(result)
            bar.advance(task)
        return results

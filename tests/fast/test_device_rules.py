"""What a CUDA device would refuse or wait for, shown without one.

Tensors on the `meta` device stand for those of a GPU: `DeviceRules` watches every operation below a
verify call and raises where one mixes in a tensor of the host, copies between host and device, or
returns something whose size or value depends on data. Each scheme makes its calls with torch alone
and with the Triton kernels, whose launches are checked in place of being made; one test then takes
launches through Triton's own argument binding and compiler, for a driver that names an H200.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from draftproof.fast import VERIFIERS, Uniforms, clip, kernels, verify
from draftproof.fast.carry import Carry, chain_draw, chain_gap, chain_scale
from draftproof.fast.verifiers import HOST_PLANNED
from fast_blocks import batch_of, random_block
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = "meta"
SINGLE = {"token_by_token", "block", "greedy_block"}
CASES: list[tuple[str, dict[str, Any]]] = [
    (name, {}) for name in sorted(set(VERIFIERS) - HOST_PLANNED)
]
CASES += [("spectr_gbv", {"scale": "kseq"})]


class DeviceRules(TorchDispatchMode):
    """Raise at what CUDA refuses in a graph: waiting, mixed devices, copies across."""

    VALUES = frozenset(
        [
            *("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select"),
            *("unique_dim", "_unique2", "unique_consecutive", "bincount", "repeat_interleave"),
        ]
    )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        here = [x for x in tensors if x.device.type == DEVICE]
        host = [x for x in tensors if x.device.type != DEVICE]
        if here and name in self.VALUES:
            raise RuntimeError(f"{name} waits for values of the device")
        if here and name in ("index", "index_put", "index_put_", "_unsafe_index"):
            indices = [x for x in args[1] if x is not None]
            if any(x.dtype in (torch.bool, torch.uint8) for x in indices):
                raise RuntimeError(f"{name} by a mask waits for its count")
        if here and any(x.dim() > 0 for x in host):
            raise RuntimeError(f"{name} mixes tensors of the host and of the device")
        result = func(*args, **kwargs)
        moved = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        if tensors and {x.device.type for x in moved} - {x.device.type for x in tensors}:
            raise RuntimeError(f"{name} copies between the host and the device")
        return result


class NoConstants(TorchFunctionMode):
    """Raise where numbers of the host become a tensor, on CUDA a copy that no graph can hold."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (torch.tensor, torch.as_tensor, torch.from_numpy):
            raise RuntimeError(f"{func.__name__} copies from the host")
        return func(*args, **(kwargs or {}))


def _moved(thing: Any) -> Any:
    fields = {
        f.name: value.to(DEVICE)
        for f in dataclasses.fields(thing)
        if isinstance(value := getattr(thing, f.name), torch.Tensor)
    }
    return dataclasses.replace(thing, **fields)


def _inputs(scheme: str) -> tuple[Any, Any]:
    drafts = 1 if scheme in SINGLE else 2
    here = batch_of([random_block(random.Random(b), 3, drafts, 2) for b in range(2)])
    rows = torch.zeros(here.target_rows.shape[0], 9000)
    batch = dataclasses.replace(here, draft_rows=rows, target_rows=rows)
    return _moved(batch), _moved(Uniforms.from_generator(None, here))


class _Kernel:
    """In the place of a kernel: launches look at their arguments only."""

    def __init__(self, name: str, launched: list[str]) -> None:
        self.__name__, self._launched = name, launched

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **constants: Any) -> None:
            assert all(isinstance(n, int) for n in grid), grid
            assert 0 < grid[0] < 2**31, grid
            assert all(0 < n < 2**16 for n in grid[1:]), grid
            for argument in tree_leaves(arguments):
                if isinstance(argument, torch.Tensor):
                    assert argument.device.type == DEVICE, self.__name__
                    assert argument.is_contiguous(), self.__name__
                else:
                    assert isinstance(argument, int), argument
                    assert argument < 2**31, argument
            assert constants["enable_fp_fusion"] is False
            self._launched.append(self.__name__)

        return launch


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Triton kernels take the device, and their launches are listed, not made."""
    pytest.importorskip("triton")
    from draftproof.fast.kernels import launch, rows

    names: list[str] = []
    for name in rows.__all__:
        if name.endswith("_kernel"):
            monkeypatch.setattr(rows, name, _Kernel(name, names))
    monkeypatch.setattr(launch, "INTERPRETED", False)
    monkeypatch.setattr(kernels, "choose", lambda rows: launch)
    return names


def _calls(scheme: str, options: dict[str, Any]) -> None:
    """A call that may fill caches of constants, as before a capture; then calls by the rules."""
    batch, uniforms = _inputs(scheme)
    verify(scheme, batch, uniforms, validate=False, **options)
    with DeviceRules(), NoConstants():
        result = verify(scheme, batch, uniforms, validate=False, **options)
        if result.carry is not None:
            again = verify(scheme, batch, uniforms, carry=result.carry, validate=False, **options)
            assert len(again.carry.bounds) >= len(result.carry.bounds) > 0
    assert result.tokens.shape == (2, 3)
    assert result.tokens.device.type == DEVICE


@pytest.mark.parametrize(("scheme", "options"), CASES)
def test_torch_keeps_the_rules(scheme: str, options: dict[str, Any]) -> None:
    _calls(scheme, options)


@pytest.mark.parametrize("scheme", sorted(HOST_PLANNED))
def test_a_plan_on_the_host_is_known(scheme: str) -> None:
    batch, uniforms = _inputs(scheme)
    with pytest.raises(NotImplementedError, match="meta"):
        verify(scheme, batch, uniforms, validate=False)


def test_validation_reads_values() -> None:
    batch, uniforms = _inputs("spectr")
    with DeviceRules(), pytest.raises(RuntimeError, match="waits for values"):
        verify("spectr", batch, uniforms)


WITHOUT_ROW_PASS = {"multipath"}
"""Its law is a row sorted by torch, for which there is no kernel but that of the draw."""


@pytest.mark.parametrize(("scheme", "options"), CASES)
def test_launches_keep_the_rules(scheme: str, options: dict[str, Any], launched: list[str]) -> None:
    _calls(scheme, options)
    assert launched or scheme in WITHOUT_ROW_PASS
    if scheme in ("greedy_block", "spectr_gbv"):
        assert {"layer_mass_kernel", "gap_mass_kernel", "segment_mass_kernel"} <= set(launched)


@pytest.mark.parametrize(
    ("what", "breach"),
    [
        ("waits for values", lambda x: x.sum().item()),
        ("waits for values", lambda x: bool((x > 0).any())),
        ("no data", lambda x: x.tolist()),
        ("waits for values", lambda x: (x > 0).nonzero()),
        ("waits for its count", lambda x: x[x > 0]),
        ("mixes", lambda x: x + torch.ones(3)),
        ("mixes", lambda x: x[torch.arange(2)]),
        ("copies between", lambda x: torch.ones(3).to(x.device)),
        ("copies from", lambda x: torch.tensor([1.0, 2.0], device=x.device)),
        ("no data", lambda x: x.cpu()),
    ],
)
def test_a_breach_is_seen(what: str, breach: Callable[[torch.Tensor], object]) -> None:
    x = torch.zeros(3, device=DEVICE)
    with (
        DeviceRules(),
        NoConstants(),
        pytest.raises((RuntimeError, NotImplementedError), match=what),
    ):
        breach(x)


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Any]:
    """Launches are bound and compiled by Triton for compute capability 9.0, and not made."""
    triton = pytest.importorskip("triton")
    from draftproof.fast.kernels import launch
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    class Driver:
        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return 0

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 90, 32)

    if launch.INTERPRETED:
        pytest.skip("the interpreter does not compile")
    compiled: list[Any] = []

    def bind(kernel: Any, grid: Any) -> Callable[..., None]:
        return lambda *args, **kw: compiled.append(kernel.warmup(*args, grid=grid, **kw))

    monkeypatch.setattr(triton.runtime.jit.JITFunction, "__getitem__", bind)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "choose", lambda rows: launch)
    monkeypatch.setattr(driver, "_active", Driver())
    return compiled


@pytest.mark.parametrize("count", [1, 3])  # a number 1 becomes a constant of the kernel
def test_launches_bind_and_compile(h200: list[Any], count: int) -> None:
    table = torch.zeros(count, 9000, device=DEVICE)
    index = torch.zeros(count, dtype=torch.int64, device=DEVICE)
    rows = clip.Rows(table, table, index, index)
    number = torch.zeros(count, dtype=torch.float64, device=DEVICE)
    marks = clip.Overrides(index[:, None], number[:, None])
    clip.owed_mass(rows, number, number, marks)
    clip.draw(rows, number, clip.Owed(number, number, number, number), marks)
    carry = Carry.empty(count, index.device).with_layer(number, number, number, index, 3)
    chain_gap(rows, carry, number)
    chain_draw(rows, carry, number)
    chain_scale(rows, carry, index, 2**20)
    clip.ratio_masses(rows, torch.zeros(17, dtype=torch.float64, device=DEVICE))
    assert {kernel.metadata.name for kernel in h200} == {
        f"{name}_mass_kernel" for name in ("owed", "segment", "layer", "gap", "kept", "ratio")
    }
    assert not any("fma." in kernel.asm["ptx"] for kernel in h200)

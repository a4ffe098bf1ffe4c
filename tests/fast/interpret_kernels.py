"""Run in a process of its own: the compiled passes against the torch path, bit by bit.

With TRITON_INTERPRET=1 they are the Triton kernels in the interpreter, else numba's loops.
Prints one line per comparison and exits 1 if any result differs in a single bit.
"""

from __future__ import annotations

import random
import sys

import torch
from draftproof.fast import VERIFIERS, clip, kernels, verify
from draftproof.fast.carry import Carry, chain_draw, chain_entries, chain_gap, chain_scale, chained
from draftproof.fast.sums import LANES
from fast_blocks import batch_of, random_block, uniforms_for

choose = kernels.choose
failures = 0
if "--plant" in sys.argv:
    torch_path = clip._owed

    def fused(p, q, a, b):  # type: ignore[no-untyped-def]
        exact = q.double() * a.double() - (p if b is None else p * b).double()
        return exact.to(q.dtype).relu_()  # one rounding, as a fused multiply-add has

    clip._owed = fused


def compare(what: str, call: object) -> None:
    global failures
    with_kernels = call()  # type: ignore[operator]
    kernels.choose = lambda rows: None
    without = call()  # type: ignore[operator]
    kernels.choose = choose
    same = all(torch.equal(one, two) for one, two in zip(with_kernels, without, strict=True))
    failures += not same
    print("same bits" if same else "DIFFERENT", what)


def some_rows(vocab: int, count: int, dtype: torch.dtype) -> clip.Rows:
    generator = torch.Generator().manual_seed(vocab)
    p = (3 * torch.randn(count, vocab, generator=generator)).softmax(1)
    q = (p.log() + torch.randn(count, vocab, generator=generator)).softmax(1)
    p[:, vocab // 2] = 0
    q[0] = p[0]
    index = torch.arange(count)
    draft = torch.where(index == count - 1, -1, index)
    return clip.Rows(p.to(dtype), q.to(dtype), draft, index)


def passes(vocab: int, count: int, dtype: torch.dtype) -> None:
    rows = some_rows(vocab, count, dtype)
    if choose(rows) is None:
        print(f"torch alone reads rows of {dtype}")
        return
    generator = torch.Generator().manual_seed(1)
    a = 0.2 + torch.rand(count, generator=generator, dtype=torch.float64)
    b = torch.rand(count, generator=generator, dtype=torch.float64)
    u = torch.rand(count, generator=generator, dtype=torch.float64)
    u[0], u[1] = 0.0, 1 - 2.0**-53
    tokens = torch.randint(-1, vocab, (count, 2), generator=generator)
    tokens[:, 1] = torch.where(tokens[:, 0] == tokens[:, 1], -1, tokens[:, 1])
    overrides = clip.Overrides(tokens, torch.rand(count, 2, generator=generator).double() / vocab)
    edges = torch.tensor([0.0, 0.25, 0.5, 1.0, 2.0, 64.0], dtype=torch.float64)
    rise = torch.rand(count, 6, generator=generator, dtype=torch.float64) * 2
    drafts = torch.randint(1, 6, (count,), generator=generator)
    selected = clip.selected_row(rows, rise, edges)
    plain = clip.Owed(a, 0 * b)
    clipped = clip.Owed(a, b, 1 + b, 0.1 * b)
    at = f"V={vocab} R={count} {dtype}"
    compare(f"owed mass {at}", lambda: [clip.owed_mass(rows, a)])
    compare(f"owed mass, overridden {at}", lambda: [clip.owed_mass(rows, a, b, overrides)])
    compare(f"owed mass, selected row {at}", lambda: [clip.owed_mass(selected, a)])
    compare(f"kept mass {at}", lambda: [clip.kept_mass(rows, torch.stack([a, b, a * b], 1))])
    compare(f"ratio masses {at}", lambda: [clip.ratio_masses(rows, edges)])
    compare(f"smallest scale {at}", lambda: clip.smallest_scale(rows, drafts))
    for name, owed in (("plain", plain), ("clipped", clipped)):
        compare(f"draw {name} {at}", lambda owed=owed: [clip.draw(rows, u, owed)])
        compare(f"draw {name}, selected {at}", lambda owed=owed: [clip.draw(selected, u, owed)])
    compare(f"draw overridden {at}", lambda: [clip.draw(rows, u, clip.Owed(a, b), overrides)])

    layers = 3
    carry = Carry(
        3 * torch.rand(count, layers, generator=generator, dtype=torch.float64),
        torch.tensor([1.0, 1.2, 1.0], dtype=torch.float64).expand(count, layers),
        torch.tensor([1.0, 1.5, 1.0], dtype=torch.float64).expand(count, layers),
        torch.randint(0, 3, (count, layers), generator=generator),
        (2, 2, 2),
    )
    carry.ratio[1, 1], carry.ratio[0, 2] = torch.inf, 1.0
    token = torch.randint(0, vocab, (count,), generator=generator)
    compare(f"chain, layers {at}", lambda: [chained(rows, carry).chain])
    compare(f"chain, entries {at}", lambda: [chain_entries(rows, carry, token)])
    compare(f"chain, gap {at}", lambda: chain_gap(rows, carry, a))
    compare(
        f"chain, gap without layers {at}", lambda: chain_gap(rows, Carry.empty(count, a.device), a)
    )
    compare(f"chain, draw {at}", lambda: chain_draw(rows, carry, u))
    if vocab <= LANES:  # a search is a dozen passes, slow in the interpreter
        compare(f"smallest scale, owed {at}", lambda: clip.smallest_scale(rows, drafts, a, b))
        compare(f"chain, scale {at}", lambda: chain_scale(rows, carry, drafts, 2**20))


for case in (
    (5, 70, torch.float32),
    (LANES + 700, 5, torch.float32),
    (1500, 5, torch.bfloat16),
    (1000, 6, torch.float64),
    (300, 4, torch.float16),
):
    passes(*case)
    if "--plant" in sys.argv:
        sys.exit(failures > 0)

generator_ = random.Random(2)
for scheme in sorted(VERIFIERS):
    most = 1 if scheme in ("token_by_token", "block", "greedy_block") else 2
    batch = batch_of([random_block(generator_, 4, most, 2) for _ in range(24)], torch.float32)
    uniforms = uniforms_for(batch, 3)

    def run(scheme: str = scheme, batch=batch, uniforms=uniforms):  # type: ignore[no-untyped-def]
        result = verify(scheme, batch, uniforms)
        found = [result.tokens, result.accepted_length, result.path]
        if isinstance(result.carry, Carry):
            result = verify(scheme, batch, uniforms, carry=result.carry)
            found += [result.tokens, result.accepted_length, *result.carry[:4]]
        return found

    compare(f"{scheme} verifies", run)

sys.exit(failures > 0)

"""Compile every kernel ahead of time for several GPUs, on any machine, and report what it needs.

    python -m draftproof.fast.kernels.compile [--json FILE]

Exit status 1 if a kernel spills registers. Neither a GPU nor a driver is needed: the assembler and
the object dumper come with Triton.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["TRITON_DEFAULT_FP_FUSION"] = "0"

import triton
from draftproof.fast.kernels import rows
from draftproof.fast.kernels.launch import RATIO_COLUMNS, WARPS
from draftproof.fast.sums import LANES, NARROW, SEGMENT
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

__all__ = ["ARCHITECTURES", "main", "resources"]

ARCHITECTURES = (80, 90, 100)
TYPES = 17
POINTERS = {"fp32": "*fp32", "bf16": "*bf16"}


def variants() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(name, kernel, constants) for each compiled form."""
    common = {"ROWS": 1, "SEGMENT": SEGMENT, "NARROW": NARROW}
    plain = common | {"TYPES": 0, "CHAINED": False}
    selected = common | {"TYPES": TYPES, "CHAINED": False}
    chained = common | {"TYPES": 0, "CHAINED": True}
    lanes = {"LANES": LANES}
    for suffix, form in (("", plain), (", selected row", selected), (", chain", chained)):
        yield f"owed_mass{suffix}", rows.owed_mass_kernel, form | lanes
        yield f"segment_mass{suffix}", rows.segment_mass_kernel, form | {"CLIPPED": True}
    for suffix, form in (("", plain), (", chain", chained)):
        yield f"gap_mass{suffix}", rows.gap_mass_kernel, form | lanes
    yield "layer_mass", rows.layer_mass_kernel, chained | lanes
    for scales in (1, 4):
        number = f", {scales} scales" if scales > 1 else ", 1 scale"
        for suffix, form in (("", plain | {"OWED": True}), (", chain", chained | {"OWED": False})):
            some = form | lanes | {"SCALES": scales}
            yield f"kept_mass{number}{suffix}", rows.kept_mass_kernel, some
    types = {"TYPES": TYPES, "PADDED": triton.next_power_of_2(TYPES), "COLUMNS": RATIO_COLUMNS}
    yield "ratio_mass", rows.ratio_mass_kernel, common | lanes | types


def resources() -> Iterator[dict[str, Any]]:
    """Registers, shared memory and spills of every kernel, dtype and architecture."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    for name, kernel, constants in variants():
        for dtype, pointer in POINTERS.items():
            constants = constants | {"COMPUTE": triton.language.float32}
            signature = {
                argument: "constexpr" if argument in constants else _type(argument, pointer, name)
                for argument in kernel.arg_names
            }
            warps = WARPS[kernel.__name__.removesuffix("_kernel")]
            for architecture in ARCHITECTURES:
                compiled = triton.compile(
                    ASTSource(fn=kernel, signature=signature, constexprs=constants),
                    target=GPUTarget("cuda", architecture, 32),
                    options={"num_warps": warps, "enable_fp_fusion": False},
                )
                with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                    file.write(compiled.asm["cubin"])
                    file.flush()
                    usage = subprocess.run(
                        [tool, "--dump-resource-usage", file.name],
                        capture_output=True,
                        text=True,
                        check=True,
                    ).stdout
                numbers = dict(re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage))
                spill = re.search(r"SPILL", usage)
                yield {
                    "kernel": name,
                    "dtype": dtype,
                    "architecture": f"sm_{architecture}",
                    "registers": int(numbers["REG"]),
                    "shared_bytes": int(compiled.metadata.shared),
                    "stack_bytes": int(numbers["STACK"]),
                    "local_bytes": int(numbers["LOCAL"]),
                    "fused_multiply_add": len(re.findall(r"\bfma\.", compiled.asm["ptx"])),
                    "flushed_to_zero": len(re.findall(r"\.ftz\b", compiled.asm["ptx"])),
                    "spills": bool(spill) or int(numbers["STACK"]) + int(numbers["LOCAL"]) > 0,
                }


def _type(argument: str, pointer: str, name: str) -> object:
    """The type of an argument of a kernel; structures are tuples of types."""
    coefficient = "*fp32"
    if argument == "t":
        return rows.Table(
            draft=pointer,
            target=pointer,
            draft_index="*i64",
            target_index="*i64",
            **dict.fromkeys(("start", "slopes", "edges", "inverses", "chain"), coefficient),
            **dict.fromkeys(("layers", "depth", "count", "vocab"), "i32"),
        )
    if argument == "marks":
        return rows.Marks("*i64", coefficient, "i32")
    if argument in ("out", "plain", "masses", "partial", "gained", "lost"):
        return coefficient if name == "ratio_mass" else "*fp64"
    return coefficient


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if anything spills."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    print(f"triton {triton.__version__}")
    print(
        f"{'kernel':28}{'dtype':7}{'target':8}{'registers':>10}{'shared':>8}{'spills':>8}{'fma':>5}"
    )
    table = []
    for entry in resources():
        table.append(entry)
        print(
            f"{entry['kernel']:28}{entry['dtype']:7}{entry['architecture']:8}"
            f"{entry['registers']:10}{entry['shared_bytes']:8}"
            f"{'yes' if entry['spills'] else 'no':>8}{entry['fused_multiply_add']:5}",
            flush=True,
        )
    if options.json is not None:
        partial = options.json.with_suffix(".partial")
        partial.write_text(json.dumps({"format": 1, "kernels": table}, indent=1) + "\n")
        os.replace(partial, options.json)
    return int(any(entry["spills"] for entry in table))


if __name__ == "__main__":
    sys.exit(main())

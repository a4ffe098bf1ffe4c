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

_TABLES = ("draft", "target")
_INDICES = ("draft_index", "target_index", "tokens")
_SCALARS = ("count", "vocab", "overrides")
_FLOAT64 = ("out", "plain", "masses", "partial")


def variants() -> Iterator[tuple[str, Any, dict[str, Any], int]]:
    """(name, kernel, constants, warps) for each compiled form."""
    common = {"ROWS": 1, "SEGMENT": SEGMENT, "NARROW": NARROW}
    lanes = common | {"LANES": LANES}
    for types in (0, TYPES):
        law = ", selected row" if types else ""
        yield (
            f"owed_mass{law}",
            rows.owed_mass_kernel,
            lanes | {"TYPES": types},
            WARPS["owed_mass"],
        )
        yield (
            f"segment_mass{law}",
            rows.segment_mass_kernel,
            common | {"TYPES": types, "CLIPPED": True},
            WARPS["segment_mass"],
        )
    for scales in (1, 4):
        yield (
            f"kept_mass, {scales} scales" if scales > 1 else "kept_mass, 1 scale",
            rows.kept_mass_kernel,
            lanes | {"TYPES": 0, "OWED": True, "SCALES": scales},
            WARPS["kept_mass"],
        )
    yield (
        "ratio_mass",
        rows.ratio_mass_kernel,
        lanes | {"TYPES": TYPES, "PADDED": triton.next_power_of_2(TYPES), "COLUMNS": RATIO_COLUMNS},
        WARPS["ratio_mass"],
    )


def resources() -> Iterator[dict[str, Any]]:
    """Registers, shared memory and spills of every kernel, dtype and architecture."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    for name, kernel, constants, warps in variants():
        for dtype, pointer in POINTERS.items():
            constants = constants | {"COMPUTE": triton.language.float32}
            signature = {
                argument: "constexpr" if argument in constants else _type(argument, pointer, name)
                for argument in kernel.arg_names
            }
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
                    "spills": bool(spill) or int(numbers["STACK"]) + int(numbers["LOCAL"]) > 0,
                }


def _type(argument: str, pointer: str, name: str) -> str:
    if argument in _TABLES:
        return pointer
    if argument in _INDICES:
        return "*i64"
    if argument in _SCALARS:
        return "i32"
    if argument in _FLOAT64 and not (name == "ratio_mass" and argument == "out"):
        return "*fp64"
    return "*fp32"


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

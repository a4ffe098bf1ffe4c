"""Engines: run every adapter that can run here in one go, and keep what was found.

    python -m draftproof.conformance.engines --root DIR --json docs/engines.json \\
        --page docs/engines.md

DIR has the engines' unpacked wheels and checkouts, each under the name in `ENGINES`; one that is
not there is skipped, with its reason. Every subject runs with all its checks in a process of its
own, one after the other, and each result is kept as it comes: a run that was interrupted goes on
where it stopped. The table of the page is written from the file, and from nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
from draftproof.conformance.campaign import ask_declaration, plan, run_campaign, verdicts_of
from draftproof.conformance.checks import CHECKS
from draftproof.conformance.verdict import FORMAT, CheckResult, Verdict
from draftproof.reference.instance import write_json

__all__ = ["ENGINES", "Engine", "main", "page_table", "with_table"]

_RESEARCH = "python:draftproof.conformance.adapters.research:"


class Engine(NamedTuple):
    """A subject of the page, and where it is found."""

    subject: str
    shown: str
    folder: str
    """Under the root; empty for what is installed."""
    variable: str
    seconds: float
    """For each scheme: more in the interpreter, where a verification takes up to 0.1 s."""


ENGINES = (
    Engine("transformers", "transformers", "", "", 40),
    Engine("vllm:v1", "vLLM v1", "vllm", "DRAFTPROOF_VLLM", 120),
    Engine("vllm", "vLLM newer runner", "vllm", "DRAFTPROOF_VLLM", 120),
    Engine("sglang:chain", "SGLang chain", "sglang", "DRAFTPROOF_SGLANG", 120),
    Engine("sglang:blockwise-torch", "SGLang blockwise, torch", "sglang", "DRAFTPROOF_SGLANG", 40),
    Engine(
        "sglang:blockwise-triton", "SGLang blockwise, Triton", "sglang", "DRAFTPROOF_SGLANG", 120
    ),
    Engine("sglang:tree", "SGLang tree", "sglang", "DRAFTPROOF_SGLANG", 40),
    Engine("flashinfer", "FlashInfer chain", "flashinfer", "DRAFTPROOF_FLASHINFER", 40),
    Engine(_RESEARCH + "vllm_085", "vLLM 0.8.5 rejection", "vllm085", "DRAFTPROOF_VLLM_085", 40),
    Engine(
        _RESEARCH + "vllm_085_typical", "vLLM 0.8.5 typical", "vllm085", "DRAFTPROOF_VLLM_085", 40
    ),
    Engine(
        _RESEARCH + "vllm_ascend_block",
        "vllm-ascend block, torch",
        "vllm-ascend",
        "DRAFTPROOF_VLLM_ASCEND",
        40,
    ),
    Engine(_RESEARCH + "eagle", "EAGLE", "EAGLE", "DRAFTPROOF_EAGLE", 40),
    Engine(_RESEARCH + "sequoia", "Sequoia", "Sequoia", "DRAFTPROOF_SEQUOIA", 40),
    Engine(_RESEARCH + "gpt_fast", "gpt-fast", "gpt-fast", "DRAFTPROOF_GPT_FAST", 40),
    Engine(_RESEARCH + "layerskip", "LayerSkip", "LayerSkip", "DRAFTPROOF_LAYERSKIP", 40),
    Engine(
        _RESEARCH + "lucidrains",
        "lucidrains",
        "speculative-decoding",
        "DRAFTPROOF_LUCIDRAINS",
        40,
    ),
    Engine(
        _RESEARCH + "recurrent_drafter",
        "recurrent drafter, one draft",
        "ml-recurrent-drafter",
        "DRAFTPROOF_RECURRENT_DRAFTER",
        40,
    ),
    Engine(
        _RESEARCH + "recurrent_beams",
        "recurrent drafter, beams",
        "ml-recurrent-drafter",
        "DRAFTPROOF_RECURRENT_DRAFTER",
        40,
    ),
)


def _entry(engine: Engine, results: Path, factor: float) -> list[dict[str, Any]]:
    """The verdicts on one subject, each with the version and the note of its declaration."""
    asked = ask_declaration(engine.subject)
    if asked.declaration is None:
        assert asked.verdict is not None
        return [_told(engine, asked.verdict, "", "")]
    declaration = asked.declaration
    tasks = plan(
        engine.subject, declaration, declaration.schemes, list(CHECKS),
        seeds=[0], budget=engine.seconds * factor,
    )  # fmt: skip
    finished = []
    for task, result in run_campaign(tasks, jobs=1, results=results):
        finished.append((task, result))
        said = f"{engine.shown} {task.scheme}: {task.check} {result.status}, {result.seconds:.0f} s"
        print(said, file=sys.stderr, flush=True)
    return [
        _told(engine, verdict, declaration.version, declaration.note)
        for verdict in verdicts_of(finished, {engine.subject: declaration})
    ]


def _told(engine: Engine, verdict: Verdict, version: str, note: str) -> dict[str, Any]:
    kept = {
        "status", "message", "samples", "seconds", "total_variation", "evidence", "threshold",
        "detectable",
    }  # fmt: skip
    counterexample = verdict.counterexample
    return {
        "engine": engine.shown,
        "subject": engine.subject,
        "version": version,
        "note": note,
        "scheme": verdict.scheme,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "seconds": verdict.seconds,
        "checks": {
            check.check: {k: v for k, v in check.to_json().items() if k in kept} | _extent(check)
            for check in verdict.checks
        },
        "counterexample": None if counterexample is None else counterexample.to_json(),
    }


def _extent(check: CheckResult) -> dict[str, Any]:
    names = ("instances", "boxes", "laws_rebuilt", "margin", "known")
    return {name: check.details[name] for name in names if name in check.details}


def page_table(data: dict[str, Any]) -> str:
    """What was found, one line a scheme, in Markdown."""
    lines = [
        "| engine, scheme | version | verdict | exact sweep | sampled | rounds | s |",
        "|---|---|---|---|---|---|---:|",
    ]
    for entry in data["entries"]:
        checks = entry["checks"]
        name = entry["engine"] + ("" if entry["scheme"] == "-" else f", `{entry['scheme']}`")
        word = entry["verdict"]
        if word == "skipped":
            word += f": {entry['reason']}"
        lines.append(
            f"| {name} | {entry['version']} | {word} | {_swept(checks.get('exact sweep'))} | "
            f"{_sampled(checks.get('statistical'))} | {_sampled(checks.get('rounds'))} | "
            f"{entry['seconds']:.0f} |"
        )
    return "\n".join(lines)


def _swept(check: dict[str, Any] | None) -> str:
    if check is None or (check["status"] == "skipped" and "takes no uniforms" in check["message"]):
        return ""
    if check["status"] == "passed":
        boxes = f"{check['instances']} instances, {check['boxes']:,} boxes"
        return f"{boxes}, to {check['margin']:.0e}".replace("e-0", "e-")
    if check["status"] in ("failed", "measured"):
        return f"biased by {check['total_variation']:.4g}"
    return "the law cannot be rebuilt" if check["status"] == "skipped" else check["status"]


def _sampled(check: dict[str, Any] | None) -> str:
    if check is None or check["status"] == "skipped":
        return ""
    if check["status"] == "passed":
        return f"{check['detectable']:.2g} ({check['samples']:,})"
    if check["status"] in ("failed", "measured"):
        certain = f" by at least {check['total_variation']:.2g}" if check["total_variation"] else ""
        return f"biased{certain} ({check['samples']:,})"
    return str(check["status"])


def with_table(page: str, table: str) -> str:
    """The page with the table between its markers.

    Raises:
        ValueError: it has no markers.
    """
    begin, end = "<!-- engines:begin -->", "<!-- engines:end -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no {begin} and {end}")
    return f"{head}{begin}\n{table}\n{end}{tail}"


@click.command()
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Where the engines are unpacked.",
)
@click.option("--json", "file", type=click.Path(path_type=Path), required=True, help="The result.")
@click.option("--page", type=click.Path(exists=True, path_type=Path), help="Renew its table.")
@click.option("--only", multiple=True, help="Only subjects whose name has this text.")
@click.option("--factor", type=click.FloatRange(min=0.01), default=1.0, help="Of the time [1].")
def main(root: Path, file: Path, page: Path | None, only: tuple[str, ...], factor: float) -> None:
    """Run the engines one after the other."""
    chosen = [e for e in ENGINES if not only or any(text in e.subject for text in only)]
    results = file.with_suffix(".partial.jsonl")
    begun = time.strftime("%Y-%m-%d")
    entries: list[dict[str, Any]] = []
    for engine in ENGINES:  # before the first child process starts, which all subjects share
        folder = root / engine.folder
        if engine.folder and folder.is_dir():
            os.environ[engine.variable] = str(folder.absolute())
    for engine in chosen:
        entries += _entry(engine, results, factor)
    data = {
        "format": FORMAT,
        "date": begun,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "environment": _versions(),
        "entries": entries,
    }
    write_json(data, file)
    results.unlink(missing_ok=True)
    if page is not None:
        renewed = with_table(page.read_text(encoding="utf-8"), page_table(data))
        temporary = page.with_name(f".{page.name}.tmp")
        temporary.write_text(renewed, encoding="utf-8")
        temporary.replace(page)
    print(json.dumps({e["engine"] + " " + e["scheme"]: e["verdict"] for e in entries}, indent=1))


def _versions() -> dict[str, str]:
    from draftproof.conformance.campaign import versions

    found = versions()
    try:
        import triton

        found["triton"] = triton.__version__
    except ImportError:
        pass
    return found


if __name__ == "__main__":
    main()

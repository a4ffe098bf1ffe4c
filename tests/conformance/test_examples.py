"""The worked verifiers in C and JavaScript get verdicts, and a fault planted in each is found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from draftproof.conformance.adapters import program
from draftproof.conformance.campaign import check_object
from draftproof.conformance.vectors import schema
from draftproof.conformance.verdict import Verdict
from draftproof.reference.instance import instance_from_json
from draftproof.reference.oracle import examine, law_to_json

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCHEMAS = Path(__file__).parents[2] / "conformance" / "schemas"

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def compiled(folder: Path, change: tuple[str, str] = ("", "")) -> str:
    """The command of the C verifier, one text in its source replaced."""
    source = (EXAMPLES / "verifier.c").read_text(encoding="utf-8")
    assert change[0] in source
    (folder / "verifier.c").write_text(source.replace(*change) if change[0] else source)
    subprocess.run(
        ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "verifier", "verifier.c"],
        cwd=folder,
        check=True,
    )
    return str(folder / "verifier")


def script(folder: Path, change: tuple[str, str] = ("", "")) -> str:
    """The command of the JavaScript verifier, one text in its source replaced."""
    source = (EXAMPLES / "verifier.js").read_text(encoding="utf-8")
    assert change[0] in source
    (folder / "verifier.js").write_text(source.replace(*change) if change[0] else source)
    return f"node {folder / 'verifier.js'}"


def verdicts(folder: Path, command: str, *options: str) -> dict[str, dict]:
    """Scheme → verdict, from the command line."""
    out = folder / "verdicts.json"
    done = subprocess.run(
        [sys.executable, "-m", "draftproof.conformance.cli", "check", f"program:{command}",
         "--json", str(out), "--seed", "3", *options],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert out.exists(), done.stderr
    found = {v["scheme"]: v for v in json.loads(out.read_text())["verdicts"]}
    biased = any(v["verdict"] == "biased" for v in found.values())
    assert done.returncode == int(biased), done.stdout
    return found


@needs_cc
def test_the_c_verifier_is_lossless(tmp_path):
    checks = "exact_sweep,edges,metamorphic"
    found = verdicts(tmp_path, compiled(tmp_path), "--budget", "3", "--checks", checks)
    assert {k: v["verdict"] for k, v in found.items()} == {
        "token_by_token": "lossless",
        "block": "lossless",
    }
    assert "exact sweep" in {
        c["check"] for c in found["block"]["checks"] if c["status"] == "passed"
    }


@needs_node
def test_the_javascript_verifier_is_lossless(tmp_path):
    found = verdicts(tmp_path, script(tmp_path), "--budget", "3", "--checks", "statistical,edges")
    assert found["token_by_token"]["verdict"] == "lossless"


def graded(command: str, scheme: str, check: str) -> Verdict:
    """The verdict of one check, made in this process."""
    subject = program.create(command)
    try:
        report = check_object(subject, schemes=[scheme], checks=[check], budget=3, seed=3)
        return report.verdicts[0]
    finally:
        subject.close()


@needs_cc
@pytest.mark.parametrize(
    "change",
    [
        ("block ? weight[accepted] : 1", "1"),  # the residual without the weight of its prefix
        ("return sum;\n", "return sum + 0 * out[0] > 1 ? 1 : sum;\n"),  # no change: the control
        ("if (i < length)", "if (0)"),  # the last test's probability at every depth
    ],
)
def test_a_fault_planted_in_the_c_verifier_is_found(tmp_path, change):
    found = graded(compiled(tmp_path, change), "block", "exact sweep")
    if "0 * out" in change[1]:
        assert found.verdict == "lossless"
        return
    assert found.verdict == "biased"
    assert found.counterexample.exact
    assert found.counterexample.instance["length"] == 2


@needs_node
def test_a_fault_planted_in_the_javascript_verifier_is_found(tmp_path):
    change = ("Math.max(target - p[i][v], 0)", "target")
    found = graded(script(tmp_path, change), "token_by_token", "statistical")
    assert found.verdict == "biased"


@needs_cc
@needs_node
@pytest.mark.parametrize("build", [compiled, script])
def test_every_line_of_the_conversation_obeys_the_protocol(tmp_path, build):
    """The examples' own answers, and the suite's requests, by the JSON Schema of the protocol."""
    protocol = json.loads((SCHEMAS / "protocol.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(protocol)
    lines = [{"type": "hello", "protocol": 1}]
    rows = {"drafts": [[1]], "draft_rows": [[[0.5, 0.5]]], "target_rows": [[[0.25, 0.75], [1, 0]]]}
    for number, uniforms in ((1, [[0.5]]), (2, None)):
        lines.append(
            {"type": "verify", "id": number, "scheme": "token_by_token", "vocab": 2, **rows,
             "root_row": [0.25, 0.75], "accept_uniforms": uniforms or [[0.0]],
             "select_uniforms": None, "token_uniform": 0.5, "seed": 7, "carry": None}
        )  # fmt: skip
    lines.append({"type": "bye"})
    done = subprocess.run(
        program.shlex.split(build(tmp_path)),
        input="\n".join(map(json.dumps, lines)) + "\n",
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["type"] for a in answers] == ["declare", "result", "result"]
    for line in (*lines, *answers):
        validator.validate(line)
    assert answers[1]["accepted"] == [1]
    assert answers[1]["next"] == 0


def test_the_schemas_are_schemas():
    names = {file.name for file in SCHEMAS.glob("*.json")}
    assert names == {
        f"{n}.schema.json" for n in ("instance", "law", "check", "vectors", "protocol")
    }
    for file in SCHEMAS.glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))
    assert schema()["title"].startswith("Exact decisions")


def test_the_instance_schema_accepts_the_toy_and_refuses_what_the_reader_refuses():
    known = json.loads((SCHEMAS / "instance.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(known)
    toy = json.loads((EXAMPLES / "toy.json").read_text(encoding="utf-8"))
    validator.validate(toy)
    for file in (EXAMPLES / "deviations").glob("*.json"):
        validator.validate(json.loads(file.read_text(encoding="utf-8")))
        instance_from_json(json.loads(file.read_text(encoding="utf-8")))
    for key, value in (
        ("vocab", 0), ("drafts", -1), ("draft_law", "sampled"), ("format", 2), ("extra", 1),
        ("target_rows", {"0;1": ["1", "0"]}), ("target_rows", {"": [0.5, 0.5]}),
    ):  # fmt: skip
        assert not validator.is_valid({**toy, key: value}), key


def test_the_page_of_formats_shows_valid_instances_and_laws():
    """The law on the page is that of the instance above it."""
    page = (EXAMPLES.parent / "formats.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```json\n(.*?)```", page, re.S)
    instance, law = (json.loads(block) for block in blocks[:2])
    for data, name in ((instance, "instance"), (law, "law")):
        known = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(known).validate(data)
    assert law_to_json(examine(law["scheme"], instance_from_json(instance))) == law

"""Reports: valid forms, the verdict first, nothing from the subject that is not escaped."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ET
from fractions import Fraction
from html.parser import HTMLParser
from importlib import resources

import jsonschema
import pytest
from draftproof.conformance.report import (
    headline,
    print_report,
    to_html,
    to_junit,
    to_markdown,
    write_reports,
)
from draftproof.conformance.verdict import CheckResult, Counterexample, Report, Verdict, judge
from draftproof.reference.instance import instance_from_json
from draftproof.reference.models import block_law
from draftproof.reference.numbers import text
from draftproof.reference.oracle import examine
from rich.console import Console

HOSTILE = 'program:./x <script>alert("|")</script> `sh` \x00\x1b[31m'
INSTANCE = {
    "format": 1,
    "vocab": 3,
    "drafts": 2,
    "length": 1,
    "draft_rows": {"": ["3/5", "3/10", "1/10"]},
    "target_rows": {
        "": ["1/5", "1/2", "3/10"],
        "0": ["1", "0", "0"],
        "1": ["1/4", "1/4", "1/2"],
        "2": ["0", "1", "0"],
    },
}


def counterexample() -> tuple[Counterexample, list[dict[str, object]]]:
    instance = instance_from_json(INSTANCE)
    found = examine("siblings_without_update", instance)
    laws = [
        [{"tokens": list(k), "probability": text(v)} for k, v in sorted(law.items())]
        for law in (block_law(instance.target_model, 2), found.continued)
    ]
    stops = [
        {"accepted": list(a), "next": n, "probability": text(p)} for (a, n), p in found.law.items()
    ]
    distance = text(found.total_variation)
    given = shlex.quote(json.dumps(INSTANCE))
    command = f"draftproof check python:mine:factory --scheme spectr --instance {given}"
    return Counterexample(INSTANCE, *laws, distance, True, command, True), stops


@pytest.fixture(scope="module")
def report() -> Report:
    example, stops = counterexample()
    biased = judge(
        "python:mine:factory",
        "spectr",
        [
            CheckResult(
                "exact sweep", "failed", "total variation 1/25", 1203, 0.8, 0.04,
                details={"stops": stops}, counterexample=example,
            ),
            CheckResult("statistical", "failed", "gross", 5000, 3.2, 0.03, 27.7, 20.7, 0.01),
            CheckResult("drafter", "skipped", "no drafter"),
        ],
        lossless=True,
        seconds=4.2,
    )  # fmt: skip
    good = judge(
        "python:mine:factory", "token_by_token",
        [CheckResult("exact sweep", "passed", "24 instances", 9, 0.1, detectable=1e-5)],
        lossless=True,
    )  # fmt: skip
    lossy = Verdict(
        "typical", "block", "lossy by design", (CheckResult("rounds", "measured", "0.2", 7),), "0.2"
    )
    return Report(
        ("python:mine:factory", "typical", "flashinfer", "hostile"),
        (
            good,
            biased,
            lossy,
            Verdict("flashinfer", "token_by_token", "skipped", (), "no GPU"),
            Verdict(HOSTILE, "block", "error", (), "said nothing <b>for</b> 30 s"),
        ),
        seed=7,
        command="draftproof check python:mine:factory --html report.html",
        seconds=61.2,
        environment={"Python": "3.11"},
        stderr={HOSTILE: "lock <held>\n\x1b[31mred\x00"},
    )


def test_the_worst_verdict_leads(report):
    assert headline(report) == (
        "biased",
        "1 biased, 1 error, 1 lossy by design, 1 lossless, 1 skipped",
    )
    assert headline(Report((), ())) == ("skipped", "nothing was checked")


def test_the_terminal_table_fits_100_columns(report):
    screen = io.StringIO()
    print_report(report, Console(file=screen, width=180))
    lines = screen.getvalue().splitlines()
    ends = next(n for n, line in enumerate(lines) if line.startswith("python:mine:factory spectr:"))
    table = lines[:ends]
    assert sum("biased" in line for line in table) == 1
    assert max(map(len, table)) <= 100
    assert any("again: draftproof check python:mine:factory" in line for line in lines)
    command = next(line for line in lines if "again: " in line).split("again: ")[1]
    assert json.loads(shlex.split(command)[-1]) == INSTANCE


def test_junit_counts_and_messages(report):
    suites = ET.fromstring(to_junit(report))
    by_name = {suite.get("name"): suite for suite in suites}
    biased = by_name["python:mine:factory spectr"]
    assert [biased.get(k) for k in ("tests", "failures", "errors", "skipped")] == list("3201")
    failure = biased.find("testcase[@name='exact sweep']/failure")
    assert "1/25 ≈ 0.04" in failure.text
    assert json.dumps(INSTANCE) in failure.text
    assert "again: draftproof check" in failure.text
    assert by_name["flashinfer token_by_token"].find("testcase/skipped").get("message") == "no GPU"
    assert by_name["typical block"].get("failures") == "0"
    hostile = next(suite for suite in suites if "<script>" in suite.get("name"))
    assert hostile.get("errors") == "1"
    assert "lock <held>" in hostile.find("system-err").text


def test_junit_is_read_by_a_junit_library(report):
    junitparser = pytest.importorskip("junitparser")
    parsed = junitparser.JUnitXml.fromstring(to_junit(report).encode())
    assert sum(suite.failures for suite in parsed) == 2


def test_markdown_has_one_row_a_verdict_and_escapes(report):
    written = to_markdown(report)
    rows = [line for line in written.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 5
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
    assert "<script>" not in written
    assert "1/25 ≈ 0.04" in written
    assert written.startswith("## ✗ draftproof: 1 biased")


class Page(HTMLParser):
    """Elements that are open, and everything that could reach outside."""

    void = ("meta", "line", "rect", "br")

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [v for k, v in attrs if k in ("src", "href", "xlink:href", "action") and v]


def test_the_page_is_self_contained_and_escaped(report):
    written = to_html(report)
    page = Page()
    page.feed(written)
    assert page.outside == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "url(" not in written
    assert "@import" not in written
    assert "&lt;script&gt;" in written
    assert "prefers-color-scheme: dark" in written
    heading = written.index("<h1>")
    assert "1 biased" in written[heading : written.index("</h1>")]
    order = [written.index(word) for word in ("<h1>", "Counterexample", "Reproduce with", "Checks")]
    assert order == sorted(order)


def test_the_plots_show_both_laws_at_each_stopping_length(report):
    written = to_html(report)
    captions = re.findall(r"aria-label='([^']*)'", written)
    assert captions == [
        "Emitted tokens",
        "Stopped after 0 accepted tokens: 0.2147 by the scheme, 0.24 by the subject",
        "Stopped after 1 accepted token: 0.7853 by the scheme, 0.76 by the subject",
    ]
    bars = re.findall(r"<title>2 1: target (\S+), subject (\S+)</title>", written)
    assert bars == [("0.3", "0.26")]
    first = written.split("</svg>")[0]
    widths = [
        float(width)
        for name in ("target", "subject")
        for width in re.findall(rf"<rect class='{name}'[^>]*width='([\d.]+)'", first)
    ]
    assert len(widths) == 10
    assert max(widths) == 560.0
    assert widths[4] / widths[9] == pytest.approx(0.3 / 0.26, rel=1e-3)


def test_counts_of_strings_are_plotted_beside_the_law_of_each_stopping_length():
    """A thousand samples in the exact proportions: the bars of both sides agree."""
    law = examine("spectr:recursive_rejection", instance_from_json(INSTANCE)).law
    strata: dict[int, dict[tuple[int, ...], Fraction]] = {}
    target = {int(k): [Fraction(x) for x in row] for k, row in INSTANCE["target_rows"].items() if k}
    for (accepted, token), chance in law.items():
        cells = strata.setdefault(len(accepted), {})
        after = [(token, Fraction(1))] if accepted else enumerate(target[token])
        for v, p in after:
            string = (*accepted, token) if accepted else (token, v)
            cells[string] = cells.get(string, 0) + Fraction(text(chance)) * p
    n = 10**6
    details = {
        "instance": INSTANCE,
        "strata": [
            {
                "accepted_length": depth,
                "samples": sum(round(p * n) for p in cells.values()),
                "strings": [
                    {"tokens": list(s), "count": round(p * n)}
                    for s, p in sorted(cells.items())
                    if p
                ],
            }
            for depth, cells in strata.items()
        ],
    }
    check = CheckResult("statistical", "passed", details=details)
    verdict = judge("s", "spectr:recursive_rejection", [check], lossless=True)
    written = to_html(Report(("s",), (verdict,)))
    found = re.findall(r"<title>[^:]*: target (\S+), subject (\S+)</title>", written)
    assert len(found) > 4
    assert all(float(a) == pytest.approx(float(b), abs=2e-6) for a, b in found)
    assert "laws by stopping length" in written


def test_a_law_of_many_outcomes_is_cut_by_difference():
    many = [{"tokens": [v], "probability": f"1/{40}"} for v in range(40)]
    other = [dict(o) for o in many]
    other[33]["probability"], other[7]["probability"] = "1/20", "0"
    rows = {"": ["1/40"] * 40}
    instance = {"format": 1, "vocab": 40, "drafts": 0, "length": 0, "target_rows": rows}
    example = Counterexample(instance, many, other, "1/40", True)
    check = CheckResult("exact sweep", "failed", "", counterexample=example)
    written = to_html(Report(("s",), (judge("s", "block", [check], lossless=True),)))
    assert "16 outcomes with smaller differences are not drawn" in written
    assert "33: target" in written
    assert "7: target" in written


def test_files_are_written_and_the_summary_appended(report, tmp_path):
    paths = {kind: tmp_path / kind for kind in ("json", "junit", "html", "summary")}
    paths["summary"].write_text("before\n")
    write_reports(report, **{f"{kind}_file": path for kind, path in paths.items()})
    data = json.loads(paths["json"].read_text())
    schema = json.loads(
        (resources.files("draftproof.conformance") / "schemas" / "check.schema.json").read_text()
    )
    jsonschema.Draft202012Validator(schema).validate(data)
    assert Report.from_json(data).verdicts == report.verdicts
    assert paths["summary"].read_text().startswith("before\n## ✗")
    assert paths["html"].read_text().startswith("<!doctype html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(paths)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_renders_the_page(report, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(to_html(report), encoding="utf-8")
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.count("<svg") == 3
    assert "<script" not in done.stdout

"""Reports: the verdicts of a run as a terminal table, JUnit XML, one HTML file and GitHub Markdown.

Every form puts the verdict first, then the counterexample and the command that reproduces it. The
HTML file needs nothing else: no script, no font, no picture from outside; its plots are inline SVG
and follow the reader's light or dark scheme.
"""

from __future__ import annotations

import html
import json
import os
import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from draftproof.conformance.tables import string_law
from draftproof.conformance.verdict import CheckResult, Counterexample, Report, Verdict
from draftproof.reference.instance import Instance, instance_from_json, write_json
from draftproof.reference.law import Law
from draftproof.reference.numbers import rational, text
from draftproof.reference.oracle import examine
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["headline", "print_report", "to_html", "to_junit", "to_markdown", "write_reports"]

_MARK = {"lossless": "✓", "biased": "✗", "lossy by design": "≈", "error": "!", "skipped": "–"}
_STYLE = {
    "lossless": "green", "biased": "bold red", "lossy by design": "yellow",
    "error": "bold magenta", "skipped": "dim",
}  # fmt: skip
_WORST_FIRST = ("biased", "error", "lossy by design", "lossless", "skipped")
_MOST_BARS = 24
_MOST_LINES = 12


def headline(report: Report) -> tuple[str, str]:
    """The worst word among the verdicts, and one sentence that says how many have it."""
    words = [verdict.verdict for verdict in report.verdicts]
    if not words:
        return "skipped", "nothing was checked"
    worst = min(words, key=_WORST_FIRST.index)
    # A subject that is skipped says nothing about the ones that were checked.
    counts = [f"{words.count(word)} {word}" for word in _WORST_FIRST if word in words]
    return worst, ", ".join(counts)


def write_reports(
    report: Report,
    *,
    json_file: str | Path | None = None,
    junit_file: str | Path | None = None,
    html_file: str | Path | None = None,
    summary_file: str | Path | None = None,
) -> None:
    """Write the forms that were asked for, each whole or not at all.

    The GitHub summary is appended, because a job's summary file collects those of all its steps.

    Raises:
        OSError: a file cannot be written.
    """
    if json_file is not None:
        write_json(report.to_json(), json_file)
    if junit_file is not None:
        _write(to_junit(report), junit_file)
    if html_file is not None:
        _write(to_html(report), html_file)
    if summary_file is not None:
        with open(summary_file, "a", encoding="utf-8") as file:
            file.write(to_markdown(report))


def _write(content: str, path: str | Path) -> None:
    destination = Path(path)
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, destination)
    finally:
        temporary.unlink(missing_ok=True)


def _printable(given: str) -> str:
    """Text without control characters, which a subject's name could hand to the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in given)


def _bias(verdict: Verdict) -> str:
    """The total variation that goes with a verdict, as short text."""
    counterexample = verdict.counterexample
    if counterexample is not None:
        return _number(counterexample.total_variation, counterexample.exact)
    found = [c.total_variation for c in verdict.checks if c.total_variation is not None]
    return f"≥ {max(found):.3g}" if found and verdict.verdict != "lossless" else ""


def _number(given: str, exact: bool = True) -> str:
    """A rational as text, its decimal value beside it."""
    try:
        value = rational(given)
    except (ValueError, TypeError):
        return given
    if value.denominator == 1 or not exact:
        return f"{float(value):.4g}"
    if len(given) > 20:
        return f"≈ {float(value):.6g}"
    return f"{given} ≈ {float(value):.4g}"


def _finder(verdict: Verdict) -> str:
    """The check that decided, or how many passed."""
    for status in ("failed", "error", "measured"):
        for check in verdict.checks:
            if check.status == status:
                return check.check
    passed = sum(check.status == "passed" for check in verdict.checks)
    return f"{passed} checks" if passed else ""


def _detectable(verdict: Verdict) -> str:
    found = [c.detectable for c in verdict.checks if c.status == "passed" and c.detectable]
    return f"{min(found):.1e}" if found else ""


# ---- terminal ------------------------------------------------------------------------------------


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the verdicts as a table of at most 100 columns, then each bias with its input."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 100)  # a log wraps lines by itself
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name, widest in (("subject", 24), ("scheme", 26), ("verdict", 17)):
        table.add_column(name, max_width=widest, overflow="fold")
    table.add_column("bias", justify="right", no_wrap=True)
    table.add_column("found by", max_width=11)
    for name in ("detects", "samples", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for v in report.verdicts:
        table.add_row(
            Text(_printable(v.subject)),
            Text(_printable(v.scheme)),
            Text(f"{_MARK[v.verdict]} {v.verdict}", style=_STYLE[v.verdict]),
            _bias(v).split("≈")[-1].strip(),
            _finder(v),
            _detectable(v),
            f"{sum(check.samples for check in v.checks):,}",
            f"{v.seconds:.0f}",
        )
    console.print(table, width=min(console.width, 100))
    for v in report.verdicts:
        if v.verdict in ("biased", "error", "skipped") and v.reason:
            console.print(
                Text.assemble((f"{v.subject} {v.scheme}: ", "bold"), v.reason), soft_wrap=True
            )
        if v.verdict == "biased" and (found := v.counterexample) is not None:
            for line in _two_laws(found):
                console.print(line, soft_wrap=True, markup=False, highlight=False)
            if found.command:
                console.print(f"  again: {found.command}", soft_wrap=True, markup=False)
    worst, sentence = headline(report)
    console.print(Text(f"{_MARK[worst]} {sentence}", style=_STYLE[worst]))


def _two_laws(found: Counterexample) -> list[str]:
    """The target's law beside the subject's, where they differ most first."""
    laws = (found.target_law, found.subject_law)
    sides = [{_label(o): o for o in law} for law in laws]
    nothing: Outcome = {"probability": "0"}
    rows = []
    for label in {**sides[0], **sides[1]}:
        target, subject = (side.get(label, nothing) for side in sides)
        apart = abs(rational(target["probability"]) - rational(subject["probability"]))
        mark = " *" if _differs(target, subject) else ""
        rows.append((apart, label, str(target["probability"]), _said(subject) + mark))
    if not rows:
        return []
    rows.sort(key=lambda row: -row[0])
    first = max(len(row[1]) for row in rows)
    second = max(6, *(len(row[2]) for row in rows))
    lines = [f"  {'law':<{first + 5}}{'target':>{second}}   subject"]
    lines += [
        f"       {row[1]:<{first}}{row[2]:>{second}}   {row[3]}" for row in rows[:_MOST_LINES]
    ]
    if len(rows) > _MOST_LINES:
        lines.append(f"       .. and {len(rows) - _MOST_LINES} more in --json")
    return lines + textwrap.wrap(_estimated(found), 98, initial_indent="  ", subsequent_indent="  ")


def _said(outcome: Outcome) -> str:
    """A probability: exact, or a frequency with its bounds."""
    if "low" not in outcome:
        return str(outcome["probability"])
    frequency = float(rational(outcome["probability"]))
    return f"{frequency:.4f} ({outcome['low']:.4f} to {outcome['high']:.4f})"


def _differs(target: Outcome, subject: Outcome) -> bool:
    """Whether the subject's probability is another one, beyond its bounds where estimated."""
    if "low" not in subject:
        return str(target["probability"]) != str(subject["probability"])
    wanted = float(rational(target["probability"]))
    return not subject["low"] <= wanted <= subject["high"]


def _estimated(found: Counterexample) -> str:
    """How the subject's law is known, where it is not exact."""
    if found.exact or not found.samples:
        return ""
    return (
        f"The target's law is exact. The subject's is estimated from {found.samples:,} fresh "
        f"blocks; all bounds hold with probability 0.999. Total variation at least "
        f"{found.at_least}, with probability 1 - 1e-9."
    )


# ---- JUnit XML -----------------------------------------------------------------------------------

# What XML 1.0 cannot hold, even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _plain(said: str) -> str:
    return _NOT_XML.sub("�", said)


def to_junit(report: Report) -> str:
    """JUnit XML: a suite for each scheme of each subject, a case for each check."""
    suites = ET.Element("testsuites", name="draftproof", time=f"{report.seconds:.3f}")
    for verdict in report.verdicts:
        suite = ET.SubElement(
            suites,
            "testsuite",
            name=_plain(f"{verdict.subject} {verdict.scheme}"),
            time=f"{verdict.seconds:.3f}",
        )
        checks = verdict.checks or (_only(verdict),)
        for check in checks:
            _case(suite, verdict, check)
        for key in ("failure", "error", "skipped"):
            count = sum(case.find(key) is not None for case in suite)
            suite.set({"failure": "failures", "error": "errors"}.get(key, key), str(count))
        suite.set("tests", str(len(checks)))
        if said := report.stderr.get(verdict.subject):
            ET.SubElement(suite, "system-err").text = _plain(said)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, "unicode") + "\n"


def _only(verdict: Verdict) -> CheckResult:
    """A case for a verdict without checks, such as a subject that could not be started."""
    status: Any = {"error": "error", "skipped": "skipped"}.get(verdict.verdict, "passed")
    return CheckResult("verdict", status, verdict.reason, seconds=verdict.seconds)


def _case(suite: ET.Element, verdict: Verdict, check: CheckResult) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_plain(f"{verdict.subject}.{verdict.scheme}"),
        name=check.check,
        time=f"{check.seconds:.3f}",
    )
    message = _plain(check.message)
    if check.status == "failed":
        failure = ET.SubElement(case, "failure", type="biased", message=message)
        failure.text = _plain(_details(check.counterexample)) or message
    elif check.status == "error":
        ET.SubElement(case, "error", type="error", message=message).text = message
    elif check.status == "skipped":
        ET.SubElement(case, "skipped", message=message)
    elif message:
        ET.SubElement(case, "system-out").text = message


def _details(counterexample: Counterexample | None) -> str:
    if counterexample is None:
        return ""
    return "\n".join(
        (
            f"total variation {_number(counterexample.total_variation, counterexample.exact)}",
            *filter(None, [_estimated(counterexample)]),
            f"instance: {json.dumps(counterexample.instance)}",
            f"target law: {json.dumps(counterexample.target_law)}",
            f"subject law: {json.dumps(counterexample.subject_law)}",
            f"again: {counterexample.command}",
        )
    )


# ---- GitHub Markdown -----------------------------------------------------------------------------


def to_markdown(report: Report) -> str:
    """A summary for a pull request or a job: the table, then each bias folded away."""
    worst, sentence = headline(report)
    lines = [
        f"## {_MARK[worst]} draftproof: {sentence}",
        "",
        "| subject | scheme | verdict | total variation | decided by | detectable | samples |",
        "|---|---|---|---|---|---|---:|",
    ]
    for v in report.verdicts:
        cells = (
            v.subject, v.scheme, f"{_MARK[v.verdict]} {v.verdict}", _bias(v), _finder(v),
            _detectable(v), f"{sum(check.samples for check in v.checks):,}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    for v in report.verdicts:
        if v.verdict not in ("biased", "error"):
            continue
        lines += ["", f"<details><summary>{_cell(v.subject)} {_cell(v.scheme)}</summary>", ""]
        lines.append(_cell(v.reason))
        if (found := v.counterexample) is not None:
            lines += ["", *_fenced("\n".join(_two_laws(found)), "text")]
            lines += ["", *_fenced(json.dumps(found.instance), "json")]
            if found.command:
                lines += ["", *_fenced(found.command, "sh")]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n\n"


def _cell(said: str) -> str:
    return html.escape(said, quote=False).replace("|", "\\|").replace("\n", " ")


def _fenced(code: str, language: str) -> list[str]:
    """A code block whose fence is longer than any run of backquotes inside."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
    return [fence + language, code, fence]


# ---- HTML ----------------------------------------------------------------------------------------

_CSS = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --soft: #5b6570; --line: #d8dde2;
  --box: #f4f6f8; --target: #3b6fb6; --subject: #d9822b; --lossless: #1a7f4b; --biased: #c0272d;
  --lossy: #9a6700; --error: #8a3ffc; --skipped: #5b6570; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e4e8ec; --soft: #9aa5b0;
  --line: #343b42; --box: #1d2226; --target: #7aa9e8; --subject: #f0a858; --lossless: #4cc38a;
  --biased: #ff7b7b; --lossy: #e3b341; --error: #be95ff; --skipped: #9aa5b0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 0; } h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
.soft { color: var(--soft); } .word { font-weight: 700; }
.lossless { color: var(--lossless); } .biased { color: var(--biased); }
.lossy { color: var(--lossy); } .error { color: var(--error); } .skipped { color: var(--skipped); }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1.25rem; }
section > header { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .7rem;
  overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; margin: .4rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { display: block; max-width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .soft { fill: var(--soft); } svg line { stroke: var(--line); }
.target { fill: var(--target); } .subject { fill: var(--subject); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 1em; }
.key.target { background: var(--target); margin-left: 0; } .key.subject { background: var(--subject); }
pre.command { white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); }
"""  # noqa: E501

_CLASS = {"lossy by design": "lossy", "passed": "lossless", "failed": "biased", "measured": "lossy"}


def to_html(report: Report) -> str:
    """One self-contained page."""
    worst, sentence = headline(report)
    title = f"draftproof: {sentence}"
    ordered = sorted(report.verdicts, key=lambda v: _WORST_FIRST.index(v.verdict))
    parts = [
        "<!doctype html>\n<html lang='en'>\n<meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{_text(title)}</title>\n<style>{_CSS}</style>\n<body>",
        f"<h1><span class='{_class(worst)}'>{_MARK[worst]} {_text(sentence)}</span></h1>",
        f"<p class='soft'>{_text(' '.join(report.subjects))} · {report.seconds:.0f} s · "
        f"seed {report.seed}</p>",
    ]
    if report.command:
        parts.append(f"<pre class='command'>{_text(report.command)}</pre>")
    if len(ordered) > 1:
        parts.append(_overview(ordered))
    parts += [_section(verdict) for verdict in ordered]
    parts.append(_footer(report))
    return "\n".join(parts) + "\n"


def _text(said: object) -> str:
    return html.escape(str(said))


def _class(word: str) -> str:
    return _CLASS.get(word, word)


def _overview(verdicts: Sequence[Verdict]) -> str:
    rows = "".join(
        f"<tr><td>{_text(v.subject)}<td>{_text(v.scheme)}"
        f"<td class='word {_class(v.verdict)}'>{_MARK[v.verdict]} {_text(v.verdict)}"
        f"<td>{_text(_bias(v))}<td>{_text(_finder(v))}"
        for v in verdicts
    )
    return (
        "<div class='scroll'><table><tr><th>subject<th>scheme<th>verdict<th>total variation"
        f"<th>decided by</tr>{rows}</table></div>"
    )


def _section(verdict: Verdict) -> str:
    parts = [
        "<section><header>",
        f"<h2>{_text(verdict.subject)} · {_text(verdict.scheme)}</h2>",
        f"<span class='word {_class(verdict.verdict)}'>{_MARK[verdict.verdict]} "
        f"{_text(verdict.verdict)}</span>",
        f"</header><p>{_text(verdict.reason)}</p>",
    ]
    found = verdict.counterexample
    if found is not None:
        parts.append(_counterexample(found))
    plots = _stopping_plots(verdict)
    if plots and found is None:
        plots = f"<details><summary>laws by stopping length</summary>{_LEGEND}{plots}</details>"
    parts += [plots, _checks(verdict.checks), "</section>"]
    return "".join(parts)


_LEGEND = (
    "<p><span class='key target'></span>target (by stopping length: the scheme that preserves it)"
    "<span class='key subject'></span>subject</p>"
)


def _counterexample(found: Counterexample) -> str:
    instance = found.instance
    size = f"V = {instance['vocab']}, K = {instance['drafts']}, L = {instance['length']}"
    how = "exact" if found.exact else "estimated"
    smallest = "the smallest that was found, " if found.smallest else ""
    parts = [
        f"<h3>Counterexample ({smallest}{size})</h3>",
        f"<p>Total variation <b>{_text(_number(found.total_variation, found.exact))}</b> ({how}). "
        f"{_text(_estimated(found))}</p>",
    ]
    if found.command:
        parts.append(f"<p>Reproduce with</p><pre class='command'>{_text(found.command)}</pre>")
    parts += [
        "<details><summary>instance as JSON</summary>"
        f"<pre>{_text(json.dumps(instance, indent=1))}</pre></details>",
        _LEGEND,
        _plot("Emitted tokens", _pairs(found.target_law, found.subject_law)),
    ]
    return "".join(parts)


Outcome = Mapping[str, Any]
"""`{"tokens" or "accepted" and "next", "probability"}`."""
Pairs = dict[str, tuple[float, float]]
"""Outcome → probability by the target (or the scheme), by the subject."""


def _label(outcome: Outcome) -> str:
    if "tokens" in outcome:
        return " ".join(map(str, outcome["tokens"]))
    accepted = " ".join(map(str, outcome["accepted"]))
    return f"{accepted} → {outcome['next']}".strip()


def _pairs(target: Iterable[Outcome], subject: Iterable[Outcome]) -> Pairs:
    sides: list[dict[str, float]] = [
        {_label(o): float(rational(o["probability"])) for o in law} for law in (target, subject)
    ]
    return {k: (sides[0].get(k, 0.0), sides[1].get(k, 0.0)) for k in {**sides[0], **sides[1]}}


def _stopping_plots(verdict: Verdict) -> str:
    """A plot for each accepted length: the scheme's exact law beside the subject's.

    `stops` of a check is the subject's law of (accepted, next) on its counterexample; `strata` has
    the counts of emitted strings for each accepted length on `instance`.
    """
    for check in sorted(
        verdict.checks, key=lambda c: c.counterexample is not verdict.counterexample
    ):
        given = check.details.get("instance") or getattr(check.counterexample, "instance", None)
        if given is None or not (check.details.get("stops") or check.details.get("strata")):
            continue
        instance = instance_from_json(dict(given))
        law = examine(verdict.scheme, instance).law
        if check.details.get("stops"):
            by_depth = _expected_stops(law, check.details["stops"])
        else:
            by_depth = _expected_strings(instance, law, check.details["strata"])
        plots = "".join(_plot(_caption(depth, pairs), pairs) for depth, pairs in by_depth.items())
        shrunk = verdict.counterexample
        if shrunk is not None and dict(given) != shrunk.instance:
            size = f"V = {instance.vocab}, K = {instance.drafts}, L = {instance.length}"
            said = f"By stopping length, on an instance before it was shrunk: {size}"
            plots = f"<p class='soft'>{said}</p>{plots}"
        return plots
    return ""


def _caption(depth: int, pairs: Pairs) -> str:
    scheme, subject = (sum(pair[side] for pair in pairs.values()) for side in (0, 1))
    tokens = f"{depth} accepted token{'s' * (depth != 1)}"
    return f"Stopped after {tokens}: {scheme:.4g} by the scheme, {subject:.4g} by the subject"


def _expected_stops(law: Law[Any], stops: Sequence[Outcome]) -> dict[int, Pairs]:
    expected = [
        {"accepted": list(accepted), "next": token, "probability": text(chance)}
        for (accepted, token), chance in law.items()
    ]

    def depth_of(stop: Outcome) -> int:
        return len(stop["accepted"])

    return {
        depth: _pairs(*([o for o in side if depth_of(o) == depth] for side in (expected, stops)))
        for depth in sorted({depth_of(stop) for stop in (*expected, *stops)})
    }


def _stops_after(depth: int) -> Callable[[Any], bool]:
    return lambda stop: len(stop[0]) == depth


def _expected_strings(
    instance: Instance, law: Law[Any], strata: Sequence[Mapping[str, Any]]
) -> dict[int, Pairs]:
    samples = sum(stratum["samples"] for stratum in strata)
    observed = {
        stratum["accepted_length"]: [
            {"tokens": o["tokens"], "probability": f"{o['count']}/{samples}"}
            for o in stratum["strings"]
        ]
        for stratum in strata
    }
    depths = law.map(lambda stop: len(stop[0]))
    pairs = {}
    for depth in sorted({*depths, *observed}):
        expected: list[Outcome] = []
        if mass := depths.probability(depth):
            strings = string_law(instance, law.condition(_stops_after(depth)))
            expected = [
                {"tokens": list(tokens), "probability": text(mass * chance)}
                for tokens, chance in strings.items()
            ]
        pairs[depth] = _pairs(expected, observed.get(depth, []))
    return pairs


class _Size(NamedTuple):
    left: int = 130
    width: int = 560
    bar: int = 9
    gap: int = 8


def _plot(caption: str, pairs: Pairs) -> str:
    """Horizontal bars, the target's above the subject's; the largest differences first to stay."""
    s = _Size()
    shown = sorted(pairs, key=lambda k: -abs(pairs[k][0] - pairs[k][1]))[:_MOST_BARS]
    shown = sorted(shown, key=lambda k: [int(t) if t.isdigit() else -1 for t in k.split()])
    most = max((max(pairs[k]) for k in shown), default=0) or 1
    step = 2 * s.bar + s.gap
    height = step * len(shown) + 10
    out = [
        f"<h3>{_text(caption)}</h3>",
        f"<svg viewBox='0 0 {s.left + s.width + 170} {height}' role='img' "
        f"aria-label='{_text(caption)}'>",
        f"<line x1='{s.left}' y1='0' x2='{s.left}' y2='{height - 8}'/>",
    ]
    for number, key in enumerate(shown):
        top = number * step + 3
        wanted, got = pairs[key]
        out.append(
            f"<g><title>{_text(key)}: target {wanted:.6g}, subject {got:.6g}</title>"
            f"<text x='{s.left - 8}' y='{top + s.bar + 4}' text-anchor='end'>{_text(key)}</text>"
        )
        for value, name, y in ((wanted, "target", top), (got, "subject", top + s.bar)):
            out.append(
                f"<rect class='{name}' x='{s.left}' y='{y}' height='{s.bar - 1}' "
                f"width='{value / most * s.width:.1f}'/>"
            )
        end = s.left + max(wanted, got) / most * s.width + 8
        out.append(
            f"<text class='soft' x='{end:.1f}' y='{top + s.bar + 4}'>{wanted:.4g} / {got:.4g}"
            f"</text></g>"
        )
    out.append("</svg>")
    if len(shown) < len(pairs):
        out.append(
            f"<p class='soft'>{len(pairs) - len(shown)} outcomes with smaller differences are not "
            "drawn.</p>"
        )
    return "".join(out)


def _checks(checks: Sequence[CheckResult]) -> str:
    if not checks:
        return ""
    rows = "".join(
        f"<tr><td>{_text(c.check)}<td class='word {_class(c.status)}'>{_text(c.status)}"
        f"<td>{_text(c.message)}<td class='n'>{c.samples:,}<td class='n'>{c.seconds:.1f}"
        f"<td class='n'>{'' if c.evidence is None else f'{c.evidence:.1f}'}"
        f"<td class='n'>{'' if c.detectable is None else f'{c.detectable:.2g}'}"
        for c in checks
    )
    return (
        "<h3>Checks</h3><div class='scroll'><table><tr><th>check<th>status<th>found"
        "<th class='n'>samples<th class='n'>seconds<th class='n'>ln e-value"
        f"<th class='n'>detectable</tr>{rows}</table></div>"
        "<p class='soft'>Detectable: the smallest total variation that the check finds with "
        "probability 0.999.</p>"
    )


def _footer(report: Report) -> str:
    parts = ["<section>"]
    for name, said in report.stderr.items():
        parts.append(f"<h3>Standard error of {_text(name)}</h3><pre>{_text(said)}</pre>")
    if report.declarations:
        declared = json.dumps(report.declarations, indent=1, default=str)
        parts.append(
            f"<details><summary>declarations</summary><pre>{_text(declared)}</pre></details>"
        )
    versions = " · ".join(f"{name} {v}" for name, v in report.environment.items())
    parts.append(f"<p class='soft'>{_text(versions)}</p></section>")
    return "".join(parts)

"""pytest plugin: the suite's checks as tests of an engine's own continuous integration.

    pytest --draftproof=package.module:factory

adds one test for each check of each scheme that the factory's subject declares. A test of one's own
can ask for the fixture `draftproof` instead:

    def test_lossless(draftproof):
        draftproof(MyVerifier())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from draftproof.conformance.campaign import Task
    from draftproof.conformance.verdict import CheckResult, Report

# The plugin is imported by every pytest run of an environment, so the suite is imported when used.

_BUDGET = 15.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("draftproof", "is a speculative-decoding verifier lossless?")
    group.addoption(
        "--draftproof",
        metavar="SUBJECT",
        action="append",
        default=[],
        help="package.module:factory, or any other subject of `draftproof check`; may be repeated",
    )
    group.addoption(
        "--draftproof-scheme", action="append", default=[], help="only this scheme; may be repeated"
    )
    group.addoption("--draftproof-checks", default="", help="only these, separated by commas")
    group.addoption(
        "--draftproof-budget", type=float, default=_BUDGET, help="seconds a scheme [15]"
    )
    group.addoption("--draftproof-seed", type=int, default=0, help="seed of the run [0]")
    group.addoption("--draftproof-html", metavar="FILE", help="write the report as one page")


def _spec(given: str) -> str:
    """The subject's name on the command line: a bare package.module:factory is Python."""
    from draftproof.conformance.adapters import KNOWN

    return given if given.partition(":")[0] in KNOWN else f"python:{given}"


def _names(checks: str) -> list[str]:
    from draftproof.conformance.checks import CHECKS

    wanted = [c.strip().replace("_", " ") for c in checks.split(",") if c.strip()]
    for name in wanted:
        if name not in CHECKS:
            raise pytest.UsageError(f"unknown check {name!r}; known: {', '.join(CHECKS)}")
    return wanted or list(CHECKS)


class _FailedError(Exception):
    """A check failed, or could not be made."""

    def __init__(self, task: Task, result: CheckResult) -> None:
        super().__init__(result.message)
        self.task = task
        self.result = result

    def __str__(self) -> str:
        lines = [f"{self.task.subject} {self.task.scheme}: {self.result.message}"]
        if (found := self.result.counterexample) is not None:
            import json

            lines += [
                f"total variation {found.total_variation}",
                f"instance: {json.dumps(found.instance)}",
                f"target law: {json.dumps(found.target_law)}",
                f"subject law: {json.dumps(found.subject_law)}",
                f"again: {found.command}",
            ]
        if said := self.result.details.get("output"):
            lines += ["output of the subject:", str(said)]
        return "\n".join(lines)


class Check(pytest.Item):
    """One check of one scheme of one subject."""

    def __init__(self, *, task: Task, declaration: Any, **given: Any) -> None:
        super().__init__(**given)
        self.task = task
        self.declaration = declaration

    def runtest(self) -> None:
        """Run the check behind the suite's guard."""
        from draftproof.conformance.campaign import run_task
        from draftproof.conformance.verdict import CheckResult

        result = CheckResult.from_json(run_task(self.task))
        self.config.stash[_FINISHED].append((self.task, result))
        self.config.stash[_DECLARATIONS][self.task.subject] = self.declaration
        if result.status in ("failed", "error"):
            raise _FailedError(self.task, result)
        if result.status == "skipped":
            pytest.skip(result.message)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The message alone: a traceback through the suite tells an engine's author nothing."""
        if isinstance(excinfo.value, _FailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where the test is, for headings."""
        return self.path, None, self.name


class Unavailable(pytest.Item):
    """A subject that cannot be tested: skipped where something is missing, else failed."""

    def __init__(self, *, verdict: Any, **given: Any) -> None:
        super().__init__(**given)
        self.verdict = verdict

    def runtest(self) -> None:
        """Skip or fail."""
        if self.verdict.verdict == "skipped":
            pytest.skip(self.verdict.reason)
        pytest.fail(self.verdict.reason, pytrace=False)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where the test is, for headings."""
        return self.path, None, self.name


_FINISHED = pytest.StashKey[Any]()
_DECLARATIONS = pytest.StashKey[Any]()


def pytest_configure(config: pytest.Config) -> None:
    """Room for results."""
    config.stash[_FINISHED] = []
    config.stash[_DECLARATIONS] = {}


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the checks of every subject that was named."""
    for given in config.getoption("--draftproof"):
        items += _items(session, config, _spec(given))


def _items(session: pytest.Session, config: pytest.Config, subject: str) -> Iterator[pytest.Item]:
    from dataclasses import replace

    from draftproof.conformance.campaign import ask_declaration, plan, schemes_of, threshold_for

    checks = _names(config.getoption("--draftproof-checks"))
    try:
        asked = ask_declaration(subject)
        if asked.declaration is None:
            name = f"draftproof::{subject}"
            yield Unavailable.from_parent(session, name=name, verdict=asked.verdict)
            return
        tasks = plan(
            subject,
            asked.declaration,
            schemes_of(asked.declaration, config.getoption("--draftproof-scheme")),
            checks,
            seeds=[config.getoption("--draftproof-seed")],
            budget=config.getoption("--draftproof-budget"),
        )
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    subjects = len(config.getoption("--draftproof"))
    for task in tasks:
        # The false-alarm rate is that of the whole run.
        task = replace(task, threshold=threshold_for(len(tasks) * subjects))
        name = f"draftproof::{subject}::{task.scheme}::{task.check}"
        yield Check.from_parent(session, name=name, task=task, declaration=asked.declaration)


def _report(config: pytest.Config) -> Report | None:
    if not config.stash[_FINISHED]:
        return None
    from draftproof.conformance.campaign import verdicts_of, versions
    from draftproof.conformance.verdict import Report

    declarations = config.stash[_DECLARATIONS]
    return Report(
        subjects=tuple(declarations),
        verdicts=tuple(verdicts_of(config.stash[_FINISHED], declarations)),
        seed=config.getoption("--draftproof-seed"),
        budget=config.getoption("--draftproof-budget"),
        declarations={name: d.to_json() for name, d in declarations.items()},
        environment=versions(),
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line a verdict."""
    report = _report(config)
    if report is None:
        return
    terminalreporter.section("draftproof")
    for v in report.verdicts:
        terminalreporter.line(f"{v.subject} {v.scheme}: {v.verdict} {v.reason}".rstrip())
    if file := config.getoption("--draftproof-html"):
        from draftproof.conformance.report import write_reports

        write_reports(report, html_file=file)
        terminalreporter.line(f"report: {file}")


@pytest.fixture(name="draftproof")
def draftproof_fixture(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """A function that tests a subject (an object with `declaration` and `verify`) and fails the
    test with the counterexample unless every scheme is lossless, or lossy by design.

    `draftproof(subject, schemes=(..), checks=(..), budget=15, seed=0)` returns the report.
    """
    from draftproof.conformance.campaign import check_object

    def run(
        subject: Any,
        *,
        schemes: Sequence[str] = (),
        checks: Sequence[str] = (),
        budget: float | None = None,
        seed: int = 0,
    ) -> Report:
        if budget is None:
            budget = request.config.getoption("--draftproof-budget")
        report = check_object(subject, schemes=schemes, checks=checks, seed=seed, budget=budget)
        bad = [v for v in report.verdicts if v.verdict in ("biased", "error")]
        if bad:
            pytest.fail("\n".join(_told(v) for v in bad), pytrace=False)
        return report

    return run


def _told(verdict: Any) -> str:
    lines = [f"{verdict.subject} {verdict.scheme}: {verdict.verdict}: {verdict.reason}"]
    if (found := verdict.counterexample) is not None:
        import json

        lines.append(f"  total variation {found.total_variation}: {json.dumps(found.instance)}")
    return "\n".join(lines)

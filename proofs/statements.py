"""The table of statements: statements.toml made into README.md, and checked.

python statements.py --write            renew the table in README.md
python statements.py --check            exit 1 if the table in README.md is not that of the data
python statements.py --assumptions      exit 1 unless every theorem is closed under the global
                                        context (needs the compiled theories)
python statements.py --coqchk LOG       exit 1 unless the log of coqchk lists no axiom of ours
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE / "README.md"
BEGIN, END = "<!-- table: begin (python statements.py --write) -->", "<!-- table: end -->"
KINDS = {
    "lossless": "Lossless",
    "rounds": "Many rounds, carries included",
    "acceptance": "What is accepted",
    "optimality": "Optimality and bounds",
    "value": "Values",
    "reduction": "Reductions and order of tests",
    "robustness": "Robustness: inexact coins and rows",
    "tool": "The clip, selection, and other tools",
    "refutation": "Refutations, by computation on rationals, and hypotheses that are needed",
}
REQUIRED = {"schemes", "kind", "says", "paper", "status"}
OPTIONAL = {"coq", "file", "tried", "python", "docs"}

Statement = dict[str, Any]


def load(path: Path = HERE / "statements.toml") -> list[Statement]:
    """The statements.

    Raises:
        ValueError: an entry that breaks the format, by its number and first words.
    """
    statements: list[Statement] = tomllib.loads(path.read_text())["statement"]
    for number, entry in enumerate(statements):
        where = f"statement {number} ({entry.get('says', '')[:40]}..)"
        keys = set(entry)
        if not keys >= REQUIRED or not keys <= REQUIRED | OPTIONAL:
            raise ValueError(f"{where}: keys {sorted(keys)}")
        if entry["kind"] not in KINDS:
            raise ValueError(f"{where}: unknown kind {entry['kind']!r}")
        needed = {"proved": {"coq", "file"}, "open": {"tried"}}.get(entry["status"])
        if needed is None or not keys >= needed:
            raise ValueError(
                f"{where}: status {entry['status']!r} needs {needed or 'another name'}"
            )
        if "file" in entry and not (HERE / "theories" / f"{entry['file']}.v").exists():
            raise ValueError(f"{where}: theories/{entry['file']}.v does not exist")
    return statements


def theorems(statements: list[Statement]) -> list[str]:
    """The qualified names of all headline theorems, each once, in order."""
    names = (
        f"Draftproof.{entry['file'].replace('/', '.')}.{name}"
        for entry in statements
        for name in entry.get("coq", ())
    )
    return list(dict.fromkeys(names))


CLOSED = "Closed under the global context"


def _assumptions(names: list[str], terms: list[str]) -> tuple[list[str], str]:
    """What Coq says of each of the terms, which are made of the theorems; or its error."""
    modules = sorted({name.rpartition(".")[0] for name in names})
    build = HERE / "build"
    build.mkdir(exist_ok=True)
    script = build / "assumptions.v"
    script.write_text(
        "".join(f"Require {module}.\n" for module in modules)
        + "".join(
            f"Definition term{i} := {term}.\nPrint Assumptions term{i}.\n"
            for i, term in enumerate(terms)
        )
    )
    done = subprocess.run(
        ["coqc", "-w", "none", "-Q", str(HERE / "theories"), "Draftproof", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return [], done.stderr
    answers = re.split(r"^(?=Closed under|Axioms:|Section Variables:)", done.stdout, flags=re.M)
    answers = [answer.strip() for answer in answers if answer.strip()]
    if len(answers) != len(terms):
        return [], f"{len(answers)} answers for {len(terms)} terms:\n{done.stdout}"
    return answers, ""


def check_assumptions(names: list[str]) -> list[str]:
    """Those of the theorems that are not closed under the global context, with what Coq says."""
    # All of them at once, which is an order of magnitude faster; one by one only to say which.
    together = ", ".join(f"@{name}" for name in names)
    answers, error = _assumptions(names, [f"({together})"])
    if answers == [CLOSED]:
        return []
    answers, error = _assumptions(names, [f"@{name}" for name in names])
    return (
        [error] if error else [f"{n}: {said}" for n, said in zip(names, answers) if said != CLOSED]
    )


def check_coqchk(log: str) -> str:
    """What coqchk's summary says against the theories; "" if nothing.

    With -norec the axioms it lists are those of the modules it was asked to check and of what they
    load; only the latter, the distribution's own libraries, may have any.
    """
    match = re.search(r"^\* Axioms:(.*?)(?=^\* |\Z)", log, flags=re.M | re.S)
    if match is None:
        return "coqchk printed no summary:\n" + log
    ours = [line.strip() for line in match[1].splitlines() if "Draftproof" in line]
    return "axioms: " + ", ".join(ours) if ours else ""


def table(statements: list[Statement]) -> str:
    """The statements as Markdown, grouped by kind."""
    lines = []
    for kind, title in KINDS.items():
        entries = [entry for entry in statements if entry["kind"] == kind]
        if not entries:
            continue
        lines += [f"### {title}", "", "| statement | schemes | paper | Coq | Python | docs |"]
        lines += ["|---|---|---|---|---|---|"]
        for entry in entries:
            says = entry["says"]
            if entry["status"] == "open":
                coq = "**open**"
                says += f" **Open**: {entry['tried']}"
            else:
                names = ", ".join(f"`{name}`" for name in entry["coq"])
                coq = f"{names} in [{entry['file']}](theories/{entry['file']}.v)"
            python = ", ".join(
                f"`{n.removeprefix('draftproof.')}`" for n in entry.get("python", ())
            )
            docs = f"[{entry['docs']}](../docs/{entry['docs']}.md)" if "docs" in entry else ""
            cells = [says, ", ".join(entry["schemes"]) or "all", entry["paper"], coq, python, docs]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def with_table(readme: str, statements: list[Statement]) -> str:
    """The text of README.md with its table renewed."""
    head, found, rest = readme.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"README.md lacks the lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n\n{table(statements)}\n{END}{tail}"


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--assumptions", action="store_true")
    parser.add_argument("--coqchk", type=Path, metavar="LOG")
    arguments = parser.parse_args()
    statements = load()
    if arguments.write:
        temporary = README.with_suffix(".tmp")
        temporary.write_text(with_table(README.read_text(), statements))
        os.replace(temporary, README)
    if arguments.check and with_table(README.read_text(), statements) != README.read_text():
        print("README.md is not up to date: python statements.py --write")
        return 1
    if arguments.assumptions:
        names = theorems(statements)
        if bad := check_assumptions(names):
            print("\n".join(["not closed under the global context:", *bad]))
            return 1
        print(f"{len(names)} theorems, all closed under the global context")
    if arguments.coqchk and (said := check_coqchk(arguments.coqchk.read_text())):
        print(said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The table of statements is complete, up to date and true to the files it names."""

import importlib
import re
from pathlib import Path

import pytest
from draftproof.reference.catalogue import SCHEMES

STATEMENT = re.compile(
    r"^\s*(?:Theorem|Corollary|Lemma|Example|Definition|Fact)\s+([\w']+)", re.MULTILINE
)
COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)


def missing_schemes(entries, schemes):
    """Schemes that the table does not account for, each with what is missing."""
    by_kind = {}
    for entry in entries:
        for name in entry["schemes"]:
            by_kind.setdefault(name, []).append(entry)
    missing = {}
    for name, scheme in schemes.items():
        kinds = {entry["kind"] for entry in by_kind.get(name, ())}
        if scheme.lossless and not scheme.approximate:
            if "lossless" not in kinds:
                missing[name] = "no statement of losslessness, proved or open"
        elif scheme.approximate:
            if not kinds & {"robustness", "lossless"}:
                missing[name] = "no statement about its error, proved or open"
        elif "refutation" not in kinds:
            missing[name] = "no refutation"
    return missing


def test_every_scheme_of_the_catalogue_is_in_the_table(statements):
    assert missing_schemes(statements.load(), SCHEMES) == {}


def test_a_scheme_without_a_statement_is_noticed(statements):
    entries = statements.load()
    for name in SCHEMES:
        without = [{**e, "schemes": [s for s in e["schemes"] if s != name]} for e in entries]
        assert name in missing_schemes(without, SCHEMES)


def test_the_table_names_only_schemes_of_the_catalogue(statements):
    named = {name for entry in statements.load() for name in entry["schemes"]}
    assert named <= set(SCHEMES)


def test_every_theorem_is_in_the_file_the_table_says(statements, proofs):
    for entry in statements.load():
        if entry["status"] == "proved":
            text = (proofs / "theories" / f"{entry['file']}.v").read_text()
            assert set(entry["coq"]) <= set(STATEMENT.findall(text)), entry["says"]


def test_every_hypothesis_that_is_called_needed_is_shown_to_be(statements, proofs):
    """Each claim of refutations/needed.v is proved with its hypothesis, refuted without, listed."""
    text = COMMENT.sub("", (proofs / "theories" / "refutations" / "needed.v").read_text())
    claims = set(re.findall(r"^Definition (\w+_claim)", text, re.MULTILINE))
    kept = dict(re.findall(r"^Theorem (\w+) : (\w+_claim) \(", text, re.MULTILINE))
    dropped = dict(re.findall(r"^Theorem (\w+) : ~ (\w+_claim) \(fun", text, re.MULTILINE))
    assert len(claims) >= 10
    assert set(kept.values()) == set(dropped.values()) == claims
    listed = {name for entry in statements.load() for name in entry.get("coq", ())}
    assert {*kept, *dropped} <= listed


def test_every_python_name_exists(statements):
    for entry in statements.load():
        for name in entry.get("python", ()):
            parts = name.split(".")
            for cut in range(len(parts), 0, -1):
                try:
                    found = importlib.import_module(".".join(parts[:cut]))
                    break
                except ModuleNotFoundError:
                    continue
            for attribute in parts[cut:]:
                found = getattr(found, attribute)


def test_every_docs_page_exists(statements, proofs):
    pages = {entry["docs"] for entry in statements.load() if "docs" in entry}
    assert [page for page in pages if not (proofs.parent / "docs" / f"{page}.md").exists()] == []


def test_the_readme_is_up_to_date(statements, proofs):
    readme = (proofs / "README.md").read_text()
    assert statements.with_table(readme, statements.load()) == readme


def test_a_readme_that_is_behind_is_noticed(statements, proofs):
    entries = statements.load()
    entries[0] = {**entries[0], "says": "something else"}
    readme = (proofs / "README.md").read_text()
    assert statements.with_table(readme, entries) != readme


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "miracle"}, "unknown kind"),
        ({"status": "open"}, "needs"),
        ({"status": "believed"}, "needs"),
        ({"colour": "red"}, "keys"),
        ({"file": "theorems/no_such_file"}, "does not exist"),
    ],
)
def test_a_broken_entry_is_refused(statements, tmp_path, change, message):
    entry = {
        "schemes": [],
        "kind": "tool",
        "says": "x",
        "paper": "y",
        "status": "proved",
        "coq": ["maximal_law"],
        "file": "theorems/maximal",
    } | change
    lines = [f"{key} = {value!r}" for key, value in entry.items()]
    path = tmp_path / "statements.toml"
    path.write_text("[[statement]]\n" + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=message):
        statements.load(path)


def theories(proofs: Path) -> list[Path]:
    return sorted((proofs / "theories").rglob("*.v"))


def test_every_theory_is_built(proofs):
    listed = set((proofs / "_CoqProject").read_text().split())
    unlisted = [str(p.relative_to(proofs)) for p in theories(proofs)]
    assert [p for p in unlisted if p not in listed] == ["theories/oracle/extract.v"]


def test_nothing_is_assumed_or_admitted(proofs):
    forbidden = re.compile(
        r"\b(Axioms?|Parameters?|Conjecture|Admitted|admit|give_up|Unset Guard Checking"
        r"|Unset Universe Checking|Unset Positivity Checking|type_in_type)\b"
    )
    for path in theories(proofs):
        code = COMMENT.sub("", path.read_text())
        assert not forbidden.search(code), path

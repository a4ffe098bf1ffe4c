"""What needs Coq: fresh instances, the checks of the build, and faults on the side of the proofs.

Where Coq is absent these are skipped with what to install; DRAFTPROOF_REQUIRE_COQ=1 forbids that.
"""

import re
import shutil
import subprocess

import pytest

pytestmark = [pytest.mark.coq, pytest.mark.slow]


def coqc(proofs, directory, text):
    (directory / "check.v").write_text(text)
    command = ["coqc", "-w", "none", "-Q", str(proofs / "theories"), "Draftproof", "check.v"]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=600
    )


def test_trees_agree_on_fresh_instances(built, compare_trees):
    for name in compare_trees.WIRINGS:
        done, _, difference = compare_trees.compare(name, 20, "tests")
        assert (done, difference) == (20, "")


def test_every_headline_theorem_is_closed(built, statements):
    names = statements.theorems(statements.load())
    assert len(names) > 80
    assert statements.check_assumptions(names) == []


def test_an_axiom_below_a_theorem_is_noticed(built, statements, tmp_path, monkeypatch):
    """The same check, on a theory with an axiom and one that is not finished."""
    (tmp_path / "theories").mkdir()
    (tmp_path / "theories" / "bad.v").write_text(
        "Axiom luck : 0 = 1.\nTheorem assumed : 1 = 0. Proof. exact (eq_sym luck). Qed.\n"
        "Theorem unfinished : 0 = 1. Admitted.\nTheorem sound : 0 = 0. Proof. reflexivity. Qed.\n"
    )
    command = ["coqc", "-w", "none", "-Q", "theories", "Draftproof", "theories/bad.v"]
    subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setattr(statements, "HERE", tmp_path)
    names = [f"Draftproof.bad.{name}" for name in ("assumed", "unfinished", "sound")]
    bad = statements.check_assumptions(names)
    assert [entry.split(":")[0] for entry in bad] == names[:2]


def test_the_coqchk_summary_is_read(statements):
    clean = "CONTEXT SUMMARY\n* Axioms:\n    Coq.Logic.Eqdep.Eq_rect_eq\n* Constants: <none>\n"
    assert statements.check_coqchk(clean) == ""
    dirty = clean.replace("* Constants", "    Draftproof.theorems.block.luck\n* Constants")
    assert "luck" in statements.check_coqchk(dirty)
    assert statements.check_coqchk("Fatal Error") != ""


def claims(proofs):
    """The header of refutations/needed.v, and of each claim: its definition, the theorem that it
    holds with the hypothesis, and what stands in the place of the hypothesis in its refutation.
    """
    header, *sections = re.split(
        r"^(?=\(\* --- )",
        (proofs / "theories/refutations/needed.v").read_text(),
        flags=re.MULTILINE,
    )
    found = {}
    for section in sections:
        definition, theorem, refutation = re.search(
            r"^(Definition .*?)^(Theorem .*?Qed\.)\s+Theorem \w+ : ~ (.*?)\.$", section, re.M | re.S
        ).groups()
        found[re.match(r"Theorem (\w+)", theorem)[1]] = (definition, theorem, refutation)
    return header, found


NEEDED = (
    "maximal_sum",
    "drafter_same",
    "answer_uniq",
    "choice_law",
    "scale_valid",
    "carry_kept",
    "labels_average",
    "one_draft",
    "order_same",
    "domination",
)


def test_every_needed_hypothesis_is_dropped_below(proofs):
    assert tuple(claims(proofs)[1]) == NEEDED


@pytest.mark.parametrize("name", NEEDED)
def test_the_proof_of_a_theorem_fails_without_its_hypothesis(built, tmp_path, name):
    """The proof as it stands, of the statement that is refuted in the same file."""
    header, found = claims(built)
    definition, theorem, without = found[name]
    dropped = re.sub(r"\A(Theorem \w+ : ).*?\.$", rf"\g<1>{without}.", theorem, flags=re.M | re.S)
    assert dropped != theorem
    assert coqc(built, tmp_path, f"{header}{definition}{theorem}\n").returncode == 0
    done = coqc(built, tmp_path, f"{header}{definition}{dropped}\n")
    assert done.returncode == 1
    assert "Error" in done.stderr


def test_the_oracle_with_a_fault_differs(built, compare_trees, monkeypatch, tmp_path):
    """A fault on the side of the oracle is seen as well as one in Python."""
    if shutil.which("ocamlfind") is None:
        pytest.skip("ocamlfind is missing")
    shutil.copy(built / "build" / "oracle.ml", tmp_path)
    main = (built / "ocaml" / "main.ml").read_text()
    right, exchanged = "tree_block vs pds qt l", "tree_block vs [qt] (List.hd pds) l"
    wrong = main.replace(f'"block" -> {right}', f'"block" -> {exchanged}')
    assert wrong != main
    (tmp_path / "main.ml").write_text(wrong)
    shutil.copy(built / "build" / "oracle.mli", tmp_path)
    command = ["ocamlfind", "ocamlopt", "-w", "-a", "-package", "zarith", "-linkpkg"]
    command += ["oracle.mli", "oracle.ml", "main.ml", "-o", "oracle"]
    subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setattr(compare_trees, "ORACLE", tmp_path / "oracle")
    assert compare_trees.compare("block", 50, "fault")[2] != ""
    assert compare_trees.compare("token_by_token", 50, "fault")[2] == ""

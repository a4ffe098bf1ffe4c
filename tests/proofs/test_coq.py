"""What needs Coq: fresh instances, the checks of the build, and faults on the side of the proofs.

Where Coq is absent these are skipped with what to install; DRAFTPROOF_REQUIRE_COQ=1 forbids that.
"""

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


HEAD = """
From mathcomp Require Import all_ssreflect all_algebra.
From Draftproof.base Require Import probability.
From Draftproof.programs Require Import maximal drafting kseq validity kseq_block spectr_gbv
  greedy_block selection ranked_block multipath contract.
From Draftproof.theorems Require Import contract.
Local Open Scope ring_scope.
Section S.
Variables (R : realFieldType) (V : eqType) (vs : seq V) (pd qt : seq V -> V -> R).
Hypotheses (dpd : forall c, is_dist vs (pd c)) (dqt : forall c, is_dist vs (qt c)).
"""
# A theorem used with a hypothesis left out: (what is needed, the right use, the use without it).
# refutations/*.v show for each of these that the statement without it is false.
DROPPED = {
    "a valid scale": (
        "Lemma use rho K L : {hypothesis}\n"
        "  valid vs qt (kseq_block_contract vs pd qt rho true K L) L.\n"
        "Proof. {proof} Qed.",
        ("rho_ok vs rho -> ", "by move=> rok; exact: kseq_block_contract_valid."),
        ("", "by apply: kseq_block_contract_valid."),
    ),
    "the carry": (
        "Lemma use L D c f : (forall x, is_dist vs (D x)) ->\n"
        "  E vs (bind (greedy_block_contract vs pd L D c)\n"
        "    (fun o => fill {hypothesis} (size c + L.+1)%N o.1)) f\n"
        "  = E vs (generate D L.+1 c) f.\nProof. {proof} Qed.",
        ("o.2", "by move=> dD; exact: greedy_block_contract_valid."),
        ("D", "by move=> dD; exact: greedy_block_contract_valid."),
    ),
    "column sums of the label laws": (
        "Lemma use J pi0 post K L : is_law J pi0 -> (forall c x, is_law J (post c x)) ->\n"
        "  (forall c l, (l < J)%N -> post c c l = pi0 l) -> {hypothesis}\n"
        "  valid vs qt (ranked_block_contract vs pd qt J pi0 post K.+1 L) L.\nProof. {proof} Qed.",
        (
            "(forall c x l, (l < J)%N ->"
            " \\sum_(v <- vs) pd x v * post c (rcons x v) l = post c x l) ->",
            "by move=> h1 h2 h3 h4; exact: ranked_block_contract_valid.",
        ),
        ("", "by move=> h1 h2 h3; apply: ranked_block_contract_valid."),
    ),
}


@pytest.mark.parametrize("needed", DROPPED)
def test_a_theorem_without_its_hypothesis_does_not_apply(built, tmp_path, needed):
    text, right, dropped = DROPPED[needed]
    for (hypothesis, proof), accepted in ((right, True), (dropped, False)):
        statement = text.replace("{hypothesis}", hypothesis).replace("{proof}", proof)
        imports = HEAD.replace("Import contract.\nLocal", "Import contract multipath.\nLocal")
        done = coqc(built, tmp_path, f"{imports}{statement}\nEnd S.\n")
        assert (done.returncode == 0) == accepted, done.stderr


def test_the_oracle_with_a_fault_differs(built, compare_trees, monkeypatch, tmp_path):
    """A fault on the side of the oracle is seen as well as one in Python."""
    if shutil.which("ocamlfind") is None:
        pytest.skip("ocamlfind is missing")
    shutil.copy(built / "build" / "oracle.ml", tmp_path)
    main = (built / "ocaml" / "main.ml").read_text()
    wrong = main.replace('"block" -> tree_block vs pd qt l', '"block" -> tree_block vs qt pd l')
    assert wrong != main
    (tmp_path / "main.ml").write_text(wrong)
    shutil.copy(built / "build" / "oracle.mli", tmp_path)
    command = ["ocamlfind", "ocamlopt", "-w", "-a", "-package", "zarith", "-linkpkg"]
    command += ["oracle.mli", "oracle.ml", "main.ml", "-o", "oracle"]
    subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setattr(compare_trees, "ORACLE", tmp_path / "oracle")
    assert compare_trees.compare("block", 50, "fault")[2] != ""
    assert compare_trees.compare("token_by_token", 50, "fault")[2] == ""

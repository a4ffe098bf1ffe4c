"""The reference gives the decision trees that the proved programs gave, on the committed vectors.

The extracted Coq oracle writes the vectors (`make -C proofs vectors`): this needs no Coq.
"""

import json
from pathlib import Path

import pytest


def vectors(proofs, compare_trees, name):
    path = proofs / "vectors" / compare_trees.WIRINGS[name].file
    content = json.loads(path.read_text())
    assert content["format"] == 1
    assert content["scheme"] == compare_trees.WIRINGS[name].scheme
    return [(compare_trees.from_json(v), v["tree"]) for v in content["vectors"]]


NAMES = [
    "maximal",
    "kseq",
    "recursive_rejection",
    "without_replacement",
    "target_match",
    "canonical",
    "canonical/distinct",
    "transport",
    "spechub",
    "token_by_token",
    "block",
    "greedy_block",
    "spectr",
    "spectr:canonical",
    "spectr:recursive_rejection",
    "spectr:target_match",
    "spectr:transport",
    "spectr:without_replacement",
    "spectr:without_replacement/distinct",
    "tree_match",
    "kseq_block",
    "spectr_gbv:unit",
    "spectr_gbv:kseq",
    "traversal",
    "multipath",
    "ranked_block",
    "ranked_block:stateful",
    "recursive_rejection/models",
    "target_match/models",
    "spectr:recursive_rejection/models",
    "spectr:target_match/models",
    "spectr_gbv:unit/models",
    "ranked_block/models",
    "ranked_block:stateful/models",
    "greedy_block/rounds",
    "spectr_gbv:unit/rounds",
    "spectr_gbv:kseq/rounds",
    "ranked_block:stateful/rounds",
    "spectr_gbv:unit/models/rounds",
    "ranked_block:stateful/models/rounds",
]


def test_every_lossless_scheme_is_wired(compare_trees):
    """All of the catalogue but Global Resolution, which is lossless up to an error only."""
    wired = {wiring.scheme for wiring in compare_trees.WIRINGS.values()}
    exact = {name for name, s in compare_trees.SCHEMES.items() if s.lossless and not s.approximate}
    assert wired == exact


def test_schemes_of_several_models_and_of_several_rounds_are_wired_as_such(compare_trees):
    for name, scheme in compare_trees.SCHEMES.items():
        own = [w for w in compare_trees.WIRINGS.values() if w.scheme == name]
        if scheme.draft_law in ("independent", "any") and not scheme.approximate:
            assert any(w.models for w in own), name
        if scheme.stateful and scheme.lossless:
            assert any(w.rounds == 2 for w in own), name
        if scheme.draft_law == "without_replacement":
            assert any(w.draw_drafts.__name__ == "draw_distinct" for w in own), name


def test_every_wiring_has_vectors(proofs, compare_trees):
    assert list(compare_trees.WIRINGS) == NAMES
    files = {path.stem for path in (proofs / "vectors").glob("*.json")}
    assert files == {Path(wiring.file).stem for wiring in compare_trees.WIRINGS.values()}


@pytest.mark.parametrize("name", NAMES)
def test_trees_equal_those_of_the_proved_program(proofs, compare_trees, name):
    wiring = compare_trees.WIRINGS[name]
    cases = vectors(proofs, compare_trees, name)
    assert len(cases) >= 40
    for instance, proved in cases:
        found = wiring.tree(instance)
        assert found == proved, compare_trees.first_difference(found, proved)


@pytest.mark.parametrize("name", NAMES)
def test_the_vectors_are_varied(proofs, compare_trees, name):
    """Zeros, equal rows and coins that are not certain all occur."""
    cases = vectors(proofs, compare_trees, name)
    rows = [row for instance, _ in cases for row in instance.target_rows.values()]
    assert any(0 in row for row in rows)
    assert any(0 not in row and len(row) > 1 for row in rows)
    assert any(
        instance.draft_rows[x] == instance.target_rows[x]
        for instance, _ in cases
        for x in instance.draft_rows
    )
    assert any('"flip": "1/' in json.dumps(tree) for _, tree in cases)


def test_a_vector_survives_the_round_trip_through_json(proofs, compare_trees):
    for name in NAMES:
        path = proofs / "vectors" / compare_trees.WIRINGS[name].file
        for vector in json.loads(path.read_text())["vectors"]:
            instance = compare_trees.from_json(vector)
            assert compare_trees.to_json(instance) == vector["instance"]

"""The reference gives the decision trees that the proved programs gave, on the committed vectors.

The extracted Coq oracle writes the vectors (`make -C proofs vectors`): this needs no Coq.
"""

import json

import pytest


def vectors(proofs, compare_trees, name):
    path = proofs / "vectors" / f"{name.replace(':', '_')}.json"
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
    "transport",
    "spechub",
    "token_by_token",
    "block",
    "greedy_block",
    "spectr",
    "spectr:recursive_rejection",
    "spectr:target_match",
    "kseq_block",
    "spectr_gbv:unit",
    "spectr_gbv:kseq",
    "traversal",
    "multipath",
    "ranked_block",
    "ranked_block:stateful",
]


def test_every_wiring_has_vectors(proofs, compare_trees):
    assert list(compare_trees.WIRINGS) == NAMES
    files = {path.stem for path in (proofs / "vectors").glob("*.json")}
    assert files == {name.replace(":", "_") for name in NAMES}


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
        path = proofs / "vectors" / f"{name.replace(':', '_')}.json"
        for vector in json.loads(path.read_text())["vectors"]:
            instance = compare_trees.from_json(vector)
            assert compare_trees.to_json(instance) == vector["instance"]

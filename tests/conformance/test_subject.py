"""The interface of a subject: declarations, batches, answers; errors name what is wrong."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from draftproof.conformance.adapters.reference import ReferenceSubject
from draftproof.conformance.campaign import check_object
from draftproof.conformance.subject import Batch, Declaration, SubjectError, call, checked, declared
from draftproof.reference.catalogue import find

GIVEN = {"name": "mine", "schemes": ["block"], "drafts": [1, 1], "length": [0, 16]}


def batch(size: int = 2, k: int = 1, length: int = 2, v: int = 3) -> Batch:
    target = np.full((size, max(k, 1), length + 1, v), 1 / v)
    return Batch(
        scheme="block",
        drafts=np.zeros((size, k, length), dtype=np.int64),
        draft_rows=np.full((size, k, length, v), 1 / v),
        target_rows=target[:, :k],
        root_rows=target[:, 0, 0],
        seeds=np.arange(size),
    )


def test_a_declaration_is_read_and_written() -> None:
    parsed = Declaration.parse(GIVEN | {"uniforms": True, "rows": "logits", "ragged": False})
    assert parsed.drafts == (1, 1)
    assert parsed.uniforms
    assert not parsed.draws
    assert parsed.allows(1, 16, 5)
    assert not parsed.allows(2, 1, 5)
    assert Declaration.parse(parsed.to_json()) == parsed
    assert Declaration.parse(GIVEN).draws


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name is ''"),
        ({"schemes": []}, "schemes is []"),
        ({"schemes": "block"}, "schemes is 'block'"),
        ({"drafts": [2, 1]}, "drafts is [2, 1]"),
        ({"length": [0, "x"]}, "'x' is not an integer"),
        ({"uniforms": 1}, "uniforms is 1, not true or false"),
        ({"rows": "odds"}, "rows is 'odds'"),
        ({"dtypes": ["int8"]}, "dtypes has 'int8'"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"speed": 1}, "unknown key 'speed'"),
        ({"known": "u"}, "known is 'u'"),
    ],
)
def test_a_bad_declaration_names_the_key_and_the_value(change: Any, message: str) -> None:
    with pytest.raises(SubjectError) as caught:
        Declaration.parse(GIVEN | change)
    assert caught.value.kind == "declaration"
    assert message in str(caught.value)


def test_a_subject_needs_a_declaration_and_a_function() -> None:
    with pytest.raises(SubjectError, match="no attribute `declaration`"):
        declared(object())
    with pytest.raises(SubjectError, match="neither `verify` nor `verify_one`"):
        declared(SimpleNamespace(declaration=GIVEN))


def answer(**changes: Any) -> dict[str, Any]:
    return {"accepted_length": [0, 1], "path": [0, 0], "next_token": [0, 2]} | changes


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"accepted_length": [0]}, "shape", "accepted_length has shape (1,), not (2,)"),
        ({"accepted_length": [0, 3]}, "range", "accepted_length[1] is 3"),
        ({"accepted_length": [-1, 0]}, "range", "accepted_length[0] is -1"),
        ({"next_token": [0, 3]}, "range", "next_token[1] is 3, out of range"),
        ({"next_token": [0.0, np.nan]}, "nan", "next_token[1] is nan"),
        ({"next_token": [0.0, 1.5]}, "dtype", "next_token[1] is 1.5"),
        ({"next_token": ["a", "b"]}, "dtype", "next_token has dtype"),
        ({"path": [0, 1]}, "range", "path[1] is 1"),
    ],
)
def test_a_bad_answer_names_what_where_and_the_value(changes: Any, kind: str, message: str) -> None:
    with pytest.raises(SubjectError) as caught:
        checked(answer(**changes), batch())
    assert caught.value.kind == kind
    assert message in str(caught.value)


def test_missing_parts_of_an_answer() -> None:
    with pytest.raises(SubjectError, match="no next_token"):
        checked({"accepted_length": [0, 0]}, batch())
    assert checked({"accepted_length": [0, 0], "next_token": [0, 0]}, batch()).path.tolist() == [
        0,
        0,
    ]
    with pytest.raises(SubjectError, match="no path, needed with several drafts"):
        checked({"accepted_length": [0, 0], "next_token": [0, 0]}, batch(k=2))


def test_torch_tensors_are_answers_too() -> None:
    torch = pytest.importorskip("torch")
    given = {name: torch.tensor(value) for name, value in answer().items()}
    assert checked(given, batch()).next_token.tolist() == [0, 2]


def test_what_a_subject_raises_is_kept() -> None:
    def verify(given: Batch) -> None:
        raise KeyError("gone")

    subject = SimpleNamespace(declaration=GIVEN, verify=verify)
    with pytest.raises(SubjectError, match="verify raised KeyError: 'gone'"):
        call(subject, batch())


def test_verify_one_sees_one_block_and_spoils_nothing() -> None:
    given = batch()
    seen = []

    def verify_one(block: Any) -> dict[str, Any]:
        seen.append((block.drafts.shape, block.draft_rows.shape, block.target_rows.shape))
        block.target_rows[:] = -1
        return {"accepted_length": 1, "next_token": 2, "carry": len(seen)}

    result = call(SimpleNamespace(declaration=GIVEN, verify_one=verify_one), given)
    assert seen == [((1, 2), (1, 2, 3), (1, 3, 3))] * 2
    assert result.accepted_length.tolist() == [1, 1]
    assert result.carry == [1, 2]
    assert (given.target_rows > 0).all()


def test_rows_become_logits_where_they_are_declared() -> None:
    given = batch()
    given.target_rows[:, :, 0] = [1, 0, 0]
    rows = []

    def verify(seen: Batch) -> dict[str, Any]:
        rows.append(seen.target_rows[0, 0, 0])
        return answer()

    call(SimpleNamespace(declaration=GIVEN | {"rows": "logits"}, verify=verify), given)
    assert rows[0].tolist() == [0, -np.inf, -np.inf]


def test_a_draft_ends_at_its_first_padding() -> None:
    given = batch(size=3, length=3)
    given.drafts[1, 0] = [1, -1, -1]
    given.drafts[2, 0] = [1, -1, 2]
    assert given.lengths[:, 0].tolist() == [3, 1, 1]
    assert given.take([2, 0]).lengths[:, 0].tolist() == [1, 3]


# ---- emitted tokens ------------------------------------------------------------------------------


class Emits:
    """Right decisions, told with the tokens that it emits; `fault` replaces the accepted ones."""

    def __init__(self, fault: bool = False) -> None:
        self._right = ReferenceSubject([find("token_by_token")], "right")
        self._fault = fault
        self.declaration = {**self._right.declaration, "ragged": False}

    def verify(self, batch: Batch) -> Any:
        result = self._right.verify(batch)
        size, length = batch.size, batch.drafts.shape[2]
        tokens = np.full((size, length + 1), -1)
        tokens[:, :length] = result.accepted(batch.drafts)
        tokens[np.arange(size), result.accepted_length] = result.next_token
        if self._fault and length:
            # The bonus overwrites the first accepted token before it is read.
            tokens[:, 0] = result.next_token
        return result._replace(tokens=tokens)


def test_emitted_tokens_are_what_is_graded() -> None:
    checks = ["exact sweep", "edges", "statistical", "rounds"]
    right = check_object(Emits(), checks=checks, budget=2.0).verdicts[0]
    assert right.verdict == "lossless"
    wrong = check_object(Emits(True), checks=checks, budget=2.0).verdicts[0]
    assert {c.check: c.status for c in wrong.checks} == dict.fromkeys(checks, "failed")


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([[0, 1]], "shape"),
        ([[0.0, 1.0, 2.0]], "dtype"),
        ([[7, 1, -1]], "tokens[0, 0] is 7"),
        ([[-1, 1, -1]], "tokens[0, 0] is -1"),
        ([[0, 2, -1]], "tokens[0, 1] is 2, next_token[0] is 1"),
    ],
)
def test_emitted_tokens_are_held_to_the_rest_of_the_result(tokens: Any, said: str) -> None:
    rows = np.full((1, 1, 3, 3), 1 / 3)
    batch = Batch("token_by_token", np.zeros((1, 1, 2), int), rows[:, :, :2], rows, rows[:, 0, 0])
    answer = {"accepted_length": [1], "path": [0], "next_token": [1], "tokens": tokens}
    with pytest.raises(SubjectError) as caught:
        checked(answer, batch)
    assert said in str(caught.value)

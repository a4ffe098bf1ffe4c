"""A program over JSON lines: every way to break the protocol has its own kind of error."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from draftproof.conformance.adapters import program
from draftproof.conformance.subject import Batch, SubjectError, call

SERVER = """
import json, sys, time
declaration = {"type": "declare", "name": "test", "schemes": ["token_by_token"], "drafts": [0, 2],
               "uniforms": True, "ragged": True, "time_limit": %g, "memory_limit": 0.15}
waiting = []
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "bye":
        break
    if asked["type"] == "hello":
        answer = declaration
    else:
        answer = {"type": "result", "id": asked["id"], "accepted": [], "next": 1, "carry": None}
        %s
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def serve(tmp_path):
    started = []

    def start(change: str = "pass", time_limit: float = 60) -> program.Program:
        path = tmp_path / f"server{len(started)}.py"
        path.write_text(SERVER % (time_limit, textwrap.indent(change, " " * 8).lstrip()))
        started.append(program.create(f"{sys.executable} {path}"))
        return started[-1]

    yield start
    for subject in started:
        subject.close()


def batch(size: int = 3, count: int = 2, length: int = 2, vocab: int = 3) -> Batch:
    target = np.full((size, count, length + 1, vocab), 1 / vocab)
    return Batch(
        scheme="token_by_token",
        drafts=np.arange(size * count * length).reshape(size, count, length) % vocab,
        draft_rows=np.full((size, count, length, vocab), 1 / vocab),
        target_rows=target,
        root_rows=np.full((size, vocab), 1 / vocab),
        accept_uniforms=np.full((size, count, length), 0.5),
        token_uniform=np.full(size, 0.25),
        seed=9,
        seeds=np.arange(size),
    )


def kind(subject: program.Program, asked: Batch | None = None) -> str:
    with pytest.raises(SubjectError) as caught:
        call(subject, batch() if asked is None else asked)
    return caught.value.kind


def test_answers_come_back_to_their_blocks_in_any_order(serve):
    backwards = """
    answer["accepted"] = asked["drafts"][1]
    answer["next"] = asked["id"] % 3
    waiting.append(json.dumps(answer))
    if len(waiting) < 3:
        continue
    print("\\n".join(reversed(waiting[1:])), flush=True)
    answer = json.loads(waiting[0])
    """
    subject = serve(textwrap.dedent(backwards))
    asked = batch()
    result = call(subject, asked)
    assert result.accepted_length.tolist() == [2, 2, 2]
    assert result.path.tolist() == [1, 1, 1]
    assert result.next_token.tolist() == [1, 2, 0]


def test_a_request_carries_the_whole_block(serve):
    echo = 'print(json.dumps(asked), file=sys.stderr, flush=True); answer["carry"] = asked["carry"]'
    subject = serve(echo)
    asked = batch(size=1)
    asked.drafts[0, 1, 1] = -1
    asked = Batch(**{**vars(asked), "carry": [{"kept": 1}]})
    result = call(subject, asked)
    assert result.carry == [{"kept": 1}]
    for _ in range(100):
        if subject.stderr.endswith("\n"):
            break
        time.sleep(0.01)
    sent = program.json.loads(subject.stderr)
    assert sent["drafts"] == [[0, 1], [2]]
    assert [len(rows) for rows in sent["draft_rows"]] == [2, 1]
    assert [len(rows) for rows in sent["target_rows"]] == [3, 2]
    assert [len(us) for us in sent["accept_uniforms"]] == [2, 1]
    assert sent["root_row"] == [1 / 3] * 3
    assert (sent["vocab"], sent["seed"], sent["token_uniform"]) == (3, 0, 0.25)
    assert sent["select_uniforms"] is None


def test_what_stands_after_padding_is_no_part_of_a_draft():
    asked = batch(size=1, count=1, length=3)
    asked.drafts[0, 0] = [2, -1, 1]
    sent = program.request(asked.block(0), 1, asked.root_rows[0])
    assert sent["drafts"] == [[2]]
    assert [len(rows) for rows in sent["target_rows"]] == [2]


def test_numbers_that_json_lacks_are_null():
    asked = batch(size=1)
    asked.target_rows[0, 0, 0] = [np.nan, -np.inf, 1]
    sent = program.request(asked.block(0), 1, asked.root_rows[0])
    assert sent["target_rows"][0][0] == [None, None, 1.0]
    program.json.dumps(sent, allow_nan=False)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("time.sleep(60)", "timeout"),
        ("sys.exit(3)", "crash"),
        ('print("Segmentation fault", flush=True)', "protocol"),
        ("answer['id'] = 10**6", "protocol"),
        ("answer['next'] = 'one'", "protocol"),
        ("answer['accepted'] = 1", "protocol"),
        ("answer['type'] = 'maybe'", "protocol"),
        ("answer = [1]", "protocol"),
        ("answer['accepted'] = [2, 2]", "range"),
        ("answer['next'] = 7", "range"),
        ("answer = {'type': 'skip', 'id': asked['id'], 'reason': 'no', 'link': 'x'}", "skipped"),
        ("answer = {'type': 'error', 'id': asked['id'], 'message': 'no'}", "raised"),
        ("hog = bytearray(200 << 20); time.sleep(60)", "memory"),
    ],
)
def test_each_fault_has_its_kind_and_the_next_call_starts_anew(serve, fault, expected):
    once = f"if asked['seed'] == 77:\n    {fault}"
    subject = serve(once, time_limit=1 if expected == "timeout" else 60)
    bad = batch()
    bad.seeds[1] = 77
    assert kind(subject, bad) == expected
    assert call(subject, batch()).next_token.tolist() == [1, 1, 1]


def test_an_error_shows_the_end_of_standard_error(serve):
    subject = serve(
        "print('out of cheese', file=sys.stderr, flush=True); time.sleep(.2); sys.exit(3)"
    )
    with pytest.raises(
        SubjectError, match=r"exit status 3\); its standard error ends: out of cheese"
    ):
        call(subject, batch())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a-program-that-is-not-there", "crash"),
        ("", "crash"),
        ("'unbalanced", "crash"),
        (f"{sys.executable} -c pass", "crash"),
        (f"{sys.executable} -c 'print(1)'", "protocol"),
        (f"""{sys.executable} -c 'print("[]")'""", "protocol"),
        (f"""{sys.executable} -c 'print("{{\\"type\\": \\"result\\"}}")'""", "protocol"),
        (f"""{sys.executable} -c 'print("{{\\"type\\": \\"declare\\"}}")'""", "declaration"),
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "timeout"),
    ],
)
def test_a_program_that_does_not_shake_hands(command, expected, monkeypatch):
    monkeypatch.setattr(program, "TIME_TO_DECLARE", 0.6 if expected == "timeout" else 20)
    with pytest.raises(SubjectError) as caught:
        program.create(command)
    assert caught.value.kind == expected


def test_many_requests_are_sent_ahead_without_a_deadlock(serve):
    subject = serve("answer['padding'] = 'x' * 2000")
    size = 2000  # the answers are far larger than the buffer of a pipe
    assert call(subject, batch(size=size)).next_token.tolist() == [1] * size


def test_closing_ends_the_program(serve):
    subject = serve()
    pid = subject._process.pid
    subject.close()
    assert not Path(f"/proc/{pid}").exists()

"""One number interface: gmpy2 and Fraction give identical results."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from fractions import Fraction

import pytest
from draftproof.reference.numbers import ONE, ZERO, backend, divide, rational, text, total

PROGRAM = """
import json, random, sys
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.instance import random_instance
from draftproof.reference.numbers import backend, text
from draftproof.reference.optima import full_optimum, stateless_optimum
from draftproof.reference.oracle import examine, law_to_json
from draftproof.reference.clip import smallest_scale

generator = random.Random(11)
results = {"backend": backend()}
for number, (V, L, K) in enumerate(((2, 2, 1), (3, 1, 2), (2, 2, 2), (2, 1, 3))):
    instance = random_instance(generator, V, L, K, kind="mixed", denominator=11)
    for name, scheme in SCHEMES.items():
        least, most = scheme.drafts
        if least <= K and (most is None or K <= most) and (scheme.kind != "coupling" or L == 1):
            try:
                results[f"{number} {name}"] = law_to_json(examine(name, instance))
            except (ValueError, ZeroDivisionError) as error:
                results[f"{number} {name}"] = type(error).__name__
    p, q = instance.draft_model(()), instance.target_model(())
    results[f"{number} scale"] = text(smallest_scale(p, q, K))
    results[f"{number} optima"] = [
        text(optimum(instance).value) for optimum in (stateless_optimum, full_optimum)
    ]
json.dump(results, sys.stdout)
"""


def results(numbers: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "DRAFTPROOF_NUMBERS": numbers},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_both_backends_give_identical_results() -> None:
    pytest.importorskip("gmpy2")
    fast, plain = results("gmpy2"), results("fraction")
    assert (fast.pop("backend"), plain.pop("backend")) == ("gmpy2", "fraction")
    assert fast == plain
    assert len(fast) > 40


def test_an_unknown_backend_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import draftproof.reference.numbers"],
        env={**os.environ, "DRAFTPROOF_NUMBERS": "decimal"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "must be auto, fraction or gmpy2, not 'decimal'" in done.stderr


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        ("3/4", Fraction(3, 4)),
        (" 0.25 ", Fraction(1, 4)),
        ("1e-3", Fraction(1, 1000)),
        ("-2", Fraction(-2)),
        (0.1, Fraction(3602879701896397, 36028797018963968)),
        (Fraction(2, 6), Fraction(1, 3)),
        (7, Fraction(7)),
    ],
)
def test_what_denotes_a_rational(value: object, exact: Fraction) -> None:
    assert rational(value) == exact
    assert hash(rational(value)) == hash(exact)
    assert text(rational(value)) == str(exact)


@pytest.mark.parametrize("value", ["", "1/0", "x", "1/2/3", "0x1", float("nan"), float("inf")])
def test_what_does_not(value: object) -> None:
    with pytest.raises(ValueError, match="weight is"):
        rational(value, "weight")


@pytest.mark.parametrize("value", [True, None, 1j, [1]])
def test_wrong_types(value: object) -> None:
    with pytest.raises(TypeError, match="weight must be a number"):
        rational(value, "weight")


def test_arithmetic_matches_fractions() -> None:
    generator = random.Random(0)
    for _ in range(300):
        a, b = (Fraction(generator.randint(-50, 50), generator.randint(1, 50)) for _ in range(2))
        x, y = rational(a), rational(b)
        assert (x + y, x - y, x * y, x**3) == (a + b, a - b, a * b, a**3)
        assert divide(x, y, ONE) == (a / b if b else 1)
        assert (x < y, x == y) == (a < b, a == b)
    assert total([]) == ZERO
    assert backend() in ("gmpy2", "fraction")

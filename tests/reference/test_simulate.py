"""The float simulator: it agrees with the exact oracle, and reproduces the published ordering."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from draftproof.conformance.simulation import (
    Efficiency,
    Setting,
    plot,
    schemes_of,
    simulate,
    trigram_pair,
)
from draftproof.conformance.subject import Batch, Result
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.models import Model
from draftproof.reference.rounds import Rounds
from draftproof.reference.rows import row_from_floats

pytest.importorskip("torch")


def exact_first_round(scheme: str, setting: Setting) -> float:
    """Tokens per call of the first round, over uniform contexts: exact, from the same rows."""
    pair = trigram_pair(setting)
    V = pair.vocab
    drafts = min(setting.drafts, SCHEMES[scheme].drafts[1] or setting.drafts)
    total = 0.0
    for a in range(V):
        for b in range(V):

            def model(rows: Any, a: int = a, b: int = b) -> Model:
                def source(prefix: tuple[int, ...]) -> Any:
                    x, y = (a, b, *prefix)[-2:]
                    return row_from_floats(rows[x, y].tolist())

                return Model(V, source)

            rounds = Rounds(scheme, model(pair.draft), model(pair.target), drafts, setting.length)
            total += float(rounds.block_efficiency(1))
    return total / V**2


@pytest.mark.parametrize("scheme", ["block", "greedy_block", "spectr", "kseq_block", "spectr_gbv"])
def test_the_first_round_agrees_with_the_exact_oracle(scheme: str) -> None:
    """Within 5 standard errors of 4000 blocks: false alarm below 1e-6 for each scheme."""
    setting = Setting(2, 2, 2, 1.0, seed=3)
    found = simulate(scheme, setting, sequences=4000, rounds=4)
    # A round emits 1 to L + 1 = 3 tokens: a standard deviation of at most 1.
    assert abs(found.first_round - exact_first_round(scheme, setting)) < 5 / math.sqrt(4000)


def test_equal_models_emit_every_token() -> None:
    setting = Setting(8, 1, 3, 0.0)
    for scheme in ("block", "token_by_token", "greedy_block"):
        assert simulate(scheme, setting, sequences=8, rounds=8).mean == pytest.approx(4, abs=1e-9)


def test_the_published_ordering() -> None:
    """V = 16, K = 4, L = 4: ranked block leads, then K-SEQ block; in the long run a carry loses to
    its stateless sibling although it wins the first round. The seed is fixed; the gaps that are
    asked for are in standard errors of the difference."""
    setting = Setting(16, 4, 4, 1.0, seed=1)
    names = ("ranked_block", "kseq_block", "spectr", "block", "spectr_gbv", "greedy_block")
    found = {name: simulate(name, setting, sequences=96, rounds=24) for name in names}

    def ahead(better: str, worse: str) -> float:
        a, b = found[better], found[worse]
        return (a.mean - b.mean) / math.hypot(a.standard_error, b.standard_error)

    assert ahead("ranked_block", "kseq_block") > 2
    assert ahead("kseq_block", "spectr") > 3
    assert ahead("spectr", "block") > 3
    assert ahead("kseq_block", "spectr_gbv") > 3
    assert ahead("block", "greedy_block") > 1
    gain = found["ranked_block"].mean / found["spectr"].mean
    assert 1.12 < gain < 1.56  # the published range over SpecTr


def test_standard_errors_shrink_with_the_number_of_sequences() -> None:
    setting = Setting(8, 1, 3, 1.0)
    few = simulate("block", setting, sequences=32, rounds=12)
    many = simulate("block", setting, sequences=512, rounds=12)
    assert 2 < few.standard_error / many.standard_error < 8  # √16 = 4
    assert abs(few.mean - many.mean) < 5 * few.standard_error


def test_hotter_drafts_are_another_draft_model() -> None:
    cold = trigram_pair(Setting(8, 1, 1, 1.0, temperature=0.5))
    hot = trigram_pair(Setting(8, 1, 1, 1.0, temperature=0.5, draft_temperature=1.0))
    assert np.array_equal(cold.target, hot.target)
    entropy = [-(rows * np.log(rows)).sum(-1).mean() for rows in (cold.draft, hot.draft)]
    assert entropy[0] < entropy[1]
    assert np.allclose(hot.draft.sum(-1), 1)


class AcceptsNothing:
    """A subject that rejects everything and draws from the target row."""

    declaration = {"name": "nothing", "schemes": ["block"]}  # noqa: RUF012

    def verify(self, batch: Batch) -> Result:
        zeros = np.zeros(batch.size, dtype=np.int64)
        assert batch.token_uniform is not None
        reached = np.cumsum(batch.target_rows[:, 0, 0], axis=-1)
        token = (reached <= batch.token_uniform[:, None] * reached[:, -1:]).sum(-1)
        return Result(zeros, zeros, token)


def test_any_subject_can_be_simulated() -> None:
    found = simulate("block", Setting(8, 2, 3, 1.0), subject=AcceptsNothing(), rounds=8)
    assert (found.mean, found.standard_error, found.drafts) == (1.0, 0.0, 1)


def test_schemes_and_sizes() -> None:
    assert {"block", "spectr", "kseq_block", "ranked_block"} <= set(schemes_of())
    with pytest.raises(ValueError, match="at least 2 of 4"):
        simulate("block", Setting(8, 1, 1, 1.0), sequences=1)


def test_plot(tmp_path: Any) -> None:
    settings = (Setting(8, 2, 3, 1.0), Setting(8, 2, 3, 1.0, 0.5, 0.8))
    results = [
        Efficiency(name, setting, 2, 2.0 + i, 0.1, 2.0)
        for setting in settings
        for i, name in enumerate(("spectr", "kseq_block", "spectr_gbv"))
    ]
    plot(results, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["plot.png"]

"""The statistics: the stated false-alarm rate is true, and so is the stated power."""

import numpy as np
import pytest
from draftproof.conformance.checks.statistical import string_views
from draftproof.conformance.evidence import (
    Sequential,
    View,
    detectable,
    log_evidence,
    samples_needed,
)
from scipy.stats import chi2, chisquare

RUNS = 1000


def sparse_law(cells: int) -> np.ndarray:  # type: ignore[type-arg]
    """Most of the mass on a few cells, expected counts far below 5 on the others."""
    law = 0.5 ** np.arange(1, cells + 1)
    return np.asarray(law / law.sum())


def rejections(law: np.ndarray, alpha: float, samples: int, looks: int) -> tuple[int, int]:  # type: ignore[type-arg]
    """How often the e-process and a peeked chi-square reject the true law."""
    generator = np.random.default_rng(7)
    ours = theirs = 0
    for _ in range(RUNS):
        counts = np.zeros(len(law))
        e_hit = chi_hit = False
        for _ in range(looks):
            counts += generator.multinomial(samples // looks, law)
            e_hit = e_hit or log_evidence(counts, law) >= -np.log(alpha)
            chi_hit = chi_hit or chisquare(counts, law * counts.sum()).pvalue < alpha
        ours += e_hit
        theirs += chi_hit
    return ours, theirs


def test_the_false_alarm_rate_is_kept_by_the_e_process_and_not_by_chi_square() -> None:
    """1000 runs of the null law with sparse cells, looked at ten times, at level 0.001.

    At most one rejection is expected; more than 8 would happen with probability 1e-6. A chi-square
    test with such expected counts rejects at least 25 times as often as it says.
    """
    ours, theirs = rejections(sparse_law(14), 1e-3, 500, 10)
    assert ours <= 8
    assert theirs > 25


def test_a_single_look_of_chi_square_is_wrong_as_well() -> None:
    ours, theirs = rejections(sparse_law(14), 1e-3, 100, 1)
    assert ours <= 8
    assert theirs > 8


def test_the_expected_e_value_is_at_most_one() -> None:
    """Exactly: the sum over all outcomes of three samples of P(outcome) E(outcome)."""
    law = np.array([0.5, 0.3, 0.2])
    total = 0.0
    for a in range(3):
        for b in range(3):
            for c in range(3):
                counts = np.bincount([a, b, c], minlength=3)
                total += law[a] * law[b] * law[c] * np.exp(log_evidence(counts, law))
    assert total == pytest.approx(1.0, abs=1e-8)  # rounding of gammaln near 3e6


def test_an_impossible_outcome_is_infinite_evidence() -> None:
    assert log_evidence(np.array([5, 1]), np.array([1.0, 0.0])) == np.inf
    assert log_evidence(np.array([5, 0]), np.array([1.0, 0.0])) == pytest.approx(0.0)
    assert log_evidence(np.zeros(2), np.array([0.5, 0.5])) == 0.0


@pytest.mark.parametrize(("cells", "distance"), [(9, 0.1), (27, 0.05), (81, 0.05)])
def test_the_stated_power_is_reached(cells: int, distance: float) -> None:
    """The alternative that is hardest to see at this distance, 4000 runs at the stated size.

    At power 0.999 four misses are expected; more than 14 would happen with probability 3e-5.
    """
    generator = np.random.default_rng(3)
    threshold = np.log(1e12)
    law = generator.dirichlet(np.full(cells, 2.0))
    half, mass = np.zeros(cells, dtype=bool), 0.0
    for cell in generator.permutation(cells):
        if mass + law[cell] <= 0.5:
            half[cell], mass = True, mass + law[cell]
    other = np.where(half, law * (1 + distance / mass), law * (1 - distance / (1 - mass)))
    assert np.abs(other - law).sum() / 2 == pytest.approx(distance)
    n = samples_needed(cells, distance, float(threshold))
    assert detectable(cells, n, float(threshold)) <= distance
    assert detectable(cells, n // 2, float(threshold)) > distance
    misses = sum(
        log_evidence(generator.multinomial(n, other), law) < threshold for _ in range(4000)
    )
    assert misses <= 14


def test_gross_faults_stop_early() -> None:
    generator = np.random.default_rng(1)
    null = np.full(27, 1 / 27)
    biased = np.where(np.arange(27) < 9, 1.6, 0.7) / 27
    test = Sequential(null, string_views(3, 3), float(np.log(1e12)))
    while not test.see(generator.choice(27, size=64, p=biased / biased.sum())):
        assert test.samples < 2000
    assert test.total_variation() > 0.1
    assert test.distance_at_least() <= 0.2


def test_views_are_a_mixture_of_weight_one() -> None:
    for vocab, length in ((3, 1), (3, 3), (2, 4)):
        views = string_views(vocab, length)
        assert sum(view.weight for view in views) == pytest.approx(1.0)
    strings = string_views(3, 2)
    assert strings[1].cell_of.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert strings[-1].cell_of.tolist() == [0, 1, 2] * 3


def test_evidence_once_reached_stays() -> None:
    test = Sequential(np.array([0.5, 0.5]), (View("all", np.arange(2), 1.0),), 5.0)
    assert test.see(np.zeros(30, dtype=np.int64))
    assert test.see(np.ones(30, dtype=np.int64))


def test_distance_at_least_is_a_lower_bound() -> None:
    generator = np.random.default_rng(2)
    law = np.full(27, 1 / 27)
    test = Sequential(law, (View("all", np.arange(27), 1.0),), 1e9)
    for _ in range(50):
        test.see(generator.integers(0, 27, 2000))
        assert test.distance_at_least() == 0.0


def test_chi_square_is_fine_where_counts_are_large() -> None:
    """The comparison above is fair: with large expected counts chi-square keeps its level."""
    generator = np.random.default_rng(5)
    law = np.full(10, 0.1)
    hits = sum(
        chisquare(generator.multinomial(2000, law)).statistic > chi2.isf(0.01, 9)
        for _ in range(2000)
    )
    assert 5 <= hits <= 45

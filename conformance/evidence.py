"""Evidence: sequential tests of multinomial laws that stay valid whenever they are stopped.

An e-process is a non-negative process whose expectation is at most 1 at every stopping time when
the null law is true; by Ville's inequality it ever exceeds 1/α with probability at most α. Here it
is a likelihood ratio: counts c under a Dirichlet mixture of laws, against the null law π,

    E(c) = Σ_k w_k DM(c; k π) / Π π^c,      DM the Dirichlet-multinomial with parameters k π,

a finite mixture over concentrations k (few samples far from the null are seen by a small k, many
samples near it by a large one). No cell is pooled and nothing is approximated: the bound is exact
for any counts, sparse cells included. A cell of null probability 0 makes E infinite once observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from draftproof.conformance.subject import Floats, Ints
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import ncx2

__all__ = [
    "CONCENTRATIONS",
    "RUN_FALSE_ALARM",
    "Sequential",
    "View",
    "detectable",
    "log_evidence",
    "samples_needed",
]

RUN_FALSE_ALARM = 1e-9
"""The probability that any sequential test of a whole run rejects a correct subject."""

CONCENTRATIONS = (3.0, 30.0, 300.0, 3e3, 3e4, 3e5, 3e6)
_POWER = 0.999


def log_evidence(counts: NDArray[Any], null: Floats) -> float:
    """The natural logarithm of E(counts) against the null law, inf for an impossible count.

    Args:
        counts: [d], how often each cell was seen.
        null: [d], the null law.
    """
    possible = null > 0
    if np.any(counts[~possible] > 0):
        return float("inf")
    c, p = np.asarray(counts, dtype=np.float64)[possible], null[possible]
    n = c.sum()
    if n == 0:
        return 0.0
    seen = c > 0
    k = np.array(CONCENTRATIONS)[:, None]
    prior = k * p[seen]
    ratio = gammaln(prior + c[seen]) - gammaln(prior) - c[seen] * np.log(p[seen])
    flat = k[:, 0]
    logs = ratio.sum(axis=1) + gammaln(flat) - gammaln(flat + n)
    return float(logsumexp(logs) - np.log(len(CONCENTRATIONS)))


class View(NamedTuple):
    """A coarser look at the cells: the marginal law of `cell_of`, with a share of the mixture."""

    name: str
    cell_of: Ints
    """[d]: the coarse cell of every cell."""
    weight: float


@dataclass
class Sequential:
    """A sequential test of one multinomial law, by several views of the same counts.

    The evidence is the weighted mean of the e-processes of the views, which is an e-process for the
    same filtration; the weights sum to 1.
    """

    null: Floats
    views: tuple[View, ...]
    threshold: float
    """ln(1/α)."""

    def __post_init__(self) -> None:
        self.counts: Ints = np.zeros(len(self.null), dtype=np.int64)
        self.evidence = 0.0
        self.by_view: dict[str, float] = {}
        self._nulls: list[Floats] = [
            np.asarray(np.bincount(v.cell_of, weights=self.null), dtype=np.float64)
            for v in self.views
        ]

    @property
    def samples(self) -> int:
        """How many were seen."""
        return int(self.counts.sum())

    @property
    def rejected(self) -> bool:
        """Whether the evidence has reached the threshold."""
        return self.evidence >= self.threshold

    def see(self, cells: Ints) -> bool:
        """Add observed cells; True if the null law is rejected."""
        self.counts += np.bincount(cells, minlength=len(self.null))
        logs = []
        for view, null in zip(self.views, self._nulls, strict=True):
            coarse: Floats = np.zeros(len(null))
            np.add.at(coarse, view.cell_of, self.counts)
            self.by_view[view.name] = log_evidence(coarse, null)
            logs.append(np.log(view.weight) + self.by_view[view.name])
        # Evidence once reached stays: a test that has rejected does not take it back.
        self.evidence = max(self.evidence, float(logsumexp(logs)))
        return self.rejected

    def total_variation(self) -> float:
        """Between the observed frequencies and the null law; biased upwards by sampling noise."""
        return float(np.abs(self.counts / max(self.samples, 1) - self.null).sum() / 2)

    def distance_at_least(self) -> float:
        """A lower bound on the true total variation, right with probability 1 - 1e-9.

        The observed total variation exceeds the true one by at most its expected noise,
        ½ Σ sqrt(π(1-π)/n) ≤ ½ sqrt(d/n) with π the true law, and a McDiarmid term.
        """
        n = max(self.samples, 1)
        noise = 0.5 * np.sqrt(len(self.null) / n)
        deviation = np.sqrt(np.log(1 / RUN_FALSE_ALARM) / (2 * n))
        return max(0.0, self.total_variation() - float(noise + deviation))

    def detectable(self) -> float:
        """See `detectable`, for the finest view and the samples so far."""
        cells = int(np.count_nonzero(self._nulls[0]))
        return detectable(cells, self.samples, self.threshold - np.log(self.views[0].weight))


@lru_cache(maxsize=4096)
def detectable(cells: int, samples: int, threshold: float) -> float:
    """The smallest total variation that `samples` samples reveal with probability 0.999.

    For the alternative of a given total variation t that is hardest to see (probability moved from
    one half of the null mass to the other, proportionally: χ² = 4t²) the counts' χ² statistic is
    non-central with n·4t², and ln E_k ≈ χ²·n/(2(n+k)) - (d-1)/2·ln(1+n/k). The normal
    approximation enters the *power* only, never the false alarm; tests compare it with simulation.
    """
    if samples == 0:
        return 1.0
    n, freedom = float(samples), max(cells - 1, 1)
    critical = min(
        2 * (n + k) / n * (threshold + np.log(len(CONCENTRATIONS)) + freedom / 2 * np.log1p(n / k))
        for k in CONCENTRATIONS
    )
    low, high = 0.0, 4 * critical + 400.0
    for _ in range(60):
        middle = (low + high) / 2
        if ncx2.sf(critical, freedom, middle) >= _POWER:
            high = middle
        else:
            low = middle
    return float(min(1.0, np.sqrt(high / (4 * n))))


def samples_needed(cells: int, distance: float, threshold: float) -> int:
    """How many samples make `detectable` at most `distance`."""
    low, high = 1, 2
    while detectable(cells, high, threshold) > distance:
        low, high = high, high * 2
    while high - low > low // 50 + 1:
        middle = (low + high) // 2
        if detectable(cells, middle, threshold) > distance:
            low = middle
        else:
            high = middle
    return high

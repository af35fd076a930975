"""Intervals of ratios of times: Welch's, of the difference of their logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

CONFIDENCE = 0.95
_PROBABILITY = (1 + CONFIDENCE) / 2


@dataclass(frozen=True)
class Ratio:
    """A ratio of times, and where it lies with the usual confidence; None: nobody can say."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """What the interval says about what is measured by the numerator."""
        if self.low is None or self.high is None:
            return "?"
        if self.low <= 1 <= self.high:
            return "same"
        return "slower" if self.low > 1 else "faster"

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ratio_of(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """The ratio of two sets of times; with one time each nothing is known but the ratio."""
    ours, theirs = [math.log(each) for each in above], [math.log(each) for each in below]
    middle = fmean(ours) - fmean(theirs)
    if min(len(ours), len(theirs)) < 2:
        return Ratio(math.exp(middle))
    parts = [(variance(logs) / len(logs), len(logs) - 1) for logs in (ours, theirs)]
    spread = sum(part for part, _ in parts)
    freedom = sum(part**2 / count for part, count in parts)
    width = 0.0 if not spread else quantile(spread**2 / freedom) * math.sqrt(spread)
    return Ratio(math.exp(middle), math.exp(middle - width), math.exp(middle + width))


def mean_ratio(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of ratios, as sure as they agree with each other."""
    logs = [math.log(ratio.value) for ratio in ratios]
    middle = fmean(logs)
    if len(logs) < 2:
        return ratios[0]
    width = quantile(len(logs) - 1) * math.sqrt(variance(logs) / len(logs))
    return Ratio(math.exp(middle), math.exp(middle - width), math.exp(middle + width))


def quantile(freedom: float) -> float:
    """Student's quantile for that confidence: exact for 1 and 2, else to a few parts in 1,000."""
    if freedom < 2:
        # Between the exact values: an interval that is too wide misleads nobody.
        return math.tan(math.pi * (_PROBABILITY - 0.5))
    if freedom < 3:
        return (2 * _PROBABILITY - 1) / math.sqrt(2 * _PROBABILITY * (1 - _PROBABILITY))
    z = NormalDist().inv_cdf(_PROBABILITY)
    # The expansion of Student's quantile in powers of 1/freedom around the normal one.
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))

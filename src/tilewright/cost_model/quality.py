"""Measures of how well a model ranked candidates that were measured after it had scored them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
# Times closer than this share of each other are a tie: measuring again may swap them.
_TIE = 0.02
_TOP_SHARE = 4  # the best quarter counts as the top


@dataclass(frozen=True)
class RankingQuality:
    """Predictions against measurements of one batch."""

    num_samples: int
    pairwise_accuracy: float  # of pairs with different times, the share that was ranked right
    top_k: int
    top_k_recall: float  # of the k fastest, the share that is among the k with the best scores
    best_pick_slowdown: float  # time of the fastest among those k over that of the fastest

    def __str__(self) -> str:
        return (
            f"{self.pairwise_accuracy:.0%} of pairs ranked right, "
            f"{self.top_k_recall:.0%} of the top {self.top_k} found, "
            f"best pick {self.best_pick_slowdown:.2f}x the best of {self.num_samples}"
        )


def ranking_quality(scores: Vector, costs: Vector) -> RankingQuality | None:
    """Compare scores (higher is better) with times; None when there is nothing to rank."""
    first, second = np.triu_indices(len(costs), k=1)
    low, high = np.minimum(costs[first], costs[second]), np.maximum(costs[first], costs[second])
    differ = high > low * (1 + _TIE)
    if not differ.any():
        return None
    first, second = first[differ], second[differ]
    faster_first = costs[first] < costs[second]
    higher_first = scores[first] > scores[second]
    tied = scores[first] == scores[second]
    right = np.where(tied, 0.5, higher_first == faster_first)
    top_k = max(1, len(costs) // _TOP_SHARE)
    picked = np.argsort(-scores, kind="stable")[:top_k]
    fastest = np.argsort(costs, kind="stable")[:top_k]
    return RankingQuality(
        num_samples=len(costs),
        pairwise_accuracy=float(right.mean()),
        top_k=top_k,
        top_k_recall=len(np.intersect1d(picked, fastest)) / top_k,
        best_pick_slowdown=float(costs[picked].min() / costs.min()),
    )

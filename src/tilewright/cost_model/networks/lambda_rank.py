"""The LambdaRank loss: every pair in the wrong order costs what swapping it would gain in NDCG."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Order = npt.NDArray[np.intp]
_EPSILON = 1e-10


def pair_weights(scores: Array, labels: Array) -> tuple[Order, Array]:
    """The order of the scores, and the weight of each pair in that order.

    Entry `i, j` is zero unless the sample at place `i` has the larger label.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = labels[order]
    discounts = np.log2(np.arange(len(labels)) + 2.0)
    ideal = ((np.exp2(np.sort(labels)[::-1]) - 1) / discounts).sum()
    gains = (np.exp2(ranked) - 1) / max(ideal, _EPSILON)
    moved = np.abs(1 / discounts[:, None] - 1 / discounts[None, :])
    swapped = moved * np.abs(gains[:, None] - gains[None, :])
    weights: Array = np.where(ranked[:, None] > ranked[None, :], swapped, 0.0)
    return order, weights


def loss_and_gradient(scores: Array, labels: Array) -> tuple[float, Array]:
    """The loss of scores, and its derivative with respect to each of them."""
    order, weights = pair_weights(scores, labels)
    ranked = scores[order]
    right = _sigmoid(ranked[:, None] - ranked[None, :])
    loss = -(weights * np.log2(np.maximum(right, _EPSILON))).sum()
    slope = -weights * (1 - right) / np.log(2)
    gradient = np.zeros_like(scores)
    gradient[order] = slope.sum(axis=1) - slope.sum(axis=0)
    return float(loss), gradient


def _sigmoid(values: Array) -> Array:
    result: Array = 0.5 * (1 + np.tanh(0.5 * values))
    return result

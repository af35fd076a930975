"""How good a ranking was."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.cost_model import ranking_quality


def test_right_wrong_and_tied() -> None:
    costs = np.array([1.0, 2.0, 3.0, 4.0])
    right = ranking_quality(-costs, costs)
    wrong = ranking_quality(costs, costs)
    tied = ranking_quality(np.zeros(4), costs)
    assert right is not None
    assert wrong is not None
    assert tied is not None
    assert (right.pairwise_accuracy, right.top_k_recall, right.best_pick_slowdown) == (1, 1, 1)
    assert (wrong.pairwise_accuracy, wrong.top_k_recall, wrong.best_pick_slowdown) == (0, 0, 4)
    assert tied.pairwise_accuracy == 0.5


def test_top_quarter() -> None:
    costs = np.arange(1.0, 13.0)
    scores = -costs.copy()
    scores[0] = -100  # the best one is thought to be the worst
    quality = ranking_quality(scores, costs)
    assert quality is not None
    assert quality.top_k == 3
    assert quality.top_k_recall == pytest.approx(2 / 3)
    assert quality.best_pick_slowdown == 2
    assert str(quality) == (
        "83% of pairs ranked right, 67% of the top 3 found, best pick 2.00x the best of 12"
    )


def test_times_that_are_about_the_same_are_no_pairs() -> None:
    assert ranking_quality(np.array([1.0, 2.0]), np.array([1.0, 1.01])) is None
    assert ranking_quality(np.array([1.0]), np.array([1.0])) is None
    assert ranking_quality(np.zeros(0), np.zeros(0)) is None
    quality = ranking_quality(np.array([2.0, 1.0, 3.0]), np.array([1.0, 1.01, 0.5]))
    assert quality is not None
    assert quality.pairwise_accuracy == 1

"""Trees of LightGBM, where it is installed."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from tilewright.cost_model.boosters.base import BoosterConfig, Matrix, OnRound, Vector
from tilewright.cost_model.pack_sum import PackSum

_MAX_LEAVES = 31
# Its threads spin while they wait: for less than this they cost more than they bring, and on a
# machine that has other things to do they cost twenty times as much.
_ROWS_PER_THREAD = 50_000


class LightGBMTrees:
    """Trained trees."""

    def __init__(self, booster: Any, start: float) -> None:
        self._booster = booster
        self._start = start

    def predict(self, rows: Matrix) -> Vector:
        return np.asarray(self._booster.predict(rows), dtype=np.float64) + self._start


class LightGBMBooster:
    """Grows trees with LightGBM.

    It gives up at a tree without a split, and regularisation makes every split a loss while all
    labels are far from the scores, on the same side. So scores start where the labels are.
    """

    def train(self, data: PackSum, config: BoosterConfig, on_round: OnRound) -> LightGBMTrees:
        lightgbm: Any = import_module("lightgbm")
        threads = min(config.nthread, 1 + len(data.rows) // _ROWS_PER_THREAD)
        params = _params(replace(config, nthread=threads))
        start = data.constant()
        scores = np.full(len(data.rows), start)
        dataset = lightgbm.Dataset(
            data.rows, data.labels[data.ids], init_score=scores.copy(), params=params
        )
        booster = lightgbm.Booster(params, dataset)

        def objective(row_scores: Vector, _: object) -> tuple[Vector, Vector]:
            scores[:] = row_scores
            return data.gradients(row_scores)

        for number in range(config.num_boost_round):
            finished = booster.update(fobj=objective)
            # `scores` are those before this round.
            if finished or (number > 0 and not on_round(number - 1, scores)):
                break
        return LightGBMTrees(booster, start)


def _params(config: BoosterConfig) -> dict[str, object]:
    return {
        "objective": "none",
        "verbose": -1,
        "max_depth": config.max_depth,
        "num_leaves": min(_MAX_LEAVES, 1 << config.max_depth),
        "learning_rate": config.eta,
        "min_gain_to_split": config.gamma,
        "min_sum_hessian_in_leaf": config.min_child_weight,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "max_bin": 63,
        "lambda_l2": config.reg_lambda,
        "num_threads": config.nthread,
        "seed": config.seed,
        "deterministic": True,
        "force_col_wise": True,
        "feature_pre_filter": False,
    }

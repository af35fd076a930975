"""Trees of LightGBM, where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from tilewright.cost_model.boosters.base import BoosterConfig, Matrix, OnRound, Vector
from tilewright.cost_model.pack_sum import PackSum

_MAX_LEAVES = 31


class LightGBMTrees:
    """Trained trees."""

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    def predict(self, rows: Matrix) -> Vector:
        return np.asarray(self._booster.predict(rows), dtype=np.float64)


class LightGBMBooster:
    """Grows trees with LightGBM."""

    def train(self, data: PackSum, config: BoosterConfig, on_round: OnRound) -> LightGBMTrees:
        lightgbm: Any = import_module("lightgbm")
        params = _params(config)
        dataset = lightgbm.Dataset(data.rows, data.labels[data.ids], params=params)
        booster = lightgbm.Booster(params, dataset)
        scores = np.zeros(len(data.rows))

        def objective(row_scores: Vector, _: Any) -> tuple[Vector, Vector]:
            scores[:] = row_scores
            return data.gradients(row_scores)

        for number in range(config.num_boost_round):
            finished = booster.update(fobj=objective)
            # `scores` are those before this round.
            if finished or (number > 0 and not on_round(number - 1, scores)):
                break
        return LightGBMTrees(booster)


def _params(config: BoosterConfig) -> dict[str, Any]:
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

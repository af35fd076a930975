"""Trees of XGBoost, where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from tilewright.cost_model.boosters.base import BoosterConfig, Matrix, OnRound, Vector
from tilewright.cost_model.pack_sum import PackSum


class XGBoostTrees:
    """Trained trees."""

    def __init__(self, booster: Any, matrix: Any) -> None:
        self._booster = booster
        self._matrix = matrix

    def predict(self, rows: Matrix) -> Vector:
        return np.asarray(self._booster.predict(self._matrix(rows)), dtype=np.float64)


class XGBoostBooster:
    """Grows trees with XGBoost."""

    def train(self, data: PackSum, config: BoosterConfig, on_round: OnRound) -> XGBoostTrees:
        xgboost: Any = import_module("xgboost")
        matrix = xgboost.DMatrix(data.rows, label=data.labels[data.ids])
        booster = xgboost.Booster(_params(config), [matrix])
        scores = np.zeros(len(data.rows))

        def objective(row_scores: Vector, _: object) -> tuple[Vector, Vector]:
            scores[:] = row_scores
            return data.gradients(scores)

        for number in range(config.num_boost_round):
            booster.update(matrix, number, fobj=objective)
            # `scores` are those before this round.
            if number > 0 and not on_round(number - 1, scores):
                break
        return XGBoostTrees(booster, xgboost.DMatrix)


def _params(config: BoosterConfig) -> dict[str, object]:
    return {
        "max_depth": config.max_depth,
        "gamma": config.gamma,
        "min_child_weight": config.min_child_weight,
        "eta": config.eta,
        "lambda": config.reg_lambda,
        "seed": config.seed,
        "nthread": config.nthread,
        "base_score": 0.0,
        "verbosity": 0,
    }

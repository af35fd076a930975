"""Trees of LightGBM and XGBoost, where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tilewright.cost_model.boosters.base import BoosterConfig, Matrix, OnRound, Vector
from tilewright.cost_model.pack_sum import PackSum

_MAX_LEAVES = 31
# Threads of LightGBM spin while they wait: for less than this they cost more than they bring, and
# on a machine that has other things to do they cost twenty times as much.
_ROWS_PER_THREAD = 50_000


@dataclass(frozen=True)
class LibraryTrees:
    """Trained trees."""

    booster: Any
    form: Callable[[Matrix], Any]  # in which the library takes rows
    start: float = 0.0  # of all scores

    def predict(self, rows: Matrix) -> Vector:
        return np.asarray(self.booster.predict(self.form(rows)), dtype=np.float64) + self.start


def _grow(
    data: PackSum, rounds: int, scores: Vector, update: Callable[..., Any], on_round: OnRound
) -> None:
    """Grow a tree a round, as the derivatives of all `scores` so far say."""

    def objective(row_scores: Vector, _: object) -> tuple[Vector, Vector]:
        scores[:] = row_scores
        return data.gradients(scores)

    for number in range(rounds):
        finished = update(number, fobj=objective)
        # `scores` are those before this round.
        if finished or (number > 0 and not on_round(number - 1, scores)):
            break


def train_lightgbm(data: PackSum, config: BoosterConfig, on_round: OnRound) -> LibraryTrees:
    """Grow trees with LightGBM.

    It gives up at a tree without a split, and regularisation makes every split a loss while all
    labels are far from the scores, on the same side. So scores start where the labels are.
    """
    lightgbm: Any = import_module("lightgbm")
    params = {
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
        "num_threads": min(config.nthread, 1 + len(data.rows) // _ROWS_PER_THREAD),
        "seed": config.seed,
        "deterministic": True,
        "force_col_wise": True,
        "feature_pre_filter": False,
    }
    start = data.constant()
    scores = np.full(len(data.rows), start)
    dataset = lightgbm.Dataset(
        data.rows, data.labels[data.ids], init_score=scores.copy(), params=params
    )
    booster = lightgbm.Booster(params, dataset)

    def update(number: int, fobj: object) -> object:
        return booster.update(fobj=fobj)

    _grow(data, config.num_boost_round, scores, update, on_round)
    return LibraryTrees(booster, np.asarray, start)


def train_xgboost(data: PackSum, config: BoosterConfig, on_round: OnRound) -> LibraryTrees:
    """Grow trees with XGBoost."""
    xgboost: Any = import_module("xgboost")
    params = {
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
    matrix = xgboost.DMatrix(data.rows, label=data.labels[data.ids])
    booster = xgboost.Booster(params, [matrix])
    scores = np.zeros(len(data.rows))
    _grow(data, config.num_boost_round, scores, partial(booster.update, matrix), on_round)
    return LibraryTrees(booster, xgboost.DMatrix)

"""The interface of gradient-boosted trees, and its implementations.

All train from scratch on given rows with derivatives from a callback, so that the objective is ours
whatever library grows the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.pack_sum import PackSum

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.floating]
OnRound = Callable[[int, Vector], bool]  # round and scores of rows so far; False: stop


@dataclass(frozen=True)
class BoosterConfig:
    """How trees are grown."""

    max_depth: int
    eta: float  # share of each tree that is added
    gamma: float  # the least gain of a split
    min_child_weight: float
    reg_lambda: float
    num_boost_round: int
    seed: int
    nthread: int


class Trees(Protocol):
    """Trained trees."""

    def predict(self, rows: Matrix) -> Vector:
        """Scores of rows."""


@dataclass(frozen=True)
class BoosterKind:
    """An implementation: what it needs, and how it grows trees."""

    name: str
    package: str | None  # None: always there
    train: Callable[[PackSum, BoosterConfig, OnRound], Trees]

    @property
    def installed(self) -> bool:
        return self.package is None or find_spec(self.package) is not None


def first_installed(kinds: Sequence[BoosterKind]) -> BoosterKind:
    """The first implementation whose package is there."""
    return next(kind for kind in kinds if kind.installed)

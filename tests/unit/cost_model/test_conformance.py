"""Our models meet the contract, whatever grows their trees."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model import (
    GBDTModel,
    MLPModel,
    RandomModel,
    SegmentSumMLPConfig,
    TrainerConfig,
    XGBModel,
    cost_models,
)
from tilewright.records import MeasureCandidate
from tilewright.testing.conformance import cost_model


class FlatPrior:
    """Knows nothing."""

    def score(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        return np.full(len(candidates), -10.0)


def small_mlp(backend: str) -> MLPModel:
    config = SegmentSumMLPConfig(hidden_dim=8)
    return MLPModel(config=config, trainer=TrainerConfig(num_epoch_full=3), backend=backend)


MEMBERS: dict[str, cost_model.MakeModel] = {
    "gbdt": GBDTModel,
    "gbdt that is warm": lambda: GBDTModel(num_warmup_samples=1),
    "gbdt with prior": lambda: GBDTModel(prior=FlatPrior()),
    "lightgbm": lambda: GBDTModel(num_warmup_samples=1, backend="lightgbm"),
    "xgboost": lambda: GBDTModel(num_warmup_samples=1, backend="xgboost"),
    "xgb": lambda: XGBModel(num_warmup_samples=1),
    "mlp": lambda: small_mlp("numpy"),
    "torch": lambda: small_mlp("torch"),
    "random": lambda: RandomModel(seed=7),
}
NEEDS = ("lightgbm", "xgboost", "torch")


@pytest.mark.parametrize("check", cost_model.CHECKS)
@pytest.mark.parametrize("name", MEMBERS)
def test_conformance(name: str, check: cost_model.Check, tmp_path: Path) -> None:
    if name in NEEDS and find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    check(MEMBERS[name], tmp_path)


def test_members_are_known_by_name() -> None:
    for name, kind in (
        ("gbdt", GBDTModel),
        ("xgb", XGBModel),
        ("mlp", MLPModel),
        ("random", RandomModel),
    ):
        assert type(cost_models.create(name)) is kind
    assert cost_models.create("none") is None

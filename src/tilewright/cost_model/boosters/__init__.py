"""Gradient-boosted trees: our own, LightGBM's, XGBoost's."""

from collections.abc import Sequence

from tilewright.cost_model.boosters.base import (
    BoosterConfig as BoosterConfig,
    BoosterKind as BoosterKind,
    Trees as Trees,
    first_installed as first_installed,
)
from tilewright.cost_model.boosters.histogram import train_histogram
from tilewright.cost_model.boosters.libraries import train_lightgbm, train_xgboost
from tilewright.errors import TuneError

HISTOGRAM = BoosterKind("histogram", None, train_histogram)
LIGHTGBM = BoosterKind("lightgbm", "lightgbm", train_lightgbm)
XGBOOST = BoosterKind("xgboost", "xgboost", train_xgboost)
_KINDS = {kind.name: kind for kind in (HISTOGRAM, LIGHTGBM, XGBOOST)}


def kinds_named(names: Sequence[str]) -> list[BoosterKind]:
    """The implementations of these names; a single one must be installed."""
    if unknown := [name for name in names if name not in _KINDS]:
        known = ", ".join(_KINDS)
        raise TuneError(f"no trees are called {unknown[0]!r}; there are {known}")
    kinds = [_KINDS[name] for name in names]
    if not any(kind.installed for kind in kinds):
        raise TuneError(
            f"{kinds[0].name} is not installed; `pip install {kinds[0].package}`, or use the"
            " backend 'histogram', which is always there"
        )
    return kinds

"""Settings of boosted trees."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.cost_model.boosters import BoosterConfig

# Deeper trees pay only with more samples.
_MANY_SAMPLES = 128
_FEW_LEVELS, _MORE_LEVELS = 2, 3


@dataclass(frozen=True)
class GBDTConfig:
    """How trees are grown; the defaults are the best of trials on matrix products and convolutions.

    `max_depth=None` grows two levels, three from 128 samples on; `nthread=None` uses as many
    threads as the tuner may, one unless it says more.
    """

    max_depth: int | None = None
    gamma: float = 0.001
    min_child_weight: float = 2
    eta: float = 0.1
    seed: int = 43
    nthread: int | None = None
    reg_lambda: float = 4.0
    num_boost_round: int = 60

    def booster_config(self, num_samples: int, num_tuning_cores: int | None) -> BoosterConfig:
        """The settings for so many samples."""
        depth = self.max_depth
        if depth is None:
            depth = _FEW_LEVELS if num_samples < _MANY_SAMPLES else _MORE_LEVELS
        return BoosterConfig(
            max_depth=depth,
            eta=self.eta,
            gamma=self.gamma,
            min_child_weight=self.min_child_weight,
            reg_lambda=self.reg_lambda,
            num_boost_round=self.num_boost_round,
            seed=self.seed,
            nthread=self.nthread or num_tuning_cores or 1,
        )


@dataclass(frozen=True)
class XGBConfig(GBDTConfig):
    """The settings of TVM's model."""

    max_depth: int | None = 10
    min_child_weight: float = 0
    eta: float = 0.2
    reg_lambda: float = 1.0

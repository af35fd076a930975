"""Models that score candidates before they are measured."""

from tilewright.cost_model.base import CostModel as CostModel, cost_models as cost_models
from tilewright.cost_model.gbdt import *  # noqa: F403 - its `__all__`
from tilewright.cost_model.mlp import MLPModel as MLPModel
from tilewright.cost_model.networks.base import (
    SegmentSumMLPConfig as SegmentSumMLPConfig,
    TrainerConfig as TrainerConfig,
)
from tilewright.cost_model.quality import (
    RankingQuality as RankingQuality,
    ranking_quality as ranking_quality,
)
from tilewright.cost_model.random_model import RandomModel as RandomModel

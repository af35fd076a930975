"""Models that score candidates before they are measured."""

from tilewright.cost_model.base import CostModel as CostModel, cost_models as cost_models
from tilewright.cost_model.gbdt import (
    GBDTConfig as GBDTConfig,
    GBDTModel as GBDTModel,
    Prior as Prior,
    XGBConfig as XGBConfig,
    XGBModel as XGBModel,
)
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

"""Models that score candidates before they are measured."""

from tilewright.cost_model.base import CostModel as CostModel, cost_models as cost_models
from tilewright.cost_model.gbdt import (
    GBDTModel as GBDTModel,
    Prior as Prior,
    XGBModel as XGBModel,
)
from tilewright.cost_model.gbdt_config import GBDTConfig as GBDTConfig, XGBConfig as XGBConfig
from tilewright.cost_model.mlp import MLPModel as MLPModel
from tilewright.cost_model.networks.config import (
    SegmentSumMLPConfig as SegmentSumMLPConfig,
    TrainerConfig as TrainerConfig,
)
from tilewright.cost_model.quality import (
    RankingQuality as RankingQuality,
    ranking_quality as ranking_quality,
)
from tilewright.cost_model.random_model import RandomModel as RandomModel

"""Cost models."""

from tilewright.cost_model import (
    CostModel as CostModel,
    GBDTModel as GBDTModel,
    MLPModel as MLPModel,
    RandomModel as RandomModel,
    XGBModel as XGBModel,
    cost_models as cost_models,
)
from tilewright.cost_model.gbdt import XGBConfig as XGBConfig
from tilewright.cost_model.pack_sum import PackSum as PackSum
from tilewright.cost_model.prior import AnalyticPrior as AnalyticPrior
from tilewright.cost_model.samples import FeatureGroup as FeatureGroup

PyCostModel = CostModel
create = CostModel.create

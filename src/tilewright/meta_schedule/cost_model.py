"""Cost models."""

from tilewright.cost_model import (
    CostModel as CostModel,
    GBDTModel as GBDTModel,
    MLPModel as MLPModel,
    RandomModel as RandomModel,
    XGBModel as XGBModel,
    cost_models as cost_models,
)
from tilewright.cost_model.prior import AnalyticPrior as AnalyticPrior

PyCostModel = CostModel
create = CostModel.create

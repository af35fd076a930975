"""Schedule rules."""

from tilewright.space.base import NotApplied as NotApplied, ScheduleRule as ScheduleRule
from tilewright.space.rules import (
    AddRFactor as AddRFactor,
    ApplyCustomRule as ApplyCustomRule,
    AutoBind as AutoBind,
    AutoInline as AutoInline,
    CrossThreadReduction as CrossThreadReduction,
    FuseRows as FuseRows,
    InlineConstantScalars as InlineConstantScalars,
    MultiLevelTiling as MultiLevelTiling,
    MultiLevelTilingTensorCore as MultiLevelTilingTensorCore,
    MultiLevelTilingWideVector as MultiLevelTilingWideVector,
    MultiLevelTilingWithIntrin as MultiLevelTilingWithIntrin,
    ParallelizeVectorizeUnroll as ParallelizeVectorizeUnroll,
    RandomComputeLocation as RandomComputeLocation,
    ReduceInVectors as ReduceInVectors,
    RegisterTiling as RegisterTiling,
    ReuseType as ReuseType,
    SpatialPass as SpatialPass,
    TensorTiling as TensorTiling,
)

PyScheduleRule = ScheduleRule
create = ScheduleRule.create

"""Questions about blocks, loops and buffers that schedule rules ask."""

from tilewright.schedule.analysis.auto_tensorize import (
    AutoTensorizeMappingInfo as AutoTensorizeMappingInfo,
    get_auto_tensorize_mapping_info as get_auto_tensorize_mapping_info,
    is_auto_tensorize_applicable as is_auto_tensorize_applicable,
)
from tilewright.schedule.analysis.blocks import *  # noqa: F403 - its `__all__`
from tilewright.schedule.analysis.flops import (
    estimate_tir_flops as estimate_tir_flops,
    flop_of as flop_of,
)
from tilewright.schedule.analysis.suggest_index_map import suggest_index_map as suggest_index_map
from tilewright.schedule.analysis.tensorize_info import (
    TensorizeInfo as TensorizeInfo,
    get_tensorize_loop_mapping as get_tensorize_loop_mapping,
)

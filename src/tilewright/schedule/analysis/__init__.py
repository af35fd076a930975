"""Questions about blocks, loops and buffers that schedule rules ask."""

from tilewright.schedule.analysis.auto_tensorize import (
    AutoTensorizeMappingInfo as AutoTensorizeMappingInfo,
    get_auto_tensorize_mapping_info as get_auto_tensorize_mapping_info,
    is_auto_tensorize_applicable as is_auto_tensorize_applicable,
)
from tilewright.schedule.analysis.blocks import (
    AccessPattern as AccessPattern,
    analyze_read_write_pattern as analyze_read_write_pattern,
    has_block as has_block,
    has_if_then_else as has_if_then_else,
    has_reduction_iter as has_reduction_iter,
    has_trivial_binding as has_trivial_binding,
    is_affine as is_affine,
    is_output_block as is_output_block,
    is_spatial as is_spatial,
    is_trivial_binding as is_trivial_binding,
    is_write_cache as is_write_cache,
    writes_output as writes_output,
)
from tilewright.schedule.analysis.flops import (
    estimate_tir_flops as estimate_tir_flops,
    flop_of as flop_of,
)
from tilewright.schedule.analysis.suggest_index_map import (
    suggest_index_map as suggest_index_map,
)
from tilewright.schedule.analysis.tensorize_info import (
    TensorizeInfo as TensorizeInfo,
    get_tensorize_loop_mapping as get_tensorize_loop_mapping,
)

"""Questions about blocks that schedules of one's own ask."""

from tilewright.schedule.analysis import (
    AutoTensorizeMappingInfo as AutoTensorizeMappingInfo,
    TensorizeInfo as TensorizeInfo,
    get_auto_tensorize_mapping_info as get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping as get_tensorize_loop_mapping,
    has_block as has_block,
    has_if_then_else as has_if_then_else,
    is_output_block as is_output_block,
    suggest_index_map as suggest_index_map,
)

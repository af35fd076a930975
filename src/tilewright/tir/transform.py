"""The lowering passes, and how to write one's own."""

from tilewright.lowering import (
    PassContext as PassContext,
    get_pass as get_pass,
    list_passes as list_passes,
    prim_func_pass as prim_func_pass,
    register_pass as register_pass,
)
from tilewright.lowering.base import Apply as Apply, Filter as Filter
from tilewright.lowering.common_subexpr_elim import CommonSubexprElim as CommonSubexprElim
from tilewright.lowering.compact_buffer_allocation import (
    CompactBufferAllocation as CompactBufferAllocation,
)
from tilewright.lowering.convert_blocks_to_opaque import (
    ConvertBlocksToOpaque as ConvertBlocksToOpaque,
)
from tilewright.lowering.flatten_buffer import FlattenBuffer as FlattenBuffer
from tilewright.lowering.hoist_if_then_else import HoistIfThenElse as HoistIfThenElse
from tilewright.lowering.host_abi import HostABI as HostABI
from tilewright.lowering.intrinsic_fallback import IntrinsicFallback as IntrinsicFallback
from tilewright.lowering.legalize_small_floats import LegalizeSmallFloats as LegalizeSmallFloats
from tilewright.lowering.legalize_vectors import LegalizeVectors as LegalizeVectors
from tilewright.lowering.loop_partition import LoopPartition as LoopPartition
from tilewright.lowering.lower_init_block import LowerInitBlock as LowerInitBlock
from tilewright.lowering.lower_intrin import LowerIntrin as LowerIntrin
from tilewright.lowering.lower_match_buffer import LowerMatchBuffer as LowerMatchBuffer
from tilewright.lowering.lower_opaque_block import LowerOpaqueBlock as LowerOpaqueBlock
from tilewright.lowering.narrow_data_type import NarrowDataType as NarrowDataType
from tilewright.lowering.plan_buffer_allocation import PlanBufferAllocation as PlanBufferAllocation
from tilewright.lowering.remove_no_op import RemoveNoOp as RemoveNoOp
from tilewright.lowering.rewrite_unsafe_select import RewriteUnsafeSelect as RewriteUnsafeSelect
from tilewright.lowering.simplify import Simplify as Simplify
from tilewright.lowering.storage_rewrite import StorageRewrite as StorageRewrite
from tilewright.lowering.unroll_loop import UnrollLoop as UnrollLoop
from tilewright.lowering.vectorize_loop import VectorizeLoop as VectorizeLoop

"""Keys of annotations on blocks, loops and functions, each in one place; most are TVM's.

Whoever writes and whoever reads a note both take its key from here.
"""

from __future__ import annotations

from typing import Final

# --- written by schedule rules, on blocks -------------------------------------------------------

# The structure a block was tiled with; whoever finds it leaves the block's loops alone.
TILING_STRUCTURE: Final = "meta_schedule.tiling_structure"
# How many elements a thread fetches at once; see RewriteCooperativeFetch.
COOPERATIVE_FETCH: Final = "meta_schedule.cooperative_fetch"
# How many threads a tiled block may use; see VerifyGPUCode.
THREAD_EXTENT_LOW: Final = "meta_schedule.thread_extent_low_inclusive"
THREAD_EXTENT_HIGH: Final = "meta_schedule.thread_extent_high_inclusive"
# The producer of this block wants a place of its own; see RandomComputeLocation.
RANDOM_COMPUTE_PRODUCER: Final = "meta_schedule.random_compute_producer"
# The intrinsic a block (its initialisation) will be replaced by; see RewriteTensorize.
AUTO_TENSORIZE: Final = "meta_schedule.auto_tensorize"
AUTO_TENSORIZE_INIT: Final = "meta_schedule.auto_tensorize_init"
# A block that rounds what a wide accumulator holds: made by a rule, so that others do not visit it.
ROUNDING: Final = "tilewright.rounding"
# All threads of a warp run this block together.
WARP_EXECUTION: Final = "warp_execution"

# --- written by schedule rules, on the root block; see RewriteParallelVectorizeUnroll -----------

PARALLEL: Final = "meta_schedule.parallel"
VECTORIZE: Final = "meta_schedule.vectorize"
UNROLL_EXPLICIT: Final = "meta_schedule.unroll_explicit"
UNROLL_IMPLICIT: Final = "meta_schedule.unroll_implicit"

# --- written by whoever defines an operator -----------------------------------------------------

# The custom rule of a block ("None": no rule at all); all other rules skip the block.
SCHEDULE_RULE: Final = "schedule_rule"
# "disable" keeps a block from being inlined.
INLINE_RULE: Final = "meta_schedule.inline_rule"
# The product of a Winograd convolution: how many outputs a tile has along each axis.
WINOGRAD_TILE: Final = "tilewright.winograd_tile"
# The tile levels at which the result of a block must be cached.
WRITE_CACHE_LEVEL: Final = "meta_schedule.write_cache_level"
# Which stage of an attention of several heads a block is; see `topi.nn.head_attention`.
HEAD_ATTENTION: Final = "tilewright.head_attention"

# Inputs that may be stored in any order: of a block, and by their positions of a function.
LAYOUT_FREE_PLACEHOLDERS: Final = "layout_free_placeholders"
LAYOUT_FREE_BUFFERS: Final = "layout_free_buffers"
# On a function: its weights are packed once, by `Module.bind`, not at each call.
BOUND_WEIGHTS: Final = "tilewright.bound_weights"

# --- loops and blocks that lowering looks at ----------------------------------------------------

# The turns of a loop do not depend on each other; see lowering/gpu/spread_independent_loops.py.
INDEPENDENT: Final = "tilewright.independent"
# Running totals: of products, the axis (-1: of everything), without the element itself; see
# lowering/gpu/lower_scans.py.
RUNNING_TOTALS: Final = "tilewright.running_totals"
# How many partial results a reduction loop keeps side by side; see lowering/vector_reduction.py.
VECTOR_REDUCTION: Final = "vector_reduction"
# Products with a factor that is zero by construction vanish; see lowering/skip_zero_terms.py.
SKIP_ZERO_TERMS: Final = "skip_zero_terms"
# Quotients by what stays the same in a loop become products; see lowering/invariant_divisors.py.
INVARIANT_DIVISORS: Final = "invariant_divisors"
# What is stored below goes past the caches; see codegen/llvm/streaming.py.
STREAM_STORES: Final = "pragma_stream_stores"
# Strides of a buffer that a block writes are padded to a factor and an offset; see storage_align.
BUFFER_DIM_ALIGN: Final = "buffer_dim_align"
# What a block touches in shared memory is free of bank conflicts; see
# lowering/gpu/inject_permuted_layout.py. On an allocation: how many elements rows are apart.
PERMUTED_LAYOUT: Final = "permuted_layout"
SOFTWARE_PIPELINE_STAGE: Final = "software_pipeline_stage"
SOFTWARE_PIPELINE_ORDER: Final = "software_pipeline_order"
SOFTWARE_PIPELINE_ASYNC_STAGES: Final = "software_pipeline_async_stages"
MANIFEST_SHARED_MEMORY_LOCAL_STAGE: Final = "tir.manifest_shared_memory_local_stage"
DOUBLE_BUFFER_SCOPE: Final = "double_buffer_scope"
# On the loop over the tiles of a kernel: steps of the sum that are in shared memory at a time (0:
# as many as there is room for), and the warp groups that multiply; see lowering/gpu/tile_kernels.
TILE_STAGES: Final = "tilewright.tile_stages"
TILE_CONSUMERS: Final = "tilewright.tile_consumers"
# On that loop, and of a function: sums of 8-bit floats have the digits that tensor cores keep.
FAST_SUMS: Final = "tilewright.fast_sums"
# Of a function: tensor cores may multiply float32, of which they use the first 11 digits.
ALLOW_TF32: Final = "tilewright.allow_tf32"
# On the same loop: how many blocks of threads share the sum of a tile, each a part of its steps.
TILE_SPLITS: Final = "tilewright.tile_splits"
# Its value where all blocks take equal shares of the steps of all tiles ("stream-K").
STREAMED: Final = 0
# On statements of a kernel: how many blocks of threads form a cluster.
CLUSTER_BLOCKS: Final = "tilewright.cluster_blocks"
# The warp groups that gather operands which bulk copies cannot fetch; with none these are refused.
TILE_GATHERERS: Final = "tilewright.tile_gatherers"
# On statements of a kernel: how many blocks of threads share a processor.
RESIDENT_BLOCKS: Final = "tilewright.resident_blocks"
# On the loop over tiles, where single threads multiply: rows and columns of the result of each.
THREAD_ROWS: Final = "tilewright.thread_rows"
THREAD_COLUMNS: Final = "tilewright.thread_columns"
# There too: parts of each step of the sum that threads of their own take.
THREAD_SLICES: Final = "tilewright.thread_slices"

# --- written by post-processors -----------------------------------------------------------------

# A copy that brings a constant into another layout, once, ahead of all calls.
LAYOUT_REWRITE_PREPROC: Final = "meta_schedule.layout_rewrite_preproc"
AUTO_UNROLL_MAX_STEP: Final = "pragma_auto_unroll_max_step"
UNROLL_EXPLICIT_PRAGMA: Final = "pragma_unroll_explicit"

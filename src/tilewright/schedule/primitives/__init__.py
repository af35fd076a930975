"""The built-in primitives, one a file; importing this package registers them all."""

from tilewright.schedule.primitives import (
    add_unit_loop as add_unit_loop,
    annotate as annotate,
    blockize as blockize,
    cache_read as cache_read,
    cache_write as cache_write,
    decompose_reduction as decompose_reduction,
    enter_postproc as enter_postproc,
    fuse as fuse,
    get_blocks as get_blocks,
    loop_kind as loop_kind,
    reorder as reorder,
    reorder_block_iter_var as reorder_block_iter_var,
    sample_categorical as sample_categorical,
    sample_perfect_tile as sample_perfect_tile,
    split as split,
    tensorize as tensorize,
)

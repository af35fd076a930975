"""Primitives around blocks without iterators, data as indices, updates in place, odd bindings."""

from typing import Any

# TVM 0.25 has no allocate_const, knows no argmin, and fails its own checks after splitting a loop
# that others run up to; it reads a cache before it is filled where no consumers are named.

# --- loops around blocks that use them ------------------------------------------------------------


def nested__fuse(sch: Any) -> None:
    sch.fuse(*sch.get_loops(sch.get_block("outer")))


def nested__split(sch: Any) -> None:
    outer = sch.get_block("outer")
    sch.split(sch.get_loops(outer)[0], [None, 4])


def nested__split_with_remainder(sch: Any) -> None:
    outer = sch.get_block("outer")
    sch.split(sch.get_loops(outer)[1], [None, 4])


def nested__fuse_and_split(sch: Any) -> None:
    outer = sch.get_block("outer")
    loop = sch.fuse(*sch.get_loops(outer))
    sch.split(loop, [None, 7])


def opaque_views__fuse(sch: Any) -> None:
    sch.fuse(*sch.get_loops(sch.get_block("outer")))


def opaque_views__split(sch: Any) -> None:
    sch.split(sch.get_loops(sch.get_block("outer"))[0], [2, 2])


def opaque_views__parallel(sch: Any) -> None:
    outer = sch.get_block("outer")
    sch.parallel(sch.fuse(*sch.get_loops(outer)))


# --- names of buffers that went away --------------------------------------------------------------


def guarded__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("M"))


def guarded__transform_layout(sch: Any) -> None:
    sch.transform_layout(sch.get_block("M"), ("write", 0), lambda i: (i // 4, i % 4))


def guarded__set_scope(sch: Any) -> None:
    sch.set_scope(sch.get_block("M"), 0, "shared")


def indirect__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("Q"))


def indirect__transform_layout(sch: Any) -> None:
    sch.transform_layout(sch.get_block("Q"), ("write", 0), lambda i: (i // 1, i % 1))


def indirect__set_axis_separator(sch: Any) -> None:
    sch.transform_layout(sch.get_block("Q"), ("write", 0), lambda i: (i // 1, i % 1))
    sch.set_axis_separator(sch.get_block("Q"), ("write", 0), [1])


def indirect__set_scope(sch: Any) -> None:
    sch.set_scope(sch.get_block("Q"), 0, "shared")


def indirect__unsafe_set_dtype(sch: Any) -> None:
    sch.unsafe_set_dtype(sch.get_block("Q"), 0, "int16")


def indirect__cache_read(sch: Any) -> None:
    sch.cache_read(sch.get_block("X"), 0, "local")


def indirect__cache_write(sch: Any) -> None:
    sch.cache_write(sch.get_block("Q"), 0, "local")


# --- caches ---------------------------------------------------------------------------------------


def updated__cache_read(sch: Any) -> None:
    block = sch.get_block("in")
    sch.cache_read(block, 0, "local", [block])


def updated__cache_read_and_write(sch: Any) -> None:
    block = sch.get_block("in")
    sch.cache_read(block, 0, "local", [block])
    sch.cache_write(sch.get_block("out"), 0, "local")


def written_then_read__cache_write(sch: Any) -> None:
    sch.cache_write(sch.get_block("scope"), 0, "shared")


def written_then_read__cache_write_last(sch: Any) -> None:
    sch.cache_write(sch.get_block("scope"), 1, "shared")


def written_then_read__cache_read(sch: Any) -> None:
    sch.cache_read(sch.get_block("scope"), 0, "shared")


# --- bindings -------------------------------------------------------------------------------------


def squares__reorder_affine(sch: Any) -> None:
    _, b, c = sch.get_loops(sch.get_block("Y"))
    sch.reorder(c, b)


def squares__reorder_all(sch: Any) -> None:
    a, b, c = sch.get_loops(sch.get_block("Y"))
    sch.reorder(c, b, a)


def triangle__split_inner(sch: Any) -> None:
    _, k = sch.get_loops(sch.get_block("B"))
    sch.split(k, [None, 4])


def triangle__decompose(sch: Any) -> None:
    block = sch.get_block("B")
    sch.decompose_reduction(block, sch.get_loops(block)[1])


def triangle__parallel(sch: Any) -> None:
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])


def triangle__reorder(sch: Any) -> None:
    i, k = sch.get_loops(sch.get_block("B"))
    sch.reorder(k, i)


# --- reductions -----------------------------------------------------------------------------------


def unit_reduction__rfactor(sch: Any) -> None:
    _, _, k = sch.get_loops(sch.get_block("B"))
    k0, _ = sch.split(k, [4, 4])
    sch.rfactor(k0, 0)


def unit_reduction__rfactor_unit(sch: Any) -> None:
    _, u, _ = sch.get_loops(sch.get_block("B"))
    sch.rfactor(u, 0)


def outer_reduction__rfactor(sch: Any) -> None:
    k, _ = sch.get_loops(sch.get_block("B"))
    k0, _ = sch.split(k, [4, 4])
    sch.rfactor(k0, 0)


def outer_reduction__decompose(sch: Any) -> None:
    block = sch.get_block("B")
    sch.decompose_reduction(block, sch.get_loops(block)[0])


def outer_reduction__cache_write(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local")


def outer_reduction__cache_read(sch: Any) -> None:
    sch.cache_read(sch.get_block("B"), 0, "local")


def outer_reduction__reorder(sch: Any) -> None:
    k, i = sch.get_loops(sch.get_block("B"))
    sch.reorder(i, k)


# --- rolling buffers ------------------------------------------------------------------------------


def _nested(sch: Any, tile: int) -> Any:
    """Rows of tiles of the last pooling, the others inside."""
    i, _, _, _ = sch.get_loops(sch.get_block("D"))
    outer, _ = sch.split(i, [None, tile])
    sch.compute_at(sch.get_block("C"), outer)
    sch.compute_at(sch.get_block("B"), outer)


def three_poolings__roll_one(sch: Any) -> None:
    _nested(sch, 4)
    sch.rolling_buffer(sch.get_block("C"), 0)


def three_poolings__roll_two(sch: Any) -> None:
    _nested(sch, 4)
    sch.rolling_buffer(sch.get_block("C"), 0)
    sch.rolling_buffer(sch.get_block("B"), 0)


def three_poolings__roll_two_producer_first(sch: Any) -> None:
    _nested(sch, 4)
    sch.rolling_buffer(sch.get_block("B"), 0)
    sch.rolling_buffer(sch.get_block("C"), 0)


def three_poolings__roll_single_rows(sch: Any) -> None:
    _nested(sch, 1)
    sch.rolling_buffer(sch.get_block("C"), 0)
    sch.rolling_buffer(sch.get_block("B"), 0)


def three_poolings__roll_tiles(sch: Any) -> None:
    i, j, _, _ = sch.get_loops(sch.get_block("D"))
    oi, ii = sch.split(i, [None, 4])
    oj, ij = sch.split(j, [None, 4])
    sch.reorder(oi, oj, ii, ij)
    sch.compute_at(sch.get_block("C"), oj)
    sch.compute_at(sch.get_block("B"), oj)
    sch.rolling_buffer(sch.get_block("C"), 0)
    sch.rolling_buffer(sch.get_block("B"), 0)


def strided_poolings__roll_two(sch: Any) -> None:
    _nested(sch, 4)
    sch.rolling_buffer(sch.get_block("C"), 0)
    sch.rolling_buffer(sch.get_block("B"), 0)


def strided_poolings__roll_two_producer_first(sch: Any) -> None:
    _nested(sch, 4)
    sch.rolling_buffer(sch.get_block("B"), 0)
    sch.rolling_buffer(sch.get_block("C"), 0)

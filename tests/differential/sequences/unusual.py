"""Primitives on odd extents, under conditions, with several readers and with unit loops."""

from typing import Any

# TVM's own result is wrong or not well-formed where loop_partition succeeds, for cache_inplace, and
# for read_at, write_at and reindex_cache_read under conditions; and its pad_einsum of today is not
# that of 0.14. Of these, only refusals are compared.

# --- loop_partition -------------------------------------------------------------------------------


def odd_matmul__partition_too_much(sch: Any) -> None:
    sch.loop_partition(sch.get_loops(sch.get_block("C"))[0], [8, 5])


def odd_matmul__partition_two_inferred(sch: Any) -> None:
    sch.loop_partition(sch.get_loops(sch.get_block("C"))[0], [None, None])


def unit_stages__partition_a_unit_loop(sch: Any) -> None:
    sch.loop_partition(sch.get_loops(sch.get_block("B"))[0], [1])


# --- reindex_cache_read and reindex_cache_write ---------------------------------------------------


def fan_out__reindex_cache_read_one_of_three(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("D"), 0, "global", lambda i, j: (i, j))


def fan_out__reindex_cache_read_two_places(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("E"), 0, "global", lambda i: (i,))


def fan_out__reindex_cache_write_many_readers(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("B"), 0, "global", lambda i, j: (j, i))


def fan_out__reindex_cache_write_folded(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("C"), 0, "global", lambda i, j: (i * 7 + j,))


def strided_conv__reindex_cache_read(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "global", lambda h, c, r, k: (h, r, k))


def strided_conv__reindex_cache_read_lossy(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "global", lambda h, c, r, k: (h, k))


def strided_conv__reindex_cache_write(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("C"), 0, "global", lambda h, c, r, k: (c, h))


def unit_stages__reindex_cache_read(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "global", lambda n, i, c, j: (i, j))


def unit_stages__reindex_cache_write(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("B"), 0, "global", lambda n, i, c, j: (i, j, n))


# --- annotate_buffer_access -----------------------------------------------------------------------


def fan_out__annotate_one_read_of_two(sch: Any) -> None:
    sch.annotate_buffer_access(sch.get_block("C"), 1, "read", lambda i, j: ((i, i + 1), (0, 7)))


def fan_out__annotate_a_write(sch: Any) -> None:
    sch.annotate_buffer_access(
        sch.get_block("D"), 0, "write", lambda i, j: ((i, i + 1), (j, j + 1))
    )


def fan_out__annotate_then_split(sch: Any) -> None:
    block = sch.get_block("C")
    sch.annotate_buffer_access(block, 0, "read", lambda i, j: ((i - 1, i + 2), (j, j + 1)))
    sch.split(sch.get_loops(block)[0], [None, 4])


def unit_stages__annotate(sch: Any) -> None:
    sch.annotate_buffer_access(
        sch.get_block("C"), 0, "read", lambda n, i, c, j: (n, (i - 1, i + 1), c, (0, 6))
    )


def fan_out__annotate_too_few_dimensions(sch: Any) -> None:
    sch.annotate_buffer_access(sch.get_block("C"), 0, "read", lambda i, j: ((i, i + 1),))


# --- pad_einsum -----------------------------------------------------------------------------------


def odd_matmul__pad_wrong_count(sch: Any) -> None:
    sch.pad_einsum(sch.get_block("C"), [4, 4])


def strided_conv__pad_no_einsum(sch: Any) -> None:
    sch.pad_einsum(sch.get_block("C"), [4, 4, 4, 4])


# --- decompose_padding ----------------------------------------------------------------------------


def padding__decompose_rows(sch: Any) -> None:
    block = sch.get_block("P")
    sch.decompose_padding(block, sch.get_loops(block)[0])


def padding__decompose_columns(sch: Any) -> None:
    block = sch.get_block("P")
    sch.decompose_padding(block, sch.get_loops(block)[1])


def padding__decompose_after_split(sch: Any) -> None:
    block = sch.get_block("P")
    outer, _ = sch.split(sch.get_loops(block)[0], [None, 4])
    sch.decompose_padding(block, outer)


def padding__decompose_after_uneven_split(sch: Any) -> None:
    block = sch.get_block("P")
    outer, _ = sch.split(sch.get_loops(block)[1], [None, 4])
    sch.decompose_padding(block, outer)


def padding__decompose_under_its_reader(sch: Any) -> None:
    block = sch.get_block("P")
    sch.compute_at(block, sch.get_loops(sch.get_block("C"))[0])
    sch.decompose_padding(block, sch.get_loops(block)[1])


def padding__decompose_no_padding(sch: Any) -> None:
    block = sch.get_block("C")
    sch.decompose_padding(block, sch.get_loops(block)[0])


def padding__decompose_foreign_loop(sch: Any) -> None:
    sch.decompose_padding(sch.get_block("P"), sch.get_loops(sch.get_block("C"))[0])


def padding_at_the_end__decompose(sch: Any) -> None:
    block = sch.get_block("C")
    sch.decompose_padding(block, sch.get_loops(block)[0])


def padding_at_the_end__decompose_a_tile(sch: Any) -> None:
    block = sch.get_block("C")
    _, inner = sch.split(sch.get_loops(block)[0], [None, 4])
    sch.decompose_padding(block, inner)


# --- cache_inplace --------------------------------------------------------------------------------


def in_place__cache_what_is_only_read(sch: Any) -> None:
    sch.cache_inplace(sch.get_block("first"), 1, "local")


def in_place__cache_no_such_buffer(sch: Any) -> None:
    sch.cache_inplace(sch.get_block("first"), 3, "local")


# --- read_at and write_at -------------------------------------------------------------------------


def fan_out__read_at_two_places(sch: Any) -> None:
    block = sch.get_block("E")
    outer, _ = sch.split(sch.get_loops(block)[0], [3, 4])
    sch.read_at(outer, block, 0, "shared")


def fan_out__read_at_transposed(sch: Any) -> None:
    block = sch.get_block("D")
    sch.read_at(sch.get_loops(block)[0], block, 0, "shared")


def fan_out__write_at(sch: Any) -> None:
    block = sch.get_block("C")
    sch.write_at(sch.get_loops(block)[0], block, 0, "local")


def strided_conv__read_at(sch: Any) -> None:
    block = sch.get_block("C")
    outer, _ = sch.split(sch.get_loops(block)[0], [3, 2])
    sch.read_at(outer, block, 0, "shared")


def unit_stages__read_at(sch: Any) -> None:
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[1], block, 0, "shared")


def unit_stages__write_at(sch: Any) -> None:
    block = sch.get_block("B")
    sch.write_at(sch.get_loops(block)[2], block, 0, "local")


# --- sample_partitioned_tile ----------------------------------------------------------------------


def refolded__sample_partitioned(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    for position, factor in ((1, 2), (2, 4), (2, 1)):
        sch.sample_partitioned_tile(i, 4, position, factor)
        sch.sample_partitioned_tile(j, 3, position, factor)


def refolded__sample_partitioned_whole(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.sample_partitioned_tile(i, 2, 1, 16)


def unit_stages__sample_partitioned_unit(sch: Any) -> None:
    loop = sch.get_loops(sch.get_block("B"))[0]
    sch.sample_partitioned_tile(loop, 3, 1, 1)


# --- reverse_compute_inline -----------------------------------------------------------------------


def refolded__reverse_compute_inline(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("C"))


def unit_stages__reverse_compute_inline(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("C"))


def refolded__reverse_compute_inline_after_split(sch: Any) -> None:
    sch.split(sch.get_loops(sch.get_block("B"))[1], [None, 5])
    sch.reverse_compute_inline(sch.get_block("C"))


# --- a reduction that names its result among its reads --------------------------------------------


def named_result__cache_write(sch: Any) -> None:
    sch.cache_write(sch.get_block("C"), 0, "local")


def named_result__cache_write_of_tiles(sch: Any) -> None:
    block = sch.get_block("C")
    copy = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(copy, j0)
    sch.decompose_reduction(block, k)


def named_result__cache_read_of_an_input(sch: Any) -> None:
    sch.cache_read(sch.get_block("C"), 1, "shared")


def named_result__reindex_the_result(sch: Any) -> None:
    sch.reindex(sch.get_block("C"), ("write", 0))


def named_result__reindex_by_name(sch: Any) -> None:
    sch.reindex(sch.get_block("C"), "C")


def named_result__reindex_an_input(sch: Any) -> None:
    sch.reindex(sch.get_block("C"), ("read", 2))


def named_result__reindex_cache_write(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("C"), 0, "local", lambda i, j, k: (j, i))


def named_result__write_at(sch: Any) -> None:
    block = sch.get_block("C")
    sch.write_at(sch.get_loops(block)[1], block, 0, "local")


def named_result__read_at(sch: Any) -> None:
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[1], block, 2, "shared")


def named_result__decompose(sch: Any) -> None:
    block = sch.get_block("C")
    sch.decompose_reduction(block, sch.get_loops(block)[1])


def named_result__compute_at(sch: Any) -> None:
    sch.compute_at(sch.get_block("C"), sch.get_loops(sch.get_block("D"))[1])


def named_result__reverse_compute_at(sch: Any) -> None:
    sch.reverse_compute_at(sch.get_block("D"), sch.get_loops(sch.get_block("C"))[1])


def named_result__set_scope(sch: Any) -> None:
    sch.set_scope(sch.get_block("C"), 0, "shared")


def named_result__parallel_reduction(sch: Any) -> None:
    sch.parallel(sch.get_loops(sch.get_block("C"))[2])


# --- reverse_compute_at under pieces of a fused loop ----------------------------------------------


def _pieces(sch: Any, factors: Any) -> Any:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    return sch.split(sch.fuse(i, j), factors)


def odd_matmul__follow_pieces(sch: Any) -> None:
    _, inner = _pieces(sch, [None, 8])
    sch.reverse_compute_at(sch.get_block("D"), inner)


def odd_matmul__follow_outer_pieces(sch: Any) -> None:
    outer, _ = _pieces(sch, [None, 8])
    sch.reverse_compute_at(sch.get_block("D"), outer)


def odd_matmul__follow_with_unit_loops(sch: Any) -> None:
    _, inner = _pieces(sch, [None, 8])
    sch.reverse_compute_at(sch.get_block("D"), inner, preserve_unit_loops=True)


def odd_matmul__follow_threads(sch: Any) -> None:
    outer, inner = _pieces(sch, [None, 8])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    sch.reverse_compute_at(sch.get_block("D"), inner)


def odd_matmul__copy_follows_pieces(sch: Any) -> None:
    block = sch.get_block("C")
    copy = sch.cache_write(block, 0, "local")
    _, inner = _pieces(sch, [None, 8])
    sch.reverse_compute_at(copy, inner)
    sch.reverse_compute_at(sch.get_block("D"), inner)


def odd_matmul__follow_fused_tiles(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 3])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1)
    _, inner = sch.split(sch.fuse(i0, j0), [None, 4])
    sch.reverse_compute_at(sch.get_block("D"), inner)


# --- threads --------------------------------------------------------------------------------------


def sum_of_stage__reduce_across_threads(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.reverse_compute_at(sch.get_block("C"), j)
    sch.reverse_compute_at(sch.get_block("D"), i)


def sum_of_stage__reduce_across_some_threads(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    _, inner = sch.split(j, [None, 32])
    sch.bind(i, "threadIdx.y")
    sch.bind(inner, "threadIdx.x")
    sch.reverse_compute_at(sch.get_block("C"), inner, preserve_unit_loops=True)


def sum_of_stage__reduce_parts_across_threads(sch: Any) -> None:
    _, k = sch.get_loops(sch.get_block("C"))
    _, inner = sch.split(k, [None, 32])
    i, outer, inner = sch.get_loops(sch.rfactor(inner, 0))
    sch.reorder(inner, outer)
    sch.bind(i, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    sch.reverse_compute_at(sch.get_block("C"), inner)


def _bind_tiles(sch: Any) -> Any:
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1, i2 = sch.split(i, [2, 4, 4])
    j0, j1, j2 = sch.split(j, [2, 6, 4])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.bind(sch.fuse(i0, j0), "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    return j1, k0


def named_result__read_at_of_threads(sch: Any) -> None:
    threads, steps = _bind_tiles(sch)
    block = sch.get_block("C")
    sch.read_at(steps, block, 1, "shared")
    sch.read_at(steps, block, 2, "shared.dyn")
    sch.write_at(threads, block, 0, "local")


def named_result__read_at_of_a_warp(sch: Any) -> None:
    _, steps = _bind_tiles(sch)
    block = sch.get_block("C")
    sch.read_at(steps, block, 1, "warp")
    sch.read_at(steps, block, 2, "warp")


def named_result__compute_at_of_threads(sch: Any) -> None:
    threads, steps = _bind_tiles(sch)
    block = sch.get_block("C")
    copy = sch.cache_read(block, 1, "shared")
    sch.compute_at(copy, steps)
    sch.compute_at(sch.cache_read(block, 2, "local"), steps)
    sch.reverse_compute_at(sch.get_block("D"), threads)

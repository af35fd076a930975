"""decompose_reduction, rfactor, blockize, merge, padding, rolling buffers and small loop steps."""

from typing import Any


def _tiled(sch: Any) -> Any:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    return block, i0, j0, k0, i1, j1, k1


def matmul__decompose_at_reduction_loop(sch: Any) -> None:
    block = sch.get_block("C")
    sch.decompose_reduction(block, sch.get_loops(block)[2])


def matmul__decompose_keeps_kinds_and_guards(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 3])
    sch.parallel(i0)
    sch.vectorize(i1)
    sch.annotate(j, "note", 1)
    sch.annotate(block, "meta", "x")
    sch.decompose_reduction(block, i0)


def matmul__decompose_tiled(sch: Any) -> None:
    block, _, _, k0, *_ = _tiled(sch)
    init = sch.decompose_reduction(block, k0)
    sch.vectorize(sch.get_loops(init)[-1])


def matmul__decompose_with_threads(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.bind(i, "threadIdx.x")
    sch.bind(j, "blockIdx.x")
    k0, k1 = sch.split(k, [None, 5])
    sch.reorder(i, k0, j, k1)
    sch.decompose_reduction(block, k0)


def matmul__decompose_inside_reduction(sch: Any) -> None:
    block, _, _, _, i1, *_ = _tiled(sch)
    sch.decompose_reduction(block, i1)


def matmul__decompose_twice(sch: Any) -> None:
    block = sch.get_block("C")
    k = sch.get_loops(block)[2]
    sch.decompose_reduction(block, k)
    sch.decompose_reduction(block, k)


def row_sum__decompose_mixed_loop(sch: Any) -> None:
    block = sch.get_block("B")
    fused = sch.fuse(*sch.get_loops(block))
    sch.decompose_reduction(block, fused)


def row_sum__rfactor_inner(sch: Any) -> None:
    block = sch.get_block("B")
    _, k = sch.get_loops(block)
    _, k1 = sch.split(k, [None, 8])
    sch.rfactor(k1, 0)


def row_sum__rfactor_outer_last_axis(sch: Any) -> None:
    block = sch.get_block("B")
    _, k = sch.get_loops(block)
    k0, _ = sch.split(k, [4, None])
    partial = sch.rfactor(k0, -1)
    sch.decompose_reduction(partial, sch.get_loops(partial)[0])


def row_sum__rfactor_whole_reduction(sch: Any) -> None:
    block = sch.get_block("B")
    sch.annotate(block, "note", 1)
    i, k = sch.get_loops(block)
    sch.parallel(i)
    sch.rfactor(k, 1)


def row_sum__rfactor_middle_of_three(sch: Any) -> None:
    block = sch.get_block("B")
    _, k = sch.get_loops(block)
    k0, k1, k2 = sch.split(k, [4, 4, 8])
    sch.reorder(k2, k0, k1)
    sch.rfactor(k1, 0)
    sch.unroll(k1)


def row_sum__rfactor_axis_out_of_range(sch: Any) -> None:
    _, k = sch.get_loops(sch.get_block("B"))
    sch.rfactor(k, 2)


def row_sum__rfactor_spatial_loop(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.rfactor(i, 0)


def row_sum__rfactor_mixed_loop(sch: Any) -> None:
    sch.rfactor(sch.fuse(*sch.get_loops(sch.get_block("B"))), 0)


def row_sum__rfactor_unrolled_loop(sch: Any) -> None:
    _, k = sch.get_loops(sch.get_block("B"))
    sch.unroll(k)
    sch.rfactor(k, 0)


def matmul__rfactor_twice(sch: Any) -> None:
    block = sch.get_block("C")
    _, _, k = sch.get_loops(block)
    k0, _ = sch.split(k, [None, 6])
    partial = sch.rfactor(k0, 1)
    sch.rfactor(sch.get_loops(partial)[-1], 0)


def matmul__blockize_tile(sch: Any) -> None:
    _, _, _, _, i1, _, _ = _tiled(sch)
    sch.blockize(i1)


def matmul__blockize_twice(sch: Any) -> None:
    _, _, _, _, _, j1, _ = _tiled(sch)
    outer = sch.blockize(j1)
    sch.blockize(sch.get_loops(outer)[1])


def matmul__blockize_reduction_only(sch: Any) -> None:
    sch.blockize(sch.get_loops(sch.get_block("C"))[2])


def matmul__blockize_everything(sch: Any) -> None:
    sch.blockize(sch.get_loops(sch.get_block("C"))[0])


def matmul__blockize_keeps_guard_inside(sch: Any) -> None:
    block = sch.get_block("C")
    j0, _ = sch.split(sch.get_loops(block)[1], [None, 7])
    sch.blockize(j0)


def matmul__blockize_keeps_guard_outside(sch: Any) -> None:
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    sch.split(j, [None, 7])
    _, k1 = sch.split(k, [None, 4])
    sch.blockize(k1)


def matmul__blockize_cannot_divide_guard(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 5])
    sch.reorder(i0, j, k, i1)
    sch.blockize(i1)


def _twice_tiled(sch: Any) -> list[Any]:
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1, i2 = sch.split(i, [None, 2, 4])
    j0, j1, j2 = sch.split(j, [None, 3, 8])
    k0, k1 = sch.split(k, [None, 4])
    loops = [i0, j0, i1, j1, k0, i2, j2, k1]
    sch.reorder(*loops)
    return loops


def matmul__blockize_under_fused_loops(sch: Any) -> None:
    loops = _twice_tiled(sch)
    sch.fuse(*loops[:2])
    sch.fuse(*loops[2:4])
    sch.blockize(loops[5])


def matmul__blockize_fused_loops(sch: Any) -> None:
    loops = _twice_tiled(sch)
    sch.fuse(*loops[:3])
    sch.blockize(sch.fuse(*loops[5:]))


def matmul__blockize_loops_fused_across(sch: Any) -> None:
    loops = _twice_tiled(sch)
    sch.fuse(*loops[:2])
    sch.blockize(sch.fuse(*loops[3:5]))


def matmul__blockize_inside_of_a_fused_loop(sch: Any) -> None:
    _, inner = sch.split(sch.fuse(*_twice_tiled(sch)[:4]), [None, 6])
    sch.blockize(inner)


def matmul__blockize_across_digits_of_a_fused_loop(sch: Any) -> None:
    _, inner = sch.split(sch.fuse(*_twice_tiled(sch)[:4]), [None, 9])
    sch.blockize(inner)


def matmul__blockize_under_fused_loops_without_unit_iterators(sch: Any) -> None:
    loops = _twice_tiled(sch)
    sch.fuse(*loops[:5])
    sch.blockize(loops[5], preserve_unit_iters=False)


def padded_conv__blockize_with_unit_iterators(sch: Any) -> None:
    sch.blockize(sch.get_loops(sch.get_block("C"))[3])


def padded_conv__blockize_without_unit_iterators(sch: Any) -> None:
    sch.blockize(sch.get_loops(sch.get_block("C"))[3], preserve_unit_iters=False)


def padded_conv__blockize_overlapping_reads(sch: Any) -> None:
    _, _, w, c, rh, rw, rc = sch.get_loops(sch.get_block("C"))
    w0, w1 = sch.split(w, [None, 7])
    sch.reorder(w0, c, rh, rw, rc, w1)
    sch.blockize(rh)


def chain__blockize_neighbours(sch: Any) -> None:
    sch.blockize([sch.get_block("B"), sch.get_block("C")])


def matmul_relu__blockize_list_with_reduction(sch: Any) -> None:
    sch.blockize([sch.get_block("C"), sch.get_block("D")])


def chain__unit_loops_and_iterator_order(sch: Any) -> None:
    block = sch.get_block("C")
    sch.add_unit_loop(block)
    sch.add_unit_loop(sch.get_loops(block)[0])
    sch.reorder_block_iter_var(block, [1, 0])


def matmul__iterator_order_then_decompose(sch: Any) -> None:
    block = sch.get_block("C")
    sch.reorder_block_iter_var(block, [2, 0, 1])
    sch.decompose_reduction(block, sch.get_loops(block)[2])


def matmul__not_a_permutation(sch: Any) -> None:
    sch.reorder_block_iter_var(sch.get_block("C"), [0, 0, 1])


def chain__merge_inner(sch: Any) -> None:
    first, second = (sch.get_loops(sch.get_block(name))[1] for name in "BC")
    sch.unroll(sch.merge(first, second))


def chain__merge_outer(sch: Any) -> None:
    first, second = (sch.get_loops(sch.get_block(name))[0] for name in "BC")
    sch.parallel(sch.merge(first, second))


def chain__merge_different_depth(sch: Any) -> None:
    sch.merge(sch.get_loops(sch.get_block("B"))[0], sch.get_loops(sch.get_block("C"))[1])


def stencils__rolling_rows(sch: Any) -> None:
    block, consumer = sch.get_block("B"), sch.get_block("C")
    sch.compute_at(block, sch.get_loops(consumer)[0])
    sch.rolling_buffer(block, 0)


def stencils__rolling_tiles(sch: Any) -> None:
    block, consumer = sch.get_block("B"), sch.get_block("C")
    i, j, *_ = sch.get_loops(consumer)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i0, i1, j1)
    sch.compute_at(block, i0)
    sch.rolling_buffer(block, 0)


def _rolled(sch: Any, loop: Any) -> None:
    block = sch.get_block("B")
    sch.compute_at(block, loop)
    sch.rolling_buffer(block, 0)


def resampled__rolling_rows(sch: Any) -> None:
    _rolled(sch, sch.get_loops(sch.get_block("C"))[0])


def resampled__rolling_in_both_dimensions(sch: Any) -> None:
    _rolled(sch, sch.get_loops(sch.get_block("C"))[1])


def resampled__rolling_tiles_of_three_rows(sch: Any) -> None:
    _rolled(sch, sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 3])[0])


def resampled__rolling_tiles_of_four_rows(sch: Any) -> None:
    _rolled(sch, sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 4])[0])


def pool__rolling_windows_side_by_side(sch: Any) -> None:
    _rolled(sch, sch.get_loops(sch.get_block("C"))[0])


def stencils__rolling_needs_a_common_loop(sch: Any) -> None:
    sch.rolling_buffer(sch.get_block("B"), 0)


def padded_conv__padding_outermost(sch: Any) -> None:
    block = sch.get_block("P")
    loops = sch.get_loops(block)
    sch.parallel(loops[1])
    sch.vectorize(loops[3])
    sch.decompose_padding(block, loops[0])


def padded_conv__padding_inside(sch: Any) -> None:
    block = sch.get_block("P")
    sch.decompose_padding(block, sch.get_loops(block)[2])


def padded_conv__padding_of_fused_loop(sch: Any) -> None:
    block = sch.get_block("P")
    _, h, w, _ = sch.get_loops(block)
    sch.fuse(h, w)
    sch.decompose_padding(block, sch.get_loops(block)[1])


def padded_conv__padding_of_split_loop(sch: Any) -> None:
    block = sch.get_block("P")
    sch.split(sch.get_loops(block)[1], [None, 6])
    sch.decompose_padding(block, sch.get_loops(block)[1])


def padded_conv__padding_of_no_padding(sch: Any) -> None:
    block = sch.get_block("S")
    sch.decompose_padding(block, sch.get_loops(block)[0])

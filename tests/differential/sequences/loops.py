"""split, fuse, reorder, loop kinds and annotations."""

from typing import Any


def matmul__split_exact(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.split(i, [4, 8])
    sch.split(j, [None, 3, 4])
    sch.split(k, [6, None])


def matmul__split_imperfect(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None, 5])
    sch.split(j, [7, 7])
    sch.split(k, [None, 2, 7])


def matmul__split_of_imperfect_split(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(i, [None, 5])
    sch.split(outer, [2, None])
    sch.split(inner, [None, 3])


def matmul__split_without_predicate(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None, 4], disable_predication=True)


def matmul__split_larger_than_extent(sch: Any) -> None:
    i, _, k = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None, 64])
    sch.split(k, [30, 1])


def matmul__split_drops_unit_iterators(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.split(i, [1, 32], preserve_unit_iters=False)
    sch.split(j, [48, 1], preserve_unit_iters=False)
    sch.split(k, [3, 1, 8])


def matmul__split_one_factor(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None])
    sch.split(j, [48])


def matmul__split_zero_factor(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [0, None])


def matmul__split_too_small(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [3, 4])


def matmul__split_two_unknowns(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None, None])


def matmul__split_annotated(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.annotate(i, "pragma", 1)
    sch.split(i, [None, 4])


def matmul__split_parallel(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.parallel(i)
    sch.unroll(j)
    sch.split(i, [None, 4])
    sch.split(j, [None, 4])


def matmul__split_bound(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "blockIdx.x")
    sch.split(i, [None, 4])


def symbolic__split(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    sch.split(i, [None, 8])
    sch.split(j, [None, 4])


def symbolic__split_outer_factor(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.split(i, [8, None])


def symbolic__split_known_factors(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.split(i, [8, 8])


def symbolic__fuse(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    sch.fuse(i, j)


def symbolic__fuse_and_split(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    sch.split(sch.fuse(i, j), [None, 32])


def symbolic__sample(sch: Any) -> None:
    _, j = sch.get_loops(sch.get_block("B"))
    sch.split(j, sch.sample_perfect_tile(j, 3))


def matmul__fuse_two(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.parallel(sch.fuse(i, j))


def matmul__fuse_all(sch: Any) -> None:
    sch.fuse(*sch.get_loops(sch.get_block("C")))


def matmul__fuse_one(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.fuse(i)


def matmul__fuse_none(sch: Any) -> None:
    sch.get_block("C")
    sch.fuse()


def matmul__fuse_wrong_order(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.fuse(j, i)


def matmul__fuse_not_adjacent(sch: Any) -> None:
    i, _, k = sch.get_loops(sch.get_block("C"))
    sch.fuse(i, k)


def matmul__fuse_after_split(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [4, 8])
    j0, j1 = sch.split(j, [6, 8])
    sch.reorder(i0, j0, i1, j1)
    sch.fuse(i0, j0)
    sch.fuse(i1, j1)


def matmul__fuse_what_split_made(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    i0, i1, i2 = sch.split(i, [4, 2, 4])
    sch.fuse(sch.fuse(i0, i1), i2)


def matmul__fuse_imperfect(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    _, i1 = sch.split(i, [None, 5])
    j0, _ = sch.split(j, [None, 7])
    sch.fuse(i1, j0)


def matmul__fuse_bound(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "blockIdx.x")
    sch.fuse(i, j)


def unit_loops__fuse_all(sch: Any) -> None:
    sch.fuse(*sch.get_loops(sch.get_block("B")))


def unit_loops__fuse_and_drop_unit_iterators(sch: Any) -> None:
    sch.fuse(*sch.get_loops(sch.get_block("B")), preserve_unit_iters=False)


def unit_loops__fuse_some(sch: Any) -> None:
    n, i, c, j = sch.get_loops(sch.get_block("B"))
    sch.fuse(n, i)
    sch.fuse(c, j)


def unit_loops__split_units(sch: Any) -> None:
    n, i, _, _ = sch.get_loops(sch.get_block("B"))
    sch.split(n, [1, 1])
    sch.split(i, [1, 8, 1])


def unit_loops__split_units_and_drop(sch: Any) -> None:
    n, i, _, _ = sch.get_loops(sch.get_block("B"))
    sch.split(n, [1, 1], preserve_unit_iters=False)
    sch.split(i, [1, 8, 1], preserve_unit_iters=False)


def unit_loops__split_then_split_and_drop(sch: Any) -> None:
    _, i, _, _ = sch.get_loops(sch.get_block("B"))
    _, inner = sch.split(i, [2, 4])
    sch.split(inner, [1, 4], preserve_unit_iters=False)


def matmul__reorder_all(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(k, j, i)


def matmul__reorder_keeps_others(sch: Any) -> None:
    i, _, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(k, i)


def matmul__reorder_tiles(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [4, 8])
    j0, j1 = sch.split(j, [6, 8])
    k0, k1 = sch.split(k, [3, 8])
    sch.reorder(i0, j0, k0, i1, k1, j1)


def matmul__reorder_twice_the_same(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, j, i)


def matmul__reorder_one(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.reorder(i)


def chain__reorder_across_nests(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    _, j = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, j)


def matmul__parallel_reduction(sch: Any) -> None:
    _, _, k = sch.get_loops(sch.get_block("C"))
    sch.parallel(k)


def matmul__bind_reduction(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "vthread.y")
    sch.bind(k, "threadIdx.x")


def matmul__bind_reduction_to_block(sch: Any) -> None:
    _, _, k = sch.get_loops(sch.get_block("C"))
    sch.bind(k, "blockIdx.x")


def matmul__kinds(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    _, j1 = sch.split(j, [None, 8])
    sch.parallel(i)
    sch.unroll(k)
    sch.reorder(k, j1)
    sch.vectorize(j1)


def matmul__unroll_bound(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "threadIdx.x")
    sch.unroll(i)


def matmul__parallel_after_bind(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "threadIdx.x")
    sch.parallel(i)


def matmul__fused_parallel_of_mixed(sch: Any) -> None:
    _, j, k = sch.get_loops(sch.get_block("C"))
    sch.parallel(sch.fuse(j, k))


def matmul__annotate(sch: Any) -> None:
    block = sch.get_block("C")
    i, _, _ = sch.get_loops(block)
    sch.annotate(block, "meta_schedule.parallel", 64)
    sch.annotate(block, "text", "SSRSRS")
    sch.annotate(block, "list", [1, 2, 3])
    sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    sch.annotate(i, "pragma_auto_unroll_max_step", 64)
    sch.annotate(i, "ratio", 0.5)
    sch.unannotate(block, "text")


def matmul__annotate_sampled(sch: Any) -> None:
    block = sch.get_block("C")
    v = sch.sample_categorical([0, 16, 64, 512], [0.25, 0.25, 0.25, 0.25])
    sch.annotate(block, "unroll", v)
    sch.annotate(block, "list", [v, 3])


def matmul__unannotate_missing(sch: Any) -> None:
    sch.unannotate(sch.get_block("C"), "nothing")


def matmul__sample_and_split(sch: Any) -> None:
    for loop in sch.get_loops(sch.get_block("C")):
        sch.split(loop, sch.sample_perfect_tile(loop, 4, 64))


def matmul__sample_pairs(sch: Any) -> None:
    for loop in sch.get_loops(sch.get_block("C")):
        sch.split(loop, sch.sample_perfect_tile(loop, 2, 8))


def matmul__sample_partitioned(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_partitioned_tile(i, 4, 2, 8))
    sch.split(j, sch.sample_partitioned_tile(j, 3, 1, 6))


def matmul__sample_partitioned_with_decision(sch: Any) -> None:
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_partitioned_tile(i, 3, 1, 8, decision=[4, 2, 4]))
    sch.split(j, sch.sample_partitioned_tile(j, 3, 1, 16, decision=[12, 2, 2]))


def matmul__decisions_for_other_extents(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_perfect_tile(i, 3, 16, decision=[1, 3, 64]))
    sch.split(j, sch.sample_perfect_tile(j, 2, 16, decision=[100, 12]))
    sch.split(k, sch.sample_perfect_tile(k, 2, 4, decision=[2, 12]))


def matmul__decision_out_of_range(sch: Any) -> None:
    sch.sample_categorical([1, 2], [0.5, 0.5], decision=2)


def matmul__sample_limit_of_one_part(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.sample_perfect_tile(i, 1, 16)


def matmul__sample_without_limit(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_perfect_tile(i, 1, -1))


def matmul__split_after_postproc(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.enter_postproc()
    sch.split(i, sch.sample_perfect_tile(i, 2, 16))


def matmul_relu__getters(sch: Any) -> None:
    block = sch.get_block("C")
    sch.get_child_blocks(sch.get_block("root"))
    sch.get_child_blocks(sch.get_loops(block)[0])
    sch.get_consumers(block)
    sch.get_producers(block)
    sch.get_producers(sch.get_block("D"))
    sch.get_output_blocks(sch.get_block("root"))
    sch.get_loops("D")


def chain__getters(sch: Any) -> None:
    sch.get_producers("D")
    sch.get_consumers("B")
    sch.get_output_blocks("root")


def chain__producers_of_root(sch: Any) -> None:
    sch.get_producers("root")


def chain__unknown_block(sch: Any) -> None:
    sch.get_block("E")


def chain__tile_all(sch: Any) -> None:
    for name in ("B", "C", "D"):
        i, j = sch.get_loops(sch.get_block(name))
        i0, i1 = sch.split(i, [None, 4])
        j0, j1 = sch.split(j, [None, 5])
        sch.reorder(i0, j0, i1, j1)
        sch.parallel(sch.fuse(i0, j0))
        sch.vectorize(j1)


def blur__kinds(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    sch.vectorize(sch.split(j, [None, 8])[1])
    sch.parallel(i)
    i, j = sch.get_loops(sch.get_block("C"))
    sch.reorder(j, i)
    sch.fuse(j, i)


def row_sum__tile(sch: Any) -> None:
    _, k = sch.get_loops(sch.get_block("B"))
    k0, k1 = sch.split(k, [None, 9])
    sch.reorder(k1, k0)
    sch.unroll(k1)

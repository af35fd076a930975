"""compute_at, reverse_compute_at, compute_inline, reverse_compute_inline, compute locations."""

from typing import Any

# --- compute_at -----------------------------------------------------------------------------------


def matmul_relu__compute_at_outer(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), i)


def matmul_relu__compute_at_inner(sch: Any) -> None:
    _, j = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), j)


def matmul_relu__compute_at_inner_with_unit_loops(sch: Any) -> None:
    _, j = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), j, preserve_unit_loops=True)


def matmul_relu__compute_at_tiles(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(sch.get_block("C"), j0, preserve_unit_loops=True)


def matmul_relu__compute_at_fused_tiles(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(sch.get_block("C"), sch.fuse(i0, j0))


def matmul_relu__compute_at_imperfect_tiles(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    i0, i1 = sch.split(i, [None, 5])
    j0, j1 = sch.split(j, [None, 7])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(sch.get_block("C"), j0)


def matmul_relu__compute_at_part_of_an_imperfect_tile(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    _, i1 = sch.split(i, [None, 5])
    sch.compute_at(sch.get_block("C"), i1)


def matmul_relu__compute_at_reordered_tiles(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    i0, i1 = sch.split(i, [None, 8])
    sch.reorder(i1, i0, j)
    sch.compute_at(sch.get_block("C"), i1)


def matmul_relu__compute_at_split_reduction(sch: Any) -> None:
    block = sch.get_block("C")
    _, _, k = sch.get_loops(block)
    sch.split(k, [None, 4])
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(block, i)


def matmul_relu__compute_at_own_loop(sch: Any) -> None:
    block = sch.get_block("C")
    sch.compute_at(block, sch.get_loops(block)[0])


def matmul_relu__compute_at_output(sch: Any) -> None:
    sch.compute_at(sch.get_block("D"), sch.get_loops(sch.get_block("C"))[0])


def chain__compute_at_two_consumers(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), i)
    sch.compute_at(sch.get_block("B"), i)


def chain__compute_at_first_position(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), i)
    sch.compute_at(sch.get_block("B"), i, index=-2)


def chain__compute_at_given_position(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), i)
    sch.compute_at(sch.get_block("B"), i, index=0)


def chain__compute_at_without_all_consumers(sch: Any) -> None:
    sch.compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("C"))[0])


def blur__compute_at_rows(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), i)


def blur__compute_at_tiles(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 6])
    j0, j1 = sch.split(j, [4, 4])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(sch.get_block("B"), j0)


def blur__compute_at_imperfect_tiles(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("C"))
    i0, _ = sch.split(i, [None, 4])
    sch.compute_at(sch.get_block("B"), i0)


def padded_conv__compute_at_rows(sch: Any) -> None:
    h = sch.get_loops(sch.get_block("C"))[1]
    h0, _ = sch.split(h, [7, 2])
    sch.compute_at(sch.get_block("P"), h0)
    sch.compute_at(sch.get_block("S"), h0)


def padded_conv__compute_at_nested(sch: Any) -> None:
    h = sch.get_loops(sch.get_block("C"))[1]
    h0, _ = sch.split(h, [7, 2])
    sch.compute_at(sch.get_block("P"), h0)
    sch.compute_at(sch.get_block("S"), sch.get_loops(sch.get_block("P"))[2])


def padded_conv__compute_at_reduction(sch: Any) -> None:
    sch.compute_at(sch.get_block("P"), sch.get_loops(sch.get_block("C"))[5])


def padded_conv__compute_at_unit_padding(sch: Any) -> None:
    loops = sch.get_loops(sch.get_block("P"))
    sch.compute_at(sch.get_block("S"), loops[3], preserve_unit_loops=True)


def padded_conv__compute_at_padding_tiles(sch: Any) -> None:
    loops = sch.get_loops(sch.get_block("P"))
    h0, h1 = sch.split(loops[1], [4, 4])
    w0, w1 = sch.split(loops[2], [8, 2])
    sch.reorder(h0, w0, h1, w1)
    sch.compute_at(sch.get_block("S"), w0)


def flattened__compute_at_whole_rows(sch: Any) -> None:
    (i,) = sch.get_loops(sch.get_block("C"))
    i0, _ = sch.split(i, [4, 6])
    sch.compute_at(sch.get_block("B"), i0)


def flattened__compute_at_parts_of_rows(sch: Any) -> None:
    (i,) = sch.get_loops(sch.get_block("C"))
    i0, _ = sch.split(i, [8, 3])
    sch.compute_at(sch.get_block("B"), i0)


def flattened__compute_at_elements(sch: Any) -> None:
    (i,) = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), i)


def folded__compute_at(sch: Any) -> None:
    _, j, _ = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), j)


def symbolic_chain__compute_at(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), i)


def symbolic_chain__compute_at_tiles(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("C"))
    i0, _ = sch.split(i, [None, 8])
    sch.compute_at(sch.get_block("B"), i0)


def tall_sum__compute_at_both(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), i)
    sch.compute_at(sch.get_block("B"), i)


def matmul_relu__compute_at_shared_memory(sch: Any) -> None:
    cache = sch.cache_read(sch.get_block("C"), 0, "shared")
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [4, 8])
    j0, j1 = sch.split(j, [6, 8])
    k0, k1 = sch.split(k, [6, 4])
    sch.reorder(i0, j0, i1, j1, k0, k1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    sch.compute_at(cache, k0)


def matmul_relu__compute_at_local_memory(sch: Any) -> None:
    cache = sch.cache_read(sch.get_block("C"), 1, "local")
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, [6, 8])
    sch.reorder(j0, i, j1, k)
    sch.bind(j0, "blockIdx.x")
    sch.bind(i, "vthread.x")
    sch.bind(j1, "threadIdx.x")
    sch.compute_at(cache, k)


def matmul_relu__compute_at_global_memory_in_threads(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at(sch.get_block("C"), i)


def matmul_relu__compute_at_global_memory_in_inner_threads(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at(sch.get_block("C"), j)


def matmul_relu__compute_at_warp_memory(sch: Any) -> None:
    cache = sch.cache_read(sch.get_block("C"), 0, "warp")
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [4, 8])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    sch.bind(j, "threadIdx.y")
    sch.compute_at(cache, k)


def matmul_relu__compute_at_vthread_shared(sch: Any) -> None:
    cache = sch.cache_read(sch.get_block("C"), 1, "shared.dyn")
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1, j2 = sch.split(j, [3, 4, 4])
    sch.reorder(j0, i, j1, j2, k)
    sch.bind(j0, "blockIdx.x")
    sch.bind(j1, "vthread.x")
    sch.bind(j2, "threadIdx.x")
    sch.compute_at(cache, k, preserve_unit_loops=True)


# --- reverse_compute_at ---------------------------------------------------------------------------


def matmul_relu__reverse_compute_at_outer(sch: Any) -> None:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.reverse_compute_at(sch.get_block("D"), i)


def matmul_relu__reverse_compute_at_inner(sch: Any) -> None:
    _, j, _ = sch.get_loops(sch.get_block("C"))
    sch.reverse_compute_at(sch.get_block("D"), j, preserve_unit_loops=True)


def matmul_relu__reverse_compute_at_reduction(sch: Any) -> None:
    _, _, k = sch.get_loops(sch.get_block("C"))
    sch.reverse_compute_at(sch.get_block("D"), k)


def matmul_relu__reverse_compute_at_tiles(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1, i2, i3 = sch.split(i, [2, 1, 4, 4])
    j0, j1, j2, j3 = sch.split(j, [2, 3, 2, 4])
    k0, k1 = sch.split(k, [3, 8])
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    sch.reverse_compute_at(sch.get_block("D"), j1, preserve_unit_loops=True)
    sch.parallel(sch.fuse(i0, j0, i1, j1))


def matmul_relu__reverse_compute_at_fused_tiles(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [4, 8])
    j0, j1 = sch.split(j, [3, 16])
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(sch.get_block("D"), sch.fuse(i0, j0))


def matmul_relu__reverse_compute_at_imperfect_tiles(sch: Any) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 5])
    j0, j1 = sch.split(j, [None, 7])
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(sch.get_block("D"), j0)


def matmul_relu__reverse_compute_at_after_imperfect_split(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.split(i, [None, 5])
    sch.reverse_compute_at(sch.get_block("D"), sch.get_loops(sch.get_block("C"))[0])


def matmul_relu__reverse_compute_at_twice(sch: Any) -> None:
    block = sch.get_block("D")
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.reverse_compute_at(block, i)
    sch.reverse_compute_at(block, j)


def matmul__cache_write_and_back(sch: Any) -> None:
    block = sch.get_block("C")
    copy = sch.cache_write(block, 0, "global")
    i, j, k = sch.get_loops(block)
    i0, i1, i2, i3 = sch.split(i, [2, 2, 2, 4])
    j0, j1, j2, j3 = sch.split(j, [3, 1, 4, 4])
    k0, k1 = sch.split(k, [3, 8])
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    sch.reverse_compute_at(copy, j1, preserve_unit_loops=True)


def chain__reverse_compute_at_two_producers(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i)
    sch.reverse_compute_at(sch.get_block("D"), i)


def chain__reverse_compute_at_first_position(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i, index=-2)


def chain__reverse_compute_at_without_all_producers(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("D"), i)


def chain__reverse_compute_at_index_out_of_range(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i, index=0)


def blur__reverse_compute_at_overlapping(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i)


def pool__reverse_compute_at_rows(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    i0, _ = sch.split(i, [5, 4])
    sch.reverse_compute_at(sch.get_block("C"), i0)


def pool__reverse_compute_at_half_windows(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i)


def views__reverse_compute_at_shifted(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("shifted"), i)


def views__reverse_compute_at_shifted_tiles(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    i0, _ = sch.split(i, [2, 4])
    sch.reverse_compute_at(sch.get_block("shifted"), i0)


def views__reverse_compute_at_turned(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("B"))
    j0, j1 = sch.split(j, [3, 4])
    sch.reorder(j0, i, j1)
    sch.reverse_compute_at(sch.get_block("turned"), j0)


def views__reverse_compute_at_flat(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("flat"), i)


def views__reverse_compute_at_folded(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    i0, _ = sch.split(i, [4, 2])
    sch.reverse_compute_at(sch.get_block("folded"), i0)


def symbolic_chain__reverse_compute_at(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i)


def tall_sum__reverse_compute_at(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("C"))
    sch.reverse_compute_at(sch.get_block("D"), i)


def tall_sum__reverse_compute_at_after_compute_at(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i)
    sch.reverse_compute_at(sch.get_block("D"), i)


# --- inlining -------------------------------------------------------------------------------------


def chain__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))
    sch.compute_inline(sch.get_block("C"))


def chain__compute_inline_output(sch: Any) -> None:
    sch.compute_inline(sch.get_block("D"))


def blur__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))


def matmul_relu__compute_inline_reduction(sch: Any) -> None:
    sch.compute_inline(sch.get_block("C"))


def padded_conv__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("S"))
    sch.compute_inline(sch.get_block("P"))


def padded_conv__compute_inline_after_split(sch: Any) -> None:
    sch.split(sch.get_loops(sch.get_block("S"))[1], [None, 4])
    sch.compute_inline(sch.get_block("S"))


def tall_sum__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))


def flattened__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))


def views__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))


def symbolic_chain__compute_inline(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))


def chain__reverse_compute_inline_two_producers(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("D"))


def chain__inline_both_ways(sch: Any) -> None:
    sch.compute_inline(sch.get_block("B"))
    sch.reverse_compute_inline(sch.get_block("D"))


def folded__reverse_compute_inline(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("C"))


def cropped__reverse_compute_inline(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("C"))


def cropped__reverse_compute_inline_after_split(sch: Any) -> None:
    sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 3])
    sch.reverse_compute_inline(sch.get_block("C"))


def symbolic_chain__reverse_compute_inline(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("C"))


def matmul_relu__reverse_compute_inline_reduction(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("D"))


def blur__reverse_compute_inline_stencil(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("C"))


def padded_conv__reverse_compute_inline_padding(sch: Any) -> None:
    sch.reverse_compute_inline(sch.get_block("P"))


# --- compute locations ----------------------------------------------------------------------------


def padded_conv__sample_compute_location(sch: Any) -> None:
    for _ in range(6):
        sch.sample_compute_location(sch.get_block("P"))
    sch.compute_at(sch.get_block("P"), sch.sample_compute_location(sch.get_block("P")))


def matmul_relu__sample_compute_location(sch: Any) -> None:
    i, j = sch.get_loops(sch.get_block("D"))
    sch.split(i, [4, 1, 8])
    sch.split(j, [4, 12])
    for _ in range(8):
        sch.sample_compute_location(sch.get_block("C"))


def padded_conv__compute_location_decisions(sch: Any) -> None:
    block = sch.get_block("P")
    for decision in (-2, -1, 1, 2, 3, 9):
        sch.sample_compute_location(block, decision=decision)
    sch.compute_at(block, sch.sample_compute_location(block, decision=2))


def padded_conv__compute_at_inline_mark(sch: Any) -> None:
    block = sch.get_block("S")
    sch.compute_at(block, sch.sample_compute_location(block, decision=-2))
    block = sch.get_block("P")
    sch.compute_at(block, sch.sample_compute_location(block, decision=-1))


def chain__sample_compute_location_two_consumers(sch: Any) -> None:
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("C"), i)
    for _ in range(5):
        sch.sample_compute_location(sch.get_block("B"))

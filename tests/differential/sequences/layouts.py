"""Layouts of buffers and blocks, padding, declared accesses, tensor instructions."""

from typing import Any


def chain__transform_layout_of_a_stage(sch: Any) -> None:
    sch.transform_layout(sch.get_block("B"), ("write", 0), lambda i, j: (j // 4, i, j % 4))


def chain__transform_layout_seen_from_a_reader(sch: Any) -> None:
    sch.transform_layout(sch.get_block("D"), ("read", 1), lambda i, j: (j, i))


def chain__transform_layout_of_parameters(sch: Any) -> None:
    sch.transform_layout(sch.get_block("B"), ("read", 0), lambda i, j: (i * 20 + j,))
    sch.transform_layout(sch.get_block("D"), ("write", 0), lambda i, j: (j // 5, j % 5, i))


def chain__transform_layout_by_name(sch: Any) -> None:
    sch.transform_layout("C", "B", lambda i, j: (j, i))


def chain__transform_layout_with_padding(sch: Any) -> None:
    sch.transform_layout(
        sch.get_block("C"), ("write", 0), lambda i, j: (i // 4, j, i % 4), pad_value=0.0
    )


def chain__transform_layout_with_padding_of_both(sch: Any) -> None:
    sch.transform_layout(
        sch.get_block("C"),
        ("write", 0),
        lambda i, j: (i // 4, j // 8, i % 4, j % 8),
        pad_value=0.0,
    )


def chain__transform_layout_padding_without_value(sch: Any) -> None:
    sch.transform_layout(sch.get_block("C"), ("write", 0), lambda i, j: (i // 4, j, i % 4))


def matmul_relu__transform_layout_of_a_sum(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [6, 8])
    sch.reorder(i, j0, k, j1)
    sch.transform_layout(block, ("write", 0), lambda i, j: (i, j // 8, j % 8))


def matmul_relu__transform_layout_of_a_padded_sum(sch: Any) -> None:
    sch.transform_layout(
        sch.get_block("C"), ("write", 0), lambda i, j: (i // 5, i % 5, j), pad_value=0.0
    )


def matmul_relu__transform_layout_then_move(sch: Any) -> None:
    block = sch.get_block("C")
    sch.transform_layout(block, ("write", 0), lambda i, j: (i // 8, j, i % 8))
    consumer = sch.get_block("D")
    i0, _ = sch.split(sch.get_loops(consumer)[0], [4, 8])
    sch.compute_at(block, i0)


def matmul__transform_block_layout_fused(sch: Any) -> None:
    sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i * 48 + j, k))


def matmul__transform_block_layout_tiled(sch: Any) -> None:
    sch.transform_block_layout(
        sch.get_block("C"), lambda i, j, k: (i // 8, j // 16, k, i % 8, j % 16)
    )


def matmul__transform_block_layout_mixed(sch: Any) -> None:
    sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i, j * 24 + k))


def matmul__transform_block_layout_lossy(sch: Any) -> None:
    sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i, k))


def matmul__transform_block_layout_after_split(sch: Any) -> None:
    block = sch.get_block("C")
    sch.split(sch.get_loops(block)[0], [4, 8])
    sch.transform_block_layout(block, lambda i, j, k: (i * 48 + j, k))


def unit_loops__transform_block_layout(sch: Any) -> None:
    sch.transform_block_layout(sch.get_block("B"), lambda n, i, c, j: (n, c, i * 6 + j))


def chain__annotate_buffer_access(sch: Any) -> None:
    sch.annotate_buffer_access(sch.get_block("C"), 0, "read", lambda vi, vj: ((vi - 1, vi + 2), vj))


def chain__annotate_buffer_access_no_such_buffer(sch: Any) -> None:
    sch.annotate_buffer_access(sch.get_block("C"), 1, "read", lambda vi, vj: (vi, vj))


def chain__unsafe_hide_buffer_access(sch: Any) -> None:
    sch.unsafe_hide_buffer_access(sch.get_block("D"), "read", [0])


def chain__unsafe_hide_buffer_access_no_such_buffer(sch: Any) -> None:
    sch.unsafe_hide_buffer_access(sch.get_block("D"), "read", [5])


def packed_dense__tensorize_a_loop(sch: Any) -> None:
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(j1, "dot_16x4_vnni")


def packed_dense__tensorize_a_block(sch: Any) -> None:
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, k0, j1, k1)
    outer = sch.blockize(j1)
    sch.decompose_reduction(outer, k0)
    sch.tensorize(sch.get_block("C_o_update"), "dot_16x4_avx512")


def packed_dense__tensorize_with_init(sch: Any) -> None:
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, k0, j1, k1)
    sch.tensorize(j1, "dot_16x4_vnni")


def packed_dense__tensorize_another_tile(sch: Any) -> None:
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(j1, "dot_16x4_vnni")


def half_matmul__tensor_cores(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 16])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 16])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    outer = sch.blockize(i1)
    store = sch.cache_write(outer, 0, "wmma.accumulator")
    sch.reverse_compute_at(store, j0)
    for position, scope, name in ((0, "wmma.matrix_a", "a"), (1, "wmma.matrix_b", "b")):
        shared = sch.cache_read(outer, position, "shared")
        fragment = sch.cache_read(outer, position, scope)
        sch.compute_at(shared, k0)
        sch.compute_at(fragment, k0)
        sch.tensorize(sch.get_loops(fragment)[-2], f"wmma_load_16x16x16_f16_{name}_shared")
    init = sch.decompose_reduction(outer, k0)
    inner = sch.get_child_blocks(init)[0]
    sch.tensorize(sch.get_loops(inner)[0], "wmma_fill_16x16x16_f32")
    sch.tensorize(sch.get_block("C_o_update"), "wmma_sync_16x16x16_f16f16f32")
    sch.tensorize(sch.get_loops(store)[-2], "wmma_store_16x16x16_f32_global")


# --- maps with sampled numbers --------------------------------------------------------------------


def matmul_relu__transform_layout_by_a_sampled_tile(sch: Any) -> None:
    block = sch.get_block("C")
    _, tile = sch.sample_perfect_tile(sch.get_loops(block)[1], n=2, max_innermost_factor=16)
    sch.transform_layout(block, ("write", 0), lambda i, j: (j // tile, i, j % tile))


def chain__transform_layout_with_a_computed_padding(sch: Any) -> None:
    sch.transform_layout(
        sch.get_block("C"),
        ("write", 0),
        lambda i, j: (i // 4, j, i % 4),
        pad_value=lambda a, b, c: (a * 20 + b).astype("float32"),
    )

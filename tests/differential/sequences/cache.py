"""Cache stages, reindexing, copies at loops, scopes, types and alignments of buffers."""

from typing import Any


def matmul__cache_write(sch: Any) -> None:
    sch.cache_write(sch.get_block("C"), 0, "global")


def matmul__cache_write_of_tiles(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [4, 8])
    j0, j1 = sch.split(j, [6, 8])
    k0, k1 = sch.split(k, [6, 4])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    write = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(write, j0)


def matmul__cache_read_both(sch: Any) -> None:
    block = sch.get_block("C")
    sch.cache_read(block, 0, "shared")
    sch.cache_read(block, 1, "shared.dyn")


def matmul__cache_read_twice(sch: Any) -> None:
    block = sch.get_block("C")
    sch.cache_read(block, 0, "shared")
    sch.cache_read(block, 0, "local")


def matmul__cache_read_and_compute_at(sch: Any) -> None:
    block = sch.get_block("C")
    i, _, k = sch.get_loops(block)
    i0, _ = sch.split(i, [4, 8])
    read = sch.cache_read(block, 0, "shared")
    sch.compute_at(read, i0)
    other = sch.cache_read(block, 1, "local")
    sch.compute_at(other, k)


def matmul__cache_write_after_imperfect_split(sch: Any) -> None:
    block = sch.get_block("C")
    sch.split(sch.get_loops(block)[0], [None, 5])
    sch.cache_write(block, 0, "global")


def matmul__cache_write_unknown_scope(sch: Any) -> None:
    sch.cache_write(sch.get_block("C"), 0, "attic")


def matmul__cache_read_no_such_buffer(sch: Any) -> None:
    sch.cache_read(sch.get_block("C"), 2, "global")


def matmul__cache_write_after_decomposition(sch: Any) -> None:
    block = sch.get_block("C")
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.cache_write(sch.get_block("C_update"), 0, "global")


def matmul_relu__cache_write_of_both(sch: Any) -> None:
    sch.cache_write(sch.get_block("C"), 0, "local")
    sch.cache_write(sch.get_block("D"), 0, "local")


def matmul_relu__cache_write_for_its_consumer(sch: Any) -> None:
    sch.cache_write(sch.get_block("C"), 0, "local", [sch.get_block("D")])


def matmul_relu__cache_read_of_intermediate(sch: Any) -> None:
    sch.cache_read(sch.get_block("D"), 0, "shared")


def chain__cache_read_for_all(sch: Any) -> None:
    sch.cache_read(sch.get_block("C"), 0, "local")


def chain__cache_read_for_one(sch: Any) -> None:
    block = sch.get_block("D")
    sch.cache_read(block, 1, "local", [block])


def chain__cache_write_before_all(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local")


def chain__cache_write_for_the_first(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local", [sch.get_block("C")])


def chain__cache_write_for_the_last(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local", [sch.get_block("D")])


def chain__cache_write_for_both(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local", [sch.get_block("C"), sch.get_block("D")])


def symbolic__cache_both(sch: Any) -> None:
    block = sch.get_block("B")
    sch.cache_read(block, 0, "local")
    sch.cache_write(block, 0, "local")


def unit_loops__cache_both(sch: Any) -> None:
    block = sch.get_block("B")
    sch.cache_read(block, 0, "local")
    sch.cache_write(block, 0, "local")


def blur__cache_read(sch: Any) -> None:
    sch.cache_read(sch.get_block("B"), 0, "local")
    sch.cache_read(sch.get_block("C"), 0, "local")


def padded_conv__cache_read_of_all(sch: Any) -> None:
    sch.cache_read(sch.get_block("P"), 0, "local")
    block = sch.get_block("C")
    sch.cache_read(block, 0, "shared")
    sch.cache_read(block, 1, "shared")


def nested__cache_read_inside(sch: Any) -> None:
    sch.cache_read(sch.get_block("inner"), 0, "local")


def nested__cache_write_inside(sch: Any) -> None:
    sch.cache_write(sch.get_block("inner"), 0, "local")


def nested__cache_read_of_outer(sch: Any) -> None:
    sch.cache_read(sch.get_block("outer"), 0, "local", [sch.get_block("outer")])


def nested__cache_write_of_outer(sch: Any) -> None:
    sch.cache_write(sch.get_block("outer"), 0, "local")


def interleaved__cache_write_under_loop(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local")


def interleaved__cache_read_under_loop(sch: Any) -> None:
    sch.cache_read(sch.get_block("C"), 0, "local")


def interleaved__cache_read_after_loop(sch: Any) -> None:
    block = sch.get_block("D")
    sch.cache_read(block, 0, "local", [block])


def interleaved__cache_write_after_loop(sch: Any) -> None:
    sch.cache_write(sch.get_block("B"), 0, "local", [sch.get_block("C")])


def matmul__reindex_all(sch: Any) -> None:
    block = sch.get_block("C")
    sch.reindex(block, ("read", 0))
    sch.reindex(block, ("read", 1))
    sch.reindex(block, ("write", 0))


def padded_conv__reindex_all(sch: Any) -> None:
    block = sch.get_block("C")
    sch.reindex(block, ("read", 0))
    sch.reindex(block, ("read", 1))
    sch.reindex(block, ("write", 0))


def pool__reindex(sch: Any) -> None:
    sch.reindex(sch.get_block("C"), ("read", 0))


def views__reindex(sch: Any) -> None:
    for name in ("shifted", "stepped", "turned", "flat", "folded"):
        sch.reindex(sch.get_block(name), ("read", 0))


def blur__reindex_two_accesses(sch: Any) -> None:
    sch.reindex(sch.get_block("C"), ("read", 0))


def interleaved__reindex_shared_loop(sch: Any) -> None:
    sch.reindex(sch.get_block("B"), ("read", 0))


def nested__reindex_outer(sch: Any) -> None:
    sch.reindex(sch.get_block("outer"), ("read", 0))


def nested__reindex_inner(sch: Any) -> None:
    sch.reindex(sch.get_block("inner"), ("read", 0))
    sch.reindex(sch.get_block("inner"), ("write", 0))


def matmul__reindex_cache_read(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "shared", lambda i, j, k: (k, i))


def matmul__reindex_cache_write(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("C"), 0, "local", lambda i, j, k: (j // 16, i, j % 16))


def matmul__reindex_cache_read_other_iterators(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "shared", lambda i, j, k: (k, i, j))


def chain__reindex_cache_read_flat(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "shared", lambda i, j: (i * 20 + j,))


def chain__reindex_cache_write(sch: Any) -> None:
    sch.reindex_cache_write(sch.get_block("B"), 0, "shared", lambda i, j: (j, i))


def interleaved__reindex_cache_read(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "shared", lambda i, j: (j, i))


def blur__reindex_cache_read_region(sch: Any) -> None:
    sch.reindex_cache_read(sch.get_block("C"), 0, "shared", lambda i, j: (j, i))


def padded_conv__reindex_cache_read(sch: Any) -> None:
    sch.reindex_cache_read(
        sch.get_block("C"), 0, "shared", lambda n, h, w, c, rh, rw, rc: (n, h + rh, w + rw, rc)
    )


def matmul__cache_inplace_of_reduction(sch: Any) -> None:
    sch.cache_inplace(sch.get_block("C"), 0, "local")


def chain__cache_index_negative(sch: Any) -> None:
    sch.cache_index(sch.get_block("C"), "local", -1)


def matmul__read_at(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [4, 8])
    j0, j1 = sch.split(j, [6, 8])
    k0, k1 = sch.split(k, [6, 4])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.read_at(k0, block, 0, "shared")
    sch.read_at(j0, block, 1, "shared")


def matmul__write_at(sch: Any) -> None:
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    sch.split(i, [4, 8])
    sch.write_at(j, block, 0, "local")


def padded_conv__read_at(sch: Any) -> None:
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[1], block, 0, "shared")


def interleaved__read_at_shared_loop(sch: Any) -> None:
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[0], block, 0, "shared")


def interleaved__write_at_inner_loop(sch: Any) -> None:
    block = sch.get_block("B")
    sch.write_at(sch.get_loops(block)[1], block, 0, "shared")


def interleaved__write_at_shared_loop(sch: Any) -> None:
    block = sch.get_block("B")
    sch.write_at(sch.get_loops(block)[0], block, 0, "shared")


def chain__read_at_foreign_loop(sch: Any) -> None:
    loop = sch.get_loops(sch.get_block("C"))[0]
    sch.read_at(loop, sch.get_block("B"), 0, "shared")


def chain__set_scope(sch: Any) -> None:
    sch.set_scope(sch.get_block("B"), 0, "shared")
    sch.set_scope(sch.get_block("C"), 0, "global")


def nested__set_scope(sch: Any) -> None:
    sch.set_scope(sch.get_block("B"), 0, "shared.dyn")


def chain__set_scope_of_parameter(sch: Any) -> None:
    sch.set_scope(sch.get_block("D"), 0, "shared")


def chain__set_scope_unknown(sch: Any) -> None:
    sch.set_scope(sch.get_block("B"), 0, "attic")


def chain__storage_align(sch: Any) -> None:
    block = sch.get_block("B")
    sch.storage_align(block, 0, axis=-2, factor=32, offset=8)
    sch.storage_align(block, 0, axis=1, factor=16, offset=4)
    sch.storage_align(block, 0, axis=0, factor=64, offset=1)


def chain__storage_align_no_such_axis(sch: Any) -> None:
    sch.storage_align(sch.get_block("B"), 0, axis=2, factor=32, offset=8)


def chain__storage_align_no_factor(sch: Any) -> None:
    sch.storage_align(sch.get_block("B"), 0, axis=0, factor=0, offset=8)


def chain__storage_align_of_parameter(sch: Any) -> None:
    sch.storage_align(sch.get_block("D"), 0, axis=0, factor=4, offset=8)


def chain__storage_align_bad_annotation(sch: Any) -> None:
    block = sch.get_block("B")
    sch.annotate(block, "buffer_dim_align", 3)
    sch.storage_align(block, 0, axis=0, factor=4, offset=8)


def chain__unsafe_set_dtype(sch: Any) -> None:
    sch.unsafe_set_dtype(sch.get_block("B"), 0, "float16")


def nested__unsafe_set_dtype(sch: Any) -> None:
    sch.unsafe_set_dtype(sch.get_block("B"), 0, "float64")


def chain__unsafe_set_dtype_of_parameter(sch: Any) -> None:
    sch.unsafe_set_dtype(sch.get_block("D"), 0, "float16")

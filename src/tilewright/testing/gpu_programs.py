# mypy: disable-error-code="valid-type, no-untyped-def"
"""Small kernels at the limits of a GPU with 1024 threads and 48 KiB of shared memory a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def one_after_another(first: int, second: int, scope: str) -> PrimFunc:
    """Two buffers in shared memory, of which the second lives when the first no longer does."""

    @T.prim_func
    def main(
        A: T.Buffer((first,), "float32"),
        B: T.Buffer((second,), "float32"),
        C: T.Buffer((first,), "float32"),
        D: T.Buffer((second,), "float32"),
    ):
        X = T.alloc_buffer((first,), "float32", scope=scope)
        Y = T.alloc_buffer((second,), "float32", scope=scope)
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for _t in T.thread_binding(1, thread="threadIdx.x"):
                for i in range(first):
                    with T.block("X"):
                        v = T.axis.spatial(first, i)
                        X[v] = A[v]
                for i in range(first):
                    with T.block("C"):
                        v = T.axis.spatial(first, i)
                        C[v] = X[v]
                for i in range(second):
                    with T.block("Y"):
                        v = T.axis.spatial(second, i)
                        Y[v] = B[v]
                for i in range(second):
                    with T.block("D"):
                        v = T.axis.spatial(second, i)
                        D[v] = Y[v]

    return main


def at_the_same_time(first: int, second: int, scope: str) -> PrimFunc:
    """Two buffers in shared memory, both of which are needed at the end."""

    @T.prim_func
    def main(
        A: T.Buffer((first,), "float32"),
        B: T.Buffer((second,), "float32"),
        D: T.Buffer((second,), "float32"),
    ):
        X = T.alloc_buffer((first,), "float32", scope=scope)
        Y = T.alloc_buffer((second,), "float32", scope=scope)
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for _t in T.thread_binding(1, thread="threadIdx.x"):
                for i in range(first):
                    with T.block("X"):
                        v = T.axis.spatial(first, i)
                        X[v] = A[v]
                for i in range(second):
                    with T.block("Y"):
                        v = T.axis.spatial(second, i)
                        Y[v] = B[v]
                for i in range(second):
                    with T.block("D"):
                        v = T.axis.spatial(second, i)
                        D[v] = Y[v] + X[0]

    return main


def threads(x: int, y: int, other_x: int) -> PrimFunc:
    """Two parts of a kernel, each with its own number of threads along x."""

    @T.prim_func
    def main(
        A: T.Buffer((8, y, x), "float32"),
        B: T.Buffer((8, y, x), "float32"),
        C: T.Buffer((8, y, other_x), "float32"),
    ):
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(y, thread="threadIdx.y"):
                for i in T.thread_binding(x, thread="threadIdx.x"):
                    with T.block("B"):
                        vb, vj, vi = T.axis.remap("SSS", [b, j, i])
                        B[vb, vj, vi] = A[vb, vj, vi]
                for i in T.thread_binding(other_x, thread="threadIdx.x"):
                    with T.block("C"):
                        vb, vj, vi = T.axis.remap("SSS", [b, j, i])
                        C[vb, vj, vi] = 1.0

    return main


def two_kernels(x: int, other_x: int) -> PrimFunc:
    """Kernels one after the other may have different numbers of threads."""

    @T.prim_func
    def main(B: T.Buffer((8, x), "float32"), C: T.Buffer((8, other_x), "float32")):
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for i in T.thread_binding(x, thread="threadIdx.x"):
                with T.block("B"):
                    vb, vi = T.axis.remap("SS", [b, i])
                    B[vb, vi] = 2.0
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for i in T.thread_binding(other_x, thread="threadIdx.x"):
                with T.block("C"):
                    vb, vi = T.axis.remap("SS", [b, i])
                    C[vb, vi] = 1.0

    return main


def wanted_threads(x: int, low: int, high: int) -> PrimFunc:
    """A block that says how many threads it needs."""

    @T.prim_func
    def main(B: T.Buffer((8, x), "float32")):
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for i in T.thread_binding(x, thread="threadIdx.x"):
                with T.block("B"):
                    vb, vi = T.axis.remap("SS", [b, i])
                    T.block_attr(
                        {
                            "meta_schedule.thread_extent_low_inclusive": low,
                            "meta_schedule.thread_extent_high_inclusive": high,
                        }
                    )
                    B[vb, vi] = 2.0

    return main


def vectors(dtype: str, lanes: int, stride: int) -> PrimFunc:
    """A copy of vectors from memory with gaps."""

    @T.prim_func
    def main(A: T.Buffer((32, lanes * stride), dtype), B: T.Buffer((32, lanes), dtype)):
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for i in T.thread_binding(32, thread="threadIdx.x"):
                for l in T.vectorized(lanes):
                    with T.block("B"):
                        vi, vl = T.axis.remap("SS", [i, l])
                        B[vi, vl] = A[vi, vl * stride]

    return main


def tiles_of_threads(count: int, elements: int, scope: str) -> PrimFunc:
    """Each thread of a block has a part of a buffer, of which each block uses its own part."""

    @T.prim_func
    def main(
        A: T.Buffer((4, 4, count, elements), "float32"),
        B: T.Buffer((4, 4, count, elements), "float32"),
    ):
        X = T.alloc_buffer((4, 4, count, elements), "float32", scope=scope)
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(count, thread="threadIdx.x"):
                for k in range(4):
                    for i in range(elements):
                        with T.block("X"):
                            vb, vk, vt, vi = T.axis.remap("SSSS", [b, k, t, i])
                            X[vb, vk, vt, vi] = A[vb, vk, vt, vi]
                    for i in range(elements):
                        with T.block("B"):
                            vb, vk, vt, vi = T.axis.remap("SSSS", [b, k, t, i])
                            B[vb, vk, vt, vi] = X[vb, vk, vt, vi]

    return main


def aligned_rows(rows: int, factor: int, offset: int) -> PrimFunc:
    """Rows of 64 elements that start further apart."""

    @T.prim_func
    def main(A: T.Buffer((rows, 64), "float32"), B: T.Buffer((rows, 64), "float32")):
        X = T.alloc_buffer((rows, 64), "float32", scope="shared")
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                for i in range(rows):
                    with T.block("X"):
                        vi, vt = T.axis.remap("SS", [i, t])
                        T.block_attr({"buffer_dim_align": [[0, 0, factor, offset]]})
                        X[vi, vt] = A[vi, vt]
                for i in range(rows):
                    with T.block("B"):
                        vi, vt = T.axis.remap("SS", [i, t])
                        B[vi, vt] = X[vi, 63 - vt]

    return main


def transposed(columns: int, dtype: str, width: int, note: object) -> PrimFunc:
    """32 rows, turned in shared memory, whose layout may be permuted; vectors go in."""

    @T.prim_func
    def main(A: T.Buffer((32, columns), dtype), B: T.Buffer((columns, 32), dtype)):
        X = T.alloc_buffer((32, columns), dtype, scope="shared")
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                for k in range(columns // width):
                    for v in T.vectorized(width):
                        with T.block("X"):
                            vi = T.axis.spatial(32, (k * 32 + t) * width // columns)
                            vj = T.axis.spatial(columns, (k * 32 + t) * width % columns + v)
                            T.block_attr({"permuted_layout": note})
                            X[vi, vj] = A[vi, vj]
                for k in range(columns):
                    with T.block("B"):
                        vj, vi = T.axis.remap("SS", [k, t])
                        B[vj, vi] = X[vi, vj]

    return main


def pipelined(elements: int, stages: int) -> PrimFunc:
    """Inputs are fetched `stages` rounds before they are used."""

    @T.prim_func
    def main(A: T.Buffer((16, elements), "float32"), B: T.Buffer((16, elements), "float32")):
        X = T.alloc_buffer((16, elements), "float32", scope="shared")
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                for k in T.serial(
                    16,
                    annotations={
                        "software_pipeline_stage": [0, stages],
                        "software_pipeline_order": [0, 1],
                    },
                ):
                    for i in range(elements // 32):
                        with T.block("X"):
                            vk = T.axis.spatial(16, k)
                            v = T.axis.spatial(elements, i * 32 + t)
                            X[vk, v] = A[vk, v]
                    for i in range(elements // 32):
                        with T.block("B"):
                            vk = T.axis.spatial(16, k)
                            v = T.axis.spatial(elements, i * 32 + t)
                            B[vk, v] = X[vk, v] + 1.0

    return main


def guarded_fetch(elements: int) -> PrimFunc:
    """A copy whose last round runs over the end, which a condition forbids."""

    @T.prim_func
    def main(A: T.Buffer((elements,), "float32"), B: T.Buffer((elements,), "float32")):
        X = T.alloc_buffer((elements * 2,), "float32", scope="shared")
        for _b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(1024, thread="threadIdx.x"):
                for i in range((elements + 1023) // 1024):
                    with T.block("X"):
                        v = T.axis.spatial(elements, i * 1024 + t)
                        T.where(i * 1024 + t < elements)
                        X[v] = A[v]
                for i in range((elements + 1023) // 1024):
                    with T.block("B"):
                        v = T.axis.spatial(elements, i * 1024 + t)
                        T.where(i * 1024 + t < elements)
                        B[v] = X[v]

    return main


# What each program is, and whether the GPU can run it.
AT_THE_LIMITS: Mapping[str, tuple[Callable[[], PrimFunc], bool]] = MappingProxyType(
    {
        "all_shared_memory": (lambda: at_the_same_time(6144, 6144, "shared"), True),
        "too_much_shared_memory": (lambda: at_the_same_time(6144, 6145, "shared"), False),
        "too_much_dynamic_memory": (lambda: at_the_same_time(6144, 6145, "shared.dyn"), False),
        "memory_used_twice": (lambda: one_after_another(12288, 12288, "shared"), True),
        "dynamic_memory_used_twice": (lambda: one_after_another(12288, 9000, "shared.dyn"), True),
        "a_small_buffer_after_a_large_one": (
            lambda: one_after_another(12000, 500, "shared"),
            False,
        ),
        "a_large_buffer_after_a_small_one": (
            lambda: one_after_another(500, 12000, "shared"),
            False,
        ),
        "a_large_dynamic_buffer": (lambda: one_after_another(500, 12000, "shared.dyn"), True),
        "a_buffer_too_large": (lambda: one_after_another(12289, 10, "shared"), False),
        "all_threads": (lambda: threads(256, 4, 256), True),
        "too_many_threads": (lambda: threads(257, 4, 257), False),
        "threads_that_disagree": (lambda: threads(64, 4, 32), False),
        "threads_of_two_kernels": (lambda: two_kernels(64, 32), True),
        "as_many_threads_as_wanted": (lambda: wanted_threads(64, 64, 64), True),
        "too_few_threads": (lambda: wanted_threads(63, 64, 1024), False),
        "more_threads_than_wanted": (lambda: wanted_threads(65, 1, 64), False),
        "vectors_of_16_bytes": (lambda: vectors("float32", 4, 1), True),
        "vectors_of_32_bytes": (lambda: vectors("float32", 8, 1), False),
        "vectors_of_halves": (lambda: vectors("float16", 8, 1), True),
        "vectors_of_bytes": (lambda: vectors("int8", 16, 1), True),
        "vectors_with_gaps": (lambda: vectors("float32", 4, 3), True),
        "wide_vectors_with_gaps": (lambda: vectors("float16", 8, 3), False),
        "tiles_of_all_threads": (lambda: tiles_of_threads(768, 16, "shared"), True),
        "tiles_of_too_many_threads": (lambda: tiles_of_threads(769, 16, "shared"), False),
        "tiles_in_registers": (lambda: tiles_of_threads(1024, 64, "local"), True),
        "rows_without_gaps": (lambda: aligned_rows(192, 1, 0), True),
        "rows_with_gaps": (lambda: aligned_rows(192, 32, 8), False),
        "fewer_rows_with_gaps": (lambda: aligned_rows(170, 32, 8), True),
        "a_pipeline": (lambda: pipelined(6144, 1), True),
        "a_larger_pipeline": (lambda: pipelined(6176, 1), False),
        "a_longer_pipeline": (lambda: pipelined(4096, 2), True),
        "a_longer_and_larger_pipeline": (lambda: pipelined(4128, 2), False),
        "a_guarded_fetch": (lambda: guarded_fetch(12200), True),
        "a_larger_guarded_fetch": (lambda: guarded_fetch(12300), False),
    }
)

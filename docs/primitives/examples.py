# mypy: disable-error-code="valid-type, no-untyped-def"
"""One small example a primitive; `tools/make_primitive_docs.py` makes the pages from them.

The name of a function is the method it shows, its docstring what the page says of it, its body the
code on the page. `@on(program)` names the program it is applied to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import intrin as intrin  # registers the tensor instructions
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule, compose
from tilewright.script import tir as T

Example = Callable[[Schedule], Any]
EXAMPLES: dict[str, tuple[PrimFunc, Example]] = {}


def on(program: PrimFunc) -> Callable[[Example], Example]:
    """Make a function the example of the primitive it is named after."""

    def register(function: Example) -> Example:
        EXAMPLES[function.__name__] = (program, function)
        return function

    return register


# --- programs -------------------------------------------------------------------------------------


def _matmul() -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def _half_sum() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((32, 4096), "float16"), B: T.Buffer((32,), "float16")):
        for i, k in T.grid(32, 4096):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float16(0)
                B[vi] = B[vi] + A[vi, vk]

    return main


def _chain() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
        B = T.alloc_buffer((16, 12), "float32")
        for i, j in T.grid(16, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(16, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    return main


def _row_sum() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 128):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return main


def _padding() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((20,), "float32")):
        for i in range(20):
            with T.block("B"):
                vi = T.axis.spatial(20, i)
                B[vi] = T.if_then_else(vi >= 2 and vi < 18, A[vi - 2], T.float32(0))

    return main


def _in_place() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32")):
        for i, j in T.grid(16, 12):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2)

    return main


def _gather() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi * 3 + vi // 4] + A[vi * 3 + vi // 4 + 1]

    return main


def _pooling() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((12, 12), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((10, 10), "float32")
        for i, j, a, b in T.grid(10, 10, 3, 3):
            with T.block("B"):
                vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
                with T.init():
                    B[vi, vj] = T.float32(-1000)
                B[vi, vj] = T.max(B[vi, vj], A[vi + va, vj + vb])
        for i, j, a, b in T.grid(8, 8, 3, 3):
            with T.block("C"):
                vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
                with T.init():
                    C[vi, vj] = T.float32(-1000)
                C[vi, vj] = T.max(C[vi, vj], B[vi + va, vj + vb])

    return main


def _two_copies() -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")
    ):
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = A[vi] + T.float32(2)

    return main


def _uneven_matmul() -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((31, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        D: T.Buffer((31, 48), "float32"),
    ):
        C = T.alloc_buffer((31, 48), "float32")
        for i, j, k in T.grid(31, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(31, 48):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj]

    return main


def _dense_int8() -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((8, 16), "uint8"),
        B: T.Buffer((4, 16, 4), "int8"),
        C: T.Buffer((8, 16), "int32"),
    ):
        for i, o, j, k in T.grid(8, 4, 16, 4):
            with T.block("C"):
                vi, vo, vj, vk = T.axis.remap("SRSR", [i, o, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vo * 4 + vk]) * T.Cast(
                    "int32", B[vo, vj, vk]
                )

    return main


def _convolution() -> PrimFunc:
    @T.prim_func
    def main(
        data: T.Buffer((1, 10, 10, 16), "float32"),
        filters: T.Buffer((3, 3, 16, 32), "float32"),
        out: T.Buffer((1, 8, 8, 32), "float32"),
    ):
        for n, h, w, co, rh, rw, rc in T.grid(1, 8, 8, 32, 3, 3, 16):
            with T.block("conv"):
                vn, vh, vw, vco, vrh, vrw, vrc = T.axis.remap("SSSSRRR", [n, h, w, co, rh, rw, rc])
                with T.init():
                    out[vn, vh, vw, vco] = T.float32(0)
                out[vn, vh, vw, vco] = (
                    out[vn, vh, vw, vco]
                    + data[vn, vh + vrh, vw + vrw, vrc] * filters[vrh, vrw, vrc, vco]
                )

    return main


CONVOLUTION = _convolution()
HALF_SUM = _half_sum()
MATMUL, CHAIN, ROW_SUM, PADDING = _matmul(), _chain(), _row_sum(), _padding()
IN_PLACE, GATHER, POOLING, TWO_COPIES = _in_place(), _gather(), _pooling(), _two_copies()
UNEVEN_MATMUL, DENSE_INT8 = _uneven_matmul(), _dense_int8()


# --- finding blocks and loops ---------------------------------------------------------------------


@on(MATMUL)
def get_block(sch: Schedule) -> None:
    """Find a block by its name. Methods that take a block also accept the name."""
    block = sch.get_block("C")
    sch.annotate(block, "found", 1)


@on(MATMUL)
def get_loops(sch: Schedule) -> None:
    """List the loops around a block up to the nearest enclosing block, outermost first."""
    i, _, _ = sch.get_loops("C")
    sch.parallel(i)


@on(CHAIN)
def get_child_blocks(sch: Schedule) -> None:
    """List the blocks directly under a block or loop."""
    first, _ = sch.get_child_blocks(sch.get_block("root"))
    sch.annotate(first, "found", 1)


@on(CHAIN)
def get_producers(sch: Schedule) -> None:
    """List the blocks of the same scope that write what a block reads or writes."""
    (producer,) = sch.get_producers("C")
    sch.annotate(producer, "found", 1)


@on(CHAIN)
def get_consumers(sch: Schedule) -> None:
    """List the blocks of the same scope that read or write what a block writes."""
    (consumer,) = sch.get_consumers("B")
    sch.annotate(consumer, "found", 1)


@on(CHAIN)
def get_output_blocks(sch: Schedule) -> None:
    """List the blocks of a scope that write buffers which are visible outside of it."""
    (output,) = sch.get_output_blocks("root")
    sch.annotate(output, "found", 1)


# --- sampling -------------------------------------------------------------------------------------


@on(MATMUL)
def sample_categorical(sch: Schedule) -> None:
    """Draw one of several numbers with the given probabilities; the decision is its position."""
    steps = sch.sample_categorical([0, 16, 64], [0.3, 0.3, 0.4], decision=1)
    sch.annotate(sch.get_block("C"), "unroll", steps)


@on(MATMUL)
def sample_perfect_tile(sch: Schedule) -> None:
    """Draw factors whose product is the extent of a loop; the last one has an upper limit."""
    i, _, _ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, n=3, max_innermost_factor=8, decision=[2, 4, 4]))


@on(MATMUL)
def sample_partitioned_tile(sch: Schedule) -> None:
    """Like `sample_perfect_tile`; inner factors multiply to a multiple of `innerpart_factor`."""
    i, _, _ = sch.get_loops("C")
    parts = sch.sample_partitioned_tile(
        i, 3, partition_pos=1, innerpart_factor=8, decision=[4, 2, 4]
    )
    sch.split(i, parts)


@on(CHAIN)
def sample_compute_location(sch: Schedule) -> None:
    """Draw a loop under which a block could be computed, or the mark "root" or "inline"."""
    loop = sch.sample_compute_location("B", decision=0)
    sch.compute_at("B", loop)


# --- loops ----------------------------------------------------------------------------------------


@on(MATMUL)
def split(sch: Schedule) -> None:
    """Split a loop into several nested ones. One factor may be None: it is inferred.

    Where the factors do not divide the extent, the blocks below get a predicate;
    `disable_predication` leaves it out, and the program is then your responsibility.
    """
    i, j, _ = sch.get_loops("C")
    sch.split(i, [None, 8])
    sch.split(j, [None, 7])


@on(MATMUL)
def fuse(sch: Schedule) -> None:
    """Fuse nested loops into one."""
    i, j, _ = sch.get_loops("C")
    sch.fuse(i, j)


@on(TWO_COPIES)
def merge(sch: Schedule) -> None:
    """Merge sibling loop nests into one that does the work of all of them."""
    (i,) = sch.get_loops("B")
    (j,) = sch.get_loops("C")
    sch.merge(i, j)


@on(CHAIN)
def loop_partition(sch: Schedule) -> None:
    """Partition a loop into consecutive ranges of iterations, each with its own loop nest."""
    i, _ = sch.get_loops("C")
    sch.loop_partition(i, [4, None])


@on(MATMUL)
def reorder(sch: Schedule) -> None:
    """Reorder the loops of a nest; loops that are not named stay where they are."""
    i, _, k = sch.get_loops("C")
    sch.reorder(k, i)


@on(MATMUL)
def reorder_block_iter_var(sch: Schedule) -> None:
    """Reorder the iterators of a block."""
    sch.reorder_block_iter_var("C", [2, 0, 1])


@on(MATMUL)
def add_unit_loop(sch: Schedule) -> None:
    """Put a loop of one iteration around a block or loop."""
    sch.add_unit_loop(sch.get_block("C"))


@on(MATMUL)
def parallel(sch: Schedule) -> None:
    """Run the iterations of a loop on several threads."""
    sch.parallel(sch.get_loops("C")[0])


@on(CHAIN)
def vectorize(sch: Schedule) -> None:
    """Run the iterations of a loop as lanes of vector instructions."""
    _, j = sch.get_loops("C")
    sch.vectorize(sch.split(j, [None, 4])[1])


@on(CHAIN)
def unroll(sch: Schedule) -> None:
    """Unroll a loop: write out all of its iterations."""
    _, j = sch.get_loops("C")
    sch.unroll(j)


@on(CHAIN)
def bind(sch: Schedule) -> None:
    """Run the iterations of a loop on the threads of a GPU."""
    i, j = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")


# --- stages ---------------------------------------------------------------------------------------


@on(MATMUL)
def cache_read(sch: Schedule) -> None:
    """Copy what a block reads into a new buffer, and read from that buffer."""
    sch.cache_read("C", 0, "local")


@on(MATMUL)
def cache_write(sch: Schedule) -> None:
    """Write into a new buffer, and copy the result from there."""
    sch.cache_write("C", 0, "local")


@on(MATMUL)
def reindex_cache_read(sch: Schedule) -> None:
    """Like `cache_read`, but the cache is indexed by a map of the block's iterators."""
    sch.reindex_cache_read("C", 1, "local", lambda vi, vj, vk: (vj, vk))


@on(MATMUL)
def reindex_cache_write(sch: Schedule) -> None:
    """Like `cache_write`, but the cache is indexed by a map of the block's iterators."""
    sch.reindex_cache_write("C", 0, "local", lambda vi, vj, vk: (vj, vi))


@on(IN_PLACE)
def cache_inplace(sch: Schedule) -> None:
    """Add a cache before and after a block that reads and writes the same buffer."""
    sch.cache_inplace("A", 0, "local")


@on(GATHER)
def cache_index(sch: Schedule) -> None:
    """Compute index expressions that occur often once, and store them in buffers."""
    sch.cache_index("B", "global", 1)


@on(MATMUL)
def reindex(sch: Schedule) -> None:
    """Access a buffer through a copy whose indices are the iterators of the block."""
    sch.reindex("C", ("read", 1))


@on(MATMUL)
def read_at(sch: Schedule) -> None:
    """In each iteration of a loop, copy the part of a buffer that is read there."""
    i, _, _ = sch.get_loops("C")
    sch.read_at(i, "C", 0, "local")


@on(MATMUL)
def write_at(sch: Schedule) -> None:
    """Write into a new buffer in each iteration of a loop, and copy the written part from there."""
    i, _, _ = sch.get_loops("C")
    sch.write_at(i, "C", 0, "local")


@on(CHAIN)
def compute_at(sch: Schedule) -> None:
    """Compute a producer under a loop of its consumers: only what one iteration needs."""
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)


@on(CHAIN)
def reverse_compute_at(sch: Schedule) -> None:
    """Compute a consumer under a loop of its producers: only what one iteration has produced."""
    i, _ = sch.get_loops("B")
    sch.reverse_compute_at("C", i)


@on(CHAIN)
def compute_root(sch: Schedule) -> None:
    """Undo `compute_at`: compute a whole stage before its consumers, in loops of its own."""
    sch.compute_at("B", sch.get_loops("C")[0])
    compose.compute_root(sch, "B")


@on(CHAIN)
def compute_inline(sch: Schedule) -> None:
    """Compute a producer where its elements are read, and remove its buffer."""
    sch.compute_inline("B")


@on(CHAIN)
def reverse_compute_inline(sch: Schedule) -> None:
    """Compute a consumer where its producer writes, and remove the buffer between them."""
    sch.reverse_compute_inline("C")


# --- reductions -----------------------------------------------------------------------------------


@on(MATMUL)
def decompose_reduction(sch: Schedule) -> None:
    """Move the initialization of a reduction into a block of its own, before a loop."""
    _, _, k = sch.get_loops("C")
    sch.decompose_reduction("C", k)


@on(ROW_SUM)
def rfactor(sch: Schedule) -> None:
    """Reduce parts of a reduction independently, then combine the partial results."""
    _, k = sch.get_loops("B")
    outer, _ = sch.split(k, [4, 32])
    sch.rfactor(outer, 0)


# --- buffers --------------------------------------------------------------------------------------


@on(CHAIN)
def storage_align(sch: Schedule) -> None:
    """Align the rows of a buffer to multiples of a factor, plus an offset."""
    sch.storage_align("B", 0, axis=0, factor=16, offset=4)


@on(CHAIN)
def set_scope(sch: Schedule) -> None:
    """Move a buffer to another storage scope."""
    sch.set_scope("B", 0, "local")


@on(CHAIN)
def unsafe_set_dtype(sch: Schedule) -> None:
    """Change the type of a buffer, with conversions at its accesses; results may change."""
    sch.unsafe_set_dtype("B", 0, "float16")


@on(POOLING)
def rolling_buffer(sch: Schedule) -> None:
    """Keep the values that the next iterations need again in a circular buffer."""
    i, _, _, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.rolling_buffer("B", 0)


@on(CHAIN)
def annotate_buffer_access(sch: Schedule) -> None:
    """Declare which region a block accesses; steps that infer regions keep the declaration."""
    sch.annotate_buffer_access(
        sch.get_block("C"), 0, "read", lambda vi, vj: ((vi, vi + 1), (0, 12))
    )


@on(CHAIN)
def unsafe_hide_buffer_access(sch: Schedule) -> None:
    """Remove accesses from what a block declares; dependencies on them are then unknown."""
    sch.unsafe_hide_buffer_access("C", "read", [0])


# --- blocks and tensor instructions ---------------------------------------------------------------


@on(MATMUL)
def blockize(sch: Schedule) -> None:
    """Turn everything under a loop into one block."""
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1, k)
    sch.blockize(i1)


@on(DENSE_INT8)
def tensorize(sch: Schedule) -> None:
    """Replace a block, or what is under a loop, by one tensor instruction."""
    _, o, j, _ = sch.get_loops("C")
    sch.decompose_reduction("C", o)
    sch.tensorize(j, "dot_16x4_vnni")


# --- annotations ----------------------------------------------------------------------------------


@on(MATMUL)
def annotate(sch: Schedule) -> None:
    """Attach an annotation to a block or loop for later steps; an existing one is kept."""
    sch.annotate(sch.get_loops("C")[0], "pragma_auto_unroll_max_step", 64)


@on(MATMUL)
def unannotate(sch: Schedule) -> None:
    """Remove an annotation."""
    block = sch.get_block("C")
    sch.annotate(block, "note", 1)
    sch.unannotate(block, "note")


@on(MATMUL)
def enter_postproc(sch: Schedule) -> None:
    """Mark where post-processing begins in a trace; the program does not change."""
    sch.enter_postproc()


# --- layouts and padding --------------------------------------------------------------------------


@on(CHAIN)
def transform_layout(sch: Schedule) -> None:
    """Change the layout of a buffer, given as a map of its indices."""
    sch.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4))


@on(CHAIN)
def transform_block_layout(sch: Schedule) -> None:
    """Replace the iterators of a block by others, with loops over them."""
    sch.transform_block_layout("C", lambda i, j: (i * 12 + j,))


@on(CHAIN)
def set_axis_separator(sch: Schedule) -> None:
    """Set where the dimensions of a buffer are grouped into physical ones."""
    sch.set_axis_separator("B", ("write", 0), [1])


@on(PADDING)
def decompose_padding(sch: Schedule) -> None:
    """Fill a buffer with the padding value first, then copy the data into it."""
    sch.decompose_padding("B", sch.get_loops("B")[0])


@on(UNEVEN_MATMUL)
def pad_einsum(sch: Schedule) -> None:
    """Pad the axes of a contraction by the given amounts, with zeros where there is no data."""
    sch.cache_read("C", 0, "global")
    sch.cache_read("C", 1, "global")
    sch.pad_einsum("C", [1, 0, 8])


@on(DENSE_INT8)
def shift_operand(sch: Schedule) -> None:
    """Change an operand of a sum of products to the other sign; results start from a correction.

    Returns the blocks that compute the shifted operand and the correction.
    """
    sch.shift_operand("C", 0)


@on(HALF_SUM)
def widen_accumulator(sch: Schedule) -> None:
    """Accumulate in a wider floating type, and round each result once.

    Returns the block that rounds.
    """
    sch.widen_accumulator("B", "float32")


@on(CONVOLUTION)
def winograd(sch: Schedule) -> None:
    """Compute a convolution of 3 x 3 windows by tiles of its result, with fewer products.

    F(2, 3) makes 2 x 2 results of a tile with 16 products instead of 36, F(4, 3) 4 x 4 of them with
    36 instead of 144; data, filters and results are transformed for it, which rounds differently.
    The handle of the block is that of the products from then on.
    """
    sch.winograd("conv", tile_size=2)

"""Programs for tests of tile kernels: the form as text, and products and convolutions to tile."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir, te, topi
from tilewright.schedule import BlockRV, Schedule
from tilewright.script import from_source
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask

H200 = Target("nvidia/nvidia-h200")
RULES = ("WarpGroupTiling", "ThreadTiling")

# A product of 64 x 128 and 128 x 64 in one tile of two steps.
TILE_FORM = """
@T.prim_func
def main(
    A: T.Buffer((64, 128), "float16"),
    B: T.Buffer((128, 64), "float16"),
    C: T.Buffer((64, 64), "float16"),
):
    sums = T.alloc_buffer((64, 64), "float32", scope="wgmma.accumulator")
    left = T.alloc_buffer((64, 128), "float16", scope="shared.dyn")
    right = T.alloc_buffer((128, 64), "float16", scope="shared.dyn")
    for tile in T.thread_binding(
        1, thread="blockIdx.x", annotations={"tilewright.tile_stages": 2}
    ):
        for k in range(2):
            for i, j in T.grid(64, 64):
                with T.block("left"):
                    vi = T.axis.spatial(64, i)
                    vk = T.axis.spatial(128, k * 64 + j)
                    left[vi, vk] = A[vi, vk]
            for i, j in T.grid(64, 64):
                with T.block("right"):
                    vk = T.axis.spatial(128, k * 64 + i)
                    vj = T.axis.spatial(64, j)
                    right[vk, vj] = B[vk, vj]
            for i, j, r in T.grid(64, 64, 64):
                with T.block("sums"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(128, k * 64 + r)
                    with T.init():
                        sums[vi, vj] = T.float32(0)
                    sums[vi, vj] = sums[vi, vj] + T.Cast("float32", left[vi, vk]) * T.Cast(
                        "float32", right[vk, vj]
                    )
        for i, j in T.grid(64, 64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Cast("float16", sums[vi, vj])
"""
# The same on plain cores.
THREAD_FORM = (
    TILE_FORM.replace('"float16"', '"float32"')
    .replace("wgmma.accumulator", "local")
    .replace(
        '"tilewright.tile_stages": 2',
        '"tilewright.tile_stages": 2, "tilewright.thread_rows": 8, "tilewright.thread_columns": 8',
    )
)


def tile_func(text: str, changes: Sequence[tuple[str, str]] = ()) -> ir.PrimFunc:
    """A program in the form, with some of its text replaced."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    func = from_source(text)
    assert isinstance(func, ir.PrimFunc)
    return func


# --- workloads -----------------------------------------------------------------------------------


def product_tensors(
    shape: tuple[int, int, int],
    dtypes: Sequence[str],
    order: str = "nn",
    batch: Sequence[int] = (),
    names: Sequence[str] = ("A", "B", "C"),
) -> list[te.Tensor]:
    """Operands and result of a product; the types of operands (one or both) and sums.

    `order` has a `t` for an operand that is stored the other way round.
    """
    (rows, columns, depth), (*operands, sums) = shape, dtypes
    a_shape = (depth, rows) if order[0] == "t" else (rows, depth)
    b_shape = (columns, depth) if order[1] == "t" else (depth, columns)
    a = te.placeholder((*batch, *a_shape), operands[0], name=names[0])
    b = te.placeholder((*batch, *b_shape), operands[-1], name=names[1])
    k = te.reduce_axis((0, depth), name="k")

    def element(*index: ir.Var) -> ir.PrimExpr:
        *outer, i, j = index
        left = (*outer, k, i) if order[0] == "t" else (*outer, i, k)
        right = (*outer, j, k) if order[1] == "t" else (*outer, k, j)
        return te.sum(a[left].astype(sums) * b[right].astype(sums), axis=k)

    return [a, b, te.compute((*batch, rows, columns), element, name=names[2])]


def product(
    shape: tuple[int, int, int],
    dtypes: tuple[str, str],
    batch: Sequence[int] = (),
    *,
    is_turned: bool = False,
    result: str = "",
) -> ir.PrimFunc:
    """A product of rows, columns and depth; `is_turned`: the right operand is columns x depth."""
    a, b, c = product_tensors(shape, dtypes, "nt" if is_turned else "nn", batch)
    if not result:
        return te.create_prim_func([a, b, c])
    d = te.compute(c.shape, lambda *index: c[index].astype(result), name="D")
    return te.create_prim_func([a, b, d])


def convolution(
    image: tuple[int, int, int, int],
    kernel: tuple[int, int, int],
    dtypes: tuple[str, str],
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> ir.PrimFunc:
    """A convolution of an image in the order NHWC with height, width and channels of a kernel."""
    x = te.placeholder(image, dtypes[0], name="X")
    weight = te.placeholder((*kernel[:2], image[3], kernel[2]), dtypes[0], name="W")
    y = topi.nn.conv2d_nhwc(x, weight, stride, padding, dilation, out_dtype=dtypes[1])
    return te.create_prim_func([x, weight, y])


# --- sketches ------------------------------------------------------------------------------------


def sketches_of(
    func: ir.PrimFunc, rule_name: str, *, target: Target = H200, seed: int = 1
) -> list[Schedule]:
    """What a rule makes of the one sum of products of a function."""
    rule = schedule_rules.create(rule_name)
    rule._initialize_with_tune_context(SpaceTask(target=target))
    sch = Schedule(func, seed=seed, debug_mask="all")
    return rule.apply(sch, sum_of(sch))


def sum_of(sch: Schedule) -> BlockRV:
    """The block of a function that has a reduction."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        stmt = sch.get(block)
        assert isinstance(stmt, ir.Block)
        if stmt.init is not None:
            return block
    raise AssertionError("the function has no reduction")


def reason_of(sketches: list[Schedule]) -> str:
    """Why a rule left a block alone; nothing if it did not."""
    return sketches.reason if isinstance(sketches, NotApplied) else ""

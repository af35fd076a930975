# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs whose weights are stored in layouts of their own, as `RewriteLayout` leaves them."""

from __future__ import annotations

from tilewright.ir import IRModule, PrimFunc
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.schedule import Schedule
from tilewright.script import tir as T


@T.prim_func
def dense(
    A: T.Buffer((8, 16), "float32"),
    W: T.Buffer((32, 16), "float32"),
    C: T.Buffer((8, 32), "float32"),
):
    """C = A @ W.T"""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "layout_free_buffers": [1]})
    for i, j, k in T.grid(8, 32, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vj, vk]


@T.prim_func
def gated(
    A: T.Buffer((8, 16), "float32"),
    W: T.Buffer((32, 16), "float32"),
    V: T.Buffer((32, 16), "float32"),
    C: T.Buffer((8, 32), "float32"),
):
    """C = A @ (W * V).T, with two weights"""
    T.func_attr({"tir.noalias": True, "layout_free_buffers": [1, 2]})
    for i, j, k in T.grid(8, 32, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * (W[vj, vk] * V[vj, vk])


def packing_schedule(func: PrimFunc = dense) -> Schedule:
    """A schedule that packs the weights of a function into panels of 8 rows."""
    sch = Schedule(func)
    for position in func.attrs["layout_free_buffers"]:
        copy = sch.cache_read(sch.get_block("C"), int(position), "global")
        sch.annotate(copy, LAYOUT_REWRITE_PREPROC, True)
        panels = ("read", int(position))
        sch.transform_layout(sch.get_block("C"), panels, lambda j, k: (j // 8, k, j % 8))
    return sch


def with_packed_weights(func: PrimFunc = dense, name: str = "main") -> IRModule:
    """What it makes of the function."""
    return IRModule({name: packing_schedule(func).mod["main"]})

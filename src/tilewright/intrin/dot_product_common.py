"""Dot products of a few pairs: the form that all machines share, and those of a GPU thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tilewright import ir
from tilewright.intrin.programs import (
    Pair as Pair,
    description,
    product,
    tile_function,
    whole_store,
)
from tilewright.ir import PrimExpr, const
from tilewright.ir.intrinsics import call_llvm_pure_intrin, call_pure_extern, reinterpret
from tilewright.ir.tensor_intrin import TensorIntrin, ValueRanges

DP4A_INTRIN = "dp4a"  # of NVIDIA GPUs
AMDGPU_SDOT4_INTRIN = "sdot4"
LOCAL = "_local"  # suffix of instructions on accumulators that stay in registers

# (form, accumulators, the bits of A as one word, all of B) -> the new accumulators
Update = Callable[["DotForm", PrimExpr, PrimExpr, PrimExpr], PrimExpr]


@dataclass(frozen=True)
class DotForm:
    """`C[i] += A[k] * B[i, k]` for `lanes` accumulators and `depth` products each."""

    lanes: int
    depth: int
    a_dtype: str
    b_dtype: str
    c_dtype: str
    c_scope: str = "global"
    scope: str = "global"  # of A and B

    @property
    def a_vector(self) -> str:
        return f"{self.a_dtype}x{self.depth}"

    @property
    def b_vector(self) -> str:
        return f"{self.b_dtype}x{self.lanes * self.depth}"

    @property
    def c_vector(self) -> str:
        return f"{self.c_dtype}x{self.lanes}"

    @property
    def operands(self) -> tuple[ir.Buffer, ir.Buffer, ir.Buffer]:
        """Buffers for A, B and C."""
        declare = partial(ir.decl_buffer, offset_factor=1)
        return (
            declare((self.depth,), self.a_dtype, "A", scope=self.scope),
            declare((self.lanes, self.depth), self.b_dtype, "B", scope=self.scope),
            declare((self.lanes,), self.c_dtype, "C", scope=self.c_scope),
        )


def dot_description(form: DotForm) -> ir.PrimFunc:
    """The loops that an instruction of that form stands for."""
    a, b, c = form.operands

    def element(i: ir.Var, k: ir.Var) -> ir.PrimExpr:
        return product(form.c_dtype, a[k], b[i, k])

    names, extents = ("dot_product_desc", "update"), (form.lanes, form.depth)
    return description(names, (a, b, c), c, extents, element, accumulates=True)


def dot_implementation(form: DotForm, update: Update) -> ir.PrimFunc:
    """Operands in registers, all of A as one 32-bit word, and `update` on them."""
    a, b, c = form.operands
    word = ir.Var("A_word", ir.INT32)
    loaded = c.vload([0], form.c_vector), word, b.vload([0, 0], form.b_vector)
    a_bits = reinterpret("int32", a.vload([0], form.a_vector))
    body = ir.LetStmt(word, a_bits, whole_store(c, update(form, *loaded)))
    return tile_function("dot_product_impl", (a, b, c), c, body, accumulates=True)


def register_dot(
    name: str,
    form: DotForm,
    update: Update,
    features: tuple[str, ...] = (),
    value_ranges: ValueRanges | None = None,
) -> None:
    """Register an instruction, and with the suffix `_local` one for accumulators in registers."""
    for suffix, scope in (("", form.c_scope), (LOCAL, "local")):
        TensorIntrin.register_maker(
            name + suffix,
            partial(make_dot, replace(form, c_scope=scope), update),
            features=features,
            value_ranges=value_ranges,
        )


def make_dot(form: DotForm, update: Update) -> Pair:
    """The description and the implementation of an instruction."""
    return dot_description(form), dot_implementation(form, update)


# --- in one thread of a GPU ---------------------------------------------------------------------


def make_thread_dot(dot: Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]) -> Pair:
    """A dot product of four pairs of bytes; `dot` computes it from two vectors."""

    def operands() -> tuple[ir.Buffer, ir.Buffer, ir.Buffer]:
        declare = partial(ir.decl_buffer, data_alignment=4, offset_factor=1)
        a, b = (declare((4,), "int8", name, scope="shared") for name in "AB")
        return a, b, declare((1,), "int32", "C", scope="local")

    a, b, c = operands()

    def element(k: ir.Var) -> ir.PrimExpr:
        return product("int32", a[k], b[k])

    names, first = ("dp4a_desc", "update"), (ir.const(0),)
    desc = description(names, (a, b, c), c, (4,), element, at=lambda: first, accumulates=True)
    a, b, c = operands()
    total = c[0] + dot(a.vload([0], "int8x4"), b.vload([0], "int8x4"))
    store = ir.BufferStore(c, total, first)
    return desc, tile_function("dp4a_impl", (a, b, c), c, store, accumulates=True)


def _dp4a(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return call_pure_extern("int32", "__dp4a", a, b, const(0, "int32"))


def _sdot4(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    words = (reinterpret("int32", a), reinterpret("int32", b))
    clamped = (const(0, "int32"), const(True, "bool"))
    return call_llvm_pure_intrin("int32", "llvm.amdgcn.sdot4", *words, *clamped)


dp4a_desc, dp4a_impl = make_thread_dot(_dp4a)
TensorIntrin.register_maker(DP4A_INTRIN, lambda: (dp4a_desc, dp4a_impl))
TensorIntrin.register_maker(AMDGPU_SDOT4_INTRIN, partial(make_thread_dot, _sdot4))

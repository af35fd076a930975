"""Dot products of a few pairs: the form that all machines share, and those of a GPU thread."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tilewright.ir import PrimExpr, PrimFunc, cast, const
from tilewright.ir.intrinsics import call_llvm_pure_intrin, call_pure_extern, reinterpret
from tilewright.ir.tensor_intrin import TensorIntrin, ValueRanges
from tilewright.script import tir as T

DP4A_INTRIN = "dp4a"  # of NVIDIA GPUs
AMDGPU_SDOT4_INTRIN = "sdot4"
LOCAL = "_local"  # suffix of instructions on accumulators that stay in registers

Pair = tuple[PrimFunc, PrimFunc]
# (accumulators, the bits of A as one word, all of B) -> the new accumulators
Update = Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]


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


def dot_description(form: DotForm) -> PrimFunc:
    """The loops that an instruction of that form stands for."""
    lanes, depth, a_dtype, b_dtype = form.lanes, form.depth, form.a_dtype, form.b_dtype
    c_dtype, c_scope, scope = form.c_dtype, form.c_scope, form.scope

    def widened(value: PrimExpr) -> PrimExpr:
        return cast(c_dtype, value)

    @T.prim_func
    def dot_product_desc(
        A: T.Buffer((depth,), a_dtype, offset_factor=1, scope=scope),
        B: T.Buffer((lanes, depth), b_dtype, offset_factor=1, scope=scope),
        C: T.Buffer((lanes,), c_dtype, offset_factor=1, scope=c_scope),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:lanes], A[0:depth], B[0:lanes, 0:depth])
            T.writes(C[0:lanes])
            for i in T.serial(0, lanes):
                for k in T.serial(0, depth):
                    with T.block("update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + widened(A[vk]) * widened(B[vi, vk])

    return dot_product_desc


def dot_implementation(form: DotForm, update: Update) -> PrimFunc:
    """Operands in registers, all of A as one 32-bit word, and `update` on them."""
    lanes, depth, a_dtype, b_dtype = form.lanes, form.depth, form.a_dtype, form.b_dtype
    c_dtype, c_scope, scope = form.c_dtype, form.c_scope, form.scope
    a_vector, b_vector, c_vector = form.a_vector, form.b_vector, form.c_vector

    @T.prim_func
    def dot_product_impl(
        A: T.Buffer((depth,), a_dtype, offset_factor=1, scope=scope),
        B: T.Buffer((lanes, depth), b_dtype, offset_factor=1, scope=scope),
        C: T.Buffer((lanes,), c_dtype, offset_factor=1, scope=c_scope),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:lanes], A[0:depth], B[0:lanes, 0:depth])
            T.writes(C[0:lanes])
            A_word = T.reinterpret(A.vload([0], a_vector), dtype="int32")
            C[T.ramp(T.int32(0), 1, lanes)] = update(
                C.vload([0], dtype=c_vector), A_word, B.vload([0, 0], dtype=b_vector)
            )

    return dot_product_impl


def register_dot(
    name: str,
    form: DotForm,
    instruction: Callable[[DotForm], Update],
    features: tuple[str, ...] = (),
    value_ranges: ValueRanges | None = None,
) -> None:
    """Register an instruction, and with the suffix `_local` one for accumulators in registers."""
    for suffix, scope in (("", form.c_scope), (LOCAL, "local")):
        TensorIntrin.register_maker(
            name + suffix,
            partial(make_dot, replace(form, c_scope=scope), instruction),
            features=features,
            value_ranges=value_ranges,
        )


def make_dot(form: DotForm, instruction: Callable[[DotForm], Update]) -> Pair:
    """The description and the implementation of an instruction."""
    return dot_description(form), dot_implementation(form, instruction(form))


# --- in one thread of a GPU ---------------------------------------------------------------------


def make_thread_dot(product: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Pair:
    """A dot product of four pairs of bytes; `product` computes it from two vectors."""

    @T.prim_func
    def dp4a_desc(
        A: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
        B: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
        C: T.Buffer((1,), "int32", offset_factor=1, align=4, scope="local"),
    ) -> None:
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            for i in range(0, 4):
                with T.block("update"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.cast(A[vi], "int32") * T.cast(B[vi], "int32")

    @T.prim_func
    def dp4a_impl(
        A: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
        B: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
        C: T.Buffer((1,), "int32", offset_factor=1, align=4, scope="local"),
    ) -> None:
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            C[0] += product(A.vload([0], "int8x4"), B.vload([0], "int8x4"))

    return dp4a_desc, dp4a_impl


def _dp4a(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return call_pure_extern("int32", "__dp4a", a, b, const(0, "int32"))


def _sdot4(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    words = (reinterpret("int32", a), reinterpret("int32", b))
    clamped = (const(0, "int32"), const(True, "bool"))
    return call_llvm_pure_intrin("int32", "llvm.amdgcn.sdot4", *words, *clamped)


dp4a_desc, dp4a_impl = make_thread_dot(_dp4a)
TensorIntrin.register_maker(DP4A_INTRIN, lambda: (dp4a_desc, dp4a_impl))
TensorIntrin.register_maker(AMDGPU_SDOT4_INTRIN, partial(make_thread_dot, _sdot4))

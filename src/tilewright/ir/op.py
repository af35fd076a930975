"""The registry of builtin operators that a `Call` may name.

An operator is data: its name, how many arguments it takes, what effect a call has, and how it is
written in script. Users add their own with `register_op`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import msgspec

from tilewright.errors import RegistryError

__all__ = ["CallEffect", "Op", "register_op", "register_op_attr", "op_by_script_name", "all_ops"]


class CallEffect(enum.IntEnum):
    """What evaluating a call does besides yielding a value."""

    PURE = 0
    READ_STATE = 1
    UPDATE_STATE = 2
    CONTROL_JUMP = 3


class Op(msgspec.Struct, frozen=True, eq=False):
    """A builtin operator, e.g. `tir.exp`. One object exists for each name."""

    name: str
    num_inputs: int | None = None  # None: any number
    effect: CallEffect = CallEffect.PURE
    script_name: str = ""  # as in `T.<script_name>`
    vectorizable: bool = True  # lane by lane, so it may be applied to vectors
    dtype_first: bool = False  # script writes the result dtype as the first argument
    attrs: dict[str, Any] = {}  # open set of attributes, filled by `register_op_attr`

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name`."""
        op = _registry.get(name)
        if op is None:
            raise RegistryError(
                f"operator {name!r} is not registered; see tilewright.ir.register_op"
            )
        return op

    def same_as(self, other: object) -> bool:
        """True when `other` is this very operator."""
        return self is other

    def __repr__(self) -> str:
        return f"Op({self.name})"


_registry: dict[str, Op] = {}
_by_script_name: dict[str, Op] = {}


def register_op(
    name: str,
    num_inputs: int | None = None,
    effect: CallEffect = CallEffect.PURE,
    *,
    script_name: str = "",
    vectorizable: bool = True,
    dtype_first: bool = False,
) -> Op:
    """Register an operator; `tir.my_op` becomes `T.my_op` in script."""
    if name in _registry:
        raise RegistryError(f"operator {name!r} is already registered")
    script = script_name or name.removeprefix("tir.")
    op = Op(name, num_inputs, effect, script, vectorizable, dtype_first, {})
    _registry[name] = op
    _by_script_name[script] = op
    return op


def register_op_attr(op_name: str, attr_key: str, value: Any) -> None:
    """Attach an attribute to an operator, registering the operator if it is new."""
    op = _registry.get(op_name) or register_op(op_name)
    op.attrs[attr_key] = value


def op_by_script_name(name: str) -> Op | None:
    """The operator that script writes as `T.<name>`."""
    return _by_script_name.get(name)


def all_ops() -> Iterator[Op]:
    """Every registered operator, in registration order."""
    return iter(_registry.values())


_UNARY_MATH = (
    "exp exp2 exp10 expm1 erf log log2 log10 log1p tanh sigmoid sqrt rsqrt sin cos tan asin acos "
    "atan sinh cosh asinh acosh atanh floor ceil trunc round nearbyint fabs popcount clz "
    "isnan isfinite isinf"
)
_BINARY_MATH = "pow fmod atan2 copysign nextafter ldexp hypot"
_BITWISE = "bitwise_and bitwise_or bitwise_xor shift_left shift_right"
# Effect, whether script writes the result dtype first, and names with their numbers of arguments.
_OTHERS: tuple[tuple[CallEffect, bool, str], ...] = (
    (
        CallEffect.PURE,
        False,
        "bitwise_not/1 fma/3 if_then_else/3 likely/1 large_uint_imm/2 q_multiply_shift/4 "
        "q_multiply_shift_per_axis/7 undef/0 address_of/1 isnullptr/1 type_annotation/0 "
        "tvm_access_ptr/5 tvm_warp_shuffle/5 tvm_warp_shuffle_up/5 tvm_warp_shuffle_down/5 "
        "tvm_warp_shuffle_xor/5 tvm_warp_activemask/0 tvm_stack_make_shape/* "
        "tvm_stack_make_array/6 vscale/0",
    ),
    (CallEffect.CONTROL_JUMP, False, "ret/1"),
    (
        CallEffect.UPDATE_STATE,
        False,
        "assume/1 tvm_thread_allreduce/* tvm_storage_sync/* tvm_fill_fragment/6 "
        "tvm_load_matrix_sync/8 tvm_store_matrix_sync/8 tvm_mma_sync/8 tvm_bmma_sync/8 "
        "ptx_commit_group/0 ptx_wait_group/1 prefetch/4 atomic_add/2 tvm_call_packed/* "
        "call_packed/*",
    ),
    (
        CallEffect.PURE,
        True,
        "reinterpret/1 call_pure_extern/* call_llvm_pure_intrin/* vectorlow/1 vectorhigh/1 "
        "vectorcombine/2 dp4a/3",
    ),
    (
        CallEffect.UPDATE_STATE,
        True,
        "call_extern/* call_llvm_intrin/* ptx_mma/* ptx_mma_sp/* ptx_ldmatrix/* ptx_cp_async/* "
        "mma_store/* mma_fill/*",
    ),
)
_ARITHMETIC = (
    "bitwise_not fma if_then_else likely q_multiply_shift q_multiply_shift_per_axis large_uint_imm"
)
# Functions from numbers to numbers: they mean the same in every type.
MATH_OPS = frozenset(
    f"tir.{name}" for name in f"{_UNARY_MATH} {_BINARY_MATH} {_BITWISE} {_ARITHMETIC}".split()
)
_LANE_MIXING = {
    "reinterpret", "vectorlow", "vectorhigh", "vectorcombine", "call_extern", "call_pure_extern",
    "call_llvm_intrin", "call_llvm_pure_intrin", "tvm_access_ptr", "address_of", "ret",
    "call_packed", "tvm_call_packed", "prefetch", "atomic_add", "assume",
    "tvm_stack_make_shape", "tvm_stack_make_array",
}  # fmt: skip


def _register_builtins() -> None:
    for name in _UNARY_MATH.split():
        register_op(f"tir.{name}", 1)
    for name in (_BINARY_MATH + " " + _BITWISE).split():
        register_op(f"tir.{name}", 2)
    for effect, dtype_first, operators in _OTHERS:
        for name, _, arity in (each.partition("/") for each in operators.split()):
            register_op(
                f"tir.{name}",
                None if arity == "*" else int(arity),
                effect,
                vectorizable=name not in _LANE_MIXING,
                dtype_first=dtype_first,
            )


_register_builtins()

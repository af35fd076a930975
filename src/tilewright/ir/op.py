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
# name -> (number of arguments, effect)
_OTHERS: dict[str, tuple[int | None, CallEffect]] = {
    "bitwise_not": (1, CallEffect.PURE),
    "fma": (3, CallEffect.PURE),
    "if_then_else": (3, CallEffect.PURE),
    "likely": (1, CallEffect.PURE),
    "large_uint_imm": (2, CallEffect.PURE),
    "q_multiply_shift": (4, CallEffect.PURE),
    "q_multiply_shift_per_axis": (7, CallEffect.PURE),
    "ret": (1, CallEffect.CONTROL_JUMP),
    "assume": (1, CallEffect.UPDATE_STATE),
    "undef": (0, CallEffect.PURE),
    "address_of": (1, CallEffect.PURE),
    "isnullptr": (1, CallEffect.PURE),
    "type_annotation": (0, CallEffect.PURE),
    "tvm_access_ptr": (5, CallEffect.PURE),
    "tvm_thread_allreduce": (None, CallEffect.UPDATE_STATE),
    "tvm_storage_sync": (None, CallEffect.UPDATE_STATE),
    "tvm_warp_shuffle": (5, CallEffect.PURE),
    "tvm_warp_shuffle_up": (5, CallEffect.PURE),
    "tvm_warp_shuffle_down": (5, CallEffect.PURE),
    "tvm_warp_shuffle_xor": (5, CallEffect.PURE),
    "tvm_warp_activemask": (0, CallEffect.PURE),
    "tvm_fill_fragment": (6, CallEffect.UPDATE_STATE),
    "tvm_load_matrix_sync": (8, CallEffect.UPDATE_STATE),
    "tvm_store_matrix_sync": (8, CallEffect.UPDATE_STATE),
    "tvm_mma_sync": (8, CallEffect.UPDATE_STATE),
    "tvm_bmma_sync": (8, CallEffect.UPDATE_STATE),
    "ptx_commit_group": (0, CallEffect.UPDATE_STATE),
    "ptx_wait_group": (1, CallEffect.UPDATE_STATE),
    "prefetch": (4, CallEffect.UPDATE_STATE),
    "atomic_add": (2, CallEffect.UPDATE_STATE),
    "tvm_call_packed": (None, CallEffect.UPDATE_STATE),
    "call_packed": (None, CallEffect.UPDATE_STATE),
    "tvm_stack_make_shape": (None, CallEffect.PURE),
    "tvm_stack_make_array": (6, CallEffect.PURE),
    "vscale": (0, CallEffect.PURE),
}
_DTYPE_FIRST: dict[str, tuple[int | None, CallEffect]] = {
    "reinterpret": (1, CallEffect.PURE),
    "call_extern": (None, CallEffect.UPDATE_STATE),
    "call_pure_extern": (None, CallEffect.PURE),
    "call_llvm_intrin": (None, CallEffect.UPDATE_STATE),
    "call_llvm_pure_intrin": (None, CallEffect.PURE),
    "vectorlow": (1, CallEffect.PURE),
    "vectorhigh": (1, CallEffect.PURE),
    "vectorcombine": (2, CallEffect.PURE),
    "ptx_mma": (None, CallEffect.UPDATE_STATE),
    "ptx_mma_sp": (None, CallEffect.UPDATE_STATE),
    "ptx_ldmatrix": (None, CallEffect.UPDATE_STATE),
    "ptx_cp_async": (None, CallEffect.UPDATE_STATE),
    "mma_store": (None, CallEffect.UPDATE_STATE),
    "mma_fill": (None, CallEffect.UPDATE_STATE),
    "dp4a": (3, CallEffect.PURE),
}
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
    for table, dtype_first in ((_OTHERS, False), (_DTYPE_FIRST, True)):
        for name, (num_inputs, effect) in table.items():
            register_op(
                f"tir.{name}",
                num_inputs,
                effect,
                vectorizable=name not in _LANE_MIXING,
                dtype_first=dtype_first,
            )


_register_builtins()

"""The expression grammar of TensorIR.

Constructors take fields as they are; `ir/arithmetic.py` builds nodes with matched types and folded
constants.
"""

from __future__ import annotations

import enum
from typing import ClassVar

from msgspec.structs import force_setattr

from tilewright.ir.dtype import BOOL, HANDLE, INT32, DType
from tilewright.ir.node import Node
from tilewright.ir.op import Op
from tilewright.ir.operators import ExprLike, ExprOperators, builders

__all__ = [
    "PrimExpr", "PointerType", "Var", "SizeVar", "IntImm", "FloatImm", "StringImm", "Cast",
    "BinaryOp", "Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "CmpOp",
    "EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or", "Not", "Select", "Ramp", "Broadcast",
    "Shuffle", "Let", "GlobalVar", "Call", "Range", "IterType", "IterVar", "CommReducer", "Reduce",
]  # fmt: skip


class PrimExpr(ExprOperators, frozen=True):
    """An expression that yields a scalar, a vector or a handle."""

    @property
    def dtype(self) -> DType:
        raise NotImplementedError(type(self).__name__)


class PointerType(Node, frozen=True):
    """What a handle variable points to."""

    element_type: DType
    storage_scope: str = "global"

    def __post_init__(self) -> None:
        if type(self.storage_scope) is not str:  # the scope of another buffer
            force_setattr(self, "storage_scope", str(self.storage_scope))


class _Typed(PrimExpr, frozen=True):
    """An expression with a field `dtype`, which may be given as text."""

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))


class Var(_Typed, frozen=True):
    """A variable; two variables are the same only if they are the same object."""

    name: str
    dtype: DType = INT32
    type_annotation: PointerType | None = None


class SizeVar(Var, frozen=True):
    """A variable that is known to be non-negative, such as a symbolic shape."""


class IntImm(_Typed, frozen=True):
    """An integer or boolean constant."""

    dtype: DType
    value: int

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.value)


class FloatImm(_Typed, frozen=True):
    """A floating-point constant."""

    dtype: DType
    value: float

    def __float__(self) -> float:
        return self.value


class StringImm(PrimExpr, frozen=True):
    """A string constant, used in annotations and calls.

    It equals its text: programs never compare it.
    """

    value: str

    def __eq__(self, other: object) -> bool:  # type: ignore[override] # no expression
        return self.value == (other.value if isinstance(other, StringImm) else other)

    def __ne__(self, other: object) -> bool:  # type: ignore[override] # no expression
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)

    @property
    def dtype(self) -> DType:
        return HANDLE


class Cast(_Typed, frozen=True):
    """`value` converted to `dtype`."""

    child_fields: ClassVar[tuple[str, ...]] = ("value",)
    dtype: DType
    value: PrimExpr


class BinaryOp(PrimExpr, frozen=True):
    """An operation on two operands of one type."""

    child_fields: ClassVar[tuple[str, ...]] = ("a", "b")
    a: PrimExpr
    b: PrimExpr

    @property
    def dtype(self) -> DType:
        node = self.a  # a loop, because sums can be long
        while isinstance(node, BinaryOp) and not isinstance(node, CmpOp):
            node = node.a
        return node.dtype


class Add(BinaryOp, frozen=True):
    pass


class Sub(BinaryOp, frozen=True):
    pass


class Mul(BinaryOp, frozen=True):
    pass


class Div(BinaryOp, frozen=True):
    """Division: exact for floats, towards zero for integers."""


class Mod(BinaryOp, frozen=True):
    """Remainder of the division towards zero."""


class FloorDiv(BinaryOp, frozen=True):
    pass


class FloorMod(BinaryOp, frozen=True):
    pass


class Min(BinaryOp, frozen=True):
    """The smaller value; NaN where an operand is."""


class Max(BinaryOp, frozen=True):
    """The larger value; NaN where an operand is."""


class CmpOp(BinaryOp, frozen=True):
    """A comparison; yields bool, lane by lane."""

    @property
    def dtype(self) -> DType:
        return BOOL.with_lanes(self.a.dtype.lanes)


class EQ(CmpOp, frozen=True):
    pass


class NE(CmpOp, frozen=True):
    pass


class LT(CmpOp, frozen=True):
    pass


class LE(CmpOp, frozen=True):
    pass


class GT(CmpOp, frozen=True):
    pass


class GE(CmpOp, frozen=True):
    pass


class And(CmpOp, frozen=True):
    """Logical and of two bools; the right side is evaluated only if the left one holds."""


class Or(CmpOp, frozen=True):
    """Logical or of two bools; the right side is evaluated only if the left one does not hold."""


class Not(PrimExpr, frozen=True):
    """Logical negation."""

    child_fields: ClassVar[tuple[str, ...]] = ("a",)
    a: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


class Select(PrimExpr, frozen=True):
    """Both values are evaluated, then one is chosen, lane by lane."""

    child_fields: ClassVar[tuple[str, ...]] = ("condition", "true_value", "false_value")
    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.true_value.dtype


class Ramp(PrimExpr, frozen=True):
    """The vector `base, base + stride, base + 2 * stride, ...`."""

    child_fields: ClassVar[tuple[str, ...]] = ("base", "stride")
    base: PrimExpr
    stride: PrimExpr
    lanes: int

    @property
    def dtype(self) -> DType:
        base = self.base.dtype
        return base.with_lanes(base.lanes * self.lanes)


class Broadcast(PrimExpr, frozen=True):
    """A vector with `value` in every lane."""

    child_fields: ClassVar[tuple[str, ...]] = ("value",)
    value: PrimExpr
    lanes: int

    @property
    def dtype(self) -> DType:
        value = self.value.dtype
        return value.with_lanes(value.lanes * self.lanes)


class Shuffle(PrimExpr, frozen=True):
    """A vector made of the chosen lanes of the concatenated `vectors`."""

    child_fields: ClassVar[tuple[str, ...]] = ("vectors", "indices")
    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    @property
    def dtype(self) -> DType:
        return self.vectors[0].dtype.with_lanes(len(self.indices))


class Let(PrimExpr, frozen=True):
    """`body` with `var` standing for `value`."""

    child_fields: ClassVar[tuple[str, ...]] = ("value", "body")
    var: Var
    value: PrimExpr
    body: PrimExpr

    @property
    def dtype(self) -> DType:
        return self.body.dtype


class GlobalVar(PrimExpr, frozen=True):
    """The name of another function of the module, as the target of a call."""

    name: str

    @property
    def name_hint(self) -> str:
        return self.name

    @property
    def dtype(self) -> DType:
        return HANDLE


class Call(PrimExpr, frozen=True):
    """A call of a builtin operator or of another function of the module."""

    child_fields: ClassVar[tuple[str, ...]] = ("args",)
    dtype: DType
    op: Op | GlobalVar
    args: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        if type(self.args) is not tuple:
            force_setattr(self, "args", tuple(self.args))
        if type(self.dtype) is not DType:
            force_setattr(self, "dtype", DType(self.dtype))


class Range(Node, frozen=True):
    """The integers from `min` up to, not including, `min + extent`."""

    child_fields: ClassVar[tuple[str, ...]] = ("min", "extent")
    min: PrimExpr
    extent: PrimExpr

    @staticmethod
    def from_min_extent(begin: ExprLike, extent: ExprLike) -> Range:
        return Range(builders.convert(begin), builders.convert(extent))


class IterType(enum.IntEnum):
    """What an iterator is for; the values are those of TVM."""

    DATA_PAR = 0  # spatial
    THREAD_INDEX = 1
    COMM_REDUCE = 2
    ORDERED = 3  # scan
    OPAQUE = 4


class IterVar(ExprOperators, frozen=True):
    """A variable with a domain and a purpose; in arithmetic it stands for its variable."""

    child_fields: ClassVar[tuple[str, ...]] = ("dom",)
    dom: Range | None
    var: Var
    iter_type: IterType
    thread_tag: str = ""


class CommReducer(Node, frozen=True):
    """A commutative, associative combiner over tuples of values, with its identity."""

    child_fields: ClassVar[tuple[str, ...]] = ("result", "identity_element")
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]


class Reduce(PrimExpr, frozen=True):
    """A reduction in a tensor expression; it never reaches a PrimFunc."""

    child_fields: ClassVar[tuple[str, ...]] = ("source", "axis", "condition", "init")
    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.source[self.value_index].dtype

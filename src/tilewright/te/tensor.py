"""Tensors and the operations that make them.

An operation is immutable and names its inputs, so tensors form an acyclic graph. Two `Tensor`
objects are the same tensor when they are the same output of the same operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from tilewright import ir
from tilewright.errors import TensorExpressionError

__all__ = [
    "Operation", "PlaceholderOp", "Tensor", "ProducerLoad", "TensorSlice", "placeholder", "var",
    "size_var",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Operation:
    """What computes one or several tensors."""

    name: str
    tag: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def results(self) -> Sequence[Any]:
        """For each output something of its shape and dtype."""
        raise NotImplementedError(type(self).__name__)

    @property
    def num_outputs(self) -> int:
        return len(self.results)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that this operation reads, each once, in order of first use."""
        return ()

    def output_shape(self, index: int) -> tuple[ir.PrimExpr, ...]:
        return self.results[index].shape  # type: ignore[no-any-return]

    def output_dtype(self, index: int) -> ir.DType:
        return self.results[index].dtype  # type: ignore[no-any-return]

    def output(self, index: int) -> Tensor:
        """The `index`-th result."""
        if not 0 <= index < self.num_outputs:
            raise TensorExpressionError(
                f"operation {self.name} has {self.num_outputs} outputs, there is no output {index}"
            )
        return Tensor(self, index)

    def outputs(self) -> tuple[Tensor, ...]:
        """All results."""
        return tuple(Tensor(self, index) for index in range(self.num_outputs))


@dataclass(frozen=True, eq=False)
class PlaceholderOp(Operation):
    """An input of the whole computation."""

    shape: tuple[ir.PrimExpr, ...] = ()
    dtype: ir.DType = ir.DType("float32")  # noqa: RUF009 - an interned, immutable string

    @property
    def results(self) -> Sequence[Any]:
        return (self,)


TensorOperator = Callable[[Any, Any], "Tensor"]
# `a + b` on whole tensors is an operator of topi, which stands on this package; it fills this.
tensor_operators: dict[str, TensorOperator] = {}


def _apply(operator: str, a: Any, b: Any) -> Tensor:
    implementation = tensor_operators.get(operator)
    if implementation is None:
        raise TensorExpressionError(
            f"`{operator}` on whole tensors is part of topi: import tilewright.topi first, "
            "or index the tensors inside te.compute"
        )
    return implementation(a, b)


def _operators(name: str) -> tuple[TensorOperator, TensorOperator]:
    """A method for `tensor + other`, and one for `other + tensor`."""
    return (lambda tensor, other: _apply(name, tensor, other)), (
        lambda tensor, other: _apply(name, other, tensor)
    )


@dataclass(frozen=True, eq=False, repr=False)
class Tensor:
    """One result of an operation; index it with expressions inside `compute`."""

    op: Operation
    value_index: int

    @property
    def shape(self) -> tuple[ir.PrimExpr, ...]:
        return self.op.output_shape(self.value_index)

    @property
    def dtype(self) -> ir.DType:
        return self.op.output_dtype(self.value_index)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """The name of the operation, with `_v<k>` if it has several results."""
        multiple = self.op.num_outputs > 1
        return f"{self.op.name}_v{self.value_index}" if multiple else self.op.name

    def __getitem__(self, index: ir.ExprLike | tuple[ir.ExprLike, ...]) -> TensorSlice:
        return TensorSlice(self, ())[index]

    def __call__(self, *indices: ir.ExprLike) -> ProducerLoad:
        return load(self, indices)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Tensor) and other.op is self.op
        return same and other.value_index == self.value_index  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __repr__(self) -> str:
        shape = ", ".join(str(extent) for extent in self.shape)
        return f"Tensor(shape=[{shape}], dtype={self.dtype!s}, op.name={self.op.name})"

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("subtract")
    __mul__, __rmul__ = _operators("multiply")
    __truediv__, __rtruediv__ = _operators("divide")

    def __neg__(self) -> Tensor:
        return self * -1

    def astype(self, dtype: str) -> Tensor:
        """Every element converted to `dtype`."""
        return _apply("cast", self, dtype)


class ProducerLoad(ir.PrimExpr, frozen=True):
    """An element of a tensor; `create_prim_func` turns it into a load from the tensor's buffer."""

    child_fields: ClassVar[tuple[str, ...]] = ("indices",)
    producer: Tensor
    indices: tuple[ir.PrimExpr, ...]

    @property
    def dtype(self) -> ir.DType:
        return self.producer.dtype


class TensorSlice(ir.ExprOperators, frozen=True):
    """A tensor with some indices given: `x[b][i]` waits for more, `x[b][i][k]` is a value."""

    tensor: Tensor
    indices: tuple[ir.PrimExpr, ...]

    def __getitem__(self, index: ir.ExprLike | tuple[ir.ExprLike, ...]) -> TensorSlice:
        more = index if isinstance(index, tuple) else (index,)
        converted = tuple(_index(self.tensor, item) for item in more)
        indices = self.indices + converted
        if len(indices) > self.tensor.ndim:
            _wrong_index_count(self.tensor, len(indices))
        return TensorSlice(self.tensor, indices)

    @property
    def dtype(self) -> ir.DType:
        return self.tensor.dtype

    def asobject(self) -> ir.PrimExpr:
        return load(self.tensor, self.indices)


def _write_indexed(node: ProducerLoad | TensorSlice, text: Callable[[Any], str]) -> str:
    tensor = node.producer if isinstance(node, ProducerLoad) else node.tensor
    return f"{tensor.name}[{', '.join(map(text, node.indices)) or '()'}]"


ir.register_expr_printer(ProducerLoad, _write_indexed)
ir.register_expr_printer(TensorSlice, _write_indexed)


def load(tensor: Tensor, indices: Sequence[ir.ExprLike]) -> ProducerLoad:
    """The element of `tensor` at `indices`."""
    if len(indices) != tensor.ndim:
        _wrong_index_count(tensor, len(indices))
    return ProducerLoad(tensor, tuple(_index(tensor, index) for index in indices))


def _wrong_index_count(tensor: Tensor, given: int) -> NoReturn:
    raise TensorExpressionError(
        f"tensor {tensor.name} has {tensor.ndim} dimensions, got {given} indices"
    )


def _index(tensor: Tensor, index: Any) -> ir.PrimExpr:
    if isinstance(index, slice) or index is Ellipsis:
        raise TensorExpressionError(
            f"tensor {tensor.name} cannot be sliced with `:` or `...`; index single elements "
            "inside te.compute, or use topi.strided_slice"
        )
    expr = ir.convert(index)
    if not (expr.dtype.is_integral and expr.dtype.lanes == 1):
        raise TensorExpressionError(
            f"index `{expr}` of tensor {tensor.name} is {expr.dtype!s}, expected an integer"
        )
    return expr


def shape_of(shape: Sequence[ir.ExprLike] | ir.ExprLike, what: str) -> tuple[ir.PrimExpr, ...]:
    """A shape as expressions; every extent must be a non-negative integer."""
    extents = (shape,) if isinstance(shape, (int, ir.ExprOperators)) else tuple(shape)  # type: ignore[arg-type]
    return tuple(_checked_extent(extent, what) for extent in extents)


def _checked_extent(extent: Any, what: str) -> ir.PrimExpr:
    expr = ir.convert(extent.var if isinstance(extent, ir.IterVar) else extent)
    if not expr.dtype.is_integral:
        raise TensorExpressionError(f"{what}: extent `{expr}` is {expr.dtype!s}, not an integer")
    if isinstance(expr, ir.IntImm) and expr.value < 0:
        raise TensorExpressionError(f"{what}: extent {expr.value} is negative")
    return expr


def placeholder(
    shape: Sequence[ir.ExprLike] | ir.ExprLike, dtype: str = "float32", name: str = "placeholder"
) -> Tensor:
    """An input tensor."""
    kind = ir.DType(dtype)
    return PlaceholderOp(name, shape=shape_of(shape, f"placeholder {name}"), dtype=kind).output(0)


def is_placeholder(tensor: Tensor) -> bool:
    """True for an input of the whole computation."""
    return isinstance(tensor.op, PlaceholderOp)


def var(name: str = "tindex", dtype: str = "int32") -> ir.Var:
    """A symbolic scalar, for example an unknown extent."""
    return ir.Var(name, ir.DType(dtype))


def size_var(name: str = "size", dtype: str = "int32") -> ir.SizeVar:
    """A symbolic scalar that is known to be non-negative."""
    return ir.SizeVar(name, ir.DType(dtype))

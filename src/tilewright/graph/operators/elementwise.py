"""Operators on elements: of one tensor, of two or three that are stretched to each other."""

from __future__ import annotations

from tilewright import ir, te, topi
from tilewright.graph.operator import operator
from tilewright.graph.operators.quantized import QUANTIZED_ELEMENTWISE
from tilewright.te import Tensor

_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor isfinite isinf isnan log "
    "log1p log2 logical_not bitwise_not negative round rsqrt sigmoid sign sin sinh sqrt tan tanh "
    "trunc"
)
_BINARY = (
    "add subtract multiply divide floor_divide floor_mod mod power maximum minimum equal not_equal "
    "less less_equal greater greater_equal logical_and logical_or bitwise_and bitwise_or "
    "bitwise_xor left_shift right_shift atan2"
)

_OTHERS = "where clip cast saturating_cast reinterpret"
_ACTIVATIONS = "relu gelu silu leaky_relu"

for _name in f"{_UNARY} {_BINARY} {_OTHERS}".split():
    operator(_name)(getattr(topi, _name))
for _name in _ACTIVATIONS.split():
    operator(f"nn.{_name}")(getattr(topi.nn, _name))
operator("nn.prelu")(topi.nn.prelu)

# These compute each element of the result from the elements at its place.
ELEMENTWISE = (
    frozenset(
        [
            *f"{_UNARY} {_BINARY} {_OTHERS} identity".split(),
            *(f"nn.{n}" for n in _ACTIVATIONS.split()),
        ]
    )
    | QUANTIZED_ELEMENTWISE
)


@operator("identity")
def identity(x: Tensor) -> Tensor:
    """The same values."""
    return topi.identity(x)


@operator("integer_power")
def integer_power(base: Tensor, exponent: Tensor) -> Tensor:
    """`base ** exponent` of integers, exact as far as the type goes; exponents are not negative."""
    shape = topi.broadcast.broadcast_shape(base.shape, exponent.shape, "integer_power")
    # Beyond the bits of the type only 0, 1 and -1 have powers; for -1 the parity counts.
    bits = base.dtype.bits
    step = te.reduce_axis((0, bits + 1), "step")

    def element(*i: ir.Var) -> ir.ExprLike:
        factor = ir.convert(topi.broadcast.element_at(base, shape, i))
        times = ir.cast("int64", ir.convert(topi.broadcast.element_at(exponent, shape, i)))
        times = ir.Select(times > bits, times % 2 + (bits - bits % 2), times)
        used = ir.cast("int64", step.var) < times
        return te.prod(ir.Select(used, factor, ir.const(1, factor.dtype)), axis=step)

    return te.compute(shape, element, "T_integer_power")

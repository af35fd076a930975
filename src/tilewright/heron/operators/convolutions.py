"""Convolutions of one to three dimensions, dilated, transposed and depthwise.

On CPUs they are loops over windows of a padded input, on tensor cores a window is a row.
Inputs are (N, H, W, CI) and weights (CO, KH, KW, CI), for DL Boost in packs of 16 x 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from tilewright import te
from tilewright.heron import steps
from tilewright.heron.operators.base import (
    HeronOperator,
    OperatorCase,
    heron_operators,
    operand_stage,
)
from tilewright.heron.operators.blocked_convolutions import blocked_convolution
from tilewright.heron.operators.convolution import Convolution
from tilewright.heron.operators.matrices import MatrixProduct
from tilewright.heron.operators.products import LANES, QUAD, is_packed
from tilewright.heron.template import Template, TensorStage
from tilewright.ir import IRModule, PrimExpr


@heron_operators.register("c1d")
def c1d(case: OperatorCase) -> HeronOperator:
    """A convolution along one dimension."""
    return _operator(case, Convolution.of(case, 1))


@heron_operators.register("c2d")
def c2d(case: OperatorCase) -> HeronOperator:
    """A convolution of images."""
    return _operator(case, Convolution.of(case, 2))


@heron_operators.register("dil")
def dil(case: OperatorCase) -> HeronOperator:
    """The same; its sizes usually have a dilation of 2."""
    return _operator(case, Convolution.of(case, 2))


@heron_operators.register("c3d")
def c3d(case: OperatorCase) -> HeronOperator:
    """A convolution of volumes."""
    return _operator(case, Convolution.of(case, 3))


@heron_operators.register("t2d")
def t2d(case: OperatorCase) -> HeronOperator:
    """A transposed convolution of images."""
    return _operator(case, Convolution.of(case, 2, is_transposed=True))


@heron_operators.register("dep")
def dep(case: OperatorCase) -> HeronOperator:
    """A convolution of each channel of images with a kernel of its own."""
    return _operator(case, Convolution.of(case, 2, is_depthwise=True))


def _operator(case: OperatorCase, conv: Convolution) -> HeronOperator:
    if case.weight_block:
        return blocked_convolution(case, conv)
    if not case.as_matrices:
        return _windows(case, conv)
    return _depthwise_matrices(case, conv) if conv.is_depthwise else _matrices(case, conv)


def _input(case: OperatorCase, conv: Convolution) -> te.Tensor:
    return te.placeholder((conv.batch, *conv.extents, conv.channels), case.in_dtype, "A")


def _padded(conv: Convolution, data: te.Tensor, *at: PrimExpr) -> PrimExpr:
    n, *where, channel = at
    return conv.padded(lambda place: data(n, *place, channel), where)


# --- loops over windows -------------------------------------------------------------------------


def _weights(case: OperatorCase, conv: Convolution) -> tuple[te.Tensor, Callable[..., PrimExpr]]:
    """Weights, and how they are read by filter, place in the kernel and channel."""
    if conv.is_depthwise:
        each = te.placeholder((*conv.kernel, conv.filters), case.weight_dtype, "B")
        return each, lambda filter_, *place: each(*place, filter_)
    if not is_packed(case, conv.filters, conv.channels):
        shape = (conv.filters, *conv.kernel, conv.channels)
        plain = te.placeholder(shape, case.weight_dtype, "B")
        return plain, lambda filter_, *place: plain(filter_, *place)
    outer = (conv.filters // LANES, *conv.kernel, conv.channels // QUAD)
    packed = te.placeholder((*outer, LANES, QUAD), case.weight_dtype, "B")

    def element(filter_: PrimExpr, *place: PrimExpr) -> PrimExpr:
        *kernel, channel = place
        lane, quad = filter_ % LANES, channel % QUAD
        return packed(filter_ // LANES, *kernel, channel // QUAD, lane, quad)

    return packed, element


def _windows(case: OperatorCase, conv: Convolution) -> HeronOperator:
    data = _input(case, conv)
    weights, weight = _weights(case, conv)
    source = data
    if conv.is_padded:
        padded_shape = (conv.batch, *conv.padded_extents, conv.channels)
        source = te.compute(padded_shape, partial(_padded, conv, data), name="pad")
    offsets = [te.reduce_axis((0, size), f"k{d}") for d, size in _kernel(conv)]
    inputs = [] if conv.is_depthwise else [te.reduce_axis((0, conv.channels), "ci")]

    def result(n: PrimExpr, *at: PrimExpr) -> PrimExpr:
        *where, filter_ = at
        kernel = [axis.var for axis in offsets]
        channel: list[PrimExpr] = [axis.var for axis in inputs]
        read = source(n, *conv.window(where, kernel), *(channel or [filter_]))
        own = weight(filter_, *conv.kernel_place(kernel), *channel)
        product = read.astype(case.out_dtype) * own.astype(case.out_dtype)
        return te.sum(product, axis=[*offsets, *inputs])

    shape = (conv.batch, *conv.out_extents, conv.filters)
    out = te.compute(shape, result, name="conv")
    mod = IRModule({"main": te.create_prim_func([data, weights, out])})
    return HeronOperator(case.operator, mod, lambda: _window_template(case, conv), conv.flop)


def _kernel(conv: Convolution) -> list[tuple[str, int]]:
    return list(zip(conv.dimensions, conv.kernel, strict=True))


def _window_template(case: OperatorCase, conv: Convolution) -> Template:
    spatial = ("n", *conv.dimensions, "co")
    reduced = (*(f"k{d}" for d in conv.dimensions), *(() if conv.is_depthwise else ("ci",)))
    sizes = (conv.batch, *conv.out_extents, conv.filters, *conv.kernel, conv.channels)
    extents = dict(zip((*spatial, *reduced), sizes, strict=False))
    channel = reduced[-1] if "ci" in reduced else "co"
    along = (*spatial[:-1], channel)
    first = "pad" if conv.is_padded else "A"
    padded = dict(zip(along, (conv.batch, *conv.padded_extents, conv.channels), strict=True))
    stages = {
        "A": TensorStage("A", tuple(f"ax{place}" for place in range(len(along))), is_input=True),
        "B": operand_stage("B", tuple(dict.fromkeys(("co", *reduced))), extents),
        first: operand_stage(first, along, padded, ("A",) if conv.is_padded else None),
        "conv": TensorStage("conv", spatial, reduced, (first, "B"), extents),
    }
    stages[first].has_branch = conv.is_padded
    order = list(dict.fromkeys(["conv", "B", first, "A"]))
    template = Template(stages, order, case.in_dtype, case.out_dtype)
    for name in ("conv", *(["pad"] if conv.is_padded else [])):
        template.begin(name)
        template.steps.append(steps.FindBlock(name, name, stages[name].axes))
    return template


# --- products of matrices -----------------------------------------------------------------------


def _digits(number: PrimExpr, bases: Sequence[int]) -> list[PrimExpr]:
    """The places that one number stands for, the last one changing fastest."""
    found: list[PrimExpr] = []
    for base in reversed(bases[1:]):
        found.append(number % base)
        number = number // base
    return [number, *reversed(found)]


def _matrices(case: OperatorCase, conv: Convolution) -> HeronOperator:
    """A row for each result of a filter, a column for each element of a window."""
    data = _input(case, conv)
    places = (*conv.kernel, conv.channels)
    weights = te.placeholder((conv.filters, *places), case.in_dtype, "B")
    results = (conv.batch, *conv.out_extents)

    def left(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        (n, *at), (*kernel, channel) = _digits(row, results), _digits(column, places)
        return _padded(conv, data, n, *conv.window(at, kernel), channel)

    def right(filter_: PrimExpr, column: PrimExpr) -> PrimExpr:
        *kernel, channel = _digits(column, places)
        return weights(filter_, *conv.kernel_place(kernel), channel)

    sizes = (prod(results), prod(places), conv.filters)
    operands = (data, weights)
    return MatrixProduct(
        case, (), sizes, operands, left, right, run=conv.channels, flop=conv.flop
    ).operator()


def _depthwise_matrices(case: OperatorCase, conv: Convolution) -> HeronOperator:
    """A product a channel, of windows and one column."""
    data = _input(case, conv)
    weights = te.placeholder((*conv.kernel, conv.channels), case.in_dtype, "B")
    results = (conv.batch, *conv.out_extents)

    def left(channel: PrimExpr, row: PrimExpr, column: PrimExpr) -> PrimExpr:
        (n, *at), kernel = _digits(row, results), _digits(column, conv.kernel)
        return _padded(conv, data, n, *conv.window(at, kernel), channel)

    def right(channel: PrimExpr, _: PrimExpr, column: PrimExpr) -> PrimExpr:
        return weights(*_digits(column, conv.kernel), channel)

    def result(dense: te.Tensor) -> te.Tensor:
        shape = (prod(results), conv.channels)
        return te.compute(shape, lambda row, channel: dense[channel, row, 0], name="out")

    sizes = (prod(results), prod(conv.kernel), 1)
    batch, operands = (conv.channels,), (data, weights)
    return MatrixProduct(
        case, batch, sizes, operands, left, right, result=result, flop=conv.flop
    ).operator()

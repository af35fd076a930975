"""Convolutions on VTA: channels in blocks of 16, outermost, so that a window is rows of blocks.

Inputs are (N, CI/16, H, W, 16), weights (CO/16, CI/16, KH, KW, 16, 16), results as inputs.
"""

from __future__ import annotations

from tilewright import te
from tilewright.errors import TuneError
from tilewright.heron import steps
from tilewright.heron.operators.base import HeronOperator, OperatorCase, operand_stage
from tilewright.heron.operators.convolution import Convolution
from tilewright.heron.template import StageWindow, Template, TensorStage
from tilewright.ir import IRModule, PrimExpr

_MOST_PADDING = 15  # that a load adds on a side


def blocked_convolution(case: OperatorCase, conv: Convolution) -> HeronOperator:
    """The operator of a convolution."""
    _check(case, conv)
    block = case.weight_block
    blocks, filters = conv.channels // block, conv.filters // block
    data = te.placeholder((conv.batch, blocks, *conv.extents, block), case.in_dtype, "A")
    shape = (filters, blocks, *conv.kernel, block, block)
    weights = te.placeholder(shape, case.weight_dtype, "B")
    source = data
    if conv.is_padded:
        whole = (conv.batch, blocks, *conv.padded_extents, block)

        def element(*at: PrimExpr) -> PrimExpr:
            n, channels, *where, lane = at
            return conv.padded(lambda place: data(n, channels, *place, lane), where)

        source = te.compute(whole, element, name="pad")
    outer, inner = te.reduce_axis((0, blocks), "ci"), te.reduce_axis((0, block), "cr")
    names = [f"k{dimension}" for dimension in conv.dimensions]
    kernel = [te.reduce_axis((0, k), n) for n, k in zip(names, conv.kernel, strict=True)]

    def result(*at: PrimExpr) -> PrimExpr:
        n, filter_, *where, lane = at
        read = source(n, outer, *conv.window(where, [axis.var for axis in kernel]), inner)
        own = weights(filter_, outer, *kernel, lane, inner)
        product = read.astype(case.out_dtype) * own.astype(case.out_dtype)
        return te.sum(product, axis=[outer, *kernel, inner])

    out = te.compute((conv.batch, filters, *conv.out_extents, block), result, name="conv")
    mod = IRModule({"main": te.create_prim_func([data, weights, out])})
    return HeronOperator(case.operator, mod, lambda: _template(case, conv), conv.flop)


def _check(case: OperatorCase, conv: Convolution) -> None:
    """Raise where the accelerator has no instruction."""
    block, operator = case.weight_block, case.operator
    if conv.is_depthwise or conv.gap > 1 or len(conv.extents) > 2:
        raise TuneError(
            f"operator {operator!r}: vta loads rows of two dimensions and sums over channels; its "
            "convolutions are c1d, c2d and dil"
        )
    for name, size in (("CI", conv.channels), ("CO", conv.filters)):
        if size % block:
            raise TuneError(
                f"operator {operator!r}: {name} must be a multiple of {block} on vta, got {size}"
            )
    most = min(_MOST_PADDING, *(conv.dilation * (size - 1) for size in conv.kernel))
    if conv.padding > most:
        raise TuneError(
            f"operator {operator!r}: padding must be at most {most} on vta, got {conv.padding}"
        )


def _template(case: OperatorCase, conv: Convolution) -> Template:
    dims, block = conv.dimensions, case.weight_block
    kernel = tuple(f"k{dimension}" for dimension in dims)
    spatial, reduced = ("n", "co", *dims, "cl"), ("ci", *kernel, "cr")
    blocks = conv.channels // block
    results = (conv.batch, conv.filters // block, *conv.out_extents, block)
    sizes = (*results, blocks, *conv.kernel, block)
    extents = dict(zip((*spatial, *reduced), sizes, strict=True))
    first = "pad" if conv.is_padded else "A"
    padded = extents | dict(zip(dims, conv.padded_extents, strict=True))
    along = ("n", "ci", *dims, "cr")
    stages = {
        "B": operand_stage("B", ("co", "ci", *kernel, "cl", "cr"), extents),
        first: operand_stage(first, along, padded, ("A",) if conv.is_padded else None),
        "conv": TensorStage("conv", spatial, reduced, (first, "B"), extents, lanes=("cl", "cr")),
    }
    stages.setdefault("A", TensorStage("A", stages[first].spatial, is_input=True))
    for place, size in enumerate(conv.kernel, 2):
        reach = conv.dilation * (size - 1) + 1
        stages[first].windows[f"ax{place}"] = StageWindow(conv.step, reach)
    order = list(dict.fromkeys(["conv", "B", first, "A"]))
    template = Template(stages, order, case.in_dtype, case.out_dtype)
    for name in ("conv", "pad") if conv.is_padded else ("conv",):
        template.begin(name)
        template.steps.append(steps.FindBlock(name, name, stages[name].axes))
    return template

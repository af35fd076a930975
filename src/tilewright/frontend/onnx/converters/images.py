"""Operators that read images at places that are computed."""

from __future__ import annotations

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.convolutions import plus_bias
from tilewright.frontend.onnx.converters.windows import kernel_of, window_of
from tilewright.graph import GraphValue

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # as older versions called them


@converts("GridSample")
def _grid_sample(node: NodeContext) -> GraphValue:
    mode = node.attr("mode", "linear")
    mode = _MODES.get(mode, mode)
    padding, aligned = node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0))
    extents = node.shape(node[0])[2:]
    # A cubic reaches two elements far: its neighbours are kept inside, not the place itself.
    kept = "zeros" if mode == "cubic" else padding
    options = {"extents": extents, "align_corners": aligned, "padding_mode": kept}
    places = node.call("image.grid_places", node[1], **options)
    options = {"mode": mode, "align_corners": aligned, "padding_mode": padding}
    return node.call("image.grid_sample", node[0], places, **options)


@converts("DeformConv")
def _deform_conv(node: NodeContext) -> GraphValue:
    kernel = kernel_of(node, node[1])
    if len(kernel) != 2:
        raise GraphError(f"windows of {len(kernel)} axes are not supported")
    window = window_of(node, kernel)
    result = node.call(
        "image.deform_conv", node[0], node[1], node[2], node.optional(4),
        window=[list(window.strides), list(window.dilation), list(window.before)],
        groups=int(node.attr("group", 1)), offset_groups=int(node.attr("offset_group", 1)),
    )  # fmt: skip
    return plus_bias(node, result, node.optional(3))


@converts("RoiAlign")
def _roi_align(node: NodeContext) -> GraphValue:
    samples = int(node.attr("sampling_ratio", 0))
    if samples == 0:
        raise GraphError("sampling_ratio 0, where the size of each box decides, is not supported")
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    return node.call(
        "image.roi_align", node[0], node[1], node[2],
        size=[int(node.attr("output_height", 1)), int(node.attr("output_width", 1))],
        scale=float(node.attr("spatial_scale", 1.0)), samples=samples,
        half_pixel=node.attr("coordinate_transformation_mode", default) == "half_pixel",
        mode=node.attr("mode", "avg"),
    )  # fmt: skip


@converts("Col2Im")
def _col2im(node: NodeContext) -> GraphValue:
    image, block = node.integers(1) or [], node.integers(2) or []
    rank = len(block)
    return node.call(
        "nn.col2im", node[0], image=image, block=block,
        strides=list(node.attr("strides") or [1] * rank),
        dilation=list(node.attr("dilations") or [1] * rank),
        padding=list(node.attr("pads") or [0] * (2 * rank)),
    )  # fmt: skip

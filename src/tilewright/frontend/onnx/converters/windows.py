"""Windows of convolutions and pools: strides, dilation and padding, as ONNX says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext
from tilewright.graph import GraphValue


@dataclass(frozen=True)
class SlidingWindow:
    """A window on the spatial axes of an input."""

    extents: tuple[int, ...]  # of the input
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ceil_mode: bool

    @property
    def padding(self) -> list[int]:
        """All begins, then all ends."""
        return [*self.before, *self.after]

    @property
    def output(self) -> list[int]:
        """How many windows there are on each axis."""
        return [self._count(d) for d in range(len(self.kernel))]

    def _count(self, d: int) -> int:
        reach = (self.kernel[d] - 1) * self.dilation[d] + 1
        room = self.extents[d] + self.before[d] + self.after[d] - reach
        if not self.ceil_mode:
            return room // self.strides[d] + 1
        count = -(-room // self.strides[d]) + 1
        # The last window has to start inside the data or in front of it.
        starts_behind = (count - 1) * self.strides[d] >= self.extents[d] + self.before[d]
        return count - 1 if starts_behind else count

    def options(self) -> dict[str, Any]:
        """For operators that take the extents of the result."""
        return {
            "kernel": list(self.kernel), "strides": list(self.strides),
            "dilation": list(self.dilation), "padding": list(self.before), "output": self.output,
        }  # fmt: skip


def kernel_of(node: NodeContext, weight: GraphValue) -> list[int]:
    """The extents of the windows of a convolution, which its weights have as well."""
    own = [int(n) for n in node.shape(weight)[2:]]
    stated = [int(n) for n in node.attr("kernel_shape") or own]
    if stated != own:
        raise GraphError(f"kernel_shape is {stated}, and the weights have windows of {own}")
    return own


def window_of(node: NodeContext, kernel: Sequence[int]) -> SlidingWindow:
    """The window of a node on its first input."""
    rank = len(kernel)
    strides = _numbers(node, "strides", rank, 1)
    dilation = _numbers(node, "dilations", rank, 1)
    pads = _numbers(node, "pads", 2 * rank, 0)
    extents = tuple(node.shape(node[0])[2:])
    before, after = pads[:rank], pads[rank:]
    auto = node.attr("auto_pad", "NOTSET")
    if auto != "NOTSET":
        reaches = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
        before, after = auto_padding(auto, extents, reaches, strides)
    ceil_mode = bool(node.attr("ceil_mode", 0))
    return SlidingWindow(
        extents, tuple(map(int, kernel)), strides, dilation, before, after, ceil_mode
    )


def auto_padding(
    auto: str, extents: Sequence[int], reaches: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each axis for VALID, SAME_UPPER or SAME_LOWER."""
    totals = [
        max((-(-extent // stride) - 1) * stride + reach - extent, 0) if auto != "VALID" else 0
        for extent, reach, stride in zip(extents, reaches, strides, strict=True)
    ]
    small = tuple(total // 2 for total in totals)
    large = tuple(total - total // 2 for total in totals)
    return (large, small) if auto == "SAME_LOWER" else (small, large)


def _numbers(node: NodeContext, name: str, count: int, default: int) -> tuple[int, ...]:
    given = tuple(int(n) for n in node.attr(name) or [default] * count)
    if len(given) != count:
        raise ValueError(f"{name} has {len(given)} entries, expected {count}")
    return given

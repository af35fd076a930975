"""`conv1d`, `conv2d` and `conv3d`, which choose the implementation by the layout of the data."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.errors import TensorExpressionError
from tilewright.te import Tensor
from tilewright.topi.axes import Window
from tilewright.topi.nn import conv
from tilewright.topi.nn.conv_blocked import conv2d_NCHWc

_BY_LAYOUT: dict[int, dict[str, Callable[..., Tensor]]] = {
    1: {"NCW": conv.conv1d_ncw, "NWC": conv.conv1d_nwc},
    2: {"NCHW": conv.conv2d_nchw, "NHWC": conv.conv2d_nhwc},
    3: {"NCDHW": conv.conv3d_ncdhw, "NDHWC": conv.conv3d_ndhwc},
}


def _by_layout(n: int, layout: str) -> Callable[..., Tensor]:
    found = _BY_LAYOUT[n].get(layout)
    if found is None:
        known = ", ".join(map(repr, _BY_LAYOUT[n]))
        raise TensorExpressionError(
            f"conv{n}d: layout {layout!r} is not supported, expected one of {known}"
        )
    return found


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Window = 1,
    padding: conv.Padding = "VALID",
    dilation: Window = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution of NCW data (OIW kernel) or NWC data (WIO kernel)."""
    return _by_layout(1, data_layout)(data, kernel, strides, padding, dilation, groups, out_dtype)


def conv2d(
    data: Tensor,
    kernel: Tensor,
    strides: Window = 1,
    padding: conv.Padding = 0,
    dilation: Window = 1,
    data_layout: str = "NCHW",
    out_dtype: str | None = None,
    groups: int = 1,
) -> Tensor:
    """The convolution of NCHW data (OIHW kernel), NHWC (HWIO) or NCHW<n>c (OIHW<i>i<o>o)."""
    if re.fullmatch(r"NCHW\d*c", data_layout):
        if groups != 1:
            raise TensorExpressionError(f"conv2d: layout {data_layout!r} does not support groups")
        return conv2d_NCHWc(data, kernel, strides, padding, dilation, out_dtype)
    return _by_layout(2, data_layout)(data, kernel, strides, padding, dilation, groups, out_dtype)


def conv3d(
    data: Tensor,
    kernel: Tensor,
    strides: Window = 1,
    padding: conv.Padding = 0,
    dilation: Window = 1,
    groups: int = 1,
    data_layout: str = "NCDHW",
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution of NCDHW data (OIDHW kernel) or NDHWC data (DHWIO kernel)."""
    return _by_layout(3, data_layout)(data, kernel, strides, padding, dilation, groups, out_dtype)

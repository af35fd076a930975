"""Copies as transfers: rows of elements at one stride, with zeros around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.codegen.vta.nests import Array
from tilewright.errors import CodegenError

_MOST_PADDING = 15
_LARGEST = (1 << 16) - 1


@dataclass(frozen=True)
class TransferRows:
    """`y_size` rows of `x_size` elements, at a distance of `x_stride` in main memory."""

    sram: int
    dram: int
    y_size: int
    x_size: int
    x_stride: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)  # before and after rows, before and after x


def plain_rows(sram: Array, dram: Array, what: str) -> tuple[TransferRows, ...]:
    """Transfers of elements between places in a scratchpad and in main memory."""
    order = np.argsort(sram, axis=None, kind="stable")
    inside, outside = sram.ravel()[order], dram.ravel()[order]
    if (np.diff(inside) == 0).any():
        raise CodegenError(f"vta: {what} writes an element of the scratchpad twice")
    starts = np.flatnonzero((np.diff(inside) != 1) | (np.diff(outside) != 1)) + 1
    firsts = np.concatenate([[0], starts])
    lengths = np.diff(np.concatenate([firsts, [len(inside)]]))
    return tuple(_grouped(inside[firsts], outside[firsts], lengths))


def _grouped(sram: Array, dram: Array, lengths: Array) -> Iterator[TransferRows]:
    """Rows of one length that follow each other at one stride."""
    at, count = 0, len(lengths)
    while at < count:
        length, end = int(lengths[at]), at + 1
        stride = int(dram[end] - dram[at]) if end < count else length
        if 0 <= stride <= _LARGEST:
            while (
                end < count
                and lengths[end] == length
                and sram[end] == sram[end - 1] + length
                and dram[end] == dram[end - 1] + stride
                and end - at < _LARGEST
            ):
                end += 1
        stride = stride if end - at > 1 else length
        yield TransferRows(int(sram[at]), int(dram[at]), end - at, length, stride)
        at = end


def padded_rows(
    sram: Array, dram: Array, valid: npt.NDArray[Any], what: str
) -> tuple[TransferRows, ...]:
    """The same where elements that are not `valid` become zeros; the last two axes are y and x."""
    while sram.ndim < 2:
        sram, dram, valid = sram[None], dram[None], valid[None]
    *outer, height, width = sram.shape
    expected = np.arange(height)[:, None] * width + np.arange(width)
    found = []
    for at in np.ndindex(*outer):
        if not (sram[at] - sram[at][0, 0] == expected).all():
            raise CodegenError(f"vta: rows of {what} with padding do not lie together")
        found.append(_framed(int(sram[at][0, 0]), dram[at], valid[at], what))
    return tuple(found)


def _framed(sram: int, dram: Array, valid: npt.NDArray[Any], what: str) -> TransferRows:
    rows, columns = np.flatnonzero(valid.any(1)), np.flatnonzero(valid.any(0))
    if not rows.size:
        raise CodegenError(f"vta: {what} loads nothing but padding")
    top, bottom, left, right = rows[0], rows[-1], columns[0], columns[-1]
    inner = dram[top : bottom + 1, left : right + 1]
    stride = int(inner[1, 0] - inner[0, 0]) if len(inner) > 1 else inner.shape[1]
    expected = inner[0, 0] + np.arange(len(inner))[:, None] * stride + np.arange(inner.shape[1])
    if not valid[top : bottom + 1, left : right + 1].all() or not (inner == expected).all():
        raise CodegenError(f"vta: {what} is no rectangle of rows with zeros around it")
    after = valid.shape[0] - 1 - bottom, valid.shape[1] - 1 - right
    pads = (int(top), int(after[0]), int(left), int(after[1]))
    if max(pads) > _MOST_PADDING:
        raise CodegenError(
            f"vta: {what} needs {max(pads)} elements of padding on a side, a transfer adds at most "
            f"{_MOST_PADDING}"
        )
    return TransferRows(sram, int(inner[0, 0]), len(inner), inner.shape[1], stride, pads)

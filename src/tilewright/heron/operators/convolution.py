"""Convolutions of any number of dimensions: sizes, and which element of the input is where.

Channels come last. The zeros around the input, and between its elements where the convolution is
transposed, make a padded input; from then on all convolutions are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TuneError
from tilewright.heron.operators.base import OperatorCase
from tilewright.ir import PrimExpr

_DIMENSIONS = ("d", "h", "w")


@dataclass(frozen=True)
class Convolution:
    """Sizes; `extents` and `kernel` have one number a dimension."""

    batch: int
    extents: tuple[int, ...]
    channels: int
    filters: int
    kernel: tuple[int, ...]
    stride: int
    padding: int
    dilation: int
    is_transposed: bool = False
    is_depthwise: bool = False

    @classmethod
    def of(
        cls, case: OperatorCase, dims: int, is_transposed: bool = False, is_depthwise: bool = False
    ) -> Convolution:
        """What a case asks for: (N, H, W, CI, CO, KH, KW, stride, padding, dilation)."""
        letters = [letter.upper() for letter in _DIMENSIONS[-dims:]]
        channels = ["C"] if is_depthwise else ["CI", "CO"]
        kernel = [f"K{letter}" for letter in letters] if dims > 1 else ["K"]
        names = ["N", *letters, *channels, *kernel, "stride", "padding", "dilation"]
        given = dict(zip(names, case.sizes(names, ("padding",)), strict=True))
        made = cls(
            given["N"],
            tuple(given[name] for name in letters),
            given[channels[0]],
            given[channels[-1]],
            tuple(given[name] for name in kernel),
            given["stride"],
            given["padding"],
            given["dilation"],
            is_transposed,
            is_depthwise,
        )
        made.check(case)
        return made

    def check(self, case: OperatorCase) -> None:
        """Raise unless there is a result."""
        if min(self.margins) < 0:
            most = min(self.dilation * (size - 1) for size in self.kernel)
            raise TuneError(
                f"operator {case.operator!r}: padding must be at most {most} for this kernel, got "
                f"{self.padding}"
            )
        if min(self.out_extents) < 1:
            raise TuneError(
                f"operator {case.operator!r}: the kernel does not fit into the padded input of "
                f"{list(self.padded_extents)}, so nothing is computed"
            )

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Their names."""
        return _DIMENSIONS[-len(self.extents) :]

    @property
    def gap(self) -> int:
        """How far apart neighbours of the input are in the padded one."""
        return self.stride if self.is_transposed else 1

    @property
    def step(self) -> int:
        """How far apart windows of neighbouring results are."""
        return 1 if self.is_transposed else self.stride

    @property
    def margins(self) -> tuple[int, ...]:
        """Zeros before the first element, in each dimension."""
        if not self.is_transposed:
            return (self.padding,) * len(self.kernel)
        return tuple(self.dilation * (size - 1) - self.padding for size in self.kernel)

    @property
    def padded_extents(self) -> tuple[int, ...]:
        """Of the padded input."""
        pairs = zip(self.extents, self.margins, strict=True)
        return tuple((extent - 1) * self.gap + 1 + 2 * margin for extent, margin in pairs)

    @property
    def out_extents(self) -> tuple[int, ...]:
        """Of the result."""
        pairs = zip(self.padded_extents, self.kernel, strict=True)
        return tuple((e - self.dilation * (k - 1) - 1) // self.step + 1 for e, k in pairs)

    @property
    def is_padded(self) -> bool:
        """True when some of the padded input is not in the input."""
        return self.gap > 1 or max(self.margins) > 0

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        inputs = 1 if self.is_depthwise else self.channels
        results = self.batch * math.prod(self.out_extents) * self.filters
        return 2 * results * inputs * math.prod(self.kernel)

    def window(self, at: Sequence[PrimExpr], kernel: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The place in the padded input that a result meets with an element of the kernel."""
        pairs = zip(at, kernel, strict=True)
        return [place * self.step + offset * self.dilation for place, offset in pairs]

    def kernel_place(self, kernel: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The element of the weights: transposed convolutions see the kernel from the other end."""
        if not self.is_transposed:
            return list(kernel)
        return [size - 1 - offset for size, offset in zip(self.kernel, kernel, strict=True)]

    def padded(
        self, read: Callable[[Sequence[PrimExpr]], PrimExpr], at: Sequence[PrimExpr]
    ) -> PrimExpr:
        """An element of the padded input; `read`: one of the input, where that is not zero."""
        if not self.is_padded:
            return read(at)
        inside: list[PrimExpr] = []
        place: list[PrimExpr] = []
        for where, extent, margin in zip(at, self.extents, self.margins, strict=True):
            own = where - margin
            inside += [where >= margin, where < (extent - 1) * self.gap + 1 + margin]
            if self.gap > 1:
                inside.append((own % self.gap).equal(0))
            place.append(own // self.gap if self.gap > 1 else own)
        value = read(place)
        return te.if_then_else(te.all(*inside), value, te.const(0, value.dtype))

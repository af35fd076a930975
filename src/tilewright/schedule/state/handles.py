"""Handles: names for blocks and loops of a schedule that survive its transformations.

A handle says nothing by itself; the schedule knows what it stands for at the moment. Integer random
variables are ordinary variables (`ExprRV`), so that they can be used in arithmetic.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from tilewright.ir import INT32, Var


class _Handle:
    __slots__ = ()
    _kind: ClassVar[str]

    def same_as(self, other: object) -> bool:
        """True when `other` is this very handle."""
        return self is other

    def __repr__(self) -> str:
        return f"<{self._kind} {id(self):#x}>"


class BlockRV(_Handle):
    """A block."""

    __slots__ = ()
    _kind = "block"


class LoopRV(_Handle):
    """A loop, or one of the marks "compute at the root" and "inline" as a sampled location."""

    __slots__ = ()
    _kind = "loop"


class ExprRV(Var, frozen=True):
    """An integer that was sampled."""


def new_expr_rv() -> ExprRV:
    """A fresh integer random variable."""
    return ExprRV("v", INT32)


AnyRV: TypeAlias = BlockRV | LoopRV | ExprRV

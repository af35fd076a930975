"""Loops as features, costs and checks see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import For, ForKind, IntImm, IterVar, Var
from tilewright.ir.annotation_keys import AUTO_UNROLL_MAX_STEP
from tilewright.ir.node import common_prefix as common_prefix

UNKNOWN_EXTENT = 16  # of a loop that runs as often as its data say
_NO_ANNOTATIONS: Mapping[str, Any] = {}


def known_extent(loop: For | IterVar) -> int | None:
    """The extent of a loop or of a block's iterator, if it is a number."""
    domain = loop if isinstance(loop, For) else loop.dom
    return domain.extent.value if domain and isinstance(domain.extent, IntImm) else None


class Loop:
    """A loop around a store; loops are compared by identity."""

    __slots__ = ("annotations", "extent", "iterations", "kind", "tag", "unroll_step", "var")

    def __init__(
        self,
        var: Var,
        extent: int | None,
        kind: ForKind,
        annotations: Mapping[str, Any] = _NO_ANNOTATIONS,
        tag: str = "",
    ) -> None:
        self.var = var
        self.extent = UNKNOWN_EXTENT if extent is None else extent
        # As TVM's features count: one where the extent is not a number.
        self.iterations = 1 if extent is None else extent if extent > 0 else 0
        self.kind = kind
        self.annotations = annotations
        self.tag = tag  # of the thread axis that it is bound to
        self.unroll_step = max(0, self.annotation(AUTO_UNROLL_MAX_STEP)) if annotations else 0

    def annotation(self, key: str) -> int:
        """An annotation as a number, 0 if it is missing."""
        value = self.annotations.get(key, 0)
        return int(getattr(value, "value", value))

"""Values that the statements of script evaluate to.

`T.grid(4, 4)` or `T.reads(A[i])` is an ordinary call; it yields one of these records, and the
statement parser gives it its meaning where it stands. Nothing here touches any global state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tilewright.errors import IRError
from tilewright.ir import (
    INT32,
    Buffer,
    DType,
    ForKind,
    IterType,
    IterVar,
    PrimExpr,
    Range,
    Var,
    decl_buffer,
)


@dataclasses.dataclass(frozen=True)
class Form:
    """A construct that only means something as (part of) a statement."""

    form_name: ClassVar[str] = "T.?"


@dataclasses.dataclass(frozen=True)
class BufferDecl(Form):
    """How to make a buffer, once its name is known."""

    form_name: ClassVar[str] = "T.Buffer"
    shape: Any
    dtype: str = "float32"
    data: Var | None = None
    strides: Any = None
    elem_offset: Any = None
    scope: str | None = None
    align: int = -1
    offset_factor: int = 0
    buffer_type: str = ""
    axis_separators: Sequence[int] = ()

    def build(self, name: str, default_scope: str = "global") -> Buffer:
        """The buffer, called `name`; extents and strides given as strings become variables."""
        shape = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        if self.data is not None and not isinstance(self.data, Var):
            raise IRError(f"buffer {name!r}: data must be a pointer variable, got {self.data!r}")
        named: dict[str, Var] = {}
        return decl_buffer(
            [_extent(name, extent, named) for extent in shape],
            DType(self.dtype),
            name,
            self.data,
            [_extent(name, stride, named) for stride in self.strides or ()],
            self.elem_offset,
            self.scope or default_scope,
            self.align,
            self.offset_factor,
            self.buffer_type,
            self.axis_separators or (),
        )


def _extent(buffer_name: str, extent: Any, named: dict[str, Var]) -> Any:
    if isinstance(extent, str):
        return named.setdefault(extent, Var(extent, INT32))
    if isinstance(extent, (PrimExpr, int)) and not isinstance(extent, bool):
        return extent
    raise IRError(f"buffer {buffer_name!r}: {extent!r} is not an integer extent")


@dataclasses.dataclass(frozen=True)
class LoopForm(Form):
    """One loop, or with several ranges a nest of serial loops."""

    form_name: ClassVar[str] = "T.grid"
    ranges: tuple[Range, ...]
    kind: ForKind = ForKind.SERIAL
    thread: str | None = None
    annotations: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class BlockForm(Form):
    form_name: ClassVar[str] = "T.block"
    name: str
    no_realize: bool


@dataclasses.dataclass(frozen=True)
class InitForm(Form):
    form_name: ClassVar[str] = "T.init"


@dataclasses.dataclass(frozen=True)
class AxisForm(Form):
    """One block iterator; `dom` may still be a plain extent."""

    form_name: ClassVar[str] = "T.axis"
    kind: str
    iter_type: IterType
    dom: Any
    value: Any = None
    dtype: str | None = None


@dataclasses.dataclass(frozen=True)
class RemapForm(Form):
    form_name: ClassVar[str] = "T.axis.remap"
    kinds: str
    loop_vars: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class ReadsForm(Form):
    form_name: ClassVar[str] = "T.reads"
    regions: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class WritesForm(Form):
    form_name: ClassVar[str] = "T.writes"
    regions: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class WhereForm(Form):
    form_name: ClassVar[str] = "T.where"
    predicate: Any


@dataclasses.dataclass(frozen=True)
class BlockAttrForm(Form):
    form_name: ClassVar[str] = "T.block_attr"
    attrs: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class FuncAttrForm(Form):
    form_name: ClassVar[str] = "T.func_attr"
    attrs: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class AllocBufferForm(Form):
    form_name: ClassVar[str] = "T.alloc_buffer"
    decl: BufferDecl


@dataclasses.dataclass(frozen=True)
class DeclBufferForm(Form):
    form_name: ClassVar[str] = "T.decl_buffer"
    decl: BufferDecl


@dataclasses.dataclass(frozen=True)
class MatchBufferForm(Form):
    form_name: ClassVar[str] = "T.match_buffer"
    source: Any
    decl: BufferDecl


@dataclasses.dataclass(frozen=True)
class AllocateForm(Form):
    form_name: ClassVar[str] = "T.allocate"
    extents: Sequence[Any]
    dtype: str
    scope: str
    condition: Any
    annotations: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class AllocateConstForm(Form):
    form_name: ClassVar[str] = "T.allocate_const"
    data: Sequence[int | float]
    dtype: str
    extents: Sequence[Any]
    annotations: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class LetForm(Form):
    form_name: ClassVar[str] = "T.LetStmt"
    value: Any
    type_annotation: Any
    var: Var | None


@dataclasses.dataclass(frozen=True)
class AttrForm(Form):
    form_name: ClassVar[str] = "T.attr"
    node: Any
    key: str
    value: Any


@dataclasses.dataclass(frozen=True)
class LaunchThreadForm(Form):
    form_name: ClassVar[str] = "T.launch_thread"
    thread: str | IterVar | Var
    extent: Any


@dataclasses.dataclass(frozen=True)
class AssertForm(Form):
    form_name: ClassVar[str] = "T.Assert"
    condition: Any
    message: str


@dataclasses.dataclass(frozen=True)
class StoreForm(Form):
    form_name: ClassVar[str] = "vstore"
    buffer: Buffer
    indices: Sequence[Any]
    value: Any
    predicate: Any


@dataclasses.dataclass(frozen=True)
class EvaluateForm(Form):
    form_name: ClassVar[str] = "T.evaluate"
    value: Any


@dataclasses.dataclass(frozen=True)
class MetaVar(Form):
    """A Python-level value that an assignment must not turn into a variable of the program."""

    form_name: ClassVar[str] = "T.meta_var"
    value: Any

"""Values that the statements of script evaluate to.

`T.grid(4, 4)` or `T.reads(A[i])` is an ordinary call; it yields one of these records, and the
statement parser gives it its meaning where it stands. Nothing here touches any global state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import dataclass_transform

from tilewright import ir
from tilewright.errors import IRError
from tilewright.script.dtypes import as_dtype


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Form:
    """A construct that only means something as (part of) a statement; a frozen dataclass."""

    form_name: ClassVar[str]

    def __init_subclass__(cls, name: str) -> None:
        cls.form_name = name
        dataclasses.dataclass(frozen=True)(cls)
        cls.__init__.__qualname__ = name  # for Python's words about wrong arguments


class BufferDecl(Form, name="T.Buffer"):
    """How to make a buffer, once its name is known."""

    shape: Any
    dtype: Any = "float32"
    data: ir.Var | None = None
    strides: Any = None
    elem_offset: Any = None
    scope: str | None = None
    align: int = -1
    offset_factor: int = 0
    buffer_type: str = ""
    axis_separators: Sequence[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def build(self, name: str, default_scope: str = "global") -> ir.Buffer:
        """The buffer, called `name`; extents and strides given as strings become variables."""
        shape = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        if self.data is not None and not isinstance(self.data, ir.Var):
            raise IRError(f"buffer {name!r}: data must be a pointer variable, got {self.data!r}")
        named: dict[str, ir.Var] = {}
        return ir.decl_buffer(
            [_named_extent(name, extent, named) for extent in shape],
            ir.DType(self.dtype),
            name,
            self.data,
            [_named_extent(name, stride, named) for stride in self.strides or ()],
            self.elem_offset,
            self.scope or default_scope,
            self.align,
            self.offset_factor,
            self.buffer_type,
            self.axis_separators or (),
        )


def _named_extent(buffer_name: str, extent: Any, named: dict[str, ir.Var]) -> Any:
    if isinstance(extent, str):
        return named.setdefault(extent, ir.Var(extent, ir.INT32))
    if isinstance(extent, (ir.PrimExpr, int)) and not isinstance(extent, bool):
        return extent
    raise IRError(f"buffer {buffer_name!r}: {extent!r} is not an integer extent")


class LoopForm(Form, name="T.grid"):
    """One loop, or with several ranges a nest of serial loops."""

    ranges: tuple[ir.Range, ...]
    kind: ir.ForKind = ir.ForKind.SERIAL
    thread: str | None = None
    annotations: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class BlockForm(Form, name="T.block"):
    name: str = ""
    no_realize: bool = False


class InitForm(Form, name="T.init"):
    """The body of `T.init()`."""


class AxisForm(Form, name="T.axis"):
    """One block iterator; `dom` may still be a plain extent."""

    kind: str
    iter_type: ir.IterType
    dom: Any
    binding: Any = None
    dtype: str | None = None


class RemapForm(Form, name="T.axis.remap"):
    kinds: str
    loop_vars: Sequence[Any]


class ReadsForm(Form, name="T.reads"):
    regions: Sequence[Any]


class WritesForm(Form, name="T.writes"):
    regions: Sequence[Any]


class WhereForm(Form, name="T.where"):
    predicate: Any


class BlockAttrForm(Form, name="T.block_attr"):
    attrs: Mapping[str, Any]


class FuncAttrForm(Form, name="T.func_attr"):
    attrs: Mapping[str, Any]


class AllocBufferForm(Form, name="T.alloc_buffer"):
    decl: BufferDecl


class DeclBufferForm(Form, name="T.decl_buffer"):
    decl: BufferDecl


class MatchBufferForm(Form, name="T.match_buffer"):
    source: Any
    decl: BufferDecl


class AllocateForm(Form, name="T.allocate"):
    extents: Sequence[Any]
    dtype: str
    scope: str
    condition: Any
    annotations: Mapping[str, Any]


class AllocateConstForm(Form, name="T.allocate_const"):
    data: Sequence[int | float]
    dtype: str
    extents: Sequence[Any]
    annotations: Mapping[str, Any]


class LetForm(Form, name="T.LetStmt"):
    value: Any
    type_annotation: Any = None
    var: ir.Var | None = None


class AttrForm(Form, name="T.attr"):
    node: Any
    attr_key: str
    value: Any


class LaunchThreadForm(Form, name="T.launch_thread"):
    thread: str | ir.IterVar | ir.Var
    extent: Any


class AssertForm(Form, name="T.Assert"):
    condition: Any
    message: str


class StoreForm(Form, name="vstore"):
    buffer: ir.Buffer
    indices: Sequence[Any]
    value: Any
    predicate: Any


class EvaluateForm(Form, name="T.evaluate"):
    value: Any


class MetaVar(Form, name="T.meta_var"):
    """Keeps a value at the level of Python: no assignment makes a variable of the program of it."""

    value: Any

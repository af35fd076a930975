"""Types as script uses them: to annotate, to make constants and casts, and to make variables."""

from __future__ import annotations

import functools
from typing import Any

from tilewright import ir
from tilewright.errors import IRError


class DTypeForm:
    """`T.float32(1)` is a constant, `T.float32(x)` a cast, `T.float32()` a new variable."""

    def __init__(self, dtype: ir.DType) -> None:
        self.dtype = dtype

    def __call__(self, value: Any = None, *, is_size_var: bool = False) -> ir.PrimExpr:
        if value is None:
            return (ir.SizeVar if is_size_var else ir.Var)("", self.dtype)
        if isinstance(value, str):
            return ir.const(float(value), self.dtype)
        if isinstance(value, ir.PrimExpr):
            return ir.cast(self.dtype, value)
        return ir.const(value, self.dtype)

    def new_var(self, name: str) -> ir.Var:
        """A parameter or variable of this type."""
        return ir.Var(name, self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class HandleForm(DTypeForm):
    """`T.handle`, the type of a pointer; `T.handle("float32", "shared")` says to what."""

    def __init__(self, pointer: ir.PointerType | None = None) -> None:
        super().__init__(ir.HANDLE)
        self.pointer = pointer

    def __call__(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> Any:
        if is_size_var:
            raise IRError("a handle cannot be a size variable")
        if dtype is None:
            return ir.Var("", ir.HANDLE)
        element = dtype.dtype if isinstance(dtype, DTypeForm) else ir.DType(dtype)
        return HandleForm(ir.PointerType(element, storage_scope))

    def new_var(self, name: str) -> ir.Var:
        return ir.Var(name, ir.HANDLE, self.pointer)

    def __repr__(self) -> str:
        return "T.handle" if self.pointer is None else str(self.pointer)


handle = HandleForm()


@functools.cache
def dtype_form(name: str) -> DTypeForm:
    """The type called `name`."""
    dtype = ir.DType(name)
    if dtype is ir.HANDLE:
        return handle
    return DTypeForm(dtype)


def as_dtype(value: Any) -> str:
    """A dtype given as text or as `T.float32`."""
    return value.dtype if isinstance(value, DTypeForm) else ir.DType(value)

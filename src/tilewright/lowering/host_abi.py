"""The calling convention: buffers become data pointers, and the signature is written down.

Each buffer parameter becomes its data pointer, followed by the symbolic extents, strides and
offsets that first appear in it. `ArgumentSpec` tells a caller how to check an argument and where
each of these numbers comes from.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.json import register_json_type
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import ADDRESS_OF
from tilewright.support.python_operators import BINARY

_CP_ASYNC = ir.Op.get("tir.ptx_cp_async")
SIGNATURE_ATTR = "tilewright.signature"
CALLING_CONV = "calling_conv"
_DEVICE_KERNEL = 2
_Source = Literal["shape", "stride", "offset"]
Extent = int | str  # a number, the name of a symbolic one, or arithmetic on such names


@register_json_type
@dataclass(frozen=True)
class DerivedParameter:
    """A scalar parameter that the runtime reads off a buffer argument."""

    name: str
    dtype: str
    source: _Source
    axis: int = 0


@register_json_type
@dataclass(frozen=True)
class ArgumentSpec:
    """One argument as the user passes it.

    The compiled function takes the data pointer of a buffer and then its `derived` parameters.
    """

    name: str
    kind: Literal["buffer", "scalar"]
    dtype: str
    shape: tuple[Extent, ...] = ()
    strides: tuple[Extent, ...] = ()  # in elements; empty: compact row-major
    alignment: int = 0  # of the data pointer, in bytes
    access: Literal["r", "w", "rw", ""] = ""
    derived: tuple[DerivedParameter, ...] = field(default=())


def describe(spec: ArgumentSpec) -> str:
    """An argument as a reader would write it: `A: float32[128, n]`."""
    if spec.kind == "scalar":
        return f"{spec.name}: {spec.dtype}"
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]"


_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def evaluate_extent(extent: Extent, values: Mapping[str, int]) -> int:
    """The number behind an extent of a signature, with the symbolic ones given by name."""
    if isinstance(extent, int):
        return extent
    return _evaluate(ast.parse(extent, mode="eval").body, values)


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            return int(BINARY[type(op)](_evaluate(left, values), _evaluate(right, values)))
    raise LowerError(f"cannot evaluate the extent `{ast.unparse(node)}` from {sorted(values)}")


class Accesses(ir.Visitor):
    """How the data behind each pointer is used; a pointer that escapes may be read and written."""

    def __init__(self, *statements: ir.Stmt) -> None:
        self.read: set[ir.Var] = set()
        self.written: set[ir.Var] = set()
        self._views: dict[ir.Var, list[ir.Var]] = {}
        for statement in statements:
            self.visit(statement)

    def visit_match_buffer_region(self, node: ir.MatchBufferRegion) -> None:
        self._views.setdefault(node.source.buffer.data, []).append(node.buffer.data)
        self.generic_visit(node)

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self.read.add(node.buffer.data)
        self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self.written.add(node.buffer.data)
        self.generic_visit(node)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        if _called(node.value) in _MAPS:
            assert isinstance(node.value, ir.Call)
            _, _, data, *_ = node.value.args
            assert isinstance(data, ir.Var)
            self._views.setdefault(data, []).append(node.var)
            self.visit(node.body)
        else:
            self.generic_visit(node)

    def visit_call(self, node: ir.Call) -> None:
        name = _called(node)
        if name in _READING:
            for arg in node.args:
                self.read |= {arg} if isinstance(arg, ir.Var) and arg.dtype.is_handle else set()
                self.generic_visit(arg)
            return
        if name.startswith(_GATHERING):
            _, target, *sources = node.args
            self.visit(target)
            for source in sources:
                self.generic_visit(source)
            return
        load = node.args[0] if node.op is ADDRESS_OF else None
        if isinstance(load, ir.BufferLoad):
            self.written.add(load.buffer.data)
        if node.op is _CP_ASYNC and isinstance(node.args[2], ir.Var):
            self.read.add(node.args[2])  # what it copies from
            node = ir.replace(node, args=(*node.args[:2], *node.args[3:]))
        self.generic_visit(node)

    def visit_var(self, node: ir.Var) -> None:
        if node.dtype.is_handle:
            self.read.add(node)
            self.written.add(node)

    def of(self, data: ir.Var) -> Literal["r", "w", "rw", ""]:
        """Letters for reading and writing the data, also through views of it."""
        found = [self.of(view) for view in self._views.get(data, ())]
        read = data in self.read or any("r" in access for access in found)
        written = data in self.written or any("w" in access for access in found)
        if written:
            return "rw" if read else "w"
        return "r" if read else ""


def _called(node: ir.PrimExpr) -> str:
    """The function that a call of other code names; empty for everything else."""
    name = node.args[0] if isinstance(node, ir.Call) and node.args else None
    return name.value if isinstance(name, ir.StringImm) else ""


# Functions that take pointers or tensor maps, but never write through them.
_READING = frozenset(
    {"llvm.x86.tileloadd64", "llvm.x86.tileloaddt164", "tw_prefetch_map", "tw_load_windows"}
    | {f"tw_load_{rank}d" for rank in range(1, 6)}
)
_GATHERING = "tw_gather_"  # what they write to comes first
_MAPS = ("tw_tensor_map", "tw_window_map")


class _SignatureBuilder:
    def __init__(self, func: ir.PrimFunc) -> None:
        self._func = func
        self._accesses = Accesses(func.body)
        self._known = {param for param in func.params if param not in func.buffer_map}
        self._undefined: dict[ir.Var, str] = {}
        self.params: list[ir.Var] = []
        self.specs: list[ArgumentSpec] = []

    def build(self) -> None:
        for param in self._func.params:
            buffer = self._func.buffer_map.get(param)
            if buffer is None:
                self.params.append(param)
                self.specs.append(ArgumentSpec(param.name, "scalar", str(param.dtype)))
            else:
                self._add_buffer(buffer)
        for var, place in self._undefined.items():
            if var not in self._known:
                raise LowerError(
                    f"function {self._func.name!r}: the symbolic size {var.name!r} in {place} "
                    "cannot be inferred from the arguments; make it an extent of its own in some "
                    "buffer, or a scalar parameter"
                )

    def _add_buffer(self, buffer: ir.Buffer) -> None:
        self.params.append(buffer.data)
        numbers: list[tuple[_Source, tuple[ir.PrimExpr, ...]]]
        numbers = [("shape", buffer.shape), ("stride", buffer.strides)]
        if buffer.elem_offset is not None:
            self._check_offset(buffer, buffer.elem_offset)
            numbers.append(("offset", (buffer.elem_offset,)))
        derived: list[DerivedParameter] = []
        for source, exprs in numbers:
            for axis, expr in enumerate(exprs):
                if not isinstance(expr, ir.Var):
                    for var in () if isinstance(expr, ir.IntImm) else ir.free_vars(expr):
                        self._undefined.setdefault(var, f"the {source} `{expr}` of {buffer.name}")
                elif expr not in self._known:
                    self._known.add(expr)
                    self.params.append(expr)
                    derived.append(DerivedParameter(expr.name, str(expr.dtype), source, axis))
        layout = tuple(map(_abi_extent, buffer.shape)), tuple(map(_abi_extent, buffer.strides))
        use = buffer.data_alignment, self._accesses.of(buffer.data)
        spec = ArgumentSpec(buffer.name, "buffer", str(buffer.dtype), *layout, *use, tuple(derived))
        self.specs.append(spec)

    def _check_offset(self, buffer: ir.Buffer, offset: ir.PrimExpr) -> None:
        """An argument's pointer is its first element, so nothing can lie in front of it."""
        free = isinstance(offset, ir.Var) and offset not in self._known
        if not free and not (isinstance(offset, ir.IntImm) and offset.value == 0):
            raise LowerError(
                f"function {self._func.name!r}: the argument {buffer.name} has elem_offset "
                f"`{offset}`, but it starts where its array starts; take a larger buffer and index "
                "into it"
            )


def _abi_extent(expr: ir.PrimExpr) -> Extent:
    return expr.value if isinstance(expr, ir.IntImm) else str(expr)


@function_pass
def HostABI(func: ir.PrimFunc) -> ir.PrimFunc:
    """Make the parameters what compiled code takes, and attach the signature."""
    if SIGNATURE_ATTR in func.attrs:
        return func
    builder = _SignatureBuilder(func)
    builder.build()
    attrs = {**func.attrs, SIGNATURE_ATTR: tuple(builder.specs)}
    attrs.setdefault("global_symbol", func.name)
    return ir.replace(func, params=tuple(builder.params), buffer_map={}, attrs=attrs)


def is_kernel(func: ir.PrimFunc) -> bool:
    """Whether a function is launched on a device by others, so that nobody else calls it."""
    return bool(func.attrs.get(CALLING_CONV) == _DEVICE_KERNEL)


def signature_of(func: ir.PrimFunc) -> tuple[ArgumentSpec, ...]:
    """The signature of a lowered function."""
    signature: tuple[ArgumentSpec, ...] | None = func.attrs.get(SIGNATURE_ATTR)
    if signature is None:
        raise LowerError(f"function {func.name!r} has no signature; lower it first")
    return signature

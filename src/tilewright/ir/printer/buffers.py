"""The arguments with which script declares a buffer."""

from __future__ import annotations

from tilewright.ir import nodes as ir
from tilewright.ir.printer.exprs import ExprPrinter, quote

_DEFAULT_ALIGNMENT = 64


def is_simple(buffer: ir.Buffer) -> bool:
    """True for a buffer that `name: T.Buffer(shape, dtype)` describes completely."""
    pointer = buffer.data.type_annotation
    return (
        all(isinstance(extent, ir.IntImm) for extent in buffer.shape)
        and not buffer.strides
        and buffer.elem_offset is None
        and buffer.scope == "global"
        and buffer.data_alignment == _DEFAULT_ALIGNMENT
        and buffer.offset_factor == 0
        and not buffer.axis_separators
        and pointer is not None
        and pointer.element_type is buffer.dtype
    )


def buffer_args(
    printer: ExprPrinter, buffer: ir.Buffer, *, with_data: bool = False, always_dtype: bool = False
) -> str:
    """Shape, dtype and whatever differs from the defaults."""
    args = [printer.tuple_of(buffer.shape)]
    if always_dtype or buffer.dtype is not ir.FLOAT32:
        args.append(quote(buffer.dtype))
    if with_data and printer.scope.text_of(buffer.data) is not None:
        args.append(f"data={printer.text(buffer.data)}")
    return ", ".join(args + _layout_args(printer, buffer))


def _layout_args(printer: ExprPrinter, buffer: ir.Buffer) -> list[str]:
    args: list[str] = []
    if buffer.strides:
        strides = [_stride(printer, stride) for stride in buffer.strides]
        args.append(f"strides=({', '.join(strides)}{',' if len(strides) == 1 else ''})")
    offset = buffer.elem_offset
    if offset is not None and not (
        # the fresh variable that `offset_factor` alone brings along
        isinstance(offset, ir.Var)
        and printer.scope.text_of(offset) is None
        and buffer.offset_factor
        and offset.dtype is ir.INT32
    ):
        args.append(f"elem_offset={printer.text(offset)}")
    if buffer.scope != "global":
        args.append(f"scope={quote(buffer.scope)}")
    if buffer.data_alignment != _DEFAULT_ALIGNMENT:
        args.append(f"align={buffer.data_alignment}")
    if buffer.offset_factor:
        args.append(f"offset_factor={buffer.offset_factor}")
    if buffer.axis_separators:
        args.append(f"axis_separators={list(buffer.axis_separators)}")
    return args


def _stride(printer: ExprPrinter, stride: ir.PrimExpr) -> str:
    """A stride that is a new variable is written as its name in quotes."""
    if (
        isinstance(stride, ir.Var)
        and printer.scope.text_of(stride) is None
        and stride.dtype is ir.INT32
    ):
        return quote(stride.name)
    return printer.text(stride)

"""Builtin operators in CUDA C++ where C spells them differently, or lacks them: a table by name.

Other files of this folder add theirs with `spells`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.codegen.c.calls import POSTFIX, UNARY
from tilewright.codegen.cuda.hopper_functions import device_function
from tilewright.errors import CodegenError

if TYPE_CHECKING:
    from tilewright.codegen.c.expressions import Printed
    from tilewright.codegen.cuda.statements import KernelPrinter

Spell: TypeAlias = Callable[["KernelPrinter", ir.Call], "Printed"]
CALLS: dict[str, Spell] = {}  # by the name of the operator


def require(printer: KernelPrinter, arch: int, what: str) -> None:
    """Refuse an instruction that the GPUs of the target lack."""
    if printer.prelude.arch < arch:
        raise CodegenError(
            f"{what} needs sm_{arch}, but the target's 'arch' is sm_{printer.prelude.arch}"
        )


def spells(*names: str) -> Callable[[Spell], Spell]:
    """Registers the spelling of operators `tir.<name>`."""

    def register(spell: Spell) -> Spell:
        CALLS.update((f"tir.{name}", spell) for name in names)
        return spell

    return register


def text_of(node: ir.Call, position: int) -> str:
    """An argument that must be a string."""
    arg = node.args[position]
    if not isinstance(arg, ir.StringImm):
        raise CodegenError(f"argument {position} of `{node}` must be a string")
    return arg.value


def number_of(node: ir.Call, position: int) -> int:
    """An argument that must be a constant."""
    arg = node.args[position]
    if not isinstance(arg, ir.IntImm):
        raise CodegenError(f"argument {position} of `{node}` must be a constant")
    return arg.value


# --- addresses ----------------------------------------------------------------------------------


def _origin(pointer: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr, ir.DType | None]:
    """The start of the memory that a pointer leads into, and its elements before the pointer."""
    zero = ir.const(0, "int32")
    if isinstance(pointer, ir.Var):
        annotation = pointer.type_annotation
        return pointer, zero, None if annotation is None else annotation.element_type.element_of
    name = getattr(getattr(pointer, "op", None), "name", "")
    if name == "tir.tvm_access_ptr" and isinstance(pointer, ir.Call):
        return pointer.args[1], pointer.args[2], pointer.args[0].dtype.element_of
    if name == "tir.address_of" and isinstance(pointer, ir.Call):
        load = pointer.args[0]
        if isinstance(load, ir.BufferLoad):
            return load.buffer.data, load.indices[0], load.buffer.dtype.element_of
    raise CodegenError(f"`{pointer}` is not the address of an element of a buffer")


def scope_of(pointer: ir.PrimExpr) -> str:
    """The storage scope that a pointer leads into."""
    data = _origin(pointer)[0]
    annotation = data.type_annotation if isinstance(data, ir.Var) else None
    return "global" if annotation is None else annotation.storage_scope


def address(
    printer: KernelPrinter,
    pointer: ir.PrimExpr,
    offset: ir.PrimExpr | None = None,
    dtype: ir.DType | None = None,
) -> str:
    """The address `offset` elements of `dtype` behind a pointer."""
    data, begin, kind = _origin(pointer)
    if not isinstance(data, ir.Var):
        raise CodegenError(f"`{data}` is not a variable that points to memory")
    dtype = kind if dtype is None else dtype.element_of
    if offset is not None and dtype is not None and kind is not dtype and not ir.is_zero(begin):
        start = f"({printer.pointer_type(dtype)}){address(printer, pointer)}"
        return start if ir.is_zero(offset) else f"{start} + {printer.operand(offset, 12)}"
    if dtype is None:
        return printer.text(data)
    index = begin if offset is None else _sum(begin, offset)
    buffer = ir.decl_buffer((1,), dtype, data.name, data)
    return printer.pointer_to(buffer) if ir.is_zero(index) else f"&{printer.element(buffer, index)}"


def _sum(a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
    if a.dtype is not b.dtype:
        a, b = ir.cast(ir.INT64, a), ir.cast(ir.INT64, b)
    return ir.add(a, b)


@spells("address_of", "tvm_access_ptr")
def _address(printer: KernelPrinter, node: ir.Call) -> Printed:
    return address(printer, node), UNARY


@spells("isnullptr")
def _is_null(printer: KernelPrinter, node: ir.Call) -> Printed:
    return f"{printer.operand(node.args[0], 10)} == nullptr", 9


# --- numbers ------------------------------------------------------------------------------------


@spells("rsqrt", "exp10")
def _own_function(printer: KernelPrinter, node: ir.Call) -> Printed:
    suffix = "" if node.dtype.bits == 64 else "f"
    name = node.op.name.removeprefix("tir.")
    return printer.from_float(f"{name}{suffix}({printer.as_float(node.args[0])})", node.dtype)


@spells("undef")
def _undefined(printer: KernelPrinter, node: ir.Call) -> Printed:
    return printer.write(ir.const(0, node.dtype.element_of))


@spells("assume")
def _assume(printer: KernelPrinter, node: ir.Call) -> Printed:
    return f"__builtin_assume({printer.text(node.args[0])})", POSTFIX


@spells("large_uint_imm")
def _large_uint(printer: KernelPrinter, node: ir.Call) -> Printed:
    low, high = number_of(node, 0), number_of(node, 1)
    return printer.integer((high << 32) | (low & 0xFFFFFFFF), node.dtype), POSTFIX


@spells("reinterpret")
def _reinterpret(printer: KernelPrinter, node: ir.Call) -> Printed:
    value = node.args[0]
    if value.dtype.lanes == node.dtype.lanes:
        return f"{printer.prelude.bits(value.dtype, node.dtype)}({printer.text(value)})", POSTFIX
    if node.dtype.lanes == 1:
        return printer.packed(value, printer.type_name(node.dtype)), UNARY
    raise CodegenError(f"CUDA cannot reinterpret a vector with another number of lanes: `{node}`")


_WORDS = {"int8": ("int", "s32"), "uint8": ("unsigned", "u32")}


@spells("dp4a")
def _dot_of_bytes(printer: KernelPrinter, node: ir.Call) -> Printed:
    """The sum of the products of four pairs of bytes, plus the third argument."""
    a, b, total = node.args
    left, right = (_WORDS.get(side.dtype.element_of) for side in (a, b))
    if left is None or right is None or a.dtype.lanes != 4 or b.dtype.lanes != 4:
        raise CodegenError(f"dp4a multiplies vectors of four bytes: `{node}`")
    words = f"{printer.packed(a, left[0])}, {printer.packed(b, right[0])}, {printer.text(total)}"
    if left is right:
        return f"__dp4a({words})", POSTFIX
    name = printer.prelude.function(
        f"dp4a_{left[1]}_{right[1]}",
        f"int dp4a_{left[1]}_{right[1]}({left[0]} a, {right[0]} b, int total) {{\n"
        f'  asm("dp4a.{left[1]}.{right[1]} %0, %1, %2, %0;" : "+r"(total) : "r"(a), "r"(b));\n'
        "  return total;\n}",
    )
    return f"{name}({words})", POSTFIX


@spells("vectorcombine")
def _combined(printer: KernelPrinter, node: ir.Call) -> Printed:
    return printer.vector_combine(node)


# --- functions by name --------------------------------------------------------------------------


@spells("call_extern", "call_pure_extern")
def _extern(printer: KernelPrinter, node: ir.Call) -> Printed:
    """A function that CUDA has; a vector of bytes is passed as a word."""
    name, args = text_of(node, 0), node.args[1:]
    if name == "__dp4a":
        return _dot_of_bytes(printer, ir.replace(node, args=args))
    text = device_function(name)
    if text is not None:
        _check_arch(printer, name)
        printer.prelude.need(name, text)
    return f"{name}({', '.join(_argument(printer, arg) for arg in args)})", POSTFIX


# Device functions by the first architecture that has their instructions; `wgmma` came and went.
_SINCE = {
    re.compile(r"tw_copy_.*"): 80,
    re.compile(
        r"tw_(barrier|bulk|fence|load|registers|wgmma)_.*|tw_store_(\dd|matrices)|tw_prefetch_map|"
        r"tw_wait_for_previous_grid|tw_launch_next_grid"
    ): 90,
}
_LAST_WITH_WGMMA = 90


def _check_arch(printer: KernelPrinter, name: str) -> None:
    for pattern, arch in _SINCE.items():
        if pattern.fullmatch(name):
            require(printer, arch, f"{name}(), which the schedule uses,")
    if name.startswith("tw_wgmma_") and printer.prelude.arch > _LAST_WITH_WGMMA:
        raise CodegenError(
            f"{name}(), which the schedule uses, exists on sm_{_LAST_WITH_WGMMA}a only, but the "
            f"target's 'arch' is sm_{printer.prelude.arch}"
        )


_BY_SIZE = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}


def _argument(printer: KernelPrinter, arg: ir.PrimExpr) -> str:
    if arg.dtype.lanes == 1 or printer.in_lane:
        return printer.text(arg)
    word = _BY_SIZE.get(arg.dtype.nbytes)
    if word is None:
        raise CodegenError(f"a vector of {arg.dtype!s} does not fit into words: `{arg}`")
    return printer.packed(arg, word)


# --- threads ------------------------------------------------------------------------------------

_BARRIERS = {"shared": "__syncthreads()", "shared.dyn": "__syncthreads()", "warp": "__syncwarp()"}


@spells("tvm_storage_sync")
def _barrier(printer: KernelPrinter, node: ir.Call) -> Printed:
    scope = text_of(node, 0)
    if scope not in _BARRIERS:
        known = ", ".join(map(repr, _BARRIERS))
        raise CodegenError(f"threads wait for each other in scope {known}, not in {scope!r}")
    return _BARRIERS[scope], POSTFIX


_SHUFFLES = {
    "tir.tvm_warp_shuffle": "__shfl_sync",
    "tir.tvm_warp_shuffle_up": "__shfl_up_sync",
    "tir.tvm_warp_shuffle_down": "__shfl_down_sync",
    "tir.tvm_warp_shuffle_xor": "__shfl_xor_sync",
}


@spells(*(name.removeprefix("tir.") for name in _SHUFFLES))
def _shuffle(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(mask, value, lane or distance, width, warp size)"""
    mask, value, lane, width = node.args[:4]
    values = (printer.text(mask), printer.as_float(value), printer.text(lane), printer.text(width))
    return printer.from_float(f"{_SHUFFLES[node.op.name]}({', '.join(values)})", node.dtype)


@spells("tvm_warp_activemask")
def _active_mask(printer: KernelPrinter, node: ir.Call) -> Printed:
    return "__activemask()", POSTFIX


_ATOMIC_TYPES = {"int64": "unsigned long long", "uint64": "unsigned long long"}
_ATOMIC_SMALL = """\
{T} atomic_add_{N}({T}* address, {T} x) {{
  {T} old;
  asm volatile("atom.add.noftz.{ptx} %0, [%1], %2;"
               : "=h"(old.bits) : "l"(address), "h"(x.bits) : "memory");
  return old;
}}"""
_ATOMIC_PTX = {"float16": "f16", "bfloat16": "bf16"}
_ATOMIC_PLAIN = frozenset({"int32", "uint32", "int64", "uint64", "float32", "float64"})


@spells("atomic_add")
def _atomic_add(printer: KernelPrinter, node: ir.Call) -> Printed:
    """Add to memory; yields what was there before."""
    pointer, value = node.args
    kind = value.dtype
    where = address(printer, pointer, ir.const(0, "int32"), kind)
    if kind in _ATOMIC_PTX:
        name = printer.type_name(kind)
        text = _ATOMIC_SMALL.format(T=name, N=kind, ptx=_ATOMIC_PTX[kind])
        function = printer.prelude.function(f"atomic_add_{kind}", text)
        return f"{function}({where}, {printer.text(value)})", POSTFIX
    if kind not in _ATOMIC_PLAIN:
        raise CodegenError(f"atomic_add of {kind!s} is not supported in `{node}`")
    wide = _ATOMIC_TYPES.get(kind)
    target = where if wide is None else f"({wide}*){where}"
    return f"atomicAdd({target}, {printer.text(value)})", POSTFIX


@spells("prefetch")
def _prefetch(printer: KernelPrinter, node: ir.Call) -> Printed:
    name = printer.prelude.function(
        "prefetch",
        'void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" : : "l"(p)); }',
    )
    return f"{name}({printer.text(node.args[0])})", POSTFIX

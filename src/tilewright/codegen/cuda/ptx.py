"""Instructions of warps that C++ has no name for, as functions around inline PTX.

Pointers come with an offset that counts elements of the type that the call names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.codegen.c.calls import POSTFIX
from tilewright.codegen.cuda.calls import address, number_of, require, spells
from tilewright.errors import CodegenError

if TYPE_CHECKING:
    from tilewright.codegen.c.expressions import Printed
    from tilewright.codegen.cuda.statements import KernelPrinter


def numbered(first: int, count: int) -> str:
    """Operands of inline PTX in braces, e.g. `{%4, %5}`."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def bound(constraint: str, name: str, count: int) -> str:
    """The C++ side of those operands: elements of an array."""
    return ", ".join(f'"{constraint}"({name}[{i}])' for i in range(count))


def _is_true(node: ir.Call, position: int) -> bool:
    return bool(number_of(node, position))


# --- fragments of ldmatrix and mma --------------------------------------------------------------

_LDMATRIX = """\
void {name}(void* registers, const void* row) {{
  unsigned* r = (unsigned*)registers;
  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {outputs}, [%{count}];"
               : {bound} : "r"(shared_address(row)) : "memory");
}}"""
# ldmatrix transposes units of 16 bits only; thread t holds rows 4 (t % 4).. of column t / 4.
_TRANSPOSED_BYTES = """\
void {name}(void* registers, const void* matrix, int stride) {{
  const unsigned char* first = (const unsigned char*)matrix + lane_id() / 4;
  #pragma unroll
  for (int i = 0; i < 16; ++i) {{
    const int row = i % 8 / 4 * 16 + lane_id() % 4 * 4 + i % 4;
    ((unsigned char*)registers)[i] = first[row * stride + i / 8 * 8];
  }}
}}"""


@spells("ptx_ldmatrix")
def _ldmatrix(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(transposed, matrices, type, registers, offset, address, offset)"""
    transposed, count, kind = _is_true(node, 0), number_of(node, 1), node.dtype
    registers = address(printer, node.args[3], node.args[4], kind)
    if transposed and kind.bits == 8:
        source, stride = address(printer, node.args[5]), printer.text(node.args[6])
        printer.prelude.part("lane_id")
        name = "load_transposed_bytes"
        printer.prelude.function(name, _TRANSPOSED_BYTES.format(name=name))
        return f"{name}({registers}, {source}, {stride})", POSTFIX
    require(printer, 75, "ldmatrix")
    trans = ".trans" if transposed else ""
    name = f"ldmatrix_x{count}{'_trans' if transposed else ''}"
    printer.prelude.part("shared_address")
    text = _LDMATRIX.format(
        name=name,
        count=count,
        trans=trans,
        outputs=numbered(0, count),
        bound=bound("=r", "r", count),
    )
    row = address(printer, node.args[5], node.args[6], kind)
    return f"{printer.prelude.function(name, text)}({registers}, {row})", POSTFIX


@spells("mma_fill")
def _mma_fill(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(elements, registers, offset)"""
    target = address(printer, node.args[1], node.args[2], node.dtype)
    printer.prelude.need("fill_zero", _FILL)
    return f"fill_zero<{number_of(node, 0)}>({target})", POSTFIX


_FILL = """\
template <int N, typename T> __device__ __forceinline__ void fill_zero(T* elements) {
  #pragma unroll
  for (int i = 0; i < N; ++i) elements[i] = T(0.0f);
}
"""
# Thread t of a warp holds, of every 8x8 part of the 16x16 results, two of row t / 4.
_STORE = """\
template <typename T>
__device__ __forceinline__ void mma_store_16x16(T* matrix, const T* registers, int stride) {
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = i % 4 / 2 * 8 + lane_id() / 4, column = i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
    matrix[row * stride + column] = registers[i];
  }
}
"""


@spells("mma_store")
def _mma_store(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(rows, columns, address, registers, offset, stride)"""
    if (number_of(node, 0), number_of(node, 1)) != (16, 16):
        raise CodegenError(f"mma_store writes 16x16 results: `{node}`")
    printer.prelude.part("lane_id")
    printer.prelude.need("mma_store", _STORE)
    kind = node.dtype
    target = address(printer, node.args[2], ir.const(0, "int32"), kind)
    source = address(printer, node.args[3], node.args[4], kind)
    return f"mma_store_16x16({target}, {source}, {printer.text(node.args[5])})", POSTFIX


# --- asynchronous copies ------------------------------------------------------------------------

_CP_ASYNC = """\
void {name}(void* shared, const void* global{parameter}) {{
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}{operand};"
               : : "r"(shared_address(shared)), "l"(global){argument} : "memory");
}}"""


@spells("ptx_cp_async")
def _cp_async(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(shared, offset, global, offset, bytes[, whether to read; otherwise zeros are written])"""
    require(printer, 80, "cp.async")
    size, guarded = number_of(node, 4), len(node.args) > 5
    if size not in (4, 8, 16):
        raise CodegenError(f"cp.async copies 4, 8 or 16 bytes, not {size}: `{node}`")
    name = f"cp_async_{size}{'_if' if guarded else ''}"
    printer.prelude.part("shared_address")
    text = _CP_ASYNC.format(
        name=name,
        size=size,
        cache="cg" if size == 16 else "ca",
        parameter=", bool present" if guarded else "",
        operand=", %2" if guarded else "",
        argument=f', "r"(present ? {size} : 0)' if guarded else "",
    )
    target = address(printer, node.args[0], node.args[1], node.dtype)
    source = address(printer, node.args[2], node.args[3], node.dtype)
    condition = f", {printer.text(node.args[5])}" if guarded else ""
    return f"{printer.prelude.function(name, text)}({target}, {source}{condition})", POSTFIX


@spells("ptx_commit_group")
def _commit_group(printer: KernelPrinter, node: ir.Call) -> Printed:
    require(printer, 80, "cp.async")
    text = 'void cp_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }'
    return f"{printer.prelude.function('cp_async_commit', text)}()", POSTFIX


_WAIT = """\
template <int Pending> __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(Pending) : "memory");
}
"""


@spells("ptx_wait_group")
def _wait_group(printer: KernelPrinter, node: ir.Call) -> Printed:
    require(printer, 80, "cp.async")
    printer.prelude.need("cp_async_wait", _WAIT)
    return f"cp_async_wait<{number_of(node, 0)}>()", POSTFIX

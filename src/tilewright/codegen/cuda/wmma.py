"""Matrix fragments: `wmma` instructions on tiles that a warp holds in registers it chooses itself.

A fragment is an array of registers a thread. How many, and in which order of rows and columns the
tile was loaded, follows from the calls that load, fill or store it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tilewright import ir
from tilewright.codegen.c.calls import POSTFIX
from tilewright.codegen.cuda.calls import address, number_of, require, scope_of, spells, text_of
from tilewright.codegen.cuda.ptx import bound, numbered
from tilewright.codegen.cuda.register_indices import SHAPED
from tilewright.codegen.program_facts import constant_bytes
from tilewright.errors import CodegenError

if TYPE_CHECKING:
    from tilewright.codegen.c.expressions import Printed
    from tilewright.codegen.cuda.statements import KernelPrinter

_ROLES: Final = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "c"}
# The type of operands in PTX, and the first GPUs that multiply them.
_OPERANDS: Final = {
    "float16": ("f16", 70), "int8": ("s8", 72), "uint8": ("u8", 72),
    "bfloat16": ("bf16", 80), "float32": ("tf32", 80), "float64": ("f64", 80),
}  # fmt: skip
_ACCUMULATORS: Final = {"float32": "f32", "float16": "f16", "int32": "s32", "float64": "f64"}
_WORDS: Final = {"f32": ("float", "f"), "s32": ("int", "r"), "f64": ("double", "d")}


@dataclass(frozen=True)
class _Fragment:
    """A tile of a product of `shape` as registers of a thread."""

    role: str
    shape: tuple[int, int, int]
    dtype: ir.DType
    layout: str

    @property
    def size(self) -> int:
        """Elements of a tile."""
        m, n, k = self.shape
        return {"a": m * k, "b": k * n, "c": m * n}[self.role]

    @property
    def shape_name(self) -> str:
        return "m{}n{}k{}".format(*self.shape)

    @property
    def ptx(self) -> str:
        found = (
            _ACCUMULATORS.get(self.dtype)
            if self.role == "c"
            else _OPERANDS.get(self.dtype, (None,))[0]
        )
        if found is None:
            what = "an accumulator" if self.role == "c" else "an operand"
            raise CodegenError(f"wmma has no {what[3:]} of {self.dtype!s}")
        return found

    @property
    def registers(self) -> int:
        if self.ptx == "f16" and self.role != "c":
            return 8  # every element is held twice
        return self.size * min(self.dtype.bits, 32) // 32 // 32

    @property
    def word(self) -> tuple[str, str]:
        """The type of a register, and its letter in inline PTX."""
        return _WORDS.get(self.ptx, ("unsigned", "r"))


@dataclass
class Fragments:
    """The fragments of one kernel, by the variable of their memory."""

    body: ir.Stmt
    _found: dict[ir.Var, _Fragment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for call in ir.nodes_of(self.body, ir.Call):
            if getattr(call.op, "name", "") in SHAPED:
                self._learn(call)

    def _learn(self, call: ir.Call) -> None:
        var = call.args[0]
        assert isinstance(var, ir.Var)
        annotation = var.type_annotation
        role = None if annotation is None else _ROLES.get(annotation.storage_scope)
        if annotation is None or role is None:
            raise CodegenError(f"{var.name!r} is not a wmma fragment: `{call}`")
        loads = call.op.name == "tir.tvm_load_matrix_sync"
        layout = text_of(call, 7).removesuffix("_major") if loads and role != "c" else ""
        shape = (number_of(call, 1), number_of(call, 2), number_of(call, 3))
        new = _Fragment(role, shape, annotation.element_type.element_of, layout)
        known = self._found.setdefault(var, new)
        if known.shape != new.shape or (layout and known.layout and known.layout != layout):
            raise CodegenError(f"fragment {var.name!r} is used as tiles of two kinds: `{call}`")
        if layout and not known.layout:
            self._found[var] = new

    def of(self, var: ir.PrimExpr) -> _Fragment:
        """The fragment that a variable points to."""
        found = self._found.get(var) if isinstance(var, ir.Var) else None
        if found is None:
            raise CodegenError(f"nothing loads or fills the wmma fragment `{var}`")
        return found

    def declaration(self, printer: KernelPrinter, node: ir.Allocate) -> str:
        """One array of registers for each tile."""
        fragment, size = self.of(node.buffer_var), constant_bytes(node)
        if size is None:
            raise CodegenError(f"fragment {node.buffer_var.name!r} has no constant size")
        tiles = max(size // node.dtype.itemsize // fragment.size, 1)
        name = printer.define(node.buffer_var)
        return f"{fragment.word[0]} {name}[{tiles}][{fragment.registers}];"


def _tile(printer: KernelPrinter, node: ir.Call, var: int, index: int) -> str:
    return f"{printer.text(node.args[var])}[{printer.text(node.args[index])}]"


_MOVE = """\
void {name}({type} (&tile)[{count}], {const}void* memory, int stride) {{
  asm volatile("wmma.{what}.sync.aligned.{layout}.{shape}{space}.{kind} {operands};"
               : {outputs}
               : {inputs} : "memory");
}}"""


def _move(printer: KernelPrinter, node: ir.Call, what: str) -> Printed:
    """A load or store of one tile."""
    fragment, pointer = printer.fragments.of(node.args[0]), node.args[5]
    count, (kind, letter) = fragment.registers, fragment.word
    space = "shared" if scope_of(pointer).startswith("shared") else "global"
    layout = text_of(node, 7).removesuffix("_major")
    loads = what.startswith("load")
    name = f"wmma_{what.replace('.', '_')}_{fragment.shape_name}_{fragment.ptx}_{layout}_{space}"
    registers, memory = numbered(0, count), f"[%{count}]"
    first, second = (registers, memory) if loads else (memory, registers)
    where = '"r"(shared_address(memory))' if space == "shared" else '"l"(memory)'
    inputs = [where, '"r"(stride)']
    if not loads:
        inputs.insert(0, bound(letter, "tile", count))
    if space == "shared":
        printer.prelude.part("shared_address")
    text = _MOVE.format(
        name=name, type=kind, count=count, const="const " if loads else "", what=what,
        layout=layout, shape=fragment.shape_name, space=f".{space}", kind=fragment.ptx,
        operands=f"{first}, {second}, %{count + 1}",
        outputs=bound(f"={letter}", "tile", count) if loads else "",
        inputs=", ".join(inputs),
    )  # fmt: skip
    function = printer.prelude.function(name, text)
    where = address(printer, pointer)
    return (
        f"{function}({_tile(printer, node, 0, 4)}, {where}, {printer.text(node.args[6])})",
        POSTFIX,
    )


@spells("tvm_load_matrix_sync")
def _load(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(fragment, m, n, k, which tile, address, stride, layout)"""
    return _move(printer, node, f"load.{printer.fragments.of(node.args[0]).role}")


@spells("tvm_store_matrix_sync")
def _store(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(fragment, m, n, k, which tile, address, stride, layout)"""
    return _move(printer, node, "store.d")


_FILL = """\
template <typename T, int N>
__device__ __forceinline__ void fill_fragment(T (&tile)[N], T value) {
  #pragma unroll
  for (int i = 0; i < N; ++i) tile[i] = value;
}
"""


@spells("tvm_fill_fragment")
def _fill(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(fragment, m, n, k, which tile, value)"""
    fragment, value = printer.fragments.of(node.args[0]), node.args[5]
    printer.prelude.need("fill_fragment", _FILL)
    if fragment.dtype == "float16":
        printer.prelude.half2()
        text = f"half2({printer.text(ir.cast(fragment.dtype, value))}).bits"
    else:
        text = printer.text(ir.cast(fragment.dtype, value))
    return f"fill_fragment({_tile(printer, node, 0, 4)}, {text})", POSTFIX


_PRODUCT = """\
void {name}(
    {sum} (&d)[{count}], {word} (&a)[{a_count}], {word} (&b)[{b_count}], {sum} (&c)[{count}]) {{
  asm volatile("{instruction} "
               "{results}, {a}, {b}, {sums};"
               : {outputs}
               : {inputs});
}}"""


@spells("tvm_mma_sync")
def _multiply(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(result, tile, a, tile, b, tile, sum, tile)"""
    d, a, b, c = (printer.fragments.of(node.args[at]) for at in (0, 2, 4, 6))
    ptx, arch = _OPERANDS[a.dtype]
    require(printer, arch, f"wmma of {a.dtype!s}")
    if not (a.layout and b.layout):
        raise CodegenError(f"nothing loads an operand of `{node}`")
    rounding = ".rn" if ptx == "f64" else ""
    kinds = f"{d.ptx}.{c.ptx}" if ptx == "f16" else f"{d.ptx}.{ptx}.{b.ptx}.{c.ptx}"
    shape = f"{a.layout}.{b.layout}.{d.shape_name}{rounding}"
    name = f"wmma_mma_{a.layout}_{b.layout}_{d.shape_name}_{ptx}_{d.ptx}"
    counts = [d.registers, a.registers, b.registers, c.registers]
    starts = [sum(counts[:at]) for at in range(4)]
    (word, letter), (in_word, in_letter) = d.word, a.word
    text = _PRODUCT.format(
        name=name, sum=word, word=in_word,
        count=d.registers, a_count=a.registers, b_count=b.registers,
        instruction=f"wmma.mma.sync.aligned.{shape}.{kinds}",
        results=numbered(0, counts[0]), a=numbered(starts[1], counts[1]),
        b=numbered(starts[2], counts[2]), sums=numbered(starts[3], counts[3]),
        outputs=bound(f"={letter}", "d", counts[0]),
        inputs=", ".join([bound(in_letter, "a", counts[1]), bound(in_letter, "b", counts[2]),
                          bound(letter, "c", counts[3])]),
    )  # fmt: skip
    tiles = ", ".join(_tile(printer, node, at, at + 1) for at in (0, 2, 4, 6))
    return f"{printer.prelude.function(name, text)}({tiles})", POSTFIX

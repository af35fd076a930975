"""Products of matrices in the registers of a warp: `mma.sync` and `mma.sp.sync`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.codegen.c.calls import POSTFIX
from tilewright.codegen.cuda.calls import address, number_of, require, spells, text_of
from tilewright.codegen.cuda.ptx import bound, numbered
from tilewright.errors import CodegenError

if TYPE_CHECKING:
    from tilewright.codegen.c.expressions import Printed
    from tilewright.codegen.cuda.statements import KernelPrinter


@dataclass(frozen=True)
class Element:
    """A type of operands: its name in PTX, its bits, and the type of memory that holds it."""

    ptx: str
    bits: int
    dtype: str


_ELEMENTS = {
    "fp16": Element("f16", 16, "float16"),
    "bf16": Element("bf16", 16, "bfloat16"),
    "tf32": Element("tf32", 32, "float32"),
    "fp32": Element("f32", 32, "float32"),
    "fp64": Element("f64", 64, "float64"),
    "int8": Element("s8", 8, "int8"),
    "uint8": Element("u8", 8, "uint8"),
    "int4": Element("s4", 4, "int8"),
    "uint4": Element("u4", 4, "uint8"),
    "int32": Element("s32", 32, "int32"),
    "e4m3": Element("e4m3", 8, "float8_e4m3fn"),
    "e5m2": Element("e5m2", 8, "float8_e5m2"),
}
# For each type of operands, the shapes with the first GPUs that have them, and the results.
_FLOAT8 = ({"m16n8k32": 89}, ("f32", "f16"))
_BYTES = ({"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80}, ("s32",))
_NIBBLES = ({"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80}, ("s32",))
_DENSE: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "f16": ({"m8n8k4": 70, "m16n8k8": 75, "m16n8k16": 80}, ("f32", "f16")),
    "bf16": ({"m16n8k8": 80, "m16n8k16": 80}, ("f32",)),
    "tf32": ({"m16n8k4": 80, "m16n8k8": 80}, ("f32",)),
    "f64": ({"m8n8k4": 80, "m16n8k4": 90, "m16n8k8": 90, "m16n8k16": 90}, ("f64",)),
    "s8": _BYTES, "u8": _BYTES, "s4": _NIBBLES, "u4": _NIBBLES, "e4m3": _FLOAT8, "e5m2": _FLOAT8,
}  # fmt: skip
_SPARSE: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "f16": ({"m16n8k16": 80, "m16n8k32": 80}, ("f32", "f16")),
    "bf16": ({"m16n8k16": 80, "m16n8k32": 80}, ("f32",)),
    "tf32": ({"m16n8k8": 80, "m16n8k16": 80}, ("f32",)),
    "s8": ({"m16n8k32": 80, "m16n8k64": 80}, ("s32",)),
    "u8": ({"m16n8k32": 80, "m16n8k64": 80}, ("s32",)),
}
_ACCUMULATORS = {"f32": ("float", "f"), "f64": ("double", "d"), "s32": ("int", "r")}
_WORDS = ("unsigned", "r")


@dataclass(frozen=True)
class _Product:
    """One instruction."""

    shape: str
    layouts: tuple[str, str]
    a: Element
    b: Element
    c: Element
    sparse: bool
    saturate: bool

    @property
    def name(self) -> str:
        kinds = self.a.ptx if self.a is self.b else f"{self.a.ptx}_{self.b.ptx}"
        layouts = "" if self.layouts == ("row", "col") else f"_{'_'.join(self.layouts)}"
        ends = f"{layouts}{'_satfinite' if self.saturate else ''}"
        return f"mma{'_sp' if self.sparse else ''}_{self.shape}_{kinds}_{self.c.ptx}{ends}"

    def registers(self) -> tuple[int, int, int]:
        """Of a thread for each operand, in words, or in numbers of 64 bits."""
        m, n, k = (int(size) for size in re.findall(r"\d+", self.shape))
        word = 64 if self.a.bits == 64 else 32
        if self.shape == "m8n8k4" and self.a.ptx == "f16":
            return 2, 2, 8 if self.c.ptx == "f32" else 4  # four products, of 8 threads each
        counts = (m * k * self.a.bits, k * n * self.b.bits, m * n * self.c.bits)
        a, b, c = (bits // 32 // word for bits in counts)
        return (a // 2 if self.sparse else a), b, c

    @property
    def instruction(self) -> str:
        ordered = "mma.sp" if self.sparse else "mma"
        layouts = ".".join(self.layouts)
        saturate = ".satfinite" if self.saturate else ""
        kinds = f"{self.c.ptx}.{self.a.ptx}.{self.b.ptx}.{self.c.ptx}"
        return f"{ordered}.sync.aligned.{self.shape}.{layouts}{saturate}.{kinds}"


_FUNCTION = """\
void {name}(void* result, const void* left, const void* right{parameters}) {{
  {sum}* c = ({sum}*)result;
  const {word}* a = (const {word}*)left;
  const {word}* b = (const {word}*)right;
  asm volatile("{instruction} "
               "{c}, {a}, {b}, {c}{operands};"
               : {results}
               : {inputs});
}}"""


def _function(product: _Product, selector: int) -> str:
    """The instruction as a function; its name is `product.name`."""
    a, b, c = product.registers()
    total, letter = _ACCUMULATORS.get(product.c.ptx, _WORDS)
    word, word_letter = ("double", "d") if product.a.bits == 64 else _WORDS
    inputs = [bound(word_letter, "a", a), bound(word_letter, "b", b)]
    if product.sparse:
        inputs.append('"r"(nonzeros)')
    return _FUNCTION.format(
        name=_name(product, selector),
        parameters=", unsigned nonzeros" if product.sparse else "",
        sum=total,
        word=word,
        instruction=product.instruction,
        c=numbered(0, c),
        a=numbered(c, a),
        b=numbered(c + a, b),
        operands=f", %{c + a + b}, 0x{selector:x}" if product.sparse else "",
        results=bound(f"+{letter}", "c", c),
        inputs=", ".join(inputs),
    )


def _name(product: _Product, selector: int) -> str:
    return product.name + (f"_{selector}" if selector else "")


def _product(printer: KernelPrinter, node: ir.Call, sparse: bool) -> _Product:
    """The instruction that a call names, if there is one."""
    names = [text_of(node, position) for position in (3, 4, 5)]
    unknown = [name for name in names if name not in _ELEMENTS]
    if unknown:
        raise CodegenError(f"mma has no operands of type {unknown[0]!r}: `{node}`")
    a, b, c = (_ELEMENTS[name] for name in names)
    layouts = (text_of(node, 1), text_of(node, 2))
    saturate = bool(number_of(node, 15 if sparse else 12))
    product = _Product(text_of(node, 0), layouts, a, b, c, sparse, saturate)
    shapes, results = (_SPARSE if sparse else _DENSE).get(a.ptx, ({}, ()))
    if product.shape not in shapes or c.ptx not in results:
        raise CodegenError(
            f"there is no mma of shape {product.shape} from {names[0]} to {names[2]}: `{node}`"
        )
    require(printer, shapes[product.shape], f"mma of shape {product.shape} and {names[0]}")
    return product


@spells("ptx_mma")
def _mma(printer: KernelPrinter, node: ir.Call) -> Printed:
    """(shape, layouts of a and b, types of a, b, c, three times registers and offset, saturate)"""
    product = _product(printer, node, sparse=False)
    function = printer.prelude.function(product.name, _function(product, 0))
    return f"{function}({', '.join(_operands(printer, node, product))})", POSTFIX


@spells("ptx_mma_sp")
def _sparse_mma(printer: KernelPrinter, node: ir.Call) -> Printed:
    """As ptx_mma, with (places of what is not zero, offset, which threads have them) at last."""
    product, selector = _product(printer, node, sparse=True), number_of(node, 14)
    name = _name(product, selector)
    function = printer.prelude.function(name, _function(product, selector))
    places = address(printer, node.args[12], node.args[13], ir.DType("uint32"))
    operands = ", ".join([*_operands(printer, node, product), f"*{places}"])
    return f"{function}({operands})", POSTFIX


def _operands(printer: KernelPrinter, node: ir.Call, product: _Product) -> list[str]:
    """The addresses of the registers: result, left, right."""
    kinds = (product.c, product.a, product.b)
    return [
        address(printer, node.args[at], node.args[at + 1], ir.DType(kind.dtype))
        for at, kind in zip((10, 6, 8), kinds, strict=True)
    ]

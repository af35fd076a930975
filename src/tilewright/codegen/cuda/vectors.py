"""Vectors: whole ones are loaded and stored at once, and computed with lane by lane.

An access moves as many bytes at once as its address is known to be aligned to, 16 at most. Memory
that a kernel gets or declares is aligned to 16 bytes: what counts is where a vector starts in it.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from tilewright import ir
from tilewright.codegen.c.expressions import Printed
from tilewright.codegen.c.statements import StatementPrinter
from tilewright.codegen.cuda.expressions import CudaExpressionPrinter
from tilewright.codegen.cuda.types import width_type
from tilewright.codegen.program_facts import first_of_run
from tilewright.errors import CodegenError
from tilewright.lowering.rewriters import IF_THEN_ELSE

_LARGEST = 16  # bytes that one access moves
_PAIRED = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*"}
# Operators that choose lanes by number: a loop over the lanes cannot spell them.
_LANE_CHOICES = ("tir.vectorlow", "tir.vectorhigh", "tir.vectorcombine")


class VectorPrinter(CudaExpressionPrinter, StatementPrinter):
    """Prints statements about vectors."""

    _guarded = 0  # conditional expressions around the one that is printed

    # --- accesses ---

    def alignment(self, access: ir.BufferLoad | ir.BufferStore, lanes: int) -> int:
        """The bytes to which a vector of neighbours is aligned; 0 if it is no such vector."""
        begin = first_of_run(access.indices[0])
        if begin is None or access.predicate is not None or access.buffer.dtype.lanes > 1:
            return 0
        known = self.analyzer.modular_set(begin)
        elements = math.gcd(known.coeff, known.base, lanes)
        size = access.buffer.dtype.itemsize
        return min((elements & -elements) * size, _LARGEST)

    def vector_type(self, dtype: ir.DType, aligned: int) -> str:
        """The type of a vector in memory that is aligned to `aligned` bytes."""
        self.prelude.part("vec")
        explicit = "" if aligned == dtype.nbytes else f", {aligned}"
        return f"vec<{self.type_name(dtype)}, {dtype.lanes}{explicit}>"

    def whole(self, access: ir.BufferLoad | ir.BufferStore, kind: str) -> str:
        """The elements of an access as one value of a type."""
        begin = first_of_run(access.indices[0])
        assert begin is not None
        return f"*({kind}*)&{self.element(access.buffer, begin)}"

    def _fits(self, load: ir.BufferLoad, kind: str) -> bool:
        """True if a load is a vector of exactly that type."""
        aligned = self.alignment(load, load.dtype.lanes)
        return aligned > 0 and self.vector_type(load.dtype, aligned) == kind

    # --- stores ---

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        value = node.value
        if value.dtype.lanes == 1:
            super().visit_buffer_store(node)
        elif _is_choice(value):
            condition, yes, no = value.args
            with self._braces(f"if ({self.text(condition)})"):
                self.visit_buffer_store(ir.replace(node, value=yes))
            with self._otherwise():
                self.visit_buffer_store(ir.replace(node, value=no))
        else:
            self._store(node, value.dtype)

    def _store(self, node: ir.BufferStore, dtype: ir.DType) -> None:
        aligned = self.alignment(node, dtype.lanes)
        if aligned == 0:
            name = self.vector_variable(node.value, "values")
            self._lane_loop(dtype.lanes, self._lane_store(node, f"{name}[lane]"))
        elif isinstance(node.value, ir.BufferLoad) and self.alignment(node.value, dtype.lanes):
            self._copy(node, node.value, aligned)
        else:
            kind = self.vector_type(dtype, aligned)
            value = self._value_of(node.value, kind)
            self.line(f"{self.whole(node, kind)} = {value};")

    def _copy(self, node: ir.BufferStore, source: ir.BufferLoad, aligned: int) -> None:
        dtype = source.dtype
        aligned = min(aligned, self.alignment(source, dtype.lanes))
        kind = width_type(aligned, dtype) if aligned == dtype.nbytes else None
        kind = kind or self.vector_type(dtype, aligned)
        self.line(f"{self.whole(node, kind)} = {self.whole(source, kind)};")

    # --- values ---

    def _value_of(self, expr: ir.PrimExpr, kind: str) -> str:
        """An expression as one value of a vector type; what it takes is printed before."""
        if isinstance(expr, ir.Broadcast) and expr.value.dtype.lanes == 1:
            return f"{kind}::all({self.text(expr.value)})"
        if isinstance(expr, ir.BufferLoad) and self._fits(expr, kind):
            return self.whole(expr, f"const {kind}")
        return self.vector_variable(expr, "values", kind)

    def vector_variable(self, expr: ir.PrimExpr, name: str, kind: str = "") -> str:
        """The name of a new variable that holds a vector."""
        dtype = expr.dtype
        kind = kind or self.vector_type(dtype, natural_alignment(dtype))
        name = self.fresh_name(name)
        if _is_choice(expr):
            self.line(f"{kind} {name};")
            self._chosen(expr, name, kind)
            return name
        computed = self._loads_first(expr)
        if isinstance(computed, ir.Broadcast) and computed.value.dtype.lanes == 1:
            self.line(f"{kind} {name} = {kind}::all({self.text(computed.value)});")
        else:
            self.line(f"{kind} {name};")
            self._fill(name, computed)
        return name

    def _loads_first(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        """Variables for loads of whole vectors, except those under a condition or a let."""

        def chosen(node: ir.Call) -> ir.PrimExpr | None:
            if node.op is not IF_THEN_ELSE:
                return None
            if not _is_choice(node) or node.dtype.lanes == 1:
                return node
            var = ir.Var("chosen", node.dtype)
            self.names[var] = self.vector_variable(node, "chosen")
            return var

        # The right operand of a conjunction is evaluated where the left one says so, and the
        # variable of a let is known inside only.
        kept = (ir.And, ir.Or, ir.Let)
        before = {ir.Call: chosen, kept: lambda node: node}
        return ir.rewrite(expr, {ir.BufferLoad: self._hoisted}, before=before)

    def _chosen(self, choice: ir.Call, name: str, kind: str) -> None:
        with self._braces(f"if ({self.text(choice.args[0])})"):
            self.line(f"{name} = {self._value_of(choice.args[1], kind)};")
        with self._otherwise():
            self.line(f"{name} = {self._value_of(choice.args[2], kind)};")

    def _fill(self, name: str, value: ir.PrimExpr) -> None:
        """Compute all lanes of a variable; loads of whole vectors are variables by now."""
        lanes = value.dtype.lanes
        if _is_pairwise(value) and lanes % 2 == 0:
            self.prelude.part("pair")
            self._unrolled(lanes // 2, f"pair({name}, i) = {self._pair(value)};", "i")
        elif any(_chooses_lanes(node) for node in ir.walk(value)):
            for lane in range(lanes):
                self.line(f"{name}[{lane}] = {self.at_lane(value, str(lane))};")
        else:
            self._lane_loop(lanes, f"{name}[lane] = {self.at_lane(value, 'lane')};")

    def _lane_loop(self, lanes: int, statement: str) -> None:
        self._unrolled(lanes, statement, "lane")

    def _unrolled(self, count: int, statement: str, var: str) -> None:
        self.line("#pragma unroll")
        self.line(f"for (int {var} = 0; {var} < {count}; ++{var}) {statement}")

    def _pair(self, expr: ir.PrimExpr, nested: bool = False) -> str:
        """Two lanes of a vector of halves."""
        match expr:
            case ir.Var():
                return f"pair({self.names[expr]}, i)"
            case ir.Broadcast():
                return f"half2({self.text(expr.value)})"
            case ir.Add() | ir.Sub() | ir.Mul():
                left, right = self._pair(expr.a, True), self._pair(expr.b, True)
                text = f"{left} {_PAIRED[type(expr)]} {right}"
                return f"({text})" if nested else text
        raise AssertionError(expr)

    def packed(self, expr: ir.PrimExpr, kind: str) -> str:
        """A vector as one word of a built-in type, e.g. four bytes as an `int`."""
        size = expr.dtype.nbytes
        if isinstance(expr, ir.BufferLoad) and self.alignment(expr, expr.dtype.lanes) == size:
            return self.whole(expr, kind)
        if isinstance(expr, ir.Var):
            return f"*({kind}*)&{self.names[expr]}"
        if self._guarded:
            raise CodegenError(
                f"`{expr}` is computed under a condition; "
                "put it into a variable before the condition"
            )
        return f"*({kind}*)&{self.vector_variable(expr, 'word')}"

    def choice(self, condition: ir.PrimExpr, yes: ir.PrimExpr, no: ir.PrimExpr) -> Printed:
        self._guarded += 1
        printed = super().choice(condition, yes, no)
        self._guarded -= 1
        return printed

    def _hoisted(self, load: ir.BufferLoad) -> ir.PrimExpr:
        """A load of a whole vector, as a variable that is printed before the statement."""
        lanes = load.dtype.lanes
        aligned = self.alignment(load, lanes) if lanes > 1 else 0
        if aligned <= load.buffer.dtype.itemsize:
            return load
        var = ir.Var(f"{self.names[load.buffer.data]}_lanes", load.dtype)
        kind, value = self.vector_type(load.dtype, aligned), self.define(var)
        self.line(f"const {kind} {value} = {self.whole(load, f'const {kind}')};")
        return var


def natural_alignment(dtype: ir.DType) -> int:
    """The alignment of a vector in registers: its size, if that is a power of two up to 16."""
    size = dtype.nbytes
    return min(size & -size, _LARGEST)


def _is_choice(expr: ir.PrimExpr) -> TypeGuard[ir.Call]:
    """True for `if_then_else` whose condition is one for all lanes."""
    return isinstance(expr, ir.Call) and expr.op is IF_THEN_ELSE and expr.args[0].dtype.lanes == 1


def _chooses_lanes(node: object) -> bool:
    if isinstance(node, ir.Call):
        return getattr(node.op, "name", "") in _LANE_CHOICES
    return isinstance(node, ir.Shuffle)


def _is_pairwise(expr: ir.PrimExpr) -> bool:
    """True for sums and products of vectors of halves, which GPUs compute two at a time."""
    if expr.dtype.element_of != "float16":
        return False
    if isinstance(expr, ir.Add | ir.Sub | ir.Mul):
        return _is_pairwise(expr.a) and _is_pairwise(expr.b)
    return isinstance(expr, ir.Var) or (
        isinstance(expr, ir.Broadcast) and expr.value.dtype.lanes == 1
    )

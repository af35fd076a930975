"""Code generation: walks through a lowered program as it would run, and writes down instructions.

All loops outside of nests run here, so every instruction knows its addresses. What a nest does is
read once (`nests.py`), and only moved when it is visited again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tilewright import ir
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.codegen.vta import leaves, nests, operations, scratchpads, transfers
from tilewright.codegen.vta.nests import Elements, FlatAccess, Nest
from tilewright.codegen.vta.program import PlacedTensor, VtaProgram
from tilewright.codegen.vta.tokens import Stream
from tilewright.errors import CodegenError
from tilewright.vta.configuration import UOP_BYTES, Configuration
from tilewright.vta.isa import Alu, AluOp, Gemm, LoadRows, MemoryKind, StoreRows
from tilewright.vta.names import ALU_OPERATIONS, GEMM, SCOPES, alu_name

BYTE = 8  # bits
_ALU_CALLS = {alu_name(op): op for op in ALU_OPERATIONS}
_Made = TypeVar("_Made")


def generate_program(name: str, func: ir.PrimFunc, configuration: Configuration) -> VtaProgram:
    """Instructions for a lowered function."""
    return _Generator(func, configuration).program(name)


class _Generator:
    def __init__(self, func: ir.PrimFunc, configuration: Configuration) -> None:
        self._func, self._configuration = func, configuration
        self._places = dict(scratchpads.places_of(func.body, configuration))
        self._tensors = dict(scratchpads.placed_tensors(func))
        self._stream = Stream(configuration)
        self._uops = operations.UopBuffer(configuration.depth(MemoryKind.UOP))
        self._values: nests.Values = {}
        self._read: dict[object, Any] = {}  # what is known of a nest, by what it is
        self._consumed = np.zeros(configuration.depth(MemoryKind.ACC), np.bool_)

    def program(self, name: str) -> VtaProgram:
        """The whole program, under a name."""
        self._visit(self._func.body)
        instructions, tensors = self._stream.finish(), tuple(self._tensors.values())
        places = tensors, self._uop_address
        return VtaProgram(name, self._configuration, *places, tuple(self._uops.words), instructions)

    @cached_property
    def _uop_address(self) -> int:
        ends = (tensor.address + tensor.size for tensor in self._tensors.values())
        return scratchpads.aligned(max(ends, default=0))

    # --- walking -------------------------------------------------------------------------------

    def _visit(self, stmt: ir.Stmt) -> None:
        nest = self._once(("nest", id(stmt)), lambda: nests.nest_of(stmt))
        if nest is not None:
            self._visit_nest(nest)
            return
        match stmt:
            case ir.SeqStmt():
                for each in stmt.seq:
                    self._visit(each)
            case ir.For():
                self._visit_loop(stmt.loop_var, self._number(stmt.min), stmt.extent, stmt.body)
            case ir.AttrStmt(attr_key="virtual_thread", node=thread):
                self._visit_loop(thread.var, 0, stmt.value, stmt.body)
            case ir.Allocate():
                if place := self._places.get(stmt.buffer_var):
                    place.turn += 1
                self._visit(stmt.body)
            case ir.AttrStmt() | ir.DeclBuffer():
                self._visit(stmt.body)
            case ir.IfThenElse():
                chosen = stmt.then_case if self._number(stmt.condition) else stmt.else_case
                if chosen is not None:
                    self._visit(chosen)
            case ir.Evaluate(value=ir.IntImm()):
                pass
            case _:
                raise CodegenError(f"vta: there are no instructions for this statement: {stmt}")

    def _number(self, expr: ir.PrimExpr) -> int:
        """The value of an expression at this visit."""
        return int(evaluate_on_arrays(expr, self._values))

    def _visit_loop(self, var: ir.Var, first: int, extent: ir.PrimExpr, body: ir.Stmt) -> None:
        for value in range(first, first + self._number(extent)):
            self._values[var] = np.asarray(value)
            self._visit(body)

    def _visit_nest(self, nest: Nest) -> None:
        leaf = nest.leaf
        if isinstance(leaf, ir.Call):
            self._call(nest, leaf)
        elif leaf.buffer.data in self._tensors:
            self._store(nest, leaf)
        elif self._place(leaf).memory is not MemoryKind.ACC:
            self._load(nest, leaf, self._place(leaf).memory, leaf.value)
        elif isinstance(leaf.value, ir.IntImm):
            self._reset(nest, leaf)
        else:
            self._set_accumulator(nest, leaf)

    def _once(self, key: object, make: Callable[[], _Made]) -> _Made:
        if key not in self._read:
            self._read[key] = make()
        found: _Made = self._read[key]
        return found

    def _place(self, of: ir.BufferLoad | ir.BufferStore) -> scratchpads.ScratchpadPlace:
        found = self._places.get(of.buffer.data)
        if found is None:
            raise CodegenError(
                f"vta: {of.buffer.name} is in the scope {of.buffer.scope!r}; instructions take "
                f"operands from {', '.join(map(repr, SCOPES))}"
            )
        return found

    # --- accesses ------------------------------------------------------------------------------

    def _elements(
        self, nest: Nest, used: Sequence[ir.BufferLoad | ir.BufferStore], lanes: Sequence[int] = ()
    ) -> tuple[Elements, list[int]]:
        """The elements that accesses go through, and where they start at this visit.

        `lanes` are given where a nest addresses whole elements already.
        """

        def read() -> tuple[Elements, list[FlatAccess]]:
            found = [nests.access(nest, each) for each in used]
            if lanes:
                return nests.by_elements(nest, found, lanes), found
            what = f"the nest that writes {used[0].buffer.name}"
            return nests.whole_elements(nest, found, self._lanes(used[0]), what), found

        elements, accesses = self._once(("elements", id(nest)), read)
        sizes = lanes or [self._lanes(used[0])] * len(used)
        starts = []
        for each, access, size in zip(used, accesses, sizes, strict=True):
            start = access.start(self._values) + self._offset(each, size)
            if start % size:
                raise CodegenError(
                    f"vta: {each.buffer.name} is used from its number {start} on, which is not the "
                    f"first of an element of {size}"
                )
            starts.append(start // size)
        return elements, starts

    def _lanes(self, of: ir.BufferLoad | ir.BufferStore) -> int:
        place = self._places.get(of.buffer.data)
        return self._configuration.lanes[MemoryKind.OUT if place is None else place.memory]

    def _offset(self, of: ir.BufferLoad | ir.BufferStore, size: int) -> int:
        """Where a buffer starts, in numbers."""
        tensor = self._tensors.get(of.buffer.data)
        if tensor is not None:
            return tensor.address * tensor.planes // of.buffer.dtype.itemsize
        return self._place(of).start * size

    # --- transfers -----------------------------------------------------------------------------

    def _load(
        self, nest: Nest, store: ir.BufferStore, memory: MemoryKind, value: ir.PrimExpr
    ) -> None:
        condition, source = leaves.guarded_load(value)
        if source is None or source.buffer.data not in self._tensors:
            raise CodegenError(
                f"vta: {store.buffer.name} can only be filled with a copy of memory, not with "
                f"{store.value}"
            )
        elements, (sram, dram) = self._elements(nest, (store, source))
        what = f"the copy to {store.buffer.name}"
        if condition is None:
            rows = self._plain(elements, what)
        else:
            rows = self._padded(elements, condition, what)
        for each in rows:
            pads = dict(zip(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"), each.pads, strict=True))
            load = LoadRows(memory=memory, **_placed(each, sram, dram), **pads)
            places = np.arange(load.sram_base, load.sram_base + load.elements)
            filled = MemoryKind.ACC if memory in (MemoryKind.ACC, MemoryKind.ACC8) else memory
            self._stream.add(load, fills={filled: places}, tensor=self._tensors[source.buffer.data])
            if filled is MemoryKind.ACC:
                self._consumed[places] = False

    def _plain(self, elements: Elements, what: str) -> tuple[transfers.TransferRows, ...]:
        offsets = elements.offsets
        return self._once(
            ("rows", id(elements)), lambda: transfers.plain_rows(offsets(0), offsets(1), what)
        )

    def _padded(
        self, elements: Elements, condition: ir.PrimExpr, what: str
    ) -> tuple[transfers.TransferRows, ...]:
        values = dict(self._values)
        for axis, (var, extent) in enumerate(elements.loops):
            if var is None:
                raise CodegenError(f"vta: {what} has padding inside of elements")
            shape = [-1 if n == axis else 1 for n in range(len(elements.loops))]
            values[var] = np.arange(extent).reshape(shape)
        lane_free = ir.free_vars(condition) - values.keys()
        if lane_free:
            raise CodegenError(f"vta: {what} has padding inside of elements")
        valid = np.broadcast_to(evaluate_on_arrays(condition, values), elements.extents)
        if valid.all():
            return self._plain(elements, what)
        return transfers.padded_rows(elements.offsets(0), elements.offsets(1), valid, what)

    def _store(self, nest: Nest, store: ir.BufferStore) -> None:
        tensor = self._tensors[store.buffer.data]
        loads = ir.nodes_of(store.value, ir.BufferLoad)
        if not any(load.buffer.data in self._places for load in loads):
            raise CodegenError(
                f"vta: {store.buffer.name} is not computed in a scratchpad; tune the program, or "
                "schedule it as docs/vta.md says"
            )
        row, steps = leaves.steps_of(leaves.stored_value(store, tensor))
        others = leaves.other_rows(store, row, steps)
        elements, (sram, dram, *rest) = self._elements(nest, (row, store, *others))
        places = elements.offsets(0).ravel() + sram
        if self._consumed[places].any():
            raise CodegenError(
                f"vta: {row.buffer.name} is stored after its rows were changed in place for "
                "another store"
            )
        self._steps(elements, [sram, *rest], steps)
        plane = tensor.size // tensor.planes // self._lanes(store)
        for number in range(tensor.planes):
            if number:
                next_byte = Alu(alu_op=AluOp.SHR, use_imm=1, imm=BYTE)
                self._alu(elements, [sram], (0,), next_byte)
            self._store_rows(elements, sram, dram + number * plane, tensor)
        self._consumed[places] |= bool(steps) or tensor.planes > 1

    def _store_rows(self, elements: Elements, sram: int, dram: int, tensor: PlacedTensor) -> None:
        for each in self._plain(elements, f"the nest that stores {tensor.name}"):
            made = StoreRows(**_placed(each, sram, dram))
            inside = np.arange(made.sram_base, made.sram_base + made.elements)
            self._stream.add(made, drains={MemoryKind.ACC: inside}, tensor=tensor)

    # --- operations ----------------------------------------------------------------------------

    def _call(self, nest: Nest, call: ir.Call) -> None:
        name, *pointers = call.args
        assert isinstance(name, ir.StringImm)
        loads = [leaves.pointed_element(pointer) for pointer in pointers]
        lanes = [self._lanes(load) for load in loads]
        for load in loads:
            self._place(load)
        if name.value == GEMM:
            order = (2, 0, 1)  # results, operand, weights
            used, sizes = [loads[n] for n in order], [lanes[n] for n in order]
            elements, starts = self._elements(nest, used, sizes)
            self._gemm(elements, starts, used[0].buffer.name)
        elif name.value in _ALU_CALLS:
            left, right, result = loads
            if result.buffer.data is right.buffer.data:
                raise CodegenError(
                    f"vta: {name.value} changes its first operand in place, not {right.buffer.name}"
                )
            elements, starts = self._elements(nest, (result, left, right), lanes)
            self._copy(elements, starts[:2], result.buffer.data is left.buffer.data)
            self._alu(elements, (starts[0], starts[2]), (0, 2), Alu(alu_op=_ALU_CALLS[name.value]))
        else:
            raise CodegenError(f"vta: there is no instruction {name.value!r}")

    def _gemm(self, elements: Elements, starts: Sequence[int], name: str) -> None:
        made = self._once(
            ("gemm", id(elements)),
            lambda: operations.operations_of(elements, self._uops.depth, accumulates=True),
        )
        dst, src, wgt = (self._touched(elements, n) + starts[n] for n in range(len(starts)))
        if self._consumed[dst].any():
            raise CodegenError(
                f"vta: {name} is added to after its rows were changed in place for a store"
            )
        gemm = Gemm(**self._looped(made, starts), **_factors(made, 2, "wgt"))
        self._stream.add(
            gemm, fills={MemoryKind.ACC: dst}, drains={MemoryKind.INP: src, MemoryKind.WGT: wgt}
        )

    def _touched(self, elements: Elements, which: int) -> nests.Array:
        """Where an access goes, each place once."""
        return self._once(
            ("touched", id(elements), which), lambda: np.unique(elements.offsets(which))
        )

    def _reset(self, nest: Nest, store: ir.BufferStore) -> None:
        if not isinstance(store.value, ir.IntImm) or store.value.value:
            raise CodegenError(
                f"vta: {store.buffer.name} can only start from 0, not from {store.value}"
            )
        elements, starts = self._elements(nest, (store,))
        self._zero(elements, starts[0])

    def _zero(self, elements: Elements, start: int) -> None:
        made = self._operations(elements, (0,))
        rows = elements.offsets(0).ravel() + start
        self._stream.add(Gemm(reset=1, **self._looped(made, [start])), fills={MemoryKind.ACC: rows})
        self._consumed[rows] = False

    def _set_accumulator(self, nest: Nest, store: ir.BufferStore) -> None:
        value = store.value
        narrow = value.value if isinstance(value, ir.Cast) else None
        if isinstance(narrow, ir.BufferLoad) and str(narrow.buffer.dtype) == "int8":
            self._load(nest, store, MemoryKind.ACC8, narrow)
            return
        if isinstance(value, ir.BufferLoad) and value.buffer.data in self._tensors:
            self._load(nest, store, MemoryKind.ACC, value)
            return
        row, steps = leaves.steps_of(value)
        others = leaves.other_rows(store, row, steps)
        elements, starts = self._elements(nest, (store, row, *others))
        self._copy(elements, starts[:2], store.buffer.data is row.buffer.data)
        self._steps(elements, [starts[0], *starts[2:]], steps)

    def _copy(self, elements: Elements, starts: Sequence[int], in_place: bool) -> None:
        """The vector unit changes rows in place; others are copied first: zero, plus the row."""
        if not in_place:
            self._zero(elements, starts[0])
            self._alu(elements, starts, (0, 1), Alu(alu_op=AluOp.ADD))

    def _steps(
        self, elements: Elements, starts: Sequence[int], steps: Sequence[leaves.AluStep]
    ) -> None:
        """Steps on the rows of the first access; those of other rows come behind the second."""
        first, *others = starts
        rows = enumerate(others, start=2)
        for step in steps:
            if isinstance(step.operand, int):
                number = Alu(alu_op=step.op, use_imm=1, imm=step.operand)
                self._alu(elements, (first,), (0,), number)
            else:
                access, start = next(rows)
                self._alu(elements, (first, start), (0, access), Alu(alu_op=step.op))

    def _alu(
        self, elements: Elements, starts: Sequence[int], which: tuple[int, ...], kind: Alu
    ) -> None:
        made = self._operations(elements, which)
        rows = [elements.offsets(n).ravel() + s for n, s in zip(which, starts, strict=True)]
        if any(self._consumed[each].any() for each in rows):
            raise CodegenError(
                "vta: rows of the accumulator are used again after they were changed in place for "
                "a store"
            )
        moved = replace(kind, **self._looped(made, starts))
        self._stream.add(moved, fills={MemoryKind.ACC: rows[0]})

    def _operations(self, elements: Elements, which: tuple[int, ...]) -> operations.Operations:
        def read() -> operations.Operations:
            chosen = Elements(elements.loops, tuple(elements.factors[n] for n in which))
            return operations.operations_of(chosen, self._uops.depth, accumulates=False)

        return self._once(("operations", id(elements), which), read)

    def _looped(self, made: operations.Operations, starts: Sequence[int]) -> dict[str, int]:
        words = made.uops(starts)
        begin, load_from = self._uops.place(words)
        if load_from is not None:
            dram = self._uop_address // UOP_BYTES + load_from
            row = _placed(transfers.TransferRows(begin, dram, 1, len(words), len(words)), 0, 0)
            self._stream.add(LoadRows(memory=MemoryKind.UOP, **row))
        (outer, _), (inner, _) = made.loops
        return {
            "uop_begin": begin,
            "uop_end": begin + len(words),
            "iter_out": outer,
            "iter_in": inner,
            **_factors(made, 0, "dst"),
            **_factors(made, 1, "src"),
        }


def _factors(made: operations.Operations, which: int, name: str) -> dict[str, int]:
    found = [factors[which] if which < len(factors) else 0 for _, factors in made.loops]
    return {f"{name}_out": found[0], f"{name}_in": found[1]}


def _placed(rows: transfers.TransferRows, sram: int, dram: int) -> dict[str, int]:
    return {
        "sram_base": rows.sram + sram,
        "dram_base": rows.dram + dram,
        "y_size": rows.y_size,
        "x_size": rows.x_size,
        "x_stride": rows.x_stride,
    }

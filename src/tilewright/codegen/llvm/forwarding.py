"""Values that pass through memory of our own, and loads that need to happen only once.

While a straight run of code is written, the last value of each place in a private buffer is known:
a load of it is that value, and a store that is overwritten before anyone reads it is taken back.
Places count as different only where that is plain: same variable part of the address, whole
multiples of one width apart. Anything else makes us forget. Buffers that the function only reads
need no such care: the same load is the same value wherever it is in reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright import ir
from tilewright.codegen.llvm.emitter import FunctionEmitter, Value
from tilewright.lowering.rewriters import ADDRESS_OF

_ACCESSES = (ir.BufferLoad, ir.BufferStore)


@dataclass
class _StoredValue:
    """The last value of a place; `line` is its store, while nobody can have read it."""

    value: Value
    line: int | None


@dataclass
class _Places:
    """Known places of one buffer: all of one width, apart by multiples of it."""

    variable: str
    width: int
    phase: int
    by_offset: dict[int, _StoredValue] = field(default_factory=dict)

    def covers(self, variable: str, offset: int, width: int) -> bool:
        """True when an access is one of these places or disjoint from all of them."""
        return (
            variable == self.variable and width == self.width and offset % self.width == self.phase
        )


class Forwarding:
    """What is known of private memory at the point where code is being written."""

    def __init__(self, emitter: FunctionEmitter) -> None:
        self._emitter = emitter
        self._known: dict[ir.Var, _Places] = {}
        self._region: object = None
        self._epoch = -1

    def _places(self, data: ir.Var, variable: str, offset: int, width: int) -> _Places:
        emitter = self._emitter
        if emitter.current is not self._region or emitter.epoch != self._epoch:
            # Other code ran or will run in between: a loop, a branch.
            self._known.clear()
            self._region, self._epoch = emitter.current, emitter.epoch
        places = self._known.get(data)
        if places is None or not places.covers(variable, offset, width):
            places = self._known[data] = _Places(variable, width, offset % width)
        return places

    def value(
        self, data: ir.Var, variable: str, offset: int, type_: str, width: int
    ) -> Value | None:
        """The value of a place, if it is known."""
        place = self._places(data, variable, offset, width).by_offset.get(offset)
        return place.value if place is not None and place.value.type == type_ else None

    def loaded(self, data: ir.Var, variable: str, offset: int, value: Value, width: int) -> None:
        """Remember what was read."""
        self._places(data, variable, offset, width).by_offset[offset] = _StoredValue(value, None)

    def stored(self, data: ir.Var, variable: str, offset: int, value: Value, width: int) -> None:
        """Remember what the last line stores; take back the store it overwrites."""
        places = self._places(data, variable, offset, width)
        lines = self._emitter.current.lines
        before = places.by_offset.get(offset)
        if before is not None and before.line is not None and before.value.type == value.type:
            lines[before.line] = ""
        places.by_offset[offset] = _StoredValue(value, len(lines) - 1)

    def forget(self, data: ir.Var) -> None:
        """Some other access of the buffer happens here."""
        self._known.pop(data, None)


class _Uses:
    """Which pointers are written through, and which get out of sight."""

    def __init__(self, body: ir.Node) -> None:
        self.written: set[ir.Var] = set()
        self.escaped: set[ir.Var] = set()
        self.mixed: set[ir.Var] = set()  # accessed as more than one type
        dtypes: dict[ir.Var, ir.DType] = {}
        for node in ir.walk(body):
            match node:
                case ir.BufferLoad(buffer=buffer) | ir.BufferStore(buffer=buffer):
                    if type(node) is ir.BufferStore:
                        self.written.add(buffer.data)
                    if dtypes.setdefault(buffer.data, buffer.dtype) is not buffer.dtype:
                        self.mixed.add(buffer.data)
                case ir.Var() | ir.LetStmt(var=ir.Var()):
                    pointer = node if isinstance(node, ir.Var) else node.var
                    self.escaped |= {pointer} if pointer.dtype.is_handle else set()
                case ir.DeclBuffer(buffer=buffer):
                    self.escaped.add(buffer.data)
                case ir.Call(op=op, args=(ir.BufferLoad(buffer=buffer), *_)) if op is ADDRESS_OF:
                    self.escaped.add(buffer.data)
                case ir.For(kind=ir.ForKind.PARALLEL):
                    # Code of its own, which this function cannot see into.
                    inside = (each for each in ir.walk(node) if isinstance(each, _ACCESSES))
                    self.escaped.update(access.buffer.data for access in inside)


def read_only(body: ir.Node, distinct: set[ir.Var]) -> set[ir.Var]:
    """Pointers that nothing in `body` writes through, among those that alias no other."""
    uses = _Uses(body)
    return distinct - uses.written - uses.escaped


def is_private(body: ir.Node, data: ir.Var) -> bool:
    """True when memory allocated as `data` is touched by plain loads and stores only."""
    uses = _Uses(body)
    return data not in uses.escaped and data not in uses.mixed

"""The parts of a schedule besides its primitives: the state, handles, the trace, random numbers.

`Schedule` adds one method a primitive to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from typing_extensions import Self

from tilewright import arith, ir
from tilewright.errors import ArithError, ScheduleError
from tilewright.ir.access import inputs_of
from tilewright.schedule.errors import NoSuchBuffer, PrimitiveError
from tilewright.schedule.state import AnyRV, BlockRV, ExprRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flag_check import verify_cached_flags, verify_program
from tilewright.schedule.state.flags import adopt_initial_flags, settle_flags
from tilewright.schedule.state.handles import new_expr_rv
from tilewright.schedule.state.sref import INLINE_MARK, ROOT_MARK
from tilewright.schedule.state.state import VERIFY_CACHED_FLAGS, VERIFY_PROGRAM
from tilewright.schedule.trace.instruction import Instruction, Made, Primitive, find_method
from tilewright.schedule.trace.random import RandomEngine
from tilewright.schedule.trace.text import with_rvs
from tilewright.schedule.trace.trace import Trace, results_of

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule

BufferLike: TypeAlias = int | str | ir.Buffer | tuple[str, int]
IndexMapLike: TypeAlias = arith.IndexMap | Callable[..., object]

_DEBUG_MASKS = {"none": 0, "all": -1}
_RENDER_LEVELS = ("detail", "fast", "none")


class WrongArgument(ScheduleError, TypeError):
    """An argument of another type than a primitive takes."""


class NotAHandle(PrimitiveError, TypeError):
    reason = "expected a handle of a block or loop, got {value!r}"
    remedy = "handles come from get_block, get_loops and other primitives"


class ForeignHandle(PrimitiveError, IndexError):  # as in TVM
    reason = "the {kind} handle does not belong to this schedule"
    remedy = "use handles that this schedule, or the one it was copied from, gave out"


class ExpiredHandle(PrimitiveError, ValueError):  # as in TVM
    reason = "the {kind} of this handle no longer exists: an earlier primitive removed it"
    remedy = "get it again with {getter}"


class NotANumber(PrimitiveError):
    reason = "`{value}` is not a number known to this schedule"
    remedy = "use integers and what the sampling primitives of this schedule returned"


class ScheduleCore:
    """A module under transformation, handles to its blocks and loops, a trace of all steps."""

    def __init__(
        self,
        mod: ir.PrimFunc | ir.IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if error_render_level not in _RENDER_LEVELS:
            raise ScheduleError(
                f"error_render_level is one of {', '.join(_RENDER_LEVELS)}, "
                f"got {error_render_level!r}"
            )
        mask = as_debug_mask(debug_mask)
        module = ir.IRModule({"main": mod}) if isinstance(mod, ir.PrimFunc) else ir.as_module(mod)
        self.state = ScheduleState(module, mask, enable_check)
        adopt_initial_flags(self.state)
        self.trace: Trace | None = Trace()
        self.error_render_level = error_render_level
        self.random = RandomEngine(-1 if seed is None else seed)
        self.symbols: dict[object, StmtSRef | int] = {}
        self.func_working_on: str | None = _entry_function(module)

    @property
    def mod(self) -> ir.IRModule:
        """The module as it is now."""
        return self.state.mod

    # --- handles --------------------------------------------------------------------------------

    def get_sref(self, rv: BlockRV | LoopRV | ir.Block | ir.For) -> StmtSRef:
        """What a handle, or a block or loop of the program as it is now, stands for."""
        if isinstance(rv, (ir.Block, ir.For)):
            return self.state.get_sref(rv)
        if not isinstance(rv, (BlockRV, LoopRV)):
            raise NotAHandle(value=rv)
        found = self.symbols.get(rv)
        kind = "block" if isinstance(rv, BlockRV) else "loop"
        if not isinstance(found, StmtSRef):
            raise ForeignHandle(kind=kind)
        if found.stmt is None and found is not ROOT_MARK and found is not INLINE_MARK:
            raise ExpiredHandle(kind=kind, getter="get_block" if kind == "block" else "get_loops")
        return found

    def get(self, rv: AnyRV | ir.PrimExpr | StmtSRef) -> ir.Block | ir.For | int:
        """The statement or number behind a handle or a reference."""
        if isinstance(rv, ir.PrimExpr):
            return self.int_of(rv)
        stmt = rv.stmt if isinstance(rv, StmtSRef) else self.get_sref(rv).stmt
        if stmt is None:
            raise ScheduleError("the handle stands for a compute location, not for a loop")
        return stmt

    def int_of(self, value: object) -> int:
        """The number behind an integer or an expression over sampled integers."""
        if isinstance(value, int):
            return value
        known = self.symbols.get(value) if isinstance(value, ir.Var) else None
        if isinstance(known, int):
            return known
        result = value
        if isinstance(value, ir.PrimExpr) and not isinstance(value, ir.IntImm):
            result = arith.Analyzer().simplify(ir.substitute(value, self._const_of))
        if not isinstance(result, ir.IntImm):
            raise NotANumber(value=value)
        return result.value

    def concrete_map(self, index_map: arith.IndexMap) -> arith.IndexMap:
        """An index map with the numbers behind the sampled integers in it."""
        return with_rvs(index_map, self._const_of)

    def _const_of(self, var: ir.Var) -> ir.PrimExpr | None:
        known = self.symbols.get(var)
        return ir.IntImm(var.dtype, known) if isinstance(known, int) else None

    def block_rv(self, sref: StmtSRef) -> BlockRV:
        """A new handle of a block."""
        rv = BlockRV()
        self.symbols[rv] = sref
        return rv

    def loop_rv(self, sref: StmtSRef) -> LoopRV:
        """A new handle of a loop or compute location."""
        rv = LoopRV()
        self.symbols[rv] = sref
        return rv

    def expr_rv(self, value: int) -> ExprRV:
        """A new handle of a number."""
        rv = new_expr_rv()
        self.symbols[rv] = value
        return rv

    def remove_rv(self, rv: AnyRV) -> None:
        """Forget a handle."""
        if self.symbols.pop(rv, None) is None:
            kinds: dict[type, str] = {BlockRV: "block", LoopRV: "loop"}
            raise ForeignHandle(kind=kinds.get(type(rv), "integer"))

    # --- the schedule itself --------------------------------------------------------------------

    def work_on(self, func_name: str) -> None:
        """Choose the function that names of blocks refer to."""
        if func_name not in self.mod:
            self.mod[func_name]  # raises with the names there are
        self.func_working_on = func_name

    def copy(self) -> Self:
        """A schedule of its own at the same point; every handle is valid in both."""
        twin = object.__new__(type(self))
        twin.state, moved = self.state.copy()
        twin.state.mod = self.mod.clone()  # each may be changed in place
        twin.trace = None if self.trace is None else self.trace.copy()
        twin.error_render_level = self.error_render_level
        twin.random = self.random.fork()
        twin.symbols = _moved_symbols(self.symbols, moved)
        twin.func_working_on = self.func_working_on
        return twin

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Steps of which either all happen or, when one raises, none."""
        state, moved = self.state.copy()
        trace = None if self.trace is None else self.trace.copy()
        engine_state, symbols = self.random.state, dict(self.symbols)
        try:
            yield
        except BaseException:
            self.state, self.trace, self.random.state = state, trace, engine_state
            self.symbols = _moved_symbols(symbols, moved)
            raise

    def seed(self, seed: int) -> None:
        """Restart the random engine."""
        self.random = RandomEngine(seed)

    def fork_seed(self) -> int:
        """A seed for somebody else's engine."""
        return self.random.fork_seed()

    def show(self) -> None:
        """Print the module and the trace."""
        self.mod.show()
        print(self.trace)

    def run(self, step: Primitive[Made], decision: object = None) -> Made:
        """Carry out a step and record it; a failing one leaves schedule and trace alone."""
        self.state.check_functions()
        if not step.is_pure:
            settle_flags(self.state)
        before = self.mod
        try:
            outputs, recorded = step.decide(cast("Schedule", self), decision)
        except PrimitiveError as error:
            error.attach(step.method, self.mod, self.error_render_level)
            raise
        if self.state.debug_mask & VERIFY_PROGRAM:
            verify_program(before, self.mod, step.method)
        if self.state.debug_mask & VERIFY_CACHED_FLAGS:
            verify_cached_flags(self.state)
        if self.trace is not None:
            self.trace.append(Instruction.of(step, results_of(outputs)), recorded)
        return outputs

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A primitive that somebody registered beside the built-in ones."""
        primitive = None if name.startswith("_") else find_method(name)
        if primitive is None:
            raise AttributeError(f"Schedule has no primitive {name!r}")
        return functools.partial(primitive.call, cast("Schedule", self))

    # --- arguments ------------------------------------------------------------------------------

    def buffer_side(self, block: BlockRV, buffer: BufferLike) -> tuple[int, int]:
        """(0 for reads or 1 for writes, position) of a buffer given in any of the usual ways."""
        stmt = self.get_sref(block).block
        if isinstance(buffer, tuple):
            kind, index = buffer
            if kind not in ("read", "write"):
                raise NoSuchBuffer(f'a buffer is ("read" or "write", position), got {buffer!r}')
            return ("read", "write").index(kind), index
        if isinstance(buffer, int):
            raise NoSuchBuffer('say which side the buffer is on: ("read", 0) or ("write", 0)')
        by_name = isinstance(buffer, str)
        found = [
            (side, index)
            for side, regions in enumerate((inputs_of(stmt), dict(enumerate(stmt.writes))))
            for index, region in regions.items()
            if (region.buffer.name == buffer if by_name else region.buffer is buffer)
        ]
        sides = (stmt.reads, stmt.writes)
        distinct = {sides[side][index].buffer for side, index in found}
        if len(distinct) != 1:
            names = sorted({region.buffer.name for regions in sides for region in regions})
            what = buffer if isinstance(buffer, str) else buffer.name
            problem = "does not access" if not distinct else "accesses more than one buffer called"
            raise NoSuchBuffer(f"block {stmt.name_hint!r} {problem} {what!r}; it has {names}")
        return found[-1 if by_name else 0]  # of a buffer on both sides, as TVM

    def buffer_index(self, block: BlockRV, buffer: BufferLike, side: str) -> int:
        """The position of a buffer among the reads or writes of a block."""
        if isinstance(buffer, int):
            return buffer
        if isinstance(buffer, tuple):
            return buffer[1]
        stmt = self.get_sref(block).block
        regions = stmt.reads if side == "read" else stmt.writes
        for index, region in enumerate(regions):
            if region.buffer.name == buffer if isinstance(buffer, str) else region.buffer is buffer:
                return index
        names = [region.buffer.name for region in regions]
        what = buffer if isinstance(buffer, str) else buffer.name
        raise NoSuchBuffer(f"block {stmt.name_hint!r} does not {side} {what!r}; it has {names}")

    def buffer_of(self, block: BlockRV, kind: int, index: int) -> ir.Buffer:
        """The buffer at a position of the reads (kind 0) or writes (kind 1) of a block."""
        stmt = self.get_sref(block).block
        regions = (stmt.reads, stmt.writes)[kind]
        if not 0 <= index < len(regions):
            side = ("reads", "writes")[kind]
            raise NoSuchBuffer(
                f"block {stmt.name_hint!r} {side} {len(regions)} buffers, none has number {index}"
            )
        return regions[index].buffer

    def block_index_map(self, block: BlockRV, index_map: IndexMapLike) -> arith.IndexMap:
        """An index map over the iterators of a block."""
        iter_vars = self.get_sref(block).block.iter_vars
        return as_index_map(index_map, len(iter_vars), [v.var.dtype for v in iter_vars])[0]


def as_debug_mask(debug_mask: str | int) -> int:
    """The bits of `debug_mask`, which may be a word."""
    if isinstance(debug_mask, int):
        return debug_mask
    if debug_mask not in _DEBUG_MASKS:
        raise ScheduleError(f"debug_mask is 'none', 'all' or a number, got {debug_mask!r}")
    return _DEBUG_MASKS[debug_mask]


def _moved_symbols(
    symbols: Mapping[object, StmtSRef | int], moved: Mapping[StmtSRef, StmtSRef]
) -> dict[object, StmtSRef | int]:
    """What handles stand for, in a copied state."""
    return {
        rv: moved.get(value, value) if isinstance(value, StmtSRef) else value
        for rv, value in symbols.items()
    }


def as_index_map(
    index_map: IndexMapLike, ndim: int, dtypes: Sequence[ir.DType]
) -> tuple[arith.IndexMap, list[int]]:
    """An index map from a function of `ndim` indices of these types, and its separators."""
    if isinstance(index_map, arith.IndexMap):
        return index_map, []
    dtype = str(dtypes[0]) if dtypes else "int32"
    try:
        layout, separators = arith.IndexMap.from_func_with_separators(
            index_map, ndim=ndim, index_dtype=dtype
        )
    except ArithError as error:
        raise ScheduleError(f"the index map does not fit: {error}") from None
    return layout, list(separators)


def _entry_function(module: ir.IRModule) -> str | None:
    for name, func in module.functions.items():
        if func.attrs.get("tir.is_entry_func"):
            return name
    if "main" in module:
        return "main"
    return next(iter(module)) if len(module) == 1 else None

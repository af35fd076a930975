"""The form of a program that becomes a tile kernel, read from TensorIR.

Blocks of threads copy tiles of both operands to shared memory, multiply them into an accumulator,
and write that out:

    for tile in T.thread_binding(tiles, "blockIdx.x", annotations={"tilewright.tile_stages": 4}):
        for k in range(steps):
            left[...] = A[...]
            right[...] = B[...]
            sums[...] += left[...] * right[...]
        C[...] = f(sums[...], ...)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import (
    FAST_SUMS,
    STREAMED,
    THREAD_COLUMNS,
    THREAD_ROWS,
    THREAD_SLICES,
    TILE_CONSUMERS,
    TILE_GATHERERS,
    TILE_SPLITS,
    TILE_STAGES,
)
from tilewright.lowering.rewriters import IF_THEN_ELSE


@dataclass(frozen=True)
class TileAxis:
    """An iterator of a block over a tile: `origin + 0 .. extent - 1` of `0 .. size - 1`."""

    var: ir.Var
    origin: ir.PrimExpr
    extent: int
    size: int

    @property
    def is_divided(self) -> bool:
        """True where tiles may reach over the end."""
        return self.size % self.extent != 0


@dataclass(frozen=True)
class TileBlock:
    """A block in perfect loops, with what each of its iterators runs over in one tile."""

    block: ir.Block
    axes: Mapping[ir.Var, TileAxis]

    @property
    def store(self) -> ir.BufferStore:
        """The one statement of the block."""
        if not isinstance(self.block.body, ir.BufferStore):
            raise refused(f"block {self.block.name_hint!r} does more than one store")
        return self.block.body

    def analyzer(self) -> Analyzer:
        """An analyzer that knows what the iterators run over, in all tiles."""
        analyzer = Analyzer()
        for axis in self.axes.values():
            analyzer.bind(axis.var, ir.Range(ir.const(0), ir.const(axis.size)))
        return analyzer


@dataclass(frozen=True)
class Operand:
    """One factor of the products: its copy, and its iterators in the copy."""

    copy: TileBlock
    row: ir.Var  # along rows or columns of the result
    depth: ir.Var  # along the sum


@dataclass(frozen=True)
class TileForm:
    """A tile kernel as the schedule says it."""

    tiles: ir.For
    steps: ir.For
    left: Operand
    right: Operand
    product: TileBlock
    row: TileAxis  # of the result
    column: TileAxis
    depth: TileAxis
    output: TileBlock
    sums: ir.Buffer
    stages: int  # tiles in shared memory at a time; 0: as many as there is room for
    consumers: int  # warp groups that multiply
    splits: int  # blocks of threads of a cluster that share the steps of a tile
    is_streamed: bool  # blocks take equal shares of all steps, whichever tiles they belong to
    gatherers: int  # warp groups that gather what bulk copies cannot fetch
    thread_tile: tuple[int, int] | None  # rows and columns of a thread, where threads multiply
    has_fast_sums: bool  # of 8-bit floats, with the digits that tensor cores keep
    slices: int  # parts of a step that threads of their own take

    @property
    def output_axes(self) -> tuple[ir.Var, ir.Var]:
        """The iterators of the output along the rows and the columns of the tile."""
        loads = ir.nodes_of(self.output.store.value, ir.BufferLoad)
        load = next((load for load in loads if load.buffer is self.sums), None)
        if load is None:
            raise refused("its output does not use the sums")
        row, column = load.indices[-2:]
        for index in (row, column):
            if not isinstance(index, ir.Var):
                raise refused(f"its output reads the sums at `{index}`, expected a plain iterator")
        assert isinstance(row, ir.Var)
        assert isinstance(column, ir.Var)
        return row, column


class CopyRefused(LowerError):
    """No instruction moves a tile from where it lies in memory, or to there."""

    def __init__(self, copy: TileBlock, error: LowerError, *, is_windows: bool = False) -> None:
        super().__init__(str(error))
        self.written = copy.store.buffer
        self.is_windows = is_windows  # its elements do not lie at equal distances


def refused(reason: str) -> LowerError:
    """The error for a program that is marked as a tile kernel but has another form."""
    return LowerError(f"a loop with {TILE_STAGES!r} must be a tile kernel, but {reason}")


def read_tile_form(tiles: ir.For) -> TileForm:
    """The tile kernel below a loop over tiles."""
    *before, output = ir.statements_of(tiles.body)
    if len(before) != 1 or not isinstance(before[0], ir.For):
        raise refused("the loop over tiles holds other statements than the sums and the output")
    steps = before[0]
    parts = ir.statements_of(steps.body)
    if len(parts) != 3:
        raise refused(f"its body has {len(parts)} statements, expected two copies and a product")
    *copies, product = (_tile_block(part) for part in parts)
    return _with_product(tiles, steps, {c.store.buffer: c for c in copies}, product, output)


def _with_product(
    tiles: ir.For,
    steps: ir.For,
    copies: Mapping[ir.Buffer, TileBlock],
    product: TileBlock,
    output: ir.Stmt,
) -> TileForm:
    store = product.store
    left, right = _factors(store)
    depth = _depth_of(product, left)
    row, column = (_other_var(factor, depth) for factor in (left, right))
    if store.indices[-1] is row:  # factors may come in any order
        left, right, row, column = right, left, column, row
    if store.indices[-1] is not column or store.indices[-2:][0] is not row:
        place = store.buffer[store.indices]
        raise refused(f"`{place}` is not indexed by an iterator of each operand")
    stages = _annotation(tiles, TILE_STAGES, 0)
    consumers = _annotation(tiles, TILE_CONSUMERS, 1)
    gatherers = _annotation(tiles, TILE_GATHERERS, 0)
    splits = _annotation(tiles, TILE_SPLITS, 0, default=1)
    form = TileForm(
        tiles,
        steps,
        _operand(left, copies, row, depth),
        _operand(right, copies, column, depth),
        product,
        product.axes[row],
        product.axes[column],
        product.axes[depth],
        _tile_block(output),
        store.buffer,
        stages,
        consumers,
        max(splits, 1),
        splits == STREAMED,
        gatherers,
        _thread_tile(tiles),
        bool(_annotation(tiles, FAST_SUMS, 0)),
        _annotation(tiles, THREAD_SLICES, 1),
    )
    return _on_tile_of_product(form)


def _on_tile_of_product(form: TileForm) -> TileForm:
    """The form with all blocks on the tile of the product, which may be larger than the arrays."""
    row, column = form.output_axes
    return replace(
        form,
        left=_fitted_operand(form, form.left, form.row),
        right=_fitted_operand(form, form.right, form.column),
        output=_fitted(form, form.output, {row: form.row, column: form.column}),
    )


def _fitted_operand(form: TileForm, operand: Operand, row: TileAxis) -> Operand:
    wanted = {operand.row: row, operand.depth: form.depth}
    return replace(operand, copy=_fitted(form, operand.copy, wanted))


def _fitted(form: TileForm, block: TileBlock, wanted: Mapping[ir.Var, TileAxis]) -> TileBlock:
    """A block with these axes; it may leave out what is beyond the end of the array."""
    analyzer = Analyzer()
    for loop in (form.tiles, form.steps):
        analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))
    axes = dict(block.axes)
    for var, axis in wanted.items():
        own = axes[var]
        is_covered = own.extent in (axis.extent, min(axis.extent, own.size))
        if not is_covered or not analyzer.can_prove_equal(own.origin, axis.origin):
            raise refused(
                f"iterator {var.name!r} of block {block.block.name_hint!r} runs over other "
                f"elements than {axis.var.name!r} of the product"
            )
        axes[var] = replace(own, extent=axis.extent)
    return replace(block, axes=axes)


def _depth_of(product: TileBlock, factor: ir.BufferLoad) -> ir.Var:
    """The iterator of the sum; others of one iteration do not matter."""
    for iter_var in product.block.iter_vars:
        is_used = any(index is iter_var.var for index in factor.indices)
        if iter_var.iter_type is ir.IterType.COMM_REDUCE and is_used:
            return iter_var.var
    raise refused(f"`{factor}` is not indexed by an iterator of the sum")


def _thread_tile(tiles: ir.For) -> tuple[int, int] | None:
    if THREAD_ROWS not in tiles.annotations:
        return None
    return _annotation(tiles, THREAD_ROWS, 1), _annotation(tiles, THREAD_COLUMNS, 1)


def _annotation(loop: ir.For, key: str, least: int, default: int | None = None) -> int:
    given = loop.annotations.get(key, least if default is None else default)
    value = ir.constant_value(ir.convert(given))
    if not isinstance(value, int) or value < least:
        raise refused(f"{key!r} is {value!r}, expected an integer of at least {least}")
    return value


def _factors(store: ir.BufferStore) -> tuple[ir.BufferLoad, ir.BufferLoad]:
    """The two loads whose product is added."""
    match store.value:
        case ir.Add(a=ir.BufferLoad(buffer=sums), b=ir.Mul(a=a, b=b)) if sums is store.buffer:
            pair = _uncast(a), _uncast(b)
            if isinstance(pair[0], ir.BufferLoad) and isinstance(pair[1], ir.BufferLoad):
                return pair[0], pair[1]
    raise refused(f"`{store.value}` is not a sum of products of two operands")


def _uncast(expr: ir.PrimExpr) -> ir.PrimExpr:
    return expr.value if isinstance(expr, ir.Cast) else expr


def _other_var(load: ir.BufferLoad, depth: ir.Var) -> ir.Var:
    """The iterator of the result in the last two indices of a factor."""
    others = [index for index in load.indices[-2:] if index is not depth]
    if len(others) != 1 or not isinstance(others[0], ir.Var):
        raise refused(f"`{load}` is not indexed by one iterator of the result and one of the sum")
    return others[0]


def _operand(
    load: ir.BufferLoad, copies: Mapping[ir.Buffer, TileBlock], row: ir.Var, depth: ir.Var
) -> Operand:
    """The copy of a factor, with the iterators of the product named in it."""
    copy = copies.get(load.buffer)
    if copy is None:
        raise refused(f"{load.buffer.name} is not copied to shared memory in the same loop")
    place = dict(zip(load.indices, copy.store.indices, strict=True))
    return Operand(copy, _variable(place[row]), _variable(place[depth]))


def _variable(index: ir.PrimExpr) -> ir.Var:
    if not isinstance(index, ir.Var):
        raise refused(f"a copy writes element `{index}`, expected a plain iterator")
    return index


def _tile_block(stmt: ir.Stmt) -> TileBlock:
    loops: dict[ir.Var, ir.For] = {}
    while isinstance(stmt, ir.For):
        loops[stmt.loop_var] = stmt
        stmt = stmt.body
    if not isinstance(stmt, ir.BlockRealize):
        raise refused("its parts are not single blocks in loops")
    start = {var: loop.min for var, loop in loops.items()}
    axes = {}
    for iter_var, value in stmt.bindings:
        inner = [var for var in loops if ir.uses_var(value, lambda used, own=var: used is own)]  # type: ignore[misc]
        extent = loops[inner[0]].extent if inner else ir.const(1)
        if len(inner) > 1 or not isinstance(extent, ir.IntImm) or iter_var.dom is None:
            raise refused(f"iterator {iter_var.var.name!r} has no constant tile of its own")
        size = iter_var.dom.extent
        if not isinstance(size, ir.IntImm):
            raise refused(f"iterator {iter_var.var.name!r} has a symbolic extent")
        origin = ir.substitute(value, start)
        axes[iter_var.var] = TileAxis(iter_var.var, origin, extent.value, size.value)
    return TileBlock(stmt.block, axes)


def source_of(copy: TileBlock) -> tuple[ir.BufferLoad, ir.PrimExpr | None]:
    """What a copy reads, and where it does not write zero instead."""
    match copy.store.value:
        case ir.BufferLoad() as load:
            return load, None
        case ir.Call(args=(guard, ir.BufferLoad() as load, other)) as call:
            if call.op is IF_THEN_ELSE and ir.constant_value(other) == 0:
                return load, guard
    raise refused(
        f"`{copy.store.value}` is not a copy; expected `A[...]`, or `T.if_then_else(condition, "
        "A[...], 0)`"
    )


def tile_loops(stmt: ir.Stmt) -> Iterator[ir.For]:
    """The loops over tiles whose kernels are written in this form."""
    return (loop for loop in ir.nodes_of(stmt, ir.For) if TILE_STAGES in loop.annotations)

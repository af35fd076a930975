"""Statements of a tile kernel: one warp group fetches tiles, the others multiply and write.

Stages of shared memory are a ring. Each has two barriers: `full` (its tiles have arrived) and
`empty` (they have been read). The uses of stages are counted over all tiles of a block of threads,
so that barriers need no state but that count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.annotation_keys import CLUSTER_BLOCKS
from tilewright.ir.intrinsics import address_of, bitwise_and, bitwise_xor, call_extern
from tilewright.lowering.gpu.tile_kernels.building import bound, loop, on_threads, run, sync, when
from tilewright.lowering.gpu.tile_kernels.descriptors import UINT32, descriptor, rows_shift, word
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.output import OutputWriter
from tilewright.lowering.gpu.tile_kernels.rows_output import RowWriter
from tilewright.lowering.gpu.tile_kernels.sums import FilledStage, Sums, sums_of
from tilewright.lowering.gpu.tile_kernels.tensor_maps import (
    MAX_BOX,
    OperandMap,
    TensorMap,
    WindowMap,
    coordinates,
)


@dataclass(frozen=True)
class TileKernel:
    """Writes the statements of one kernel."""

    layout: GroupLayout
    blocks: int  # of threads; each does several tiles where there are more

    def __post_init__(self) -> None:
        assert self.blocks >= 1

    @property
    def tiles(self) -> int:
        """How many there are."""
        extent = self.layout.form.tiles.extent
        assert isinstance(extent, ir.IntImm)
        return extent.value

    # --- the frame ------------------------------------------------------------------------------

    def statement(self) -> ir.Stmt:
        """The kernel with its tensor maps, as a statement of the host."""
        layout = self.layout
        memory = ir.decl_buffer((layout.bytes,), "uint8", "memory", scope="shared.dyn")
        block, thread = ir.Var("block", ir.INT32), ir.Var("thread", ir.INT32)
        body = _bindings(
            {
                "base": _aligned(call_extern(UINT32, "tw_shared_address", address_of(memory[0]))),
                "warp": call_extern(ir.INT32, "tw_warp_of_thread", thread),
                "lane": ir.floormod(thread, 32),
            },
            lambda base, warp, lane: self._roles(_Place(block, thread, base, warp, lane)),
        )
        inside = ir.Block((), (), (), "tile_kernel", body, alloc_buffers=(memory,))
        stmt: ir.Stmt = ir.BlockRealize((), ir.TRUE, inside)
        if layout.form.splits > 1:
            stmt = ir.AttrStmt(ir.const(0), CLUSTER_BLOCKS, ir.const(layout.form.splits), stmt)
        stmt = on_threads(thread, "threadIdx.x", layout.threads, stmt)
        stmt = on_threads(block, "blockIdx.x", self.blocks, stmt)
        for made in reversed(self._maps):
            stmt = ir.LetStmt(made.var, made.creation(), stmt)
        return stmt

    @property
    def _maps(self) -> list[TensorMap | WindowMap]:
        layout = self.layout
        output = [] if layout.output_map is None else [layout.output_map]
        return [layout.left.map, layout.right.map, *output]

    def _roles(self, at: _Place) -> ir.Stmt:
        layout = self.layout
        fewer, more = layout.registers
        consumers = layout.form.consumers
        fetching = ir.equal(ir.floordiv(at.warp, 4), consumers)
        is_fetcher = ir.logical_and(ir.equal(at.warp, 4 * consumers), ir.equal(at.lane, 0))
        start = [
            self._barriers(at),
            run("tw_fence_barriers"),
            *(run("tw_prefetch_map", each.var) for each in self._maps),
        ]
        return ir.seq(
            [
                when(ir.equal(at.thread, 0), *start),
                sync(),
                run("tw_wait_for_previous_grid"),
                run("tw_launch_next_grid"),
                ir.IfThenElse(
                    fetching,
                    ir.seq(
                        [
                            run(f"tw_registers_dec_{fewer}"),
                            when(is_fetcher, self._fetch(at)),
                            *self._meeting(),
                        ]
                    ),
                    ir.seq([run(f"tw_registers_inc_{more}"), self._multiply(at)]),
                ),
                *self._meeting(),  # nobody leaves while others read what it holds
            ]
        )

    def _barriers(self, at: _Place) -> ir.Stmt:
        layout, consumers = self.layout, self.layout.form.consumers

        def start(stage: ir.Var) -> ir.Stmt:
            shift = ir.cast(UINT32, stage) * word(8)
            return ir.seq(
                [
                    run("tw_barrier_start", at.base + word(layout.full_offset) + shift, word(1)),
                    run(
                        "tw_barrier_start",
                        at.base + word(layout.empty_offset) + shift,
                        word(consumers),
                    ),
                ]
            )

        return loop("stage", layout.stages, start)

    def _meeting(self) -> list[ir.Stmt]:
        """All threads of the blocks that share a tile wait for each other."""
        return [run("tw_cluster_barrier")] if self.layout.form.splits > 1 else []

    def _each_tile(self, at: _Place, body: Callable[[ir.PrimExpr, ir.Var], ir.Stmt]) -> ir.Stmt:
        """`body` of the round and the tile, for all tiles of a block of threads."""
        splits, blocks = self.layout.form.splits, self.blocks // self.layout.form.splits
        rounds = -(-self.tiles // blocks)

        def one(number: ir.PrimExpr) -> ir.Stmt:
            tile = ir.Var("tile", ir.INT32)
            inside = body(number, tile)
            if self.tiles % blocks:
                inside = when(ir.less(tile, self.tiles), inside)
            return ir.LetStmt(tile, number * blocks + ir.floordiv(at.block, splits), inside)

        return loop("round", rounds, one)

    def _rank(self, at: _Place) -> ir.PrimExpr:
        """The number of a block of threads among those that share a tile."""
        return ir.floormod(at.block, self.layout.form.splits)

    def _first_step(self, rank: ir.PrimExpr) -> ir.PrimExpr:
        """Where the steps of a block begin."""
        return ir.floordiv(rank * self.layout.steps, self.layout.form.splits)

    def _steps(self, at: _Place) -> ir.PrimExpr:
        """How many steps of a tile a block does."""
        if self.layout.form.splits == 1:
            return ir.const(self.layout.steps)
        rank = self._rank(at)
        return self._first_step(rank + 1) - self._first_step(rank)

    def _each_step(
        self, at: _Place, number: ir.PrimExpr, body: Callable[[ir.Var, _Use], ir.Stmt]
    ) -> ir.Stmt:
        """`body` of the step and its use of a stage, for all steps along the sum."""
        return loop(
            "step",
            self._steps(at),
            lambda step: bound(
                "count",
                number * self._steps(at) + step,
                lambda count: body(step, _Use(self.layout, count)),
            ),
        )

    # --- fetching -------------------------------------------------------------------------------

    def _fetch(self, at: _Place) -> ir.Stmt:
        layout = self.layout
        first = self._first_step(self._rank(at))

        def step(number: ir.PrimExpr, tile: ir.Var) -> ir.Stmt:
            def fetch(step: ir.Var, use: _Use) -> ir.Stmt:
                full = use.full(at.base)
                place = {layout.form.tiles.loop_var: tile, layout.form.steps.loop_var: first + step}
                address = use.tiles(at.base)
                return ir.seq(
                    [
                        run("tw_barrier_wait", use.empty(at.base), use.parity(1)),
                        run("tw_barrier_expect", full, word(layout.stage_bytes)),
                        *_loads(layout.left, address, full, place),
                        *_loads(layout.right, address + word(layout.left_bytes), full, place),
                    ]
                )

            return self._each_step(at, number, fetch)

        return self._each_tile(at, step)

    # --- multiplying ----------------------------------------------------------------------------

    def _multiply(self, at: _Place) -> ir.Stmt:
        layout = self.layout
        sums = sums_of(layout)
        is_leader = ir.logical_and(ir.equal(ir.floormod(at.warp, 4), 0), ir.equal(at.lane, 0))

        def tile(number: ir.PrimExpr, tile: ir.Var) -> ir.Stmt:
            place = {layout.form.tiles.loop_var: tile}
            last = _Use(layout, number * self._steps(at) + (self._steps(at) - 1))
            return ir.seq(
                [
                    *sums.begin(),
                    self._each_step(
                        at,
                        number,
                        lambda step, use: self._step(at, sums, step, use, is_leader),
                    ),
                    *sums.end(when(is_leader, run("tw_barrier_arrive", last.empty(at.base)))),
                    self._write(at, sums.results, place),
                ]
            )

        ended = [when(is_leader, run("tw_bulk_wait_0"))] if layout.is_bulk else []
        body = ir.seq([self._each_tile(at, tile), *ended])
        block = ir.Block((), (), (), "multiply", body, alloc_buffers=sums.registers)
        return ir.BlockRealize((), ir.TRUE, block)

    def _write(self, at: _Place, sums: ir.Buffer, place: Mapping[ir.Var, ir.PrimExpr]) -> ir.Stmt:
        layout = self.layout
        if layout.output_map is None:
            return RowWriter(layout).write(sums, place, at, self._rank(at))
        return OutputWriter(layout).write(sums, layout.output_map, place, at)

    def _step(
        self, at: _Place, sums: Sums, step: ir.Var, use: _Use, is_leader: ir.PrimExpr
    ) -> ir.Stmt:
        """Wait for the tiles of one stage, and multiply them."""
        layout = self.layout
        consumer = ir.cast(UINT32, ir.floordiv(at.warp, 4))
        left = use.tiles(at.base) + consumer * word(rows_shift(layout.left, layout.rows))
        right = use.tiles(at.base) + word(layout.left_bytes)
        before = _Use(layout, use.count - 1)
        free = when(is_leader, run("tw_barrier_arrive", use.empty(at.base)))
        ready = ir.logical_and(ir.greater(step, 0), is_leader)
        free_before = when(ready, run("tw_barrier_arrive", before.empty(at.base)))
        multiplied = _bindings(
            {
                "left_tile": descriptor(layout.left, left),
                "right_tile": descriptor(layout.right, right),
            },
            lambda left, right: ir.seq(
                sums.multiply(FilledStage(step, left, right, free, free_before))
            ),
        )
        return ir.seq([run("tw_barrier_wait", use.full(at.base), use.parity(0)), multiplied])


@dataclass(frozen=True)
class _Place:
    """The names that all statements of a kernel share."""

    block: ir.Var
    thread: ir.Var
    base: ir.Var
    warp: ir.Var
    lane: ir.Var


@dataclass(frozen=True)
class _Use:
    """A use of a stage, by its number among all uses."""

    layout: GroupLayout
    count: ir.PrimExpr

    @property
    def _stage(self) -> ir.PrimExpr:
        return ir.cast(UINT32, ir.floormod(self.count, self.layout.stages))

    def full(self, base: ir.PrimExpr) -> ir.PrimExpr:
        return base + word(self.layout.full_offset) + self._stage * word(8)

    def empty(self, base: ir.PrimExpr) -> ir.PrimExpr:
        return base + word(self.layout.empty_offset) + self._stage * word(8)

    def tiles(self, base: ir.PrimExpr) -> ir.PrimExpr:
        return base + self._stage * word(self.layout.stage_bytes)

    def parity(self, ahead: int) -> ir.PrimExpr:
        """Which of two phases of a barrier is waited for."""
        lap = ir.cast(UINT32, ir.floordiv(self.count, self.layout.stages))
        parity = bitwise_and(lap, word(1))
        return bitwise_xor(parity, word(1)) if ahead else parity


def _bindings(values: Mapping[str, ir.PrimExpr], body: Callable[..., ir.Stmt]) -> ir.Stmt:
    variables = [ir.Var(name, value.dtype) for name, value in values.items()]
    stmt = body(*variables)
    for var, value in reversed([*zip(variables, values.values(), strict=True)]):
        stmt = ir.LetStmt(var, value, stmt)
    return stmt


def _aligned(address: ir.PrimExpr) -> ir.PrimExpr:
    return bitwise_and(address + word(1023), word(0xFFFFFC00))


def _loads(
    operand: OperandMap,
    address: ir.PrimExpr,
    barrier: ir.PrimExpr,
    place: Mapping[ir.Var, ir.PrimExpr],
) -> Sequence[ir.Stmt]:
    """Bulk copies of one tile."""
    axes = operand.operand.copy.axes
    origin = {var: ir.substitute(axis.origin, place) for var, axis in axes.items()}
    row, made = operand.operand.row, operand.map
    if isinstance(made, WindowMap):
        c, s, r = made.windows.tap(origin[operand.operand.depth])
        w, h, n = made.windows.position(origin[row])
        return [run("tw_load_windows", address, made.var, barrier, c, w, h, n, s, r)]
    width = MAX_BOX if operand.is_depth_first else operand.panel
    copies = []
    for first in range(0, operand.rows, width):
        target = address + word(rows_shift(operand, first))
        at = coordinates(made, origin, {row: first})
        copies.append(run(f"tw_load_{len(at)}d", target, made.var, barrier, *at))
    return copies

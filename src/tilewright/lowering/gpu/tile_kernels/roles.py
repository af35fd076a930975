"""Statements of a tile kernel: one warp group fetches tiles, the others multiply and write.

Where threads must gather an operand, several groups fetch, and take turns by steps.

Stages of shared memory are a ring. Each has two barriers: `full` (its tiles have arrived) and
`empty` (they have been read). The uses of stages are counted over all tiles of a block of threads,
so that barriers need no state but that count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright import ir
from tilewright.ir.annotation_keys import CLUSTER_BLOCKS
from tilewright.ir.intrinsics import address_of, bitwise_and, bitwise_xor, call_extern
from tilewright.lowering.gpu.tile_kernels.building import (
    UINT32,
    bound,
    loop,
    on_threads,
    run,
    sync,
    when,
    word,
)
from tilewright.lowering.gpu.tile_kernels.gathering import Gathering
from tilewright.lowering.gpu.tile_kernels.layout import WARP, WARP_GROUP, GroupLayout
from tilewright.lowering.gpu.tile_kernels.output import OutputWriter
from tilewright.lowering.gpu.tile_kernels.partial_sums import PartialSums
from tilewright.lowering.gpu.tile_kernels.rows_output import RowWriter
from tilewright.lowering.gpu.tile_kernels.shared_tiles import bulk_loads, descriptor, rows_shift
from tilewright.lowering.gpu.tile_kernels.sums import FilledStage, Sums, sums_of
from tilewright.lowering.gpu.tile_kernels.tensor_maps import OperandMap, TensorMap, WindowMap
from tilewright.lowering.gpu.tile_kernels.turns import SharedSteps, Turn, Turns, turns_of

_WARPS = 4  # of a group
_UNROLLED = 8  # steps whose gathering knows where along the sum it is


@dataclass(frozen=True)
class TileKernel:
    """Writes the statements of one kernel."""

    layout: GroupLayout
    blocks: int  # of threads; each does several tiles where there are more

    def __post_init__(self) -> None:
        assert self.blocks >= 1

    @cached_property
    def turns(self) -> Turns:
        """What each block does."""
        return turns_of(self.layout, self.blocks)

    @cached_property
    def _partial(self) -> PartialSums | None:
        """How blocks give sums away, where they share steps."""
        return PartialSums(self.turns) if isinstance(self.turns, SharedSteps) else None

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
            lambda base, warp, lane: self._roles(KernelVars(block, thread, base, warp, lane)),
        )
        inside = ir.Block((), (), (), "tile_kernel", body, alloc_buffers=(memory,))
        stmt: ir.Stmt = ir.BlockRealize((), ir.TRUE, inside)
        if layout.form.splits > 1:
            stmt = ir.AttrStmt(ir.const(0), CLUSTER_BLOCKS, ir.const(layout.form.splits), stmt)
        stmt = on_threads(thread, "threadIdx.x", layout.threads, stmt)
        stmt = on_threads(block, "blockIdx.x", self.blocks, stmt)
        if self._partial is not None:
            stmt = self._partial.around(stmt)
        for made in reversed(self._maps):
            stmt = ir.LetStmt(made.var, made.creation(), stmt)
        return stmt

    @property
    def _maps(self) -> Sequence[TensorMap | WindowMap]:
        layout = self.layout
        image = None if layout.image is None else layout.image.map
        made = (image, layout.left.map, layout.right.map, layout.output_map)
        return [each for each in made if each is not None]

    def _roles(self, at: KernelVars) -> ir.Stmt:
        fetching = ir.greater_equal(ir.floordiv(at.warp, _WARPS), self.layout.form.consumers)
        fewer, more = self._registers()
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
                    ir.seq([*fewer, self._fetch_or_stage(at), *self._meeting()]),
                    ir.seq([*more, self._multiply(at)]),
                ),
                *self._meeting(),  # nobody leaves while others read what it holds
            ]
        )

    def _registers(self) -> tuple[Sequence[ir.Stmt], Sequence[ir.Stmt]]:
        """What fetching and multiplying threads do about their registers."""
        if self.layout.registers is None:
            return (), ()
        fewer, more = self.layout.registers
        return [run(f"tw_registers_dec_{fewer}")], [run(f"tw_registers_inc_{more}")]

    def _barriers(self, at: KernelVars) -> ir.Stmt:
        layout, consumers = self.layout, self.layout.form.consumers

        def start(stage: ir.Var) -> ir.Stmt:
            shift = ir.cast(UINT32, stage) * word(8)
            return ir.seq(
                [
                    run(
                        "tw_barrier_start",
                        at.base + word(layout.full_offset) + shift,
                        word(_arrivals(layout.passing)),
                    ),
                    run(
                        "tw_barrier_start",
                        at.base + word(layout.empty_offset) + shift,
                        word(consumers),
                    ),
                ]
            )

        started = [loop("stage", layout.stages, start)]
        if layout.is_resident:
            resident = at.base + word(layout.resident_barrier)
            arrivals = word(layout.steps * _arrivals((layout.right,)))
            started.append(run("tw_barrier_start", resident, arrivals))
        if layout.images is not None:
            started += layout.images.start(at.base, _WARPS * layout.form.gatherers)
        return ir.seq(started)

    def _meeting(self) -> list[ir.Stmt]:
        """All threads of the blocks that share a tile wait for each other."""
        return [run("tw_cluster_barrier")] if self.layout.form.splits > 1 else []

    def _each_tile(self, at: KernelVars, body: Callable[[Turn], ir.Stmt]) -> ir.Stmt:
        """`body` of all turns of a block of threads."""
        return self.turns.each(at.block, body)

    def _rank(self, at: KernelVars) -> ir.PrimExpr:
        """The number of a block of threads among those that share a tile."""
        return ir.floormod(at.block, self.layout.form.splits)

    def _each_step(
        self, turn: Turn, body: Callable[[ir.Var, _StageUse], ir.Stmt], *, unrolled: bool = False
    ) -> ir.Stmt:
        """`body` of the step and its use of a stage, for all steps of a turn."""
        return loop(
            "step",
            turn.steps,
            lambda step: bound(
                "count", turn.uses + step, lambda count: body(step, _StageUse(self.layout, count))
            ),
            unrolled=unrolled,
        )

    # --- fetching -------------------------------------------------------------------------------

    def _fetch(self, at: KernelVars) -> ir.Stmt:
        layout, form, images = self.layout, self.layout.form, self.layout.images
        groups = form.gatherers
        is_first = ir.equal(at.warp, _WARPS * form.consumers)
        is_fetcher = ir.logical_and(is_first, ir.equal(at.lane, 0))

        def step(turn: Turn) -> ir.Stmt:
            def fetch(step: ir.Var, use: _StageUse) -> ir.Stmt:
                place = {form.tiles.loop_var: turn.tile, form.steps.loop_var: turn.place(step)}
                staged = images.address(at.base, turn.number) if images else word(0)
                where = use.tiles(at.base), staged
                fetched = ir.seq(
                    [
                        run("tw_barrier_wait", use.empty(at.base), use.parity(1)),
                        *self._bring(layout.passing, at, where, use.full(at.base), place),
                    ]
                )
                own = ir.floordiv(at.warp, _WARPS) - form.consumers
                is_own = ir.equal(ir.floormod(use.count, max(1, groups)), own)
                return when(is_own, fetched) if groups > 1 else fetched

            count = ir.constant_value(turn.steps)
            unrolled = groups > 0 and isinstance(count, int) and count <= _UNROLLED
            steps = self._each_step(turn, fetch, unrolled=unrolled)
            return images.held(at.base, at.lane, turn.number, steps) if images else steps

        body = ir.seq([*self._bring_resident(at), self._each_tile(at, step)])
        return body if groups else when(is_fetcher, body)

    def _bring_resident(self, at: KernelVars) -> Sequence[ir.Stmt]:
        """The operand that stays, once: one group brings it."""
        layout = self.layout
        if not layout.is_resident:
            return []
        full = at.base + word(layout.resident_barrier)

        def bring(step: ir.Var) -> ir.Stmt:
            place = {layout.form.tiles.loop_var: ir.const(0), layout.form.steps.loop_var: step}
            where = self._resident(at, step), word(0)
            return ir.seq(self._bring((layout.right,), at, where, full, place))

        body = loop("step", layout.steps, bring)
        is_first = ir.equal(ir.floordiv(at.warp, _WARPS), layout.form.consumers)
        return [when(is_first, body) if layout.form.gatherers > 1 else body]

    def _resident(self, at: KernelVars, step: ir.Var) -> ir.PrimExpr:
        """The address of a tile of the operand that stays."""
        first = at.base + word(self.layout.resident_offset)
        return first + ir.cast(UINT32, step) * word(self.layout.right.bytes)

    def _bring(
        self,
        operands: Sequence[OperandMap],
        at: KernelVars,
        where: tuple[ir.PrimExpr, ir.PrimExpr],
        full: ir.PrimExpr,
        place: Mapping[ir.Var, ir.PrimExpr],
    ) -> Sequence[ir.Stmt]:
        """Fetch tiles that lie one after another, and say so to a barrier.

        `where` is the address of the first one, and that of a staged image.
        """
        address, staged = where
        bulk: list[ir.Stmt] = []
        gathered: list[ir.Stmt] = []
        expected = 0
        for each in operands:
            if each.map is None:
                image = self.layout.image if each is self.layout.left else None
                thread = ir.floormod(at.thread, WARP_GROUP)
                gathering = Gathering(each.operand, image)
                gathered.append(gathering.statement(thread, address, place, staged))
            else:
                bulk += bulk_loads(each, address, full, place)
                expected += each.bytes
            address = address + word(each.bytes)
        if bulk:
            bulk.insert(0, run("tw_barrier_expect", full, word(expected)))
        if not self.layout.form.gatherers:
            return bulk
        if gathered:
            arrived = when(ir.equal(at.lane, 0), run("tw_barrier_arrive", full))
            gathered += [run("tw_fence_async_shared"), run("tw_warp_sync"), arrived]
        return [*([when(_is_leader(at), *bulk)] if bulk else []), *gathered]

    def _fetch_or_stage(self, at: KernelVars) -> ir.Stmt:
        """The last warp stages images where there are any."""
        layout, images = self.layout, self.layout.images
        if images is None:
            return self._fetch(at)
        rows = images.image.operand.copy.axes[images.image.operand.row]

        def stage(turn: Turn) -> ir.Stmt:
            first = ir.substitute(rows.origin, {layout.form.tiles.loop_var: turn.tile})
            return images.stage(at.base, turn.number, first)

        is_stager = ir.equal(at.thread, layout.threads - WARP)
        fetching = ir.less(at.warp, _WARPS * (layout.form.consumers + layout.form.gatherers))
        staging = when(is_stager, self._each_tile(at, stage))
        return ir.IfThenElse(fetching, self._fetch(at), staging)

    # --- multiplying ----------------------------------------------------------------------------

    def _multiply(self, at: KernelVars) -> ir.Stmt:
        layout = self.layout
        sums, is_leader = sums_of(layout), _is_leader(at)
        writer = None if layout.output_map is None else OutputWriter(layout)
        ahead = () if writer is None else tuple(writer.ahead.values())

        def tile(turn: Turn) -> ir.Stmt:
            place = {layout.form.tiles.loop_var: turn.tile}
            last = _StageUse(layout, turn.uses + (turn.steps - 1))
            written = self._write(at, writer, sums.results, place)
            if self._partial is not None:
                written = self._partial.finish(sums.results, turn, at, written)
            return ir.seq(
                [
                    *sums.begin(),
                    *self._fetch_ahead(writer, turn, place, at),
                    self._each_step(
                        turn, lambda step, use: self._step(at, sums, step, use, is_leader)
                    ),
                    *sums.end(when(is_leader, run("tw_barrier_arrive", last.empty(at.base)))),
                    written,
                ]
            )

        ended = [when(is_leader, run("tw_bulk_wait_0"))] if layout.is_bulk else []
        body = ir.seq([*self._wait_for_resident(at), self._each_tile(at, tile), *ended])
        block = ir.Block((), (), (), "multiply", body, alloc_buffers=(*sums.registers, *ahead))
        return ir.BlockRealize((), ir.TRUE, block)

    def _fetch_ahead(
        self,
        writer: OutputWriter | None,
        turn: Turn,
        place: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
    ) -> Sequence[ir.Stmt]:
        """What results are made of beside sums, in a turn that ends with results."""
        fetched = [] if writer is None else writer.fetch_ahead(place, at)
        if fetched and self._partial is not None:
            return [when(self._partial.is_last(turn), *fetched)]
        return fetched

    def _wait_for_resident(self, at: KernelVars) -> Sequence[ir.Stmt]:
        if not self.layout.is_resident:
            return []
        return [run("tw_barrier_wait", at.base + word(self.layout.resident_barrier), word(0))]

    def _write(
        self,
        at: KernelVars,
        writer: OutputWriter | None,
        sums: ir.Buffer,
        place: Mapping[ir.Var, ir.PrimExpr],
    ) -> ir.Stmt:
        layout = self.layout
        if writer is None or layout.output_map is None:
            return RowWriter(layout).write(sums, place, at, self._rank(at))
        return writer.write(sums, layout.output_map, place, at)

    def _step(
        self, at: KernelVars, sums: Sums, step: ir.Var, use: _StageUse, is_leader: ir.PrimExpr
    ) -> ir.Stmt:
        """Wait for the tiles of one stage, and multiply them."""
        layout = self.layout
        consumer = ir.cast(UINT32, ir.floordiv(at.warp, 4))
        left = use.tiles(at.base) + consumer * word(rows_shift(layout.left, layout.rows))
        right = (
            self._resident(at, step)
            if layout.is_resident
            else use.tiles(at.base) + word(layout.left.bytes)
        )
        before = _StageUse(layout, use.count - 1)
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
class KernelVars:
    """The names that all statements of a kernel share."""

    block: ir.Var
    thread: ir.Var
    base: ir.Var
    warp: ir.Var
    lane: ir.Var


def _is_leader(at: KernelVars) -> ir.PrimExpr:
    """Whether a thread is the first of its group."""
    return ir.logical_and(ir.equal(ir.floormod(at.warp, _WARPS), 0), ir.equal(at.lane, 0))


def _arrivals(operands: Sequence[OperandMap]) -> int:
    """Of threads at a barrier before tiles are there: one for bulk copies, and each warp."""
    gathered = [each.map is None for each in operands]
    return (not all(gathered)) + _WARPS * any(gathered)


@dataclass(frozen=True)
class _StageUse:
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

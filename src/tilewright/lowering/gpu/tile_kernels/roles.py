"""Statements of a tile kernel: one warp group fetches tiles, the others multiply and write.

Stages of shared memory are a ring. Each has two barriers: `full` (its tiles have arrived) and
`empty` (they have been read). The uses of stages are counted over all tiles of a block of threads,
so that barriers need no state but that count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.intrinsics import address_of, bitwise_and, bitwise_xor, call_extern
from tilewright.lowering.gpu.tile_kernels.building import bound, loop, on_threads, run, sync, when
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.output import OutputWriter
from tilewright.lowering.gpu.tile_kernels.tensor_maps import (
    MAX_BOX,
    ROW_BYTES,
    OperandMap,
    TensorMap,
    WindowMap,
    coordinates,
    output_map,
)

UINT32, UINT64 = ir.DType("uint32"), ir.DType("uint64")
_SWIZZLES = {128: 1, 64: 2, 32: 3}  # of descriptors


def word(value: int) -> ir.PrimExpr:
    """An address in shared memory, or a part of one."""
    return ir.const(value, UINT32)


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

    @property
    def steps(self) -> int:
        """Tiles along the sum."""
        extent = self.layout.form.steps.extent
        assert isinstance(extent, ir.IntImm)
        return extent.value

    # --- the frame ------------------------------------------------------------------------------

    def statement(self) -> ir.Stmt:
        """The kernel with its tensor maps, as a statement of the host."""
        layout = self.layout
        memory = ir.decl_buffer((layout.bytes,), "uint8", "memory", scope="shared.dyn")
        block, thread = ir.Var("block", ir.INT32), ir.Var("thread", ir.INT32)
        output = self._output_map()
        body = _bindings(
            {
                "base": _aligned(call_extern(UINT32, "tw_shared_address", address_of(memory[0]))),
                "warp": call_extern(ir.INT32, "tw_warp_of_thread", thread),
                "lane": ir.floormod(thread, 32),
            },
            lambda base, warp, lane: self._roles(_Place(block, thread, base, warp, lane), output),
        )
        inside = ir.Block((), (), (), "tile_kernel", body, alloc_buffers=(memory,))
        stmt: ir.Stmt = ir.BlockRealize((), ir.TRUE, inside)
        stmt = on_threads(thread, "threadIdx.x", layout.threads, stmt)
        stmt = on_threads(block, "blockIdx.x", self.blocks, stmt)
        for made in (output, layout.right.map, layout.left.map):
            stmt = ir.LetStmt(made.var, made.creation(), stmt)
        return stmt

    def _output_map(self) -> TensorMap:
        writer = OutputWriter(self.layout)
        box = {writer.column: self.layout.output_panel, writer.row: self.layout.rows}
        return output_map(self.layout.form.output, writer.column, box)

    def _roles(self, at: _Place, output: TensorMap) -> ir.Stmt:
        layout = self.layout
        fewer, more = layout.registers
        maps = [layout.left.map.var, layout.right.map.var, output.var]
        consumers = layout.form.consumers
        fetching = ir.equal(ir.floordiv(at.warp, 4), consumers)
        is_fetcher = ir.logical_and(ir.equal(at.warp, 4 * consumers), ir.equal(at.lane, 0))
        start = [
            self._barriers(at),
            run("tw_fence_barriers"),
            *(run("tw_prefetch_map", var) for var in maps),
        ]
        return ir.seq(
            [
                when(ir.equal(at.thread, 0), *start),
                sync(),
                run("tw_wait_for_previous_grid"),
                run("tw_launch_next_grid"),
                ir.IfThenElse(
                    fetching,
                    ir.seq([run(f"tw_registers_dec_{fewer}"), when(is_fetcher, self._fetch(at))]),
                    ir.seq([run(f"tw_registers_inc_{more}"), self._multiply(at, output)]),
                ),
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

    def _each_tile(self, at: _Place, body: Callable[[ir.Var, ir.Var], ir.Stmt]) -> ir.Stmt:
        """`body` of the round and the tile, for all tiles of a block of threads."""
        rounds = -(-self.tiles // self.blocks)

        def one(number: ir.Var) -> ir.Stmt:
            tile = ir.Var("tile", ir.INT32)
            inside = body(number, tile)
            if self.tiles % self.blocks:
                inside = when(ir.less(tile, self.tiles), inside)
            return ir.LetStmt(tile, number * self.blocks + at.block, inside)

        return loop("round", rounds, one)

    def _each_step(self, number: ir.Var, body: Callable[[ir.Var, _Use], ir.Stmt]) -> ir.Stmt:
        """`body` of the step and its use of a stage, for all steps along the sum."""
        return loop(
            "step",
            self.steps,
            lambda step: bound(
                "count",
                number * self.steps + step,
                lambda count: body(step, _Use(self.layout, count)),
            ),
        )

    # --- fetching -------------------------------------------------------------------------------

    def _fetch(self, at: _Place) -> ir.Stmt:
        layout = self.layout

        def step(number: ir.Var, tile: ir.Var) -> ir.Stmt:
            def fetch(step: ir.Var, use: _Use) -> ir.Stmt:
                full = use.full(at.base)
                place = {layout.form.tiles.loop_var: tile, layout.form.steps.loop_var: step}
                address = use.tiles(at.base)
                return ir.seq(
                    [
                        run("tw_barrier_wait", use.empty(at.base), use.parity(1)),
                        run("tw_barrier_expect", full, word(layout.stage_bytes)),
                        *_loads(layout.left, address, full, place),
                        *_loads(layout.right, address + word(layout.left_bytes), full, place),
                    ]
                )

            return self._each_step(number, fetch)

        return self._each_tile(at, step)

    # --- multiplying ----------------------------------------------------------------------------

    def _multiply(self, at: _Place, output: TensorMap) -> ir.Stmt:
        layout = self.layout
        sums = ir.decl_buffer((layout.sums,), layout.form.sums.dtype, "sums", scope="local")
        is_leader = ir.logical_and(ir.equal(ir.floormod(at.warp, 4), 0), ir.equal(at.lane, 0))
        writer = OutputWriter(layout)

        def tile(number: ir.Var, tile: ir.Var) -> ir.Stmt:
            place = {layout.form.tiles.loop_var: tile}
            last = _Use(layout, number * self.steps + (self.steps - 1))
            return ir.seq(
                [
                    self._each_step(
                        number,
                        lambda step, use: self._step(at, sums, step, use, is_leader),
                    ),
                    run("tw_wgmma_wait_0"),
                    when(is_leader, run("tw_barrier_arrive", last.empty(at.base))),
                    writer.write(sums, output, place, at),
                ]
            )

        body = ir.seq([self._each_tile(at, tile), when(is_leader, run("tw_bulk_wait_0"))])
        block = ir.Block((), (), (), "multiply", body, alloc_buffers=(sums,))
        return ir.BlockRealize((), ir.TRUE, block)

    def _step(
        self, at: _Place, sums: ir.Buffer, step: ir.Var, use: _Use, is_leader: ir.PrimExpr
    ) -> ir.Stmt:
        """Multiply the tiles of one stage while the stage before is still being read."""
        layout = self.layout
        consumer = ir.cast(UINT32, ir.floordiv(at.warp, 4))
        left = use.tiles(at.base) + consumer * word(_rows_shift(layout.left, layout.rows))
        right = use.tiles(at.base) + word(layout.left_bytes)
        before = _Use(layout, use.count - 1)

        def products(left: ir.Var, right: ir.Var) -> ir.Stmt:
            def one(part: ir.Var) -> ir.Stmt:
                far = ir.cast(UINT64, part)
                return ir.seq(
                    run(
                        layout.instruction,
                        address_of(sums[number * layout.sums_of_matrix]),
                        left
                        + _far(_rows_shift(layout.left, 64) * number // 16)
                        + far * _far(_depth_shift(layout.left) // 16),
                        right + far * _far(_depth_shift(layout.right) // 16),
                        ir.cast(ir.INT32, ir.not_equal(step + part, 0)),
                    )
                    for number in range(layout.matrices)
                )

            return loop("part", layout.depth_steps, one, unrolled=True)

        multiplied = _bindings(
            {
                "left_tile": _descriptor(layout.left, left, layout),
                "right_tile": _descriptor(layout.right, right, layout),
            },
            products,
        )
        ready = ir.logical_and(ir.greater(step, 0), is_leader)
        return ir.seq(
            [
                run("tw_barrier_wait", use.full(at.base), use.parity(0)),
                run("tw_wgmma_fence"),
                multiplied,
                run("tw_wgmma_commit"),
                run("tw_wgmma_wait_1"),
                when(ready, run("tw_barrier_arrive", before.empty(at.base))),
            ]
        )


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


def _far(value: int) -> ir.PrimExpr:
    return ir.const(value, UINT64)


def _rows_shift(operand: OperandMap, rows: int) -> int:
    """Bytes between a row of a tile and one that many rows later."""
    if operand.is_depth_first:
        return rows * ROW_BYTES
    depth = operand.operand.copy.axes[operand.operand.depth].extent
    return rows // operand.panel * depth * operand.panel * 2


def _depth_shift(operand: OperandMap) -> int:
    """Bytes between the tiles of two instructions that follow each other along the sum."""
    return 32 if operand.is_depth_first else 16 * operand.panel * 2


def _descriptor(operand: OperandMap, address: ir.PrimExpr, layout: GroupLayout) -> ir.PrimExpr:
    """What the instruction has to know of a tile: its address and how its rows lie."""
    width = operand.panel * operand.operand.copy.store.buffer.dtype.itemsize
    depth = operand.operand.copy.axes[operand.operand.depth].extent
    panels = 16 if operand.is_depth_first else depth * width
    mode = _SWIZZLES[width]
    numbers = (word(panels), word(8 * width), word(mode))
    return call_extern(UINT64, "tw_matrix_descriptor", address, *numbers)


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
        target = address + word(_rows_shift(operand, first))
        at = coordinates(made, origin, {row: first})
        copies.append(run(f"tw_load_{len(at)}d", target, made.var, barrier, *at))
    return copies

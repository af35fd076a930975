"""`LowerTileKernels`: loops over tiles that a schedule marked become kernels with roles."""

from __future__ import annotations

from tilewright import ir
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.gpu.tile_kernels.layout import PROCESSORS, GroupLayout
from tilewright.lowering.gpu.tile_kernels.roles import TileKernel
from tilewright.lowering.gpu.tile_kernels.thread_kernel import ThreadKernel
from tilewright.lowering.gpu.tile_kernels.thread_tiles import ThreadTiles
from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, read_tile_form, tile_loops
from tilewright.target import Target

# Of Hopper, the only architecture with these instructions.
SHARED_BYTES = 232448


def processors_of(target: Target | None) -> int:
    """How many blocks of threads run at a time, one on each processor."""
    return PROCESSORS if target is None else target.gpu.multiprocessors


@register_pass
class LowerTileKernels(FunctionPass):
    """Give the threads of tile kernels their roles."""

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        """Replace each marked loop; the buffers of its tiles go."""
        found = {loop: read_tile_form(loop) for loop in tile_loops(func.body)}
        if not found:
            return func
        gone = {buffer for form in found.values() for buffer in _tile_buffers(form)}

        def kernel(loop: ir.For) -> ir.Stmt | None:
            form = found.get(loop)
            if form is None:
                return None
            if form.thread_tile is not None:
                return ThreadKernel(ThreadTiles.of(form)).statement()
            layout = GroupLayout.of(form, SHARED_BYTES, processors_of(target))
            return TileKernel(layout, _blocks(layout)).statement()

        def without_tiles(block: ir.Block) -> ir.Block:
            kept = tuple(buffer for buffer in block.alloc_buffers if buffer not in gone)
            return ir.updated(block, alloc_buffers=kept)

        return ir.rewrite(func, {ir.Block: without_tiles}, before={ir.For: kernel})


def _blocks(layout: GroupLayout) -> int:
    """Blocks of threads: as many as run at a time do all tiles, unless results take the place of
    tiles in shared memory."""
    if layout.form.is_streamed:
        return min(layout.tiles * layout.steps, layout.processors)
    if layout.is_bulk:
        return min(layout.tiles, layout.processors)
    return layout.tiles * layout.form.splits


def _tile_buffers(form: TileForm) -> tuple[ir.Buffer, ...]:
    copies = (form.left.copy, form.right.copy)
    return (form.sums, *(copy.store.buffer for copy in copies))

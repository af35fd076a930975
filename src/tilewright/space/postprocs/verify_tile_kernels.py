"""`VerifyTileKernels`: reject candidates whose tiles the instructions or memory do not allow."""

from __future__ import annotations

from tilewright.errors import LowerError
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import SHARED_BYTES
from tilewright.lowering.gpu.tile_kernels.thread_tiles import ThreadTiles
from tilewright.lowering.gpu.tile_kernels.tile_form import read_tile_form, tile_loops
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, postprocs


@postprocs.register("VerifyTileKernels")
class VerifyTileKernels(Postproc):
    """Accepts a candidate when all its tile kernels can be made."""

    def apply(self, sch: Schedule) -> bool:
        """Settle the sizes of each kernel."""
        try:
            for func in sch.mod.functions.values():
                for form in map(read_tile_form, tile_loops(func.body)):
                    if form.thread_tile is None:
                        GroupLayout.of(form, SHARED_BYTES)
                    else:
                        ThreadTiles.of(form)
        except LowerError:
            return False
        return True

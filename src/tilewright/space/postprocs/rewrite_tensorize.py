"""`RewriteTensorize`: blocks that rules marked with an intrinsic are replaced by it."""

from __future__ import annotations

import logging

from tilewright.errors import TilewrightError
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import Postproc, TaskContext, postprocs
from tilewright.space.conditions import blocks_inner_first
from tilewright.space.layout_free import layout_free_buffers
from tilewright.space.postprocs.rewrite_layout import rewrite_layout

_log = logging.getLogger(__name__)


@postprocs.register("RewriteTensorize")
class RewriteTensorize(Postproc):
    """Tensorize marked blocks; a block that does not fit its intrinsic stays as it is.

    Operands that lie in the wrong order are packed first, if their layout is free.
    `vectorize_init_loop`: initialisations without an intrinsic get their one loop vectorized.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop
        self.logger = _log

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.logger = getattr(context, "logger", None) or _log

    def apply(self, sch: Schedule) -> bool:
        marked = [
            (block.name, function, str(block.block.annotations[keys.AUTO_TENSORIZE]))
            for function, root in sch.state.roots.items()
            for block in blocks_inner_first(sch.state, root)
            if keys.AUTO_TENSORIZE in block.block.annotations
        ]
        for name, function, intrin in marked:
            if intrin:
                self._tensorize(sch, name, function, intrin)
            elif self.vectorize_init_loop:
                _vectorize_only_loop(sch, name, function)
        return True

    def _tensorize(self, sch: Schedule, name: str, function: str, intrin: str) -> None:
        block = sch.get_block(name, function)
        sch.unannotate(block, keys.AUTO_TENSORIZE)
        try:
            _tensorize(sch, block, function, intrin)
        except TilewrightError as error:
            self.logger.warning("Tensorize failed with error %s", error)

    def clone(self) -> RewriteTensorize:
        twin = RewriteTensorize(self.vectorize_init_loop)
        twin.logger = self.logger
        return twin


def _tensorize(sch: Schedule, block: BlockRV, function: str, intrin: str) -> None:
    try:
        sch.tensorize(block, intrin)
    except TilewrightError:
        if not _pack_operands(sch, block, function):
            raise
        sch.tensorize(block, intrin)


def _pack_operands(sch: Schedule, block: BlockRV, function: str) -> bool:
    """Store what the block reads in the order in which it does, where layouts are free."""
    read = {region.buffer for region in sch.get_sref(block).block.reads}
    free = [buffer for buffer in layout_free_buffers(sch.mod[function]) if buffer in read]
    return any([rewrite_layout(sch, function, buffer) for buffer in free])


def _vectorize_only_loop(sch: Schedule, name: str, function: str) -> None:
    block = sch.get_block(name, function)
    sch.unannotate(block, keys.AUTO_TENSORIZE)
    (child,) = sch.get_child_blocks(block)
    (loop,) = sch.get_loops(child)
    sch.vectorize(loop)

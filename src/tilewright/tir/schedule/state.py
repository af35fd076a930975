"""The state of a schedule as TVM's users ask it: references, scopes, cached flags."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tilewright.ir import IRModule, PrimFunc
from tilewright.schedule import ScheduleState as State, StmtSRef
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.schedule.core import as_debug_mask
from tilewright.schedule.state.flags import adopt_initial_flags, is_stage_pipeline, region_cover
from tilewright.schedule.state.scope import BlockScope
from tilewright.schedule.state.state import VERIFY_CACHED_FLAGS, VERIFY_SREF_TREE


class ScheduleDebugMask(enum.IntEnum):
    """What a schedule checks after each step; `debug_mask="all"` is all of it."""

    VERIFY_SREF_TREE = VERIFY_SREF_TREE
    VERIFY_CACHED_FLAGS = VERIFY_CACHED_FLAGS


class CachedFlags(NamedTuple):
    """What a schedule knows of a block."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


class _OfSchedules(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, State)  # that of a Schedule, too


class StandaloneScheduleState(State, metaclass=_OfSchedules):
    """A module with references to its blocks and loops, without a schedule around it."""

    __slots__ = ()

    def __init__(
        self, mod: PrimFunc | IRModule, *, debug_mask: str | int = "none", enable_check: bool = True
    ) -> None:
        module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        super().__init__(module, as_debug_mask(debug_mask), enable_check)
        adopt_initial_flags(self)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The dependencies among the blocks directly below a block."""
        return self.scope_of(block_sref)

    def _get_cached_flags(self, block_sref: StmtSRef) -> CachedFlags:
        is_root = block_sref.parent is None
        return CachedFlags(
            is_root or has_affine_binding(self, block_sref),
            is_root or region_cover(self, block_sref),
            is_stage_pipeline(self, block_sref),
        )


ScheduleState = StandaloneScheduleState  # its name in TVM

"""Schedules, handles, traces and their parts under the names users of TVM know."""

from tilewright.errors import ScheduleError as ScheduleError
from tilewright.schedule import (
    BlockRV as BlockRV,
    ExprRV as ExprRV,
    Instruction as Instruction,
    LoopRV as LoopRV,
    Primitive,
    Schedule as Schedule,
    StmtSRef as StmtSRef,
    Trace as Trace,
)
from tilewright.schedule.state.scope import (
    BlockScope as BlockScope,
    Dependency as Dependency,
    DepKind as DepKind,
)
from tilewright.tir.schedule import analysis as analysis, transform as transform
from tilewright.tir.schedule.state import (
    CachedFlags as CachedFlags,
    ScheduleDebugMask as ScheduleDebugMask,
    ScheduleState as ScheduleState,
)

InstructionKind = Primitive

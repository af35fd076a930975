"""Schedules: primitives that transform TensorIR, handles that survive them, traces that replay."""

from tilewright.schedule import primitives as primitives, render as render
from tilewright.schedule.errors import PrimitiveError as PrimitiveError
from tilewright.schedule.schedule import Schedule as Schedule
from tilewright.schedule.state.handles import BlockRV as BlockRV, ExprRV as ExprRV, LoopRV as LoopRV
from tilewright.schedule.state.sref import StmtSRef as StmtSRef
from tilewright.schedule.state.state import ScheduleState as ScheduleState
from tilewright.schedule.trace.instruction import (
    Instruction as Instruction,
    Primitive as Primitive,
    register_primitive as register_primitive,
)
from tilewright.schedule.trace.trace import Trace as Trace

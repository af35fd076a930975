"""The program under a schedule: references into it, its scopes, and what is known of them."""

from tilewright.schedule.state.handles import (
    AnyRV as AnyRV,
    BlockRV as BlockRV,
    ExprRV as ExprRV,
    LoopRV as LoopRV,
)
from tilewright.schedule.state.sref import (
    Domains as Domains,
    Exprs as Exprs,
    StmtSRef as StmtSRef,
    Values as Values,
    leaf_realizes as leaf_realizes,
)
from tilewright.schedule.state.state import BlockInfo as BlockInfo, ScheduleState as ScheduleState

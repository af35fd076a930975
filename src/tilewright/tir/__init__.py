"""TensorIR under the names users of TVM know: `tir.Var`, `tir.exp`, `tir.ir_builder`, ..."""

from typing import Any

from tilewright import (
    driver as driver,  # with it, `TensorIntrin.register` can try what it is given
    intrin as intrin,  # registers the built-in instructions
)
from tilewright.arith import IndexMap as IndexMap
from tilewright.ir import *  # noqa: F403 - all of it, under the name that users of TVM know
from tilewright.ir import (
    Evaluate,
    PrimExpr,
    Stmt,
    divide,
    floordiv,
    floormod,
    op_by_script_name,
    seq,
    statements_of,
)
from tilewright.ir.intrinsics import *  # noqa: F403
from tilewright.ir.tensor_intrin import TensorIntrin as TensorIntrin
from tilewright.script.exprs import call_operator, ceildiv as ceildiv
from tilewright.te import (
    ProducerLoad as ProducerLoad,
    all as all,
    any as any,
    comm_reducer as comm_reducer,
    max as max,
    min as min,
    prod as prod,
    sum as sum,
)
from tilewright.tir import (
    analysis as analysis,
    ir_builder as ir_builder,
    schedule as schedule,
    stmt_functor as stmt_functor,
    tensor_intrin as tensor_intrin,
    transform as transform,
)
from tilewright.tir.constructors import CONSTRUCTORS
from tilewright.tir.schedule import (
    BlockScope as BlockScope,
    Dependency as Dependency,
    DepKind as DepKind,
    Schedule as Schedule,
    ScheduleError as ScheduleError,
    ScheduleState as ScheduleState,
    StmtSRef as StmtSRef,
    Trace as Trace,
)

indexdiv, indexmod, div = floordiv, floormod, divide


def stmt_seq(*args: PrimExpr | Stmt) -> Stmt:
    """Statements in order; an expression is evaluated, and one statement stands alone."""
    return seq(Evaluate(part) if isinstance(part, PrimExpr) else part for part in args)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence; any other is the only one."""
    return list(statements_of(stmt))


globals().update(CONSTRUCTORS)  # the same classes, made as in TVM: numbers and lists will do


def __getattr__(name: str) -> Any:
    """Registered operators by their names, e.g. `tir.tvm_thread_allreduce`."""
    if name.startswith("_") or op_by_script_name(name) is None:
        raise AttributeError(f"module 'tilewright.tir' has no attribute {name!r}")
    return call_operator(name)

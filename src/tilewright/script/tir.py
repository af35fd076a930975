"""The `T` of script: everything a TensorIR function may say.

Expression builders come straight from `ir`; the constructs that make up statements are in
`statements.py`. Types (`T.int32`, `T.float16x8`), nodes just as they are (`T.Add`) and operators
that users register are looked up by name.
"""

from __future__ import annotations

from typing import Any

from tilewright.arith import IndexMap
from tilewright.errors import IRError
from tilewright.ir import (
    FloatImm as FloatImm,
    IntImm as IntImm,
    SizeVar as SizeVar,
    Var as Var,
    all_ops,
    floordiv as floordiv,
    floormod as floormod,
    maximum,
    minimum,
    op_by_script_name,
    truncdiv as truncdiv,
    truncmod as truncmod,
)
from tilewright.ir.intrinsics import (
    abs as abs,
    infinity as infinity,
    max_value as max_value,
    min_value as min_value,
    power as power,
)
from tilewright.script.decorators import macro as macro, prim_func as prim_func
from tilewright.script.dtypes import DTypeForm, dtype_form, handle as handle
from tilewright.script.exprs import (
    RAW_NODES,
    Broadcast as Broadcast,
    Call as Call,
    Cast as Cast,
    GlobalVar as GlobalVar,
    Let as Let,
    Not as Not,
    Ramp as Ramp,
    Range as Range,
    Select as Select,
    Shuffle as Shuffle,
    StringImm as StringImm,
    broadcast as broadcast,
    call_intrin as call_intrin,
    call_operator,
    cast as cast,
    ceildiv as ceildiv,
    comm_reducer as comm_reducer,
    iter_var as iter_var,
    llvm_lookup_intrinsic_id as llvm_lookup_intrinsic_id,
    ramp as ramp,
    raw_node,
    target as target,
    var as var,
)
from tilewright.script.statements import (
    Assert as Assert,
    Buffer as Buffer,
    LetStmt as LetStmt,
    alloc_buffer as alloc_buffer,
    allocate as allocate,
    allocate_const as allocate_const,
    attr as attr,
    axis as axis,
    block as block,
    block_attr as block_attr,
    buffer as buffer,
    decl_buffer as decl_buffer,
    env_thread as env_thread,
    evaluate as evaluate,
    func_attr as func_attr,
    grid as grid,
    init as init,
    launch_thread as launch_thread,
    let as let,
    match_buffer as match_buffer,
    meta_var as meta_var,
    parallel as parallel,
    reads as reads,
    serial as serial,
    thread_binding as thread_binding,
    unroll as unroll,
    vectorized as vectorized,
    where as where,
    writes as writes,
)

max, min = maximum, minimum
boolean = dtype_form("bool")
index_map = IndexMap.from_func


def __getattr__(name: str) -> Any:
    """Types and registered operators, by the name script gives them."""
    if name.startswith("__"):
        raise AttributeError(name)
    if op_by_script_name(name) is not None:
        return call_operator(name)
    if name in RAW_NODES:
        return raw_node(name)
    try:
        form: DTypeForm = dtype_form(name)
    except IRError:
        raise AttributeError(name) from None
    return form


def __dir__() -> list[str]:
    return known_names()


def known_names() -> list[str]:
    """Every name that `T` answers to, except for the vector types."""
    scalar_types = ["bool", "void", "bfloat16"]
    for code in ("int", "uint"):
        scalar_types += [f"{code}{bits}" for bits in (8, 16, 32, 64)]
    scalar_types += [f"float{bits}" for bits in (16, 32, 64)]
    own = [name for name in globals() if not name.startswith("_") and name not in _INTERNAL]
    return sorted({*own, *RAW_NODES, *scalar_types, *(op.script_name for op in all_ops())})


_INTERNAL = {
    "Any", "IRError", "IndexMap",
    "DTypeForm", "all_ops", "annotations", "call_operator", "dtype_form",
    "RAW_NODES", "known_names", "raw_node", "maximum", "minimum", "op_by_script_name",
}  # fmt: skip

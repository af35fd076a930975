"""The `T` of script: everything a TensorIR function may say.

Expression builders come straight from `ir`; the constructs that make up statements are in
`statements.py`. Types (`T.int32`, `T.float16x8`), nodes just as they are (`T.Add`) and operators
that users register are looked up by name.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.arith import IndexMap
from tilewright.errors import IRError
from tilewright.ir import FloatImm as FloatImm, IntImm as IntImm, SizeVar as SizeVar, Var as Var
from tilewright.script.decorators import macro as macro, prim_func as prim_func
from tilewright.script.dtypes import DTypeForm, dtype_form, handle as handle
from tilewright.script.exprs import *  # noqa: F403 - its `__all__`
from tilewright.script.exprs import RAW_NODES, call_operator, raw_node
from tilewright.script.statements import *  # noqa: F403 - its `__all__`

floordiv, floormod, truncdiv, truncmod = ir.floordiv, ir.floormod, ir.truncdiv, ir.truncmod
max, min, abs, power = ir.maximum, ir.minimum, ir.intrinsics.abs, ir.intrinsics.power
max_value, min_value = ir.intrinsics.max_value, ir.intrinsics.min_value
infinity = ir.intrinsics.infinity
boolean = dtype_form("bool")
index_map = IndexMap.from_func


def __getattr__(name: str) -> Any:
    """Types and registered operators, by the name script gives them."""
    if name.startswith("__"):
        raise AttributeError(name)
    if ir.op_by_script_name(name) is not None:
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
    return sorted({*own, *RAW_NODES, *scalar_types, *(op.script_name for op in ir.all_ops())})


_INTERNAL = {
    "Any", "IRError", "IndexMap", "DTypeForm", "annotations", "call_operator", "dtype_form", "ir",
    "RAW_NODES", "known_names", "raw_node",
}  # fmt: skip

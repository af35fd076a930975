"""Tensor expressions: describe what each element of a tensor is, and get a TensorIR function.

`import tilewright.te as te`; `te.placeholder`, `te.compute`, `te.sum`, ..., `te.create_prim_func`.
"""

from __future__ import annotations

from tilewright.ir import Select as Select, Var, const
from tilewright.ir.expr import SizeVar
from tilewright.te.compute import ComputeOp, compute
from tilewright.te.reduce import (
    all,
    any,
    comm_reducer,
    max,
    min,
    prod,
    reduce_axis,
    sum,
    thread_axis,
)
from tilewright.te.tensor import (
    Operation,
    PlaceholderOp,
    ProducerLoad,
    Tensor,
    TensorSlice,
    placeholder,
    size_var,
    var,
)
from tilewright.te.to_prim_func import create_prim_func

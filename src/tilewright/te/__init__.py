"""Tensor expressions: describe what each element of a tensor is, and get a TensorIR function.

`import tilewright.te as te`; `te.placeholder`, `te.compute`, `te.sum`, ..., `te.create_prim_func`.
"""

from tilewright.arith import IndexMap
from tilewright.ir import (
    Select,
    SizeVar as SizeVar,
    Var as Var,
    const as const,
    divide,
    floordiv as floordiv,
    floormod as floormod,
    truncdiv as truncdiv,
    truncmod as truncmod,
)
from tilewright.ir.intrinsics import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    ceil as ceil,
    cos as cos,
    cosh as cosh,
    erf as erf,
    exp as exp,
    exp2 as exp2,
    exp10 as exp10,
    floor as floor,
    fmod as fmod,
    if_then_else as if_then_else,
    infinity as infinity,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    max_value as max_value,
    min_value as min_value,
    nearbyint as nearbyint,
    popcount as popcount,
    power as power,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from tilewright.te import hybrid as hybrid
from tilewright.te.compute import ComputeOp as ComputeOp, compute as compute
from tilewright.te.extern import (
    ExternOp as ExternOp,
    extern as extern,
    extern_primfunc as extern_primfunc,
)
from tilewright.te.reduce import *  # noqa: F403 - its `__all__`
from tilewright.te.scan import ScanOp as ScanOp, scan as scan
from tilewright.te.tensor import *  # noqa: F403 - its `__all__`
from tilewright.te.to_prim_func import create_prim_func as create_prim_func

select, div, indexdiv, indexmod = Select, divide, floordiv, floormod
AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

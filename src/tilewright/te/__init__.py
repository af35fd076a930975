"""Tensor expressions: describe what each element of a tensor is, and get a TensorIR function.

`import tilewright.te as te`; `te.placeholder`, `te.compute`, `te.sum`, ..., `te.create_prim_func`.
"""

from tilewright import ir
from tilewright.arith import IndexMap
from tilewright.ir import SizeVar as SizeVar, Var as Var, const as const
from tilewright.ir.intrinsics import *  # noqa: F403 - its `__all__`
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

select, div = ir.Select, ir.divide
floordiv, floormod, truncdiv, truncmod = ir.floordiv, ir.floormod, ir.truncdiv, ir.truncmod
indexdiv, indexmod = floordiv, floormod
AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

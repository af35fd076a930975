"""The nodes of TensorIR and the functions that build them, for the modules of this package.

They write `from tilewright.ir import nodes as ir`, and `ir.Var` as everybody else does.
"""

from tilewright.ir.arithmetic import *  # noqa: F403 - its `__all__`
from tilewright.ir.buffer import (
    Buffer as Buffer,
    BufferLoad as BufferLoad,
    BufferRegion as BufferRegion,
    decl_buffer as decl_buffer,
)
from tilewright.ir.dtype import *  # noqa: F403 - its `__all__`
from tilewright.ir.expr import *  # noqa: F403 - its `__all__`
from tilewright.ir.node import *  # noqa: F403 - its `__all__`
from tilewright.ir.stmt import *  # noqa: F403 - its `__all__`

"""An interpreter of TensorIR, independent of lowering and code generation.

It runs programs with blocks as well as lowered ones, with the exact semantics of every dtype, and
reports accesses out of bounds, reads of memory nobody wrote, and undefined variables.
"""

from tilewright.testing.oracle.errors import (
    OracleArgumentError,
    OracleError,
    OracleUnsupportedError,
    OutOfBoundsError,
    UninitializedReadError,
)
from tilewright.testing.oracle.interpreter import OracleOptions, lowered_arguments, run
from tilewright.testing.oracle.intrinsics import register_extern

__all__ = [
    "OracleArgumentError",
    "OracleError",
    "OracleOptions",
    "OracleUnsupportedError",
    "OutOfBoundsError",
    "UninitializedReadError",
    "lowered_arguments",
    "register_extern",
    "run",
]

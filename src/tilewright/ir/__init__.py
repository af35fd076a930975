"""TensorIR: dtypes, expressions, statements, buffers, functions; how to walk and rewrite them."""

from tilewright.ir import intrinsics as intrinsics
from tilewright.ir.function import (
    IRModule as IRModule,
    PrimFunc as PrimFunc,
    as_module as as_module,
)
from tilewright.ir.json import load_json as load_json, save_json as save_json
from tilewright.ir.nodes import *  # noqa: F403 - it holds these names and nothing else
from tilewright.ir.op import *  # noqa: F403 - its `__all__`
from tilewright.ir.operators import ExprLike as ExprLike, ExprOperators as ExprOperators
from tilewright.ir.patterns import *  # noqa: F403 - its `__all__`
from tilewright.ir.printer import register_expr_printer as register_expr_printer, script as script
from tilewright.ir.specialize import specialize as specialize, symbols_of as symbols_of
from tilewright.ir.structure import *  # noqa: F403 - its `__all__`
from tilewright.ir.verify import verify_well_formed as verify_well_formed
from tilewright.ir.visit import *  # noqa: F403 - its `__all__`

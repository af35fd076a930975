"""TensorIR: dtypes, expressions, statements, buffers, functions; how to walk and rewrite them."""

from tilewright.ir import intrinsics as intrinsics
from tilewright.ir.function import (
    IRModule as IRModule,
    PrimFunc as PrimFunc,
    as_module as as_module,
)
from tilewright.ir.json import load_json as load_json, save_json as save_json
from tilewright.ir.nodes import *  # noqa: F403 - it holds these names and nothing else
from tilewright.ir.op import (
    CallEffect as CallEffect,
    Op as Op,
    all_ops as all_ops,
    op_by_script_name as op_by_script_name,
    register_op as register_op,
    register_op_attr as register_op_attr,
)
from tilewright.ir.operators import ExprLike as ExprLike, ExprOperators as ExprOperators
from tilewright.ir.patterns import (
    has_load as has_load,
    nodes_of as nodes_of,
    rewrite as rewrite,
    walk as walk,
)
from tilewright.ir.printer import register_expr_printer as register_expr_printer, script as script
from tilewright.ir.specialize import specialize as specialize, symbols_of as symbols_of
from tilewright.ir.structure import (
    StructuralMismatchError as StructuralMismatchError,
    assert_structural_equal as assert_structural_equal,
    expr_deep_equal as expr_deep_equal,
    structural_equal as structural_equal,
    structural_hash as structural_hash,
    written_alike as written_alike,
)
from tilewright.ir.verify import verify_well_formed as verify_well_formed
from tilewright.ir.visit import (
    BufferRewriter as BufferRewriter,
    Dispatcher as Dispatcher,
    Rewriter as Rewriter,
    T as T,
    Visitor as Visitor,
    free_vars as free_vars,
    ir_transform as ir_transform,
    post_order_visit as post_order_visit,
    pre_order_visit as pre_order_visit,
    substitute as substitute,
    uses_var as uses_var,
)

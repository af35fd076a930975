"""Meanings of the short forms of script.

The parser builds `a + b`, `T.exp(x)` or `A[i:i + 4]` with the functions here; the printer writes a
short form only where these functions would give the very same node back. Both sides therefore
agree, and a printed program always parses to the program it was printed from.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence

from tilewright.errors import IRError
from tilewright.ir import intrinsics, nodes as ir
from tilewright.ir.arithmetic import FOLDERS
from tilewright.ir.op import Op, op_by_script_name
from tilewright.ir.operators import ExprLike
from tilewright.ir.patterns import nodes_of
from tilewright.ir.structure import expr_deep_equal

Builder = Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]

# Binding strengths of Python's operators, weakest first.
PREC_OR, PREC_AND, PREC_NOT, PREC_COMPARE, PREC_SUM, PREC_PRODUCT, PREC_SIGN, PREC_ATOM = range(
    1, 9
)

_BUILDERS: dict[type[ir.BinaryOp], Builder] = {**FOLDERS, ir.Div: ir.divide}
# node class -> (operator, binding strength, what the operator builds)
INFIX: dict[type[ir.BinaryOp], tuple[str, int, Builder]] = {
    kind: (symbol, strength, _BUILDERS[kind])
    for strength, symbols in (
        (PREC_SUM, {ir.Add: "+", ir.Sub: "-"}),
        (PREC_PRODUCT, {ir.Mul: "*", ir.Div: "/", ir.FloorDiv: "//", ir.FloorMod: "%"}),
        (
            PREC_COMPARE,
            {ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=", ir.GT: ">", ir.GE: ">="},
        ),
        (PREC_AND, {ir.And: "and"}),
        (PREC_OR, {ir.Or: "or"}),
    )
    for kind, symbol in symbols.items()
}
# node class -> (name in script, what a call of that name builds)
PREFIX: dict[type[ir.BinaryOp], tuple[str, Builder]] = {
    kind: (name, _BUILDERS[kind])
    for kind, name in ((ir.Min, "min"), (ir.Max, "max"), (ir.Mod, "truncmod"))
}
# As TVM calls the purposes of iterators.
ITER_TYPES = {
    "DataPar": ir.IterType.DATA_PAR,
    "ThreadIndex": ir.IterType.THREAD_INDEX,
    "CommReduce": ir.IterType.COMM_REDUCE,
    "Ordered": ir.IterType.ORDERED,
    "Opaque": ir.IterType.OPAQUE,
}
# Operators whose only information is a type, written as `T.undef("float32")`.
DTYPE_ONLY = frozenset({"type_annotation", "undef"})
_HANDLES = (
    "ptx_commit_group", "ptx_wait_group", "tvm_thread_allreduce", "tvm_access_ptr",
    "tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync",
    "tvm_bmma_sync", "prefetch", "tvm_stack_make_shape", "tvm_stack_make_array",
)  # fmt: skip
_DEFAULT_DTYPES: dict[str, ir.DType] = {
    **dict.fromkeys(_HANDLES, ir.HANDLE),
    **dict.fromkeys(("tvm_storage_sync", "vscale", "tvm_call_packed"), ir.INT32),
    "tvm_warp_activemask": ir.DType("uint32"),
    "isnullptr": ir.BOOL,
}
# Operators that hand on their second argument; most have the type of their first.
_LIKE_SECOND = frozenset(f"tvm_warp_shuffle{which}" for which in ("", "_up", "_down", "_xor"))


def builds(build: Builder, node: ir.BinaryOp) -> bool:
    """True when `build` of the operands gives a node like `node` with these very operands."""
    try:
        made = build(node.a, node.b)
    except (IRError, ArithmeticError):
        return False
    return type(made) is type(node) and made.a is node.a and made.b is node.b


def call_by_name(
    name: str, args: Sequence[ExprLike | str], dtype: str | None = None
) -> ir.PrimExpr:
    """What `T.<name>(*args)` means for a registered operator."""
    op = op_by_script_name(name)
    if op is None:
        raise IRError(f"no operator is written T.{name}")
    if dtype is not None:
        return intrinsics.call_intrin(dtype, op.name, *args)
    builder = getattr(intrinsics, name, None)
    if isinstance(builder, types.FunctionType):
        made: ir.PrimExpr = builder(*args)
        return made
    if op.dtype_first or name in DTYPE_ONLY:
        if not args or not isinstance(args[0], str):
            raise IRError(f"T.{name} takes the result dtype as its first argument")
        return intrinsics.call_intrin(args[0], op.name, *args[1:])
    converted = [ir.convert(arg) for arg in args]
    like = 1 if name in _LIKE_SECOND and len(converted) > 1 else 0
    default = converted[like].dtype if converted else ir.HANDLE
    return intrinsics.call_intrin(_DEFAULT_DTYPES.get(name, default), op.name, *converted)


def calls_back(node: ir.Call, args: Sequence[ExprLike | str]) -> bool:
    """True when `T.<name>(*args)` means `node`."""
    if not isinstance(node.op, Op):
        return False
    try:
        made = call_by_name(node.op.script_name, args)
    except (IRError, TypeError):
        return False
    return (
        isinstance(made, ir.Call)
        and made.op is node.op
        and made.dtype is node.dtype
        and len(made.args) == len(node.args)
        and all(x is y for x, y in zip(made.args, node.args, strict=True))
    )


def extent_between(begin: ir.PrimExpr, end: ir.PrimExpr) -> ir.PrimExpr:
    """The length of `begin:end`; exactly `n` for `begin:begin + n`."""
    if isinstance(end, ir.Add) and expr_deep_equal(end.a, begin):
        return end.b
    if expr_deep_equal(begin, end):
        return ir.const(0, end.dtype)
    return ir.subtract(end, begin)


def end_of(begin: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr | None:
    """The `end` for which `extent_between` gives `extent` back, or None if there is none."""
    if begin.dtype is not extent.dtype:
        return None
    end = ir.add(begin, extent)
    back = extent_between(begin, end)
    return end if back is extent or expr_deep_equal(back, extent) else None


def body_needs_root(body: ir.Stmt) -> bool:
    """True when the parser puts a root block around a function body.

    It does so around blocks, unless the body is one block without iterators already.
    """
    if isinstance(body, ir.BlockRealize):
        return bool(body.iter_values)
    return any(nodes_of(body, ir.BlockRealize))

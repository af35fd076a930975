"""Instructions of the accelerator VTA on its scratchpads: a row of 16 times a block of 16x16.

Operands lie in buffers of the scopes `local.inp_buffer`, `local.wgt_buffer` and `local.acc_buffer`;
blocks of weights have their outputs first (`W[j, k]`). `codegen/vta` makes a micro-operation of
every call that these instructions become.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright import ir
from tilewright.intrin import programs
from tilewright.intrin.programs import Pair, description, tile_function
from tilewright.ir.arithmetic import maximum, minimum
from tilewright.ir.intrinsics import address_of, call_extern
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.vta.isa import AluOp
from tilewright.vta.names import ACC, ALU_OPERATIONS, BLOCK, GEMM, INP, WGT, alu_name

_COMPUTE: dict[AluOp, Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]] = {
    AluOp.ADD: lambda a, b: a + b,
    AluOp.MAX: maximum,
    AluOp.MIN: minimum,
    AluOp.SHR: lambda a, b: a >> b,
}


def make_gemm() -> Pair:
    """`C[j] += A[k] * W[j, k]`"""

    def operands() -> tuple[ir.Buffer, ir.Buffer, ir.Buffer]:
        return (
            _buffer("A", (BLOCK,), "int8", INP),
            _buffer("W", (BLOCK, BLOCK), "int8", WGT),
            _buffer("C", (BLOCK,), "int32", ACC),
        )

    a, w, c = operands()
    described = description(
        ("vta_gemm", "update"),
        (a, w, c),
        c,
        (BLOCK, BLOCK),
        lambda j, k: programs.product("int32", a[k], w[j, k]),
        accumulates=True,
    )
    own = operands()
    return described, tile_function("vta_gemm", own, own[2], [_call(GEMM, *own)], accumulates=True)


def make_alu(operation: AluOp) -> Pair:
    """`D[j] = op(A[j], B[j])`"""

    def operands() -> tuple[ir.Buffer, ir.Buffer, ir.Buffer]:
        a, b, d = (_buffer(name, (BLOCK,), "int32", ACC) for name in "ABD")
        return a, b, d

    a, b, d = operands()
    compute = _COMPUTE[operation]
    names = f"vta_{operation.name.lower()}", "update"
    described = description(names, (a, b, d), d, (BLOCK,), lambda j: compute(a[j], b[j]))
    own = operands()
    return described, tile_function(names[0], own, own[2], [_call(alu_name(operation), *own)])


def _buffer(name: str, shape: tuple[int, ...], dtype: str, scope: str) -> ir.Buffer:
    return ir.decl_buffer(shape, dtype, name, scope=scope, offset_factor=BLOCK)


def _call(name: str, *operands: ir.Buffer) -> ir.Call:
    """A call with the first elements of all operands."""
    first = [ir.BufferLoad(each, (ir.const(0),) * len(each.shape)) for each in operands]
    return call_extern("int32", name, *map(address_of, first))


TensorIntrin.register_maker(GEMM, make_gemm)
for _operation in ALU_OPERATIONS:
    TensorIntrin.register_maker(alu_name(_operation), partial(make_alu, _operation))

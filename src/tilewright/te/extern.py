"""`extern`: tensors computed by statements or by a function from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir.visit import Substituter
from tilewright.te.emit import OpEmitter, block_annotations, register_emitter
from tilewright.te.tensor import Operation, Tensor, shape_of


@dataclass(frozen=True, eq=False)
class ExternOp(Operation):
    """Statements on stand-in buffers, one for each input and output."""

    inputs: tuple[Tensor, ...] = ()
    input_placeholders: tuple[ir.Buffer, ...] = ()
    output_placeholders: tuple[ir.Buffer, ...] = ()
    body: ir.Stmt | None = None
    temporaries: tuple[ir.Buffer, ...] = ()  # memory that only the body uses

    @property
    def results(self) -> Sequence[Any]:
        return self.output_placeholders

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))


def extern(
    shape: Sequence[Any],
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[ir.Buffer], list[ir.Buffer]], ir.Stmt | ir.PrimExpr],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors filled by what `fcompute(input buffers, output buffers)` returns.

    That is a statement (see `tir.ir_builder`) or an expression evaluated for its effect, such as
    `tir.call_packed("name", ins[0], outs[0])`. `shape` is one shape, or a list of shapes for
    several outputs, which come back as a tuple.
    """
    what = f"extern {name}"
    several = bool(shape) and not isinstance(shape[0], (int, ir.ExprOperators))
    shapes = [shape_of(one, what) for one in (shape if several else [shape])]
    dtypes = _dtypes(dtype, len(shapes), inputs, what)
    ins = [ir.decl_buffer(tensor.shape, tensor.dtype, tensor.name) for tensor in inputs]
    outs = [
        ir.decl_buffer(one, kind, f"{name}_v{k}" if several and len(shapes) > 1 else name)
        for k, (one, kind) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    result = fcompute(ins, outs)
    if isinstance(result, ir.PrimExpr):
        result = ir.Evaluate(result)
    if not isinstance(result, ir.Stmt):
        raise TensorExpressionError(
            f"{what}: the function must return a statement or an expression, "
            f"got {type(result).__name__}"
        )
    operation = ExternOp(
        name, tag, dict(attrs or {}), tuple(inputs), tuple(ins), tuple(outs), result
    )
    return operation.outputs() if several else operation.output(0)


def _dtypes(
    dtype: str | Sequence[str] | None, count: int, inputs: Sequence[Tensor], what: str
) -> list[ir.DType]:
    if dtype is None:
        kinds = {tensor.dtype for tensor in inputs}
        if len(kinds) != 1:
            raise TensorExpressionError(
                f"{what}: the dtype of the output cannot be guessed from the inputs; pass dtype="
            )
        return [kinds.pop()] * count
    given = [dtype] * count if isinstance(dtype, str) else list(dtype)
    if len(given) != count:
        raise TensorExpressionError(f"{what}: {count} outputs, but {len(given)} dtypes")
    return [ir.DType(kind) for kind in given]


def extern_primfunc(
    input_tensors: Sequence[Tensor], primfunc: ir.PrimFunc, name: str | None = None
) -> Any:
    """Tensors computed by a function whose first parameters are inputs, the others outputs."""
    label = name or primfunc.name
    buffers = [buffer for buffer in primfunc.buffer_params() if buffer is not None]
    if len(buffers) != len(primfunc.params):
        raise TensorExpressionError(f"extern_primfunc {label}: all parameters must be buffers")
    ins, outs = buffers[: len(input_tensors)], buffers[len(input_tensors) :]
    if not outs:
        raise TensorExpressionError(
            f"extern_primfunc {label}: the function has {len(buffers)} parameters and "
            f"{len(input_tensors)} inputs, so there is no output"
        )
    for tensor, buffer in zip(input_tensors, ins, strict=True):
        _check_matches(tensor, buffer, f"extern_primfunc {label}")
    body: ir.Stmt = primfunc.body
    temporaries: tuple[ir.Buffer, ...] = ()
    if isinstance(body, ir.BlockRealize) and not body.block.iter_vars:
        temporaries = body.block.alloc_buffers
        body = body.block.body
    operation = ExternOp(
        label, "", {}, tuple(input_tensors), tuple(ins), tuple(outs), body, temporaries
    )
    return operation.outputs() if len(outs) > 1 else operation.output(0)


def _check_matches(tensor: Tensor, buffer: ir.Buffer, what: str) -> None:
    same_type = tensor.dtype is buffer.dtype
    if not same_type or list(map(str, tensor.shape)) != list(map(str, buffer.shape)):
        raise TensorExpressionError(
            f"{what}: {tensor!r} does not fit the parameter {buffer.name}: "
            f"{buffer.dtype!s}, shape ({', '.join(map(str, buffer.shape))})"
        )


@register_emitter(ExternOp)
def emit_extern(op: ExternOp, emitter: OpEmitter) -> ir.Stmt:
    """One block without iterators, which may touch all of its inputs and outputs."""
    actual_in = [emitter.buffer_of(tensor) for tensor in op.inputs]
    actual_out = [emitter.buffer_of(tensor) for tensor in op.outputs()]
    stand_ins = (*op.input_placeholders, *op.output_placeholders)
    pairs = list(zip(stand_ins, (*actual_in, *actual_out), strict=True))
    pointers = {stand_in.data: buffer.data for stand_in, buffer in pairs}
    if op.body is None:
        raise TensorExpressionError(f"extern {op.name} has no body")
    body = Substituter(pointers.get, pairs).rewrite(op.body)
    block = ir.Block(
        (),
        tuple(ir.BufferRegion.full(buffer) for buffer in dict.fromkeys(actual_in)),
        tuple(ir.BufferRegion.full(buffer) for buffer in actual_out),
        emitter.block_names.fresh(op.name),
        body,
        alloc_buffers=op.temporaries,
        annotations=block_annotations(op),
    )
    return ir.root_realize(block)

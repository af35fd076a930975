"""The statement constructs of script: loops, blocks, buffers, attributes.

Each function checks its arguments and gives a record of `forms.py`; it has no effect of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright import ir
from tilewright.errors import IRError
from tilewright.script import forms
from tilewright.script.dtypes import DTypeForm, as_dtype
from tilewright.script.exprs import range_between
from tilewright.support.names import named

__all__ = [
    "serial", "parallel", "vectorized", "unroll", "thread_binding", "grid", "block", "init", "axis",
    "reads", "writes", "where", "block_attr", "func_attr", "Buffer", "buffer", "alloc_buffer",
    "decl_buffer", "match_buffer", "allocate", "allocate_const", "LetStmt", "let", "attr",
    "env_thread", "launch_thread", "Assert", "evaluate", "meta_var",
]  # fmt: skip


def _loop(
    kind: ir.ForKind, start: Any, stop: Any, annotations: Any, thread: str | None = None
) -> Any:
    loop_range = range_between(start, stop)
    if not loop_range.extent.dtype.is_integral:
        raise IRError(f"loop bounds must be integers, got {loop_range.extent.dtype!s}")
    return forms.LoopForm((loop_range,), kind, thread, dict(annotations or {}))


def _loop_of(name: str, kind: ir.ForKind) -> Callable[..., Any]:
    def loop(start: Any, stop: Any = None, *, annotations: Any = None) -> Any:
        return _loop(kind, start, stop, annotations)

    return named(loop, name)


serial = _loop_of("serial", ir.ForKind.SERIAL)
parallel = _loop_of("parallel", ir.ForKind.PARALLEL)
vectorized = _loop_of("vectorized", ir.ForKind.VECTORIZED)
unroll = _loop_of("unroll", ir.ForKind.UNROLLED)


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Any = None
) -> Any:
    if thread is None:
        if not isinstance(stop, str):
            raise IRError('T.thread_binding needs thread="threadIdx.x" or another thread axis')
        stop, thread = None, stop
    return _loop(ir.ForKind.THREAD_BINDING, start, stop, annotations, thread)


def grid(*extents: Any) -> Any:
    """Nested serial loops from zero."""
    if not extents:
        raise IRError("T.grid needs at least one extent")
    return forms.LoopForm(tuple(map(range_between, extents)))


# Forms that are made just as they are written. Type checkers let them stand wherever forms may.
block: Any = forms.BlockForm
init: Any = forms.InitForm
where: Any = forms.WhereForm
block_attr: Any = forms.BlockAttrForm
func_attr: Any = forms.FuncAttrForm
LetStmt: Any = forms.LetForm
attr: Any = forms.AttrForm
launch_thread: Any = forms.LaunchThreadForm
Assert: Any = forms.AssertForm
evaluate: Any = forms.EvaluateForm
meta_var: Any = forms.MetaVar


class _Axis:
    """`T.axis`: the kinds of block iterators."""

    S = spatial = staticmethod(partial(forms.AxisForm, "spatial", ir.IterType.DATA_PAR))
    R = reduce = staticmethod(partial(forms.AxisForm, "reduce", ir.IterType.COMM_REDUCE))
    scan = staticmethod(partial(forms.AxisForm, "scan", ir.IterType.ORDERED))
    opaque = staticmethod(partial(forms.AxisForm, "opaque", ir.IterType.OPAQUE))

    def remap(self, kinds: str, bindings: Sequence[Any], dtype: str | None = None) -> Any:
        return forms.RemapForm(kinds, tuple(bindings))


axis: Any = _Axis()


def _regions(regions: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(regions) == 1 and isinstance(regions[0], (list, tuple)):
        return tuple(regions[0])
    return regions


def reads(*regions: Any) -> Any:
    return forms.ReadsForm(_regions(regions))


def writes(*regions: Any) -> Any:
    return forms.WritesForm(_regions(regions))


class _BufferType:
    """`T.Buffer(shape, dtype)`; the older `T.Buffer[shape, dtype]` says the same.

    It is a buffer parameter, or inside a function a buffer over memory that exists.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        return forms.BufferDecl(*args, **options)

    def __getitem__(self, key: Any) -> Any:
        args = key if isinstance(key, tuple) else (key,)
        # `T.Buffer[4, 8]` can only be a shape, `T.Buffer[4, "int8"]` is a shape and a type
        is_shape = all(not isinstance(item, (tuple, list, str, DTypeForm)) for item in args)
        return self(args) if is_shape else self(*args)


Buffer = buffer = _BufferType()


def alloc_buffer(shape: Any, dtype: Any = "float32", *args: Any, **options: Any) -> Any:
    """A buffer that the enclosing block owns."""
    return forms.AllocBufferForm(Buffer(shape, dtype, *args, **options))


def decl_buffer(shape: Any, dtype: Any = "float32", *args: Any, **options: Any) -> Any:
    """A buffer over given memory, or with memory of its own if `data` is left out."""
    return forms.DeclBufferForm(Buffer(shape, dtype, *args, **options))


def match_buffer(
    param: Any, shape: Any = None, dtype: Any = None, *args: Any, **options: Any
) -> Any:
    """A buffer parameter by its handle, or another view of a region of a buffer."""
    source_buffer = getattr(param, "buffer", param)
    if shape is None:
        region = getattr(param, "region", None)
        if region is None:
            raise IRError("T.match_buffer needs the shape of the buffer")
        shape = tuple(dom.extent for dom in region)
    if dtype is None:
        inherited = None if isinstance(source_buffer, ir.Var) else source_buffer.dtype
        dtype = inherited or "float32"
    return forms.MatchBufferForm(param, Buffer(shape, dtype, *args, **options))


def allocate(
    extents: Sequence[Any],
    dtype: Any,
    scope: str = "global",
    condition: Any = ir.TRUE,
    annotations: Any = None,
) -> Any:
    return forms.AllocateForm(extents, as_dtype(dtype), scope, condition, dict(annotations or {}))


def allocate_const(data: Any, dtype: Any, extents: Sequence[Any], annotations: Any = None) -> Any:
    flat = tuple(data.reshape(-1).tolist()) if hasattr(data, "reshape") else tuple(data)
    return forms.AllocateConstForm(flat, as_dtype(dtype), extents, dict(annotations or {}))


def let(var: ir.Var, value: Any) -> Any:
    """`with T.let(x, value)`: the older spelling of `T.LetStmt(value, var=x)`."""
    return forms.LetForm(value, None, var)


def env_thread(thread_tag: str, dtype: str = "int32") -> ir.IterVar:
    """A variable for a thread axis, to be given to `T.launch_thread`."""
    return ir.IterVar(
        None, ir.Var("", ir.DType(as_dtype(dtype))), ir.IterType.THREAD_INDEX, thread_tag
    )

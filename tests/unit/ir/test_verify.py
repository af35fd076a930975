"""Well-formedness: one broken program for each rule, and the exact words it is reported with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.errors import WellFormedError
from tilewright.ir import (
    EQ,
    HANDLE,
    INT32,
    TRUE,
    Add,
    Allocate,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    DType,
    Evaluate,
    For,
    ForKind,
    GlobalVar,
    IfThenElse,
    IRModule,
    IterType,
    IterVar,
    LetStmt,
    Op,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Select,
    SeqStmt,
    Stmt,
    Var,
    const,
    decl_buffer,
    no_op,
    root_realize,
)
from tilewright.ir.verify import verify_well_formed

A = decl_buffer((8, 8), "float32", "A")
B = decl_buffer((8, 8), "float32", "B")
i, j, vi, vj, n = Var("i"), Var("j"), Var("vi"), Var("vj"), Var("n")
ZERO = const(0)


def func(body: Stmt) -> PrimFunc:
    a, b = Var("a", HANDLE), Var("b", HANDLE)
    return PrimFunc((a, b), body, {a: A, b: B}, {"global_symbol": "main"})


def loop(body: Stmt, var: Var = i, extent: PrimExpr | None = None) -> For:
    return For(
        var,
        const(0, var.dtype),
        const(8, var.dtype) if extent is None else extent,
        ForKind.SERIAL,
        body,
    )


def copy(value: PrimExpr | None = None, indices: tuple[PrimExpr, ...] = (vi, vj)) -> BufferStore:
    return BufferStore(B, BufferLoad(A, (vi, vj)) if value is None else value, indices)


def block(body: Stmt, **fields: Any) -> Block:
    axes = tuple(IterVar(Range(ZERO, const(8)), var, IterType.DATA_PAR) for var in (vi, vj))
    return Block(axes, (), (), "copy", body, **fields)


def program(
    body: Stmt, predicate: PrimExpr = TRUE, values: tuple[PrimExpr, ...] = (i, j), **fields: Any
) -> PrimFunc:
    realize = BlockRealize(values, predicate, block(body, **fields))
    return func(root_realize(Block((), (), (), "root", loop(loop(realize, j)))))


def test_a_correct_program_passes() -> None:
    assert verify_well_formed(program(copy()))
    assert verify_well_formed(IRModule.from_function(program(copy(), i * 8 + j < 60)))


BROKEN: dict[str, tuple[Callable[[], PrimFunc], str]] = {
    "undefined variable": (
        lambda: func(loop(no_op(), i, n)),
        """variable 'n' is used but nothing defines it
    for i in range(n):
                   ^
  help: make it a parameter, a loop variable, a block iterator or a let""",
    ),
    "iterator outside its block": (
        lambda: program(copy(), vi < 3),
        """iterator 'vi' of block 'copy' is used outside of its block
    with T.block("copy"):
  help: use it only inside the block, or use the loop variables outside""",
    ),
    "loop variable inside a block": (
        lambda: program(copy(indices=(vi, j))),
        """loop variable 'j' is used inside block 'copy', which lies inside the loop
    B[vi, j] = A[vi, vj]
          ^
  help: bind it to an iterator of the block, e.g. T.axis.spatial(n, j)""",
    ),
    "defined twice": (
        lambda: func(loop(loop(no_op(), i), i)),
        """loop variable 'i' is defined again inside its own scope
    for i in range(8):
        ^
  help: use a new Var for each definition""",
    ),
    "float loop variable": (
        lambda: func(loop(no_op(), Var("x", DType("float32")))),
        """loop variable 'x' is float32
    for x in range(T.float32(0), T.float32(8)):
        ^
  help: loop variables are scalar integers""",
    ),
    "loop bound of another type": (
        lambda: func(loop(no_op(), i, const(8, "int64"))),
        """the extent of the loop is int64, expected int32
    for i in range(T.int64(8)):
                   ^^^^^^^^^^
  help: cast it to int32""",
    ),
    "missing binding": (
        lambda: program(copy(), values=(i,)),
        """block 'copy' has 2 iterators but 1 bindings
    for j in range(8):
  help: bind every iterator once""",
    ),
    "number of indices": (
        lambda: program(copy(indices=(vi,))),
        """buffer 'B' has 2 dimensions but is accessed with 1 indices
    B[vi] = A[vi, vj]
    ^
  help: give one index for each dimension""",
    ),
    "float index": (
        lambda: program(copy(indices=(vi, Cast(DType("float32"), vj)))),
        """an index of buffer 'B' is float32, not an integer
    B[vi, T.Cast("float32", vj)] = A[vi, vj]
          ^^^^^^^^^^^^^^^^^^^^^
  help: cast it to int32 or int64""",
    ),
    "vector in the middle": (
        lambda: program(copy(const(0.0), (Ramp(ZERO, const(1), 4), vj))),
        """an index of buffer 'B' other than the last is a vector
    B[0:4, vj] = T.float32(0)
  help: only the last index may be a vector""",
    ),
    "type of a store": (
        lambda: program(copy(vi)),
        """a value of int32 is stored to B, which takes float32
    B[vi, vj] = vi
                ^^
  help: convert it with .astype('float32')""",
    ),
    "operands": (
        lambda: program(copy(Add(BufferLoad(A, (vi, vj)), vi))),
        """the operands of Add have different types, float32 and int32
    B[vi, vj] = T.Add(A[vi, vj], vi)
                ^^^^^^^^^^^^^^^^^^^^
  help: cast one of them, or build the expression with Python's operators""",
    ),
    "select": (
        lambda: program(copy(Select(vi < 3, const(1.0), vi))),
        """the second value of Select is int32, expected float32
    B[vi, vj] = T.Select(vi < 3, T.float32(1), vi)
                                               ^^
  help: cast it to float32""",
    ),
    "condition": (
        lambda: program(IfThenElse(vi, copy())),
        """the condition is int32, not bool
    if vi:
       ^^
  help: compare it, e.g. `x != 0`""",
    ),
    "unknown buffer": (
        lambda: program(BufferStore(decl_buffer((8, 8), "float32", "C"), const(0.0), (vi, vj))),
        """buffer 'C' is used but nothing defines it
    C[vi, vj] = T.float32(0)
    ^
  help: make it a parameter, allocate it with T.alloc_buffer, or declare it""",
    ),
    "arguments of a call": (
        lambda: program(Evaluate(Call(INT32, Op.get("tir.pow"), (vi,)))),
        """tir.pow takes 2 arguments, got 1
    T.call_intrin("int32", "tir.pow", vi)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: pass all of its arguments""",
    ),
    "unknown function": (
        lambda: program(Evaluate(Call(INT32, GlobalVar("f"), (vi,)))),
        """the module has no function 'f'
    T.Call("int32", Module.f, [vi])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: it has 'main'""",
    ),
    "lanes of a cast": (
        lambda: program(Evaluate(Cast(DType("int32"), Broadcast(vi, 4)))),
        """a cast from int32x4 to int32 changes the number of lanes
    T.evaluate(T.Cast("int32", T.Broadcast(vi, 4)))
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: use Broadcast or Shuffle to change lanes""",
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_rule(rule: str) -> None:
    build, message = BROKEN[rule]
    bad = build()
    with pytest.raises(WellFormedError) as caught:
        verify_well_formed(bad)
    assert str(caught.value) == f"function 'main' is not well-formed: {message}"
    assert verify_well_formed(bad, assert_mode=False) is False


def fails(bad: PrimFunc, reason: str) -> None:
    with pytest.raises(WellFormedError, match=reason):
        verify_well_formed(bad)


def test_other_rules() -> None:
    nested = SeqStmt((no_op(), SeqStmt((no_op(), no_op()))))
    fails(func(nested), "a SeqStmt lies inside a SeqStmt")
    fails(func(LetStmt(n, const(1.0), no_op())), "the value of 'n' is float32, expected int32")
    other = decl_buffer((8,), "float32", "C")
    fails(
        func(root_realize(Block((), (BufferRegion.full(other),), (), "root", no_op()))),
        "buffer 'C' is used but nothing defines it",
    )
    fails(func(Evaluate(EQ(ZERO, const(0.0)))), "the operands of EQ have different types")


def test_parameters_and_buffer_map() -> None:
    stray = Var("stray", HANDLE)
    bad = PrimFunc((), no_op(), {stray: A}, {"global_symbol": "main"})
    fails(bad, "buffer_map names 'stray', which is not a parameter")
    twice = PrimFunc((n, n), no_op(), {}, {"global_symbol": "main"})
    fails(twice, "parameter 'n' is defined again")


def test_symbolic_shapes_and_strides_are_defined_by_the_buffer() -> None:
    handle, step = Var("h", HANDLE), Var("step")
    buffer = decl_buffer((n, 4), "float32", "S", strides=(step, 1))
    body = For(i, ZERO, n, ForKind.SERIAL, BufferStore(buffer, const(0.0), (i, ZERO)))
    assert verify_well_formed(PrimFunc((handle,), body, {handle: buffer}))
    half = decl_buffer((n // 2, 4), "float32", "S")
    fails(PrimFunc((handle,), no_op(), {handle: half}), "variable 'n' is used")


def test_lowered_programs_bind_memory_by_its_pointer() -> None:
    def lowered(buffer: Buffer) -> PrimFunc:
        store = BufferStore(flat, const(0.0), (const(3),))
        return PrimFunc((), Allocate(buffer.data, flat.dtype, (const(8),), TRUE, store))

    flat = decl_buffer((8,), "float32", "flat")
    assert verify_well_formed(lowered(flat))
    fails(lowered(decl_buffer((8,), "float32", "other")), "buffer 'flat' is used")


def test_a_variable_may_be_bound_again_after_its_scope_ended() -> None:
    assert verify_well_formed(func(SeqStmt((loop(no_op()), loop(no_op())))))

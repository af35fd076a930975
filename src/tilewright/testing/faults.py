# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call"
"""Kernels that misbehave, to see that runners can take it.

All have the signature of `double`: `A: float32[64]` in, `B: float32[64]` out.
"""

from __future__ import annotations

from tilewright.script import tir as T


@T.prim_func
def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """What is asked for."""
    for i in T.serial(64):
        with T.block("double"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * 2.0


@T.prim_func
def double_in_parallel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """The same by another way."""
    for i in T.parallel(64):
        with T.block("double"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] + A[v]


@T.prim_func
def triple(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Computes something else."""
    for i in T.serial(64):
        with T.block("triple"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * 3.0


@T.prim_func
def forgets_the_last(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Does not write all of its result."""
    for i in T.serial(63):
        with T.block("double"):
            v = T.axis.spatial(63, i)
            B[v] = A[v] * 2.0


@T.prim_func
def writes_behind_its_output(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Right, but for one element too many."""
    T.evaluate(T.call_extern("handle", "memset", T.address_of(B[0]), 0, T.int64(260)))
    for i in T.serial(64):
        B[i] = A[i] * 2.0


@T.prim_func
def changes_its_input(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Right, but the caller's data is gone."""
    for i in T.serial(64):
        B[i] = A[i] * 2.0
    T.evaluate(T.call_extern("handle", "memset", T.address_of(A[0]), 0, T.int64(4)))


@T.prim_func
def segfaults(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Writes to memory that is not there."""
    T.evaluate(T.call_extern("handle", "memset", T.address_of(B[0]), 0, T.int64(1 << 46)))


@T.prim_func
def loops_for_ever(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Never ends."""
    while T.int32(0) == 0:
        T.evaluate(T.call_extern("int32", "usleep", 1000))


@T.prim_func
def exits(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Ends the process it runs in."""
    T.evaluate(T.call_extern("int32", "_exit", 3))


@T.prim_func
def forks(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Right, but there are two processes afterwards."""
    T.evaluate(T.call_extern("int32", "fork"))
    for i in T.serial(64):
        B[i] = A[i] * 2.0


@T.prim_func
def takes_all_memory(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Allocates and fills more and more memory."""
    while T.int32(0) == 0:
        T.evaluate(
            T.call_extern(
                "handle",
                "memset",
                T.call_extern("handle", "malloc", T.int64(1 << 20)),
                1,
                T.int64(1 << 20),
            )
        )

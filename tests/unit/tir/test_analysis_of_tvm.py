"""`tir.analysis` as TVM's users know it; what is expected was asked of TVM, but for the bytes."""
# mypy: disable-error-code="valid-type,misc,arg-type"

from __future__ import annotations

from typing import Any

import pytest

from tilewright import tir
from tilewright.errors import IRError, ScheduleError
from tilewright.ir import Block, For, IRModule, PrimFunc
from tilewright.script import from_source, tir as T
from tilewright.tir import analysis


@T.prim_func
def staged(A: T.Buffer((16, 16)), B: T.Buffer((16, 16))) -> None:
    C = T.alloc_buffer((16, 16))
    D = T.alloc_buffer((16, 16))
    U = T.alloc_buffer((16, 16))  # noqa: F841 # no access, no scope
    for i in range(16):
        for j in range(16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + 1.0
        for k in range(16):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, k])
                D[vi, vj] = C[vi, vj] + 1.0
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, k])
                B[vi, vj] = D[vi, vj] + 1.0


@T.prim_func
def row_sums(A: T.Buffer((16, 16)), B: T.Buffer((16,))) -> None:
    for i, k in T.grid(16, 16):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def opaque(A: T.Buffer((16,)), B: T.Buffer((16,))) -> None:
    C = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("C"):
            vi = T.axis.opaque(16, i)
            C[vi] = A[vi]
            B[vi] = C[vi]


@T.prim_func
def without_blocks(A: T.Buffer((16, 16)), B: T.Buffer((16, 16))) -> None:
    for i, j in T.grid(16, 16):
        B[i, j] = A[i, j]


@T.prim_func
def through_views(A: T.Buffer((16, 16)), B: T.Buffer((16, 16))) -> None:
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            X = T.match_buffer(A[vi, vj], ())
            B[vi, vj] = X[()]


@T.prim_func
def through_pointers(A: T.Buffer((16,)), B: T.Buffer((16,))) -> None:
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.evaluate(T.address_of(A[0]))
            B[vi] = 1.0


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (staged, {"A": "block C", "B": "block B", "C": "loop i", "D": "loop k"}),
        (row_sums, {"A": "block sum", "B": "loop i"}),
        (opaque, {"A": "block root", "B": "block root", "C": "block root"}),
        (without_blocks, {"A": "loop j", "B": "loop j"}),
        (through_views, {"A": "block B", "B": "block B"}),
        (through_pointers, {"A": "block B", "B": "block B"}),
    ],
    ids=lambda value: value.name if isinstance(value, PrimFunc) else "",
)
def test_scopes_of_buffers(func: PrimFunc, expected: dict[str, str]) -> None:
    found = {
        buffer.name: scope for buffer, scope in analysis.detect_buffer_access_lca(func).items()
    }
    assert {name: named(scope) for name, scope in found.items()} == expected


def named(scope: Any) -> str:
    assert isinstance(scope, (For, Block))
    return f"loop {scope.loop_var.name}" if isinstance(scope, For) else f"block {scope.name_hint}"


def test_a_buffer_outside_of_everything() -> None:
    @T.prim_func
    def func(A: T.Buffer((1,))) -> None:
        A[0] = 1.0

    assert list(analysis.detect_buffer_access_lca(func).values()) == [None]


# --- memory ---


@T.prim_func
def allocates(A: T.Buffer((16,), "int8")) -> None:
    p = T.allocate([5], "int32", "global")
    P = T.decl_buffer((5,), "int32", data=p)
    for i in range(4):
        q = T.allocate([10], "int8", "global")
        Q = T.decl_buffer((10,), "int8", data=q)
        Q[0] = A[i]
        P[0] = T.int32(Q[0])
    for i in range(4):
        r = T.allocate([3], "float64", "global.vtcm")
        R = T.decl_buffer((3,), "float64", data=r, scope="global.vtcm")
        R[i] = T.float64(0)
    s = T.allocate_const([1, 2, 3], "int32", [3])
    S = T.decl_buffer((3,), "int32", data=s)
    A[0] = T.int8(S[0])


def test_bytes() -> None:
    expected = {"global": 20 + 10, "global.vtcm": 24}
    assert analysis.calculate_allocated_bytes(allocates) == {"allocates": expected}
    module = IRModule({"f": allocates, "g": row_sums})
    assert analysis.calculate_allocated_bytes(module) == {"f": expected, "g": {}}
    assert analysis.calculate_workspace_bytes(allocates, 1) == 20 + 10
    assert analysis.calculate_workspace_bytes(allocates, 16) == 32 + 16
    assert analysis.calculate_constant_bytes(allocates, 1) == 12
    assert analysis.calculate_constant_bytes(allocates, 16) == 16


def test_bytes_of_a_cache() -> None:
    sch = tir.Schedule(staged)
    sch.cache_read(sch.get_block("C"), 0, "global.vtcm")
    module = tir.transform.ConvertBlocksToOpaque()(sch.mod)
    module = tir.transform.LowerOpaqueBlock()(module)
    sizes = analysis.calculate_allocated_bytes(module["main"])
    assert sizes["staged"]["global.vtcm"] == 16 * 16 * 4


# --- single definitions, purity, bounds ---


def test_single_definitions() -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")

    def loop(var: Any) -> Any:
        return tir.For(var, 0, 4, tir.ForKind.SERIAL, tir.Evaluate(var))

    def lets(first: int, second: int) -> Any:
        return tir.Evaluate(tir.Let(x, first, x + 1) + tir.Let(x, second, x + 2))

    for params, body, expected in (
        ([], tir.SeqStmt([loop(x), loop(y)]), True),
        ([], tir.SeqStmt([loop(x), loop(x)]), False),
        ([x], loop(x), False),
        ([], lets(1, 1), True),
        ([], lets(1, 2), False),
        ([], tir.Evaluate(x), True),
    ):
        assert analysis.verify_ssa(tir.PrimFunc(params, body)) is expected


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("T.evaluate(A[0])", ""),
        ('T.evaluate(T.call_pure_extern("int32", "f"))', ""),
        ("A[0] = 1.0", "a store to A"),
        ('T.evaluate(T.call_extern("int32", "f"))', "a call of tir.call_extern"),
    ],
)
def test_purity(statement: str, effect: str) -> None:
    source = f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    {statement}\n'
    func = tir_function(source)
    assert analysis.is_pure_function(func) is (not effect)
    if not effect:
        assert analysis.assert_pure_function(func)
        return
    with pytest.raises(AssertionError) as caught:
        analysis.assert_pure_function(func)
    assert str(caught.value) == f"function 'f' is not pure, it has {effect}"


def tir_function(source: str) -> PrimFunc:
    func = from_source(source)
    assert isinstance(func, PrimFunc)
    return func


def test_bounds() -> None:
    source = (
        '@T.prim_func\ndef f(A: T.Buffer((4,), "float32"), n: T.int32):\n'
        "    for i in range(4):\n        A[INDEX] = 1.0\n"
    )
    good = IRModule.from_function(tir_function(source.replace("INDEX", "n")))
    assert analysis.OOBChecker()(good) is good
    with pytest.raises(ScheduleError, match=r"function 'f' writes A outside its bounds"):
        analysis.OOBChecker()(IRModule({"f": tir_function(source.replace("INDEX", "i + 1"))}))


# --- GPUs ---


@T.prim_func
def kernel(A: T.Buffer((64,), "float32")) -> None:
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    s = T.allocate([32], "float32", "shared")
    S = T.decl_buffer((32,), data=s, scope="shared")
    p = T.allocate([4], "float32", "local")
    P = T.decl_buffer((4,), data=p, scope="local")
    S[tx] = A[bx * 32 + tx]
    P[0] = S[tx]
    A[bx * 32 + tx] = P[0]


@pytest.mark.parametrize(
    ("limit", "needed"),
    [
        ("max_threads_per_block", 32),
        ("max_thread_x", 32),
        ("max_thread_y", 1),
        ("max_shared_memory_per_block", 128),
        ("max_local_memory_per_block", 16),
        ("max_kernels", 1),
    ],
)
def test_limits_of_a_gpu(limit: str, needed: int) -> None:
    assert analysis.verify_gpu_code(kernel, {limit: needed})
    assert not analysis.verify_gpu_code(kernel, {limit: needed - 1})


def test_an_unknown_limit() -> None:
    with pytest.raises(IRError) as caught:
        analysis.verify_gpu_code(kernel, {"max_threads_x": 1})
    assert str(caught.value).startswith(
        "verify_gpu_code: there is no limit 'max_threads_x'; did you mean 'max_thread_x'"
    )


def test_memory_of_a_gpu_is_used_in_kernels() -> None:
    on_gpu = "cuda -arch=sm_80"
    assert analysis.verify_memory(kernel.with_attr("target", on_gpu))
    assert not analysis.verify_memory(without_blocks.with_attr("target", on_gpu))
    assert analysis.verify_memory(without_blocks.with_attr("target", "llvm"))
    assert analysis.verify_memory(without_blocks)


# --- sequences and texts ---


def test_sequences() -> None:
    one, two = tir.Evaluate(tir.call_extern("int32", "f")), tir.call_extern("int32", "g")
    both = tir.stmt_seq(one, two)
    assert str(both) == 'T.call_extern("int32", "f")\nT.call_extern("int32", "g")'
    assert len(tir.stmt_list(tir.stmt_seq(both, one))) == 3
    assert tir.stmt_seq(one) is one
    assert tir.stmt_list(one) == [one]


def test_texts_are_equal_to_texts() -> None:
    text = tir.StringImm("a")
    assert text == "a"
    assert text == tir.StringImm("a")
    assert text != "b"
    assert text != tir.StringImm("b")
    assert text != 1
    assert len({text, tir.StringImm("a")}) == 1


def test_expressions_are_equal_in_one_program() -> None:
    A, B = tir.decl_buffer((4,), name="A"), tir.decl_buffer((4,), name="A")
    assert analysis.expr_deep_equal(A[0] + 1.0, A[0] + 1.0)
    assert not analysis.expr_deep_equal(A[0], B[0])

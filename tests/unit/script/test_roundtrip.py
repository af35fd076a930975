"""What the printer writes parses back to a structurally equal program, for every form."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.errors import ScriptError
from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.ir.json import register_json_type
from tilewright.script import from_source

PROGRAMS = {
    "flattened": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i in T.parallel(16):
        C = T.allocate([16], "float32", "local")
        C_1 = T.Buffer((16,), data=C, scope="local")
        A_1 = T.Buffer((256,), data=A.data)
        C_1[0:16] = A_1[i * 16:i * 16 + 16]
        B_1 = T.Buffer((256,), data=B.data)
        B_1[i * 16:i * 16 + 16] = C_1[0:16] * T.Broadcast(T.float32(2), 16)
""",
    "matched": """
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    m = T.int32()
    A = T.match_buffer(a, (m, n + 1), "float16", strides=("s1", "s0"), scope="shared", offset_factor=16)
    C = T.match_buffer(c, (16, 16), "float16", scope="wmma.matrix_a", align=128, offset_factor=16)
    with T.block("root"):
        T.reads(A[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        T.tvm_load_matrix_sync(C.data, 16, 16, 16, C.elem_offset // 256, T.tvm_access_ptr(T.type_annotation("float16"), A.data, A.elem_offset, m * (n + 1), 1), A.strides[0], "row_major")
""",  # noqa: E501
    "threads": """
@T.prim_func
def main(A: T.Buffer((32,), "float32")):
    with T.launch_thread("blockIdx.x", 1) as blockIdx_x:
        threadIdx_x = T.launch_thread("threadIdx.x", 32)
        A[threadIdx_x] = A[threadIdx_x] + T.float32(1)
        T.tvm_storage_sync("shared")
    for i in T.thread_binding(8, thread="threadIdx.x", annotations={"pragma": [1, "x"]}):
        A[i] = A[i + 8]
""",
    "bindings": """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), n: T.int64, p: T.handle):
    T.assume(n > T.int64(0))
    x = T.int32()
    A[T.Let(x + 1, where={x: 3})] = T.if_then_else(n > T.int64(3), T.float32(1), T.float32(0))
    for i in range(n):
        with T.LetStmt(n + i) as y:
            A[y] = T.float32(1)
        A[i] = T.float32(2)
    with T.allocate([4], "float32", "global", annotations={"q": 1}) as b:
        B = T.decl_buffer((4,), data=b)
        B.vstore([T.Ramp(0, 1, 4)], T.Broadcast(T.float32(1), 4), predicate=T.Broadcast(T.bool(True), 4))
        A[0:4] = B.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(T.bool(False), 4))
    with T.Assert(n > T.int64(0), "n is positive"):
        A[3] = T.float32("inf")
    with T.attr("default", "mode", "fast"):
        T.evaluate(0)
    T.attr(A.data, "key", 1)
    q: T.handle("float32", "shared") = T.address_of(A[2])
    K = T.allocate_const([1.5, 2], "float32", [2])
    T.call_packed("f", A.data, n, "s", q, K)
    assert T.isnullptr(p), "p"
    T.ret(0)
""",  # noqa: E501
    "blocks": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), S: T.Buffer((), "float32"), n: T.int32):
    T.func_attr({"dict": {"a": 0.5}, "list": [1, "x"], "tir.noalias": T.bool(True)})
    # with T.block("root"):
    B = T.alloc_buffer((16, 16), scope="local", axis_separators=[1])
    for i, j in T.grid(16, 16):
        with T.block("update"):
            vi = T.axis.spatial(16, i)
            vj = T.axis.reduce((2, 18), 15 - j + 2)
            vs = T.axis.scan(n, j)
            vo = T.axis.opaque(16, T.min(i, j))
            T.where(i < n)
            T.reads(A[vi, 0:n])
            T.writes(B[vi, vj:vj + (n - 3)])
            T.block_attr({"name": "x", "stages": [0, 1]})
            C = T.alloc_buffer((4,), "int8")
            M = T.match_buffer(A[vi, 0:4], (4,), strides=("M_s0",), offset_factor=4)
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = M[vo] + S[()]
            C[vo] = T.int8(1)
    for i in range(16):
        with T.block(""):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(S[()])
            S[()] = T.float32(1)
""",
    "control": """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), n: T.int32) -> T.int32:
    while A[0] < n and (not A[1] == 3 or n > 4):
        if n < 3:
            A[0] = A[0] + 1
        else:
            if T.bool(True):
                A[0] = T.Add(A[0], 0)
    for i in T.unroll(n, n + 5):
        for k in T.serial(i + 1, annotations={"x": 1}):
            A[i % 4] = T.truncmod(i, 3) + T.Div(k, 2) - k // 2
    for i in range(3, 7):
        A[i:i + 4] = T.Ramp(i, 2, 4)
        A[i:i + 8:2] = T.Shuffle([A[0:2], A[2:4]], [3, 2, 1, 0])
    T.ret(A[0])
""",
    "module": """
@I.ir_module
class Module:
    I.module_attrs({"system": "x"})

    @T.prim_func(private=True)
    def helper(A: T.Buffer((16,), "float32")) -> T.int32:
        A[0] = T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), A_1: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "other"})
        Module.helper(A.data)
        T.Call("float32", Module.helper, [A_1.data])
""",
    "int64": """
@T.prim_func
def main(A: T.Buffer((T.int64(16), T.int64(4)), "float32")):
    # with T.block("root"):
    for i, j in T.grid(T.int64(16), T.int64(4)):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, T.int64(0):T.int64(4)])
            T.writes(A[vi, vj])
            A[vi, vj] = A[vi, T.int64(0)] + T.Cast("float32", vi)
""",
    "symbolic": """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n, 4))
    m = T.int64()
    B = T.match_buffer(b, (n, m), "bool", elem_offset=m)
    for i in range(n):
        B[i, m - T.int64(1)] = A[i, 0] < T.float32(0)
""",
    "intrinsics": """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), H: T.Buffer((8,), "float16")):
    A[0] = T.exp(A[1]) + T.pow(A[2], A[3]) + T.fma(A[0], A[1], A[2])
    A[1] = T.Select(T.isnan(A[0]), T.undef("float32"), T.reinterpret("float32", B[0]))
    B[0] = T.shift_left(B[1], 3) + T.popcount(B[2]) + T.clz(B[3]) + T.bitwise_not(B[4])
    B[1] = T.q_multiply_shift(B[0], B[1], 31, 3)
    H[0] = T.Cast("float16", T.call_pure_extern("float32", "expf", A[0]))
    A[4:8] = T.call_llvm_pure_intrin("float32x4", "llvm.fabs", A[0:4])
    T.call_intrin("int32", "tir.exp", A[0])
    T.call_extern("int32", "f", T.address_of(A[3]), T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 8, 3))
""",  # noqa: E501
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_as_written_and_parses_back(name: str) -> None:
    program = from_source(PROGRAMS[name])
    printed = program.script()
    written = PROGRAMS[name].strip().splitlines()
    assert [line for line in printed.splitlines() if not line.startswith("#") and line] == [
        line for line in written if line
    ]
    again = from_source(printed)
    assert type(again) is type(program)
    assert_structural_equal(again, program)


def test_a_function_parses_to_a_function_and_a_class_to_a_module() -> None:
    assert isinstance(from_source(PROGRAMS["int64"]), PrimFunc)
    assert isinstance(from_source(PROGRAMS["module"]), IRModule)


@dataclasses.dataclass(frozen=True)
class Note:
    """An attribute value of another layer."""

    text: str
    sizes: tuple[int, ...] = ()
    last: bool = False


def test_attribute_values_of_registered_types() -> None:
    register_json_type(Note)
    program = from_source("@T.prim_func\ndef f():\n    T.evaluate(0)")
    assert isinstance(program, PrimFunc)
    noted = program.with_attr("note", (Note("a", (1, 2)), Note("b", last=True)))
    assert (
        'T.func_attr({"note": [I.attribute("Note", text="a", sizes=[1, 2]), '
        'I.attribute("Note", text="b", last=T.bool(True))]})'
    ) in noted.script()
    parsed = from_source(noted.script())
    assert isinstance(parsed, PrimFunc)
    assert parsed.attrs["note"] == noted.attrs["note"]


def test_unknown_types_of_attribute_values_are_reported() -> None:
    text = '@T.prim_func\ndef f():\n    T.func_attr({"x": I.attribute("Nothing")})'
    with pytest.raises(ScriptError, match="no type called 'Nothing' is registered"):
        from_source(text)

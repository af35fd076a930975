"""What the forms of script mean, beyond what printing back shows."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tilewright.ir import IRModule, PrimFunc, register_op
from tilewright.script import from_source

HEAD = (
    '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int32"), n: T.int32):'
)


def body_of(text: str, **names: Any) -> str:
    """The body of a function as it is printed."""
    program = from_source(f"{HEAD}\n{textwrap.indent(textwrap.dedent(text), '    ')}", names)
    printed = program.script().splitlines()
    start = next(k for k, line in enumerate(printed) if line.startswith("def "))
    return textwrap.dedent("\n".join(printed[start + 1 :]))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A[0] = 1", "A[0] = T.float32(1)"),
        ("A[0] = n", 'A[0] = T.Cast("float32", n)'),
        ("A[0] += 2.0", "A[0] = A[0] + T.float32(2)"),
        ("B[n] //= 2", "B[n] = B[n] // 2"),
        ("B[0] = 0 if n < 3 else n", "B[0] = T.if_then_else(n < 3, 0, n)"),
        ("B[0] = 1 if True else n", "B[0] = 1"),
        ("B[0] = T.Cast('int32', 0 < n < 3)", 'B[0] = T.Cast("int32", 0 < n and n < 3)'),
        ("B[0] = T.Cast('int32', n < 1 or n > 3)", 'B[0] = T.Cast("int32", n < 1 or n > 3)'),
        ("B[0] = T.cast(n, 'int32')", "B[0] = n"),
        ("B[0] = n.astype('int32')", "B[0] = n"),
        ("B[0] = -n", "B[0] = n * -1"),
        (
            "A[0] = T.tvm_warp_shuffle_xor(T.uint32(1), A[1], 2, 32, 32)",
            "A[0] = T.tvm_warp_shuffle_xor(T.uint32(1), A[1], 2, 32, 32)",
        ),
        ("B[0] = n & 3 | n << 2", "B[0] = T.bitwise_or(T.bitwise_and(n, 3), T.shift_left(n, 2))"),
        ("B[0] = T.max(n, 3) + T.truncdiv(n, 2)", "B[0] = T.max(n, 3) + T.Div(n, 2)"),
        ("B[0] = T.ceildiv(n, 4)", "B[0] = (n + 4 - 1) // 4"),
        ("B[0] = T.int32(A.shape[0])", "B[0] = 16"),
        ("A[0:4] = T.float32x4(1.0)", "A[0:4] = T.Broadcast(T.float32(1), 4)"),
        ("A[0:4] = 1.0", "A[0:4] = T.Broadcast(T.float32(1), 4)"),
        ("A[T.ramp(0, 1, 4)] = A.vload([4], 'float32x4')", "A[0:4] = A[4:8]"),
        ("A.vstore([4], A[0:4])", "A[4:8] = A[0:4]"),
        ("A[0] = T.exp(A[0], dtype='float32')", "A[0] = T.exp(A[0])"),
        (
            "A[0] = T.call_pure_extern('expf', A[0], dtype='float32')",
            'A[0] = T.call_pure_extern("float32", "expf", A[0])',
        ),
        (
            "A[0] = T.call_llvm_pure_intrin('float32', 'llvm.fabs', T.uint32(1), A[0])",
            'A[0] = T.call_llvm_pure_intrin("float32", "llvm.fabs", A[0])',
        ),
        ("A[0] = T.reinterpret(n, dtype='float32')", 'A[0] = T.reinterpret("float32", n)'),
        ("A[0] = T.infinity('float32')", 'A[0] = T.float32("inf")'),
        ("return n", "T.ret(n)"),
        ("pass", "T.evaluate(0)"),
        ('"""A remark."""\nT.evaluate(n)', "T.evaluate(n)"),
        ("T.call_extern('int32', 'f', A)", 'T.call_extern("int32", "f", A.data)'),
    ],
)  # fmt: skip
def test_expressions(written: str, meant: str) -> None:
    assert body_of(written) == meant


def test_a_program_value_gets_a_variable_and_a_python_value_does_not() -> None:
    written = """
        x = n + 1
        y = 3
        z = T.meta_var(x * 2)
        names = [y, 4]
        B[y] = x + z + names[1]
    """
    assert body_of(written).splitlines() == ["x: T.int32 = n + 1", "B[3] = x + x * 2 + 4"]


def test_annotated_values_are_variables() -> None:
    assert body_of("x: T.int64 = 3\nB[0] = T.cast(x, 'int32')").splitlines() == [
        "x: T.int64 = T.int64(3)",
        'B[0] = T.Cast("int32", x)',
    ]


def test_loops_and_branches_over_python_values_happen_now() -> None:
    written = """
        for k in [0, 2]:
            if k > 0:
                B[k] = k
            else:
                B[k] = twice(k + 1)
        for name, position in zip("ab", T.meta_var(range(2))):
            T.call_extern("int32", name, position)
        total = 0
        for step in steps:
            total += step
        B[0] = total
    """
    assert body_of(written, twice=lambda v: v * 2, steps=(1, 2, 3), zip=zip).splitlines() == [
        "B[0] = 2",
        "B[2] = 2",
        'T.call_extern("int32", "a", 0)',
        'T.call_extern("int32", "b", 1)',
        "B[0] = 6",
    ]


def test_python_functions_build_expressions() -> None:
    written = "for i in range(16):\n    A[i] = square(A[i]) + sum([A[j] for j in range(2)])"
    assert body_of(written, square=lambda v: v * v).splitlines() == [
        "for i in range(16):",
        "    A[i] = A[i] * A[i] + (A[0] + A[1])",
    ]


def test_serial_bounds() -> None:
    loops = "for i in T.serial(n, n + 5):\n    for j in T.unroll(2, 6):\n        B[i] = j"
    assert body_of(loops).splitlines() == [
        "for i in range(n, n + 5):",
        "    for j in T.unroll(2, 6):",
        "        B[i] = j",
    ]


def test_blocks_get_a_root_and_their_regions() -> None:
    written = """
        for i in range(16):
            with T.block("b"):
                vi = T.axis.S(16, i)
                A[vi] = T.Cast("float32", B[vi])
    """
    assert body_of(written).splitlines() == [
        '# with T.block("root"):',
        "for i in range(16):",
        '    with T.block("b"):',
        "        vi = T.axis.spatial(16, i)",
        "        T.reads(B[vi])",
        "        T.writes(A[vi])",
        '        A[vi] = T.Cast("float32", B[vi])',
    ]


def test_only_the_missing_regions_are_inferred() -> None:
    written = """
        with T.block("b"):
            T.writes(A[0:16])
            A[0] = T.Cast("float32", B[3])
    """
    assert body_of(written).splitlines()[1:3] == ["    T.reads(B[3])", "    T.writes(A[0:16])"]


def test_a_buffer_with_memory_of_its_own() -> None:
    assert body_of("C = T.decl_buffer((4,), scope='local')\nC[0] = A[0]").splitlines() == [
        'C = T.allocate([4], "float32", "local")',
        'C_1 = T.decl_buffer((4,), data=C, scope="local")',
        "C_1[0] = A[0]",
    ]


def test_threads_can_be_named_first() -> None:
    written = """
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(tx, 16)
        A[tx] = 1.0
    """
    assert body_of(written).splitlines() == [
        'tx = T.launch_thread("threadIdx.x", 16)',
        "A[tx] = T.float32(1)",
    ]


def test_several_items_in_one_with() -> None:
    written = 'with T.attr("a", "k", 1), T.launch_thread("threadIdx.x", 4) as tx:\n    A[tx] = 1.0'
    assert body_of(written).splitlines() == [
        'T.attr("a", "k", 1)',
        'tx = T.launch_thread("threadIdx.x", 4)',
        "A[tx] = T.float32(1)",
    ]


def test_operators_of_users_are_forms_of_script() -> None:
    register_op("tir.test_script_blend", 2)
    assert body_of("A[0] = T.test_script_blend(A[1], A[2])") == (
        "A[0] = T.test_script_blend(A[1], A[2])"
    )


def test_text_of_tvm_is_understood() -> None:
    program = from_source("""
        from tvm.script import tir as TT

        @TT.prim_func
        def f(a: TT.handle):
            n = TT.var("int32")
            A = TT.match_buffer(a, (n,), "float32")
            A[0] = TT.float32(0)
    """)
    assert isinstance(program, PrimFunc)
    assert "n = T.int32()\n    A = T.match_buffer(a, (n,))" in program.script()


def test_attributes_become_python_values() -> None:
    func = from_source("""
        @T.prim_func
        def f():
            T.func_attr({"a": T.bool(True), "b": [1, T.int64(2)], "c": {"d": T.float32(0.5)}})
            T.evaluate(0)
    """)
    assert isinstance(func, PrimFunc)
    assert func.attrs["a"] is True
    assert func.attrs["b"][0] == 1
    assert str(func.attrs["b"][1]) == "T.int64(2)"
    assert func.attrs["c"] == {"d": 0.5}
    assert func.attrs["global_symbol"] == "f"


def test_functions_of_a_module_call_each_other() -> None:
    module = from_source("""
        @I.ir_module
        class Mine:
            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                Mine.other(A)
                cls.other(A.data)

            @T.prim_func(private=True)
            def other(A: T.handle("float32")) -> T.int32:
                return 0
    """)
    assert isinstance(module, IRModule)
    assert str(module["main"].body).count("other") == 2
    assert "global_symbol" not in module["other"].attrs
    assert module["other"].ret_type == "int32"


def test_sizes_that_are_declared_together_have_names() -> None:
    text = "n, m = T.int32(), T.int64()\nC = T.match_buffer(c, (n, m))\nC[0, 0] = 1"
    body = textwrap.indent(text, "    ")
    func = from_source(f"@T.prim_func\ndef f(c: T.handle):\n{body}\n")
    assert isinstance(func, PrimFunc)
    (buffer,) = func.buffer_map.values()
    assert [str(extent) for extent in buffer.shape] == ["n", "m"]

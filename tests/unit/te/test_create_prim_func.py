"""create_prim_func: names, blocks, reductions and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import Block, PrimExpr, PrimFunc, Select, Stmt, const, post_order_visit
from tilewright.ir.intrinsics import min_value
from tilewright.testing import oracle

Evaluate = Callable[..., Any]
rng = np.random.default_rng(5)


def text(*args: te.Tensor) -> str:
    """The printed body, without header."""
    return str(te.create_prim_func(args)).split('# with T.block("root"):\n')[1]


def blocks(func: PrimFunc) -> dict[str, Block]:
    found: dict[str, Block] = {}

    def visit(node: object) -> None:
        if isinstance(node, Block):
            found[node.name_hint] = node

    body: Stmt = func.body
    post_order_visit(body, visit)
    return found


def test_the_first_workload_prints_as_everybody_knows_it() -> None:
    x, y = te.placeholder((1, 128, 128), name="X"), te.placeholder((1, 128, 128), name="Y")
    k = te.reduce_axis((0, 128), name="k")
    z = te.compute(
        (1, 128, 128), lambda b, i, j: te.sum(x[b][i][k] * y[b][k][j], axis=[k]), name="Z"
    )
    assert str(te.create_prim_func([x, y, z])) == (
        "# from tilewright.script import tir as T\n"
        "\n"
        "@T.prim_func\n"
        'def main(X: T.Buffer((1, 128, 128), "float32"), Y: T.Buffer((1, 128, 128), "float32"), '
        'Z: T.Buffer((1, 128, 128), "float32")):\n'
        '    T.func_attr({"tir.noalias": T.bool(True)})\n'
        '    # with T.block("root"):\n'
        "    for b, i, j, k in T.grid(1, 128, 128, 128):\n"
        '        with T.block("Z"):\n'
        '            v_b, v_i, v_j, v_k = T.axis.remap("SSSR", [b, i, j, k])\n'
        "            T.reads(X[v_b, v_i, v_k], Y[v_b, v_k, v_j])\n"
        "            T.writes(Z[v_b, v_i, v_j])\n"
        "            with T.init():\n"
        "                Z[v_b, v_i, v_j] = T.float32(0)\n"
        "            Z[v_b, v_i, v_j] = Z[v_b, v_i, v_j] + X[v_b, v_i, v_k] * Y[v_b, v_k, v_j]"
    )


def test_parameters_and_attributes() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute(
        (4,),
        lambda i: a[i] + 1.0,
        name="B",
        attrs={"layout_free_placeholders": [a], "axis": 1, "workload": ["x"], "const_matrix": True},
    )
    func = te.create_prim_func([a, b])
    assert [param.name for param in func.params] == ["var_A", "var_B"]
    assert dict(func.attrs) == {
        "global_symbol": "main",
        "tir.noalias": True,
        "layout_free_buffers": [0],
    }
    assert dict(blocks(func)["B"].annotations) == {"axis": 1}


def test_names_of_blocks_are_made_unique() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0)
    c = te.compute((4,), lambda i: b[i] + 1.0)
    assert list(blocks(te.create_prim_func([a, c]))) == ["compute", "compute_1", "root"]


def test_no_axes_get_a_dummy_iterator() -> None:
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() + 1.0, name="B")
    assert text(a, b) == (
        '    with T.block("B"):\n'
        "        vi = T.axis.spatial(1, 0)\n"
        "        T.reads(A[()])\n"
        "        T.writes(B[()])\n"
        "        B[()] = A[()] + T.float32(1)"
    )


def test_operations_come_in_post_order_and_only_once() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * a[i], name="B")
    c = te.compute((4,), lambda i: b[i] + 1.0, name="C")
    d = te.compute((4,), lambda i: c[i] + b[i], name="D")
    assert list(blocks(te.create_prim_func([a, d, b]))) == ["B", "C", "D", "root"]


def plus_one(tensor: te.Tensor) -> te.Tensor:
    return te.compute((1,), lambda i: tensor[i] + 1.0)


def test_long_chains_do_not_overflow_the_stack() -> None:
    tensor = first = te.placeholder((1,), name="A")
    for _ in range(2000):
        tensor = plus_one(tensor)
    func = te.create_prim_func([first, tensor])
    assert len(blocks(func)) == 2001


def test_several_outputs_share_the_loops() -> None:
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    assert text(a, b, c) == (
        "    for i in range(4):\n"
        '        with T.block("B_v0"):\n'
        "            v_i = T.axis.spatial(4, i)\n"
        "            T.reads(A[v_i])\n"
        "            T.writes(B_v0[v_i])\n"
        "            B_v0[v_i] = A[v_i] + T.float32(1)\n"
        '        with T.block("B_v1"):\n'
        "            v_i = T.axis.spatial(4, i)\n"
        "            T.reads(A[v_i])\n"
        "            T.writes(B_v1[v_i])\n"
        "            B_v1[v_i] = A[v_i] * T.float32(2)"
    )


def argmax_reducer() -> Any:
    def combine(x: Any, y: Any) -> tuple[PrimExpr, PrimExpr]:
        return Select(x[1] >= y[1], x[0], y[0]), Select(x[1] >= y[1], x[1], y[1])

    return te.comm_reducer(combine, lambda t0, t1: (const(-1, t0), min_value(t1)), name="argmax")


def test_reductions_of_several_values_use_lets() -> None:
    index = te.placeholder((4, 8), "int32", "idx")
    value = te.placeholder((4, 8), name="val")
    k = te.reduce_axis((0, 8), "k")
    first, second = te.compute(
        (4,), lambda i: argmax_reducer()((index[i, k], value[i, k]), axis=k), name="T"
    )
    assert text(index, value, first, second) == (
        "    for i, k in T.grid(4, 8):\n"
        '        with T.block("T"):\n'
        '            v_i, v_k = T.axis.remap("SR", [i, k])\n'
        "            T.reads(val[v_i, v_k], idx[v_i, v_k])\n"
        "            T.writes(T_v0[v_i], T_v1[v_i])\n"
        "            with T.init():\n"
        "                T_v0[v_i] = -1\n"
        "                T_v1[v_i] = T.float32(-3.4028234663852886e+38)\n"
        "            v_T_v0: T.int32 = T.Select(T_v1[v_i] >= val[v_i, v_k], T_v0[v_i], "
        "idx[v_i, v_k])\n"
        "            v_T_v1: T.float32 = T.Select(T_v1[v_i] >= val[v_i, v_k], T_v1[v_i], "
        "val[v_i, v_k])\n"
        "            T_v0[v_i] = v_T_v0\n"
        "            T_v1[v_i] = v_T_v1"
    )


def test_argmax_of_two_values(evaluate: Evaluate) -> None:
    index = te.placeholder((4, 8), "int32", "idx")
    value = te.placeholder((4, 8), name="val")
    k = te.reduce_axis((0, 8), "k")
    outputs = te.compute(
        (4,), lambda i: argmax_reducer()((index[i, k], value[i, k]), axis=k), name="T"
    )
    positions = np.tile(np.arange(8, dtype="int32"), (4, 1))
    x = rng.permutation(32).reshape(4, 8).astype("float32")
    found = evaluate(outputs, [index, value], positions, x)
    np.testing.assert_array_equal(found[0], x.argmax(1))
    np.testing.assert_array_equal(found[1], x.max(1))


@pytest.mark.parametrize(
    ("reducer", "reference", "dtype"),
    [
        (te.sum, np.sum, "float32"),
        (te.prod, np.prod, "float32"),
        (te.max, np.max, "float32"),
        (te.min, np.min, "int8"),
        (te.any, np.any, "bool"),
        (te.all, np.all, "bool"),
    ],
)
def test_builtin_reducers(evaluate: Evaluate, reducer: Any, reference: Any, dtype: str) -> None:
    x = rng.integers(-5, 5, (3, 4)).astype(dtype)
    a = te.placeholder((3, 4), dtype, "A")
    k = te.reduce_axis((0, 4), "k")
    result = evaluate(te.compute((3,), lambda i: reducer(a[i, k], axis=k)), [a], x)
    np.testing.assert_allclose(result, reference(x, axis=1), rtol=1e-6)


def test_init_and_where_are_honoured(evaluate: Evaluate) -> None:
    a, s = te.placeholder((3, 4), name="A"), te.placeholder((3,), name="S")
    k = te.reduce_axis((0, 4), "k")
    x, start = rng.normal(size=(3, 4)).astype("float32"), np.arange(3, dtype="float32")
    total = te.compute((3,), lambda i: te.sum(a[i, k], axis=k, where=a[i, k] > 0.0, init=s[i]))
    result = evaluate(total, [a, s], x, start)
    np.testing.assert_allclose(result, np.where(x > 0, x, 0).sum(1) + start, rtol=1e-6)
    fixed = te.compute((3,), lambda i: te.max(a[i, k], axis=k, init=0.5))
    np.testing.assert_allclose(evaluate(fixed, [a], x), np.maximum(x.max(1), 0.5))


def test_reduction_axes_need_not_start_at_zero(evaluate: Evaluate) -> None:
    a = te.placeholder((10,), name="A")
    k = te.reduce_axis((2, 8), "k")
    total = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
    assert "for k in range(2, 8):" in text(a, total)
    x = np.arange(10, dtype="float32")
    assert evaluate(total, [a], x).tolist() == [27.0]


def test_extents_that_depend_on_the_place(evaluate: Evaluate) -> None:
    a = te.placeholder((5,), name="A")

    def element(i: Any) -> PrimExpr:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(a[k], axis=k)

    prefix = te.compute((5,), element, name="prefix")
    assert text(a, prefix) == (
        "    for i in range(5):\n"
        '        with T.block("prefix_l1"):\n'
        "            v_i = T.axis.spatial(5, i)\n"
        "            T.reads(A[0:v_i + 1])\n"
        "            T.writes(prefix[v_i])\n"
        "            for k in range(v_i + 1):\n"
        '                with T.block("prefix"):\n'
        "                    v_i_1 = T.axis.spatial((v_i, v_i + 1), v_i)\n"
        "                    v_k = T.axis.reduce(v_i + 1, k)\n"
        "                    T.reads(A[v_k])\n"
        "                    T.writes(prefix[v_i_1])\n"
        "                    with T.init():\n"
        "                        prefix[v_i_1] = T.float32(0)\n"
        "                    prefix[v_i_1] = prefix[v_i_1] + A[v_k]"
    )
    x = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(evaluate(prefix, [a], x), x.cumsum())


def test_symbolic_shapes_and_scalar_parameters() -> None:
    n, scale = te.size_var("n"), te.var("scale", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * scale, name="B")
    func = te.create_prim_func([scale, a, b])
    assert func.params[0] is scale
    assert set(func.buffer_map) == set(func.params[1:])
    assert func.buffer_map[func.params[1]].shape[0] is n


def test_gathers_read_the_index_too() -> None:
    a, index = te.placeholder((16, 4), name="A"), te.placeholder((8,), "int32", "idx")
    g = te.compute((8, 4), lambda i, j: a[index[i], j], name="G")
    assert "T.reads(A[idx[v_i], v_j], idx[v_i])" in text(a, index, g)


A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: te.create_prim_func([B]),
        "create_prim_func: placeholder A is read but is not among the arguments",
    ),
    (
        lambda: te.create_prim_func([A, B, B]),
        "create_prim_func: B is given twice (argument 2); the parameters of a function must not "
        "alias",
    ),
    (
        lambda: te.create_prim_func([A, 3]),  # type: ignore[list-item]
        "create_prim_func: argument 1 is a int, expected a tensor or a variable",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message


@pytest.mark.parametrize("extents", [(0,), (3, 0)])
def test_a_reduction_of_nothing_is_what_it_starts_from(extents: tuple[int, ...]) -> None:
    a = te.placeholder((4, *extents), name="A")
    axes = [te.reduce_axis((0, extent)) for extent in extents]
    pairs = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda s, t: (const(0, s), const(1, t)), "pairs"
    )
    values = [
        te.compute((4,), lambda i: te.sum(a(i, *axes), axes), "total"),
        te.compute((4,), lambda i: te.sum(a(i, *axes), axes, init=7.0), "given"),
        *te.compute((4,), lambda i: pairs((a(i, *axes), a(i, *axes)), axes), "both"),
    ]
    func = te.create_prim_func([a, *values])
    for run in (tw.build(func), lambda *arrays: oracle.run(func, *arrays)):
        results = [np.full(4, 99, "float32") for _ in values]
        run(np.zeros((4, *extents), "float32"), *results)
        assert [result.tolist() for result in results] == [[v] * 4 for v in (0, 7, 0, 1)]

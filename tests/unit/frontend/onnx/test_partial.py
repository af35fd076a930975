"""Operators that cannot be imported run by reference; the rest by our kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import GraphError, RuntimeFailure
from tilewright.graph import Graph, GraphValue, operator, parse_graph
from tilewright.graph.graph import Array
from tilewright.model import compile_model

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tilewright.frontend.onnx import (  # noqa: E402
    NodeContext,
    SpecializedModel,
    context,
    converts,
    import_onnx,
)
from tilewright.frontend.partial import PartialImportWarning  # noqa: E402

MakeModel = Callable[..., bytes]


def partly(model: bytes, **options: Any) -> tuple[Graph, str]:
    """A graph, and the warning that came with it."""
    with pytest.warns(PartialImportWarning) as seen:
        graph = import_onnx(model, partial=True, **options)
    (warning,) = seen
    return graph, str(warning.message)


def by_reference(model: bytes, x: Array) -> Array:
    made = ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, {"x": x})
    (result,) = cast("list[Array]", made)
    return result


def externals(graph: Graph) -> list[str]:
    return [node.source for node in graph.nodes if node.op == "external"]


@pytest.fixture
def det(make_model: MakeModel) -> bytes:
    """A product, its determinant, and a sum."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Det", ["a"], ["d"], name="volume"),
        helper.make_node("Add", ["d", "d"], ["y"], name="twice"),
    ]
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    return make_model(nodes, {"x": [2, 64, 64]}, ["y"], {"w": weight}, opset=22)


def normal(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_the_refusal_says_what_share_is_left(det: bytes) -> None:
    with pytest.raises(GraphError) as error:
        import_onnx(det)
    assert str(error.value) == (
        "operators that cannot be imported yet: Det (1: volume); the rest has 99.2 % of 1.06 "
        "MFLOP, and partial=True runs these by reference"
    )


def test_the_rest_runs_by_kernels(det: bytes) -> None:
    graph, said = partly(det)
    assert externals(graph) == ["volume"]
    assert said == (
        "computed by reference: Det (volume) cannot be imported yet; "
        "the rest has 99.2 % of 1.06 MFLOP"
    )
    compiled = compile_model(graph)
    assert [step.name for step in compiled.profile(normal(2, 64, 64))] == [
        "fused_nn_matmul", "onnx(volume)", "fused_add",
    ]  # fmt: skip
    for x in (normal(2, 64, 64), normal(2, 64, 64) * 0.5):
        np.testing.assert_allclose(compiled(x)[0], by_reference(det, x), rtol=1e-3)


def test_a_graph_with_external_nodes_is_text(det: bytes) -> None:
    graph, _ = partly(det)
    again = parse_graph(graph.script(), {v.name: a for v, a in graph.constants.items()})
    x = normal(2, 64, 64)
    np.testing.assert_array_equal(compile_model(again)(x)[0], compile_model(graph)(x)[0])


def test_an_operator_of_another_domain_runs_in_onnxruntime(make_model: MakeModel) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(
            "FusedMatMul", ["a", "w"], ["b"], name="fused", domain="com.microsoft", transB=1
        ),
        helper.make_node("Tanh", ["b"], ["y"]),
    ]
    weight = normal(5, 8)
    model = make_model(nodes, {"x": [4, 8]}, ["y"], {"w": weight})
    graph, said = partly(model)
    assert "com.microsoft" not in said  # ONNX's name of an operator is enough
    assert [n.outputs[0].type.extents for n in graph.nodes if n.op == "external"] == [(4, 5)]
    x = normal(4, 8)
    wanted = np.tanh(np.maximum(x, 0) @ weight.T)
    np.testing.assert_allclose(compile_model(graph)(x)[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_loop_whose_length_depends_on_data(make_model: MakeModel) -> None:
    """Its body reads values from outside, which become inputs of the external node."""

    def info(name: str, kind: int, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [helper.make_node("Add", ["v", "step"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [
            info("i", TensorProto.INT64),
            info("c", TensorProto.BOOL),
            info("v", TensorProto.FLOAT, 3),
        ],
        [info("d", TensorProto.BOOL), info("w", TensorProto.FLOAT, 3)],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["n"], to=TensorProto.INT64),
        helper.make_node("Loop", ["n", "", "x"], ["l"], name="steps", body=body),
        helper.make_node("Neg", ["l"], ["y"]),
    ]
    step = np.asarray([1, 10, 100], np.float32)
    model = make_model(nodes, {"x": [3]}, ["y"], {"step": step})
    graph, said = partly(model)
    assert externals(graph) == ["steps"]
    assert said.startswith("computed by reference: Loop (steps): ")
    compiled = compile_model(graph)
    for x in (np.ones(3, np.float32), np.full(3, 2, np.float32)):
        np.testing.assert_allclose(compiled(x)[0], -(x + x.sum() * step), rtol=1e-5)


def test_what_a_converter_refuses_goes_to_the_reference(make_model: MakeModel) -> None:
    """A mode that is not there: the node is named with what the converter ran into."""
    node = helper.make_node("Gelu", ["x"], ["y"], name="act", approximate="tanh")
    model = make_model([node], {"x": [2, 3]}, ["y"])

    def refusing(node: NodeContext) -> GraphValue:
        node.call("nn.relu", node[0])
        raise GraphError("a converter may begin and give up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(context._CONVERTERS, "Gelu", {1: refusing})
        graph, said = partly(model)
    assert [node.op for node in graph.nodes] == ["external"]
    assert said.startswith(
        "computed by reference: Gelu (act): a converter may begin and give up; the rest has 0 %"
    )
    x = normal(2, 3)
    wanted = by_reference(model, x)
    np.testing.assert_allclose(compile_model(graph)(x)[0], wanted, rtol=1e-4, atol=1e-5)


def test_shapes_that_depend_on_data_are_refused(make_model: MakeModel) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="where")]
    model = make_model(nodes, {"x": [3]}, ["y"])
    with pytest.raises(GraphError) as error:
        import_onnx(model, partial=True)
    assert str(error.value) == (
        "NonZero (where) cannot be imported yet; by reference: "
        "the shape of its result 'y' is known only when it runs"
    )


def test_an_operator_that_nobody_knows(make_model: MakeModel) -> None:
    nodes = [helper.make_node("Sharpen", ["x"], ["y"], name="edge", domain="acme")]
    model = make_model(nodes, {"x": [3]}, ["y"])
    with pytest.raises(GraphError, match="by reference: edge: neither onnxruntime nor onnx can"):
        import_onnx(model, partial=True)


def test_a_model_without_gaps_gives_no_warning(make_model: MakeModel) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])
    assert externals(import_onnx(model, partial=True)) == []


def test_models_of_any_shape(make_model: MakeModel) -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"])]
    model = SpecializedModel(make_model(nodes, {"x": ["n", "n"]}, ["y"], opset=22), partial=True)
    for extent in (2, 3):
        x = normal(extent, extent)
        with pytest.warns(PartialImportWarning):
            (made,) = model({"x": x})
        np.testing.assert_allclose(made, np.linalg.det(x), rtol=1e-3)


def test_one_decorated_function_adds_an_operator(make_model: MakeModel) -> None:
    @operator("acme.test.Hardness")
    def hardness(x: te.Tensor, slope: float = 1.0) -> te.Tensor:
        return topi.clip(topi.multiply(x, slope), 0.0, 1.0)

    node = helper.make_node("Hardness", ["x"], ["y"], domain="acme.test", slope=0.5)
    graph = import_onnx(make_model([node], {"x": [4]}, ["y"]))
    x = np.asarray([-1, 0.5, 1, 4], np.float32)
    np.testing.assert_array_equal(compile_model(graph)(x)[0], np.clip(0.5 * x, 0, 1))


def test_a_converter_for_an_operator_of_another_domain(make_model: MakeModel) -> None:
    @converts("Twice", domain="acme.test")
    def twice(node: NodeContext) -> GraphValue:
        return node.call("add", node[0], node[0])

    node = helper.make_node("Twice", ["x"], ["y"], domain="acme.test")
    graph = import_onnx(make_model([node], {"x": [4]}, ["y"]))
    assert [made.op for made in graph.nodes] == ["add"]


def test_a_reference_that_returns_something_else() -> None:
    text = """
def main(x: float32[2]):
    y = external(x, backend='test.halves', program='', results=[['float32', [2]]])
    return y
"""
    from tilewright.byoc import ExternalFunction, ExternalPart, external_backends

    @external_backends.register("test.halves")
    def halves(part: ExternalPart) -> ExternalFunction:
        return lambda arrays: [array[:1] for array in arrays]

    with pytest.raises(RuntimeFailure) as error:
        compile_model(parse_graph(text))(np.zeros(2, np.float32))
    assert str(error.value) == "test.halves(y) returned float32[1], expected float32[2]"

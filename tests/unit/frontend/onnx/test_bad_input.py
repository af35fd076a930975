"""Models that cannot be imported: one clear error each, which names what is wrong and where."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentError, GraphError
from tilewright.frontend.onnx import SpecializedModel, import_onnx

onnx = pytest.importorskip("onnx")
helper = onnx.helper

MakeModel = Callable[..., bytes]


def _refusal(source: Any, **options: Any) -> str:
    with pytest.raises(GraphError) as caught:
        import_onnx(source, **options)
    return str(caught.value)


@pytest.fixture
def relu(make_model: MakeModel) -> bytes:
    node = helper.make_node("Relu", ["x"], ["y"], name="act")
    return make_model([node], {"x": [2, 3]}, ["y"])


# --- files ------------------------------------------------------------------------------------


def test_a_missing_file() -> None:
    assert _refusal("nowhere/model.onnx") == "there is no file nowhere/model.onnx"


def test_a_folder(tmp_path: Path) -> None:
    assert _refusal(tmp_path).startswith(f"{tmp_path} cannot be read as an ONNX model: ")


def test_noise(tmp_path: Path) -> None:
    path = tmp_path / "noise.onnx"
    path.write_bytes(b"\xff" * 100)
    assert _refusal(path).startswith(f"{path} cannot be read as an ONNX model: ")


def test_nothing() -> None:
    expected = "the bytes cannot be read as an ONNX model: it has no graph of operators"
    assert _refusal(b"") == expected


def test_every_truncation_is_refused(relu: bytes) -> None:
    """Cut anywhere, a model gives one typed error or, where only its end is lost, a graph."""
    for length in range(len(relu)):
        try:
            import_onnx(relu[:length])
        except GraphError:
            continue
        assert length > len(relu) // 2


def test_every_changed_byte_gives_a_graph_or_one_typed_error(relu: bytes) -> None:
    for position in range(len(relu)):
        changed = bytearray(relu)
        changed[position] ^= 0x15
        with contextlib.suppress(GraphError):
            import_onnx(bytes(changed))


# --- tensors ----------------------------------------------------------------------------------


def _with_tensor(tensor: Any) -> Any:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="sum")
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 2])
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "main", [given], [result], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def _external(location: str, **entries: Any) -> Any:
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2, 2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _saved(folder: Path, tensor: Any) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(_with_tensor(tensor).SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(b"1234" + np.arange(4, dtype=np.float32).tobytes())
    graph = import_onnx(_saved(tmp_path, _external("w.data", offset=4, length=16)))
    (weight,) = graph.constants.values()
    np.testing.assert_array_equal(weight, [[0, 1], [2, 3]])


@pytest.mark.parametrize("location", ["../w.data", "/etc/passwd", "a/../../w.data", ""])
def test_external_data_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.data").write_bytes(bytes(16))
    expected = f"Add (sum): tensor w: {location!r} is not inside the folder of the model"
    assert _refusal(_saved(folder, _external(location))) == expected


def test_external_data_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.data").symlink_to(tmp_path / "secret")
    expected = "Add (sum): tensor w: w.data is a link, which is not followed"
    assert _refusal(_saved(folder, _external("w.data"))) == expected


def test_external_data_in_a_linked_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "w.data").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "sub").symlink_to(tmp_path / "outside")
    expected = "Add (sum): tensor w: sub/w.data is a link, which is not followed"
    assert _refusal(_saved(folder, _external("sub/w.data"))) == expected


def test_external_data_with_a_second_name(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    os.link(tmp_path / "secret", tmp_path / "w.data")
    expected = "Add (sum): tensor w: w.data is a link, which is not followed"
    assert _refusal(_saved(tmp_path, _external("w.data"))) == expected


def test_missing_external_data(tmp_path: Path) -> None:
    expected = "Add (sum): tensor w: its data file w.data is missing"
    assert _refusal(_saved(tmp_path, _external("w.data"))) == expected


def test_external_data_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.data").mkdir()
    assert (
        _refusal(_saved(tmp_path, _external("w.data")))
        == "Add (sum): tensor w: w.data is not a file"
    )


@pytest.mark.parametrize(("entries", "offset"), [({}, 0), ({"offset": 8}, 8), ({"offset": -8}, -8)])
def test_short_external_data(tmp_path: Path, entries: dict[str, int], offset: int) -> None:
    (tmp_path / "w.data").write_bytes(bytes(12))
    expected = f"Add (sum): tensor w needs 16 bytes at {offset} of w.data, which has 12"
    assert _refusal(_saved(tmp_path, _external("w.data", **entries))) == expected


@pytest.mark.parametrize("length", [0, 10, -16, 10**18])
def test_external_data_of_another_length_than_its_shape(tmp_path: Path, length: int) -> None:
    (tmp_path / "w.data").write_bytes(bytes(16))
    expected = f"Add (sum): tensor w has {length} bytes of w.data, its shape and type want 16"
    assert _refusal(_saved(tmp_path, _external("w.data", length=length))) == expected


def test_a_place_that_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(16))
    expected = "Add (sum): tensor w: its place in w.data is damaged"
    assert _refusal(_saved(tmp_path, _external("w.data", offset="x"))) == expected


def test_external_data_of_a_model_without_a_folder() -> None:
    model = _with_tensor(_external("w.data")).SerializeToString()
    assert _refusal(model) == "Add (sum): tensor w has external data, but the model has no folder"


def test_extents_whose_product_overflows(tmp_path: Path) -> None:
    tensor = _external("w.data")
    tensor.dims[:] = [1 << 40, 1 << 40]
    (tmp_path / "w.data").write_bytes(bytes(16))
    count = 4 << 80
    expected = f"Add (sum): tensor w needs {count} bytes at 0 of w.data, which has 16"
    assert _refusal(_saved(tmp_path, tensor)) == expected


@pytest.mark.parametrize("dims", [[2, 3], [-1, 4], [1 << 40]])
def test_numbers_that_do_not_fill_a_tensor(dims: list[int]) -> None:
    tensor = onnx.TensorProto(
        name="w", data_type=onnx.TensorProto.FLOAT, dims=dims, raw_data=bytes(20)
    )
    assert _refusal(_with_tensor(tensor).SerializeToString()).startswith(
        "Add (sum): tensor w is damaged: "
    )


def test_nan_in_weights(make_model: MakeModel) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="sum")
    model = make_model([node], {"x": [2]}, ["y"], {"w": np.array([1, np.nan], np.float32)})
    expected = "Add (sum): its weight 'w' contains NaN; pass allow_nan=True to import it anyway"
    assert _refusal(model) == expected
    assert len(import_onnx(model, allow_nan=True).nodes) == 1


def test_nan_in_the_weights_of_nodes_and_bodies(make_model: MakeModel) -> None:
    numbers = onnx.numpy_helper.from_array(np.array([1, np.nan], np.float32), "w")
    made = helper.make_node("Constant", [], ["w"], name="scales", value=numbers)
    total = helper.make_node("Add", ["x", "w"], ["z"], name="sum")
    out = helper.make_empty_tensor_value_info("z")
    end = "contains NaN; pass allow_nan=True to import it anyway"
    model = make_model([made, total], {"x": [2]}, ["z"])
    assert _refusal(model) == f"Constant (scales) {end}"
    assert len(import_onnx(model, allow_nan=True).nodes) == 1
    bodies = {
        f"{word}_branch": helper.make_graph([total], word, [], [out], [numbers])
        for word in ("then", "else")
    }
    condition = helper.make_node("If", ["c"], ["y"], name="which", **bodies)
    model = make_model([condition], {"x": [2]}, ["y"], {"c": np.array(True)})
    assert _refusal(model) == f"If (which): Add (which.sum): its weight 'w' {end}"
    bodies = {
        f"{word}_branch": helper.make_graph([total], word, [], [out]) for word in ("then", "else")
    }
    condition = helper.make_node("If", ["c"], ["y"], name="which", **bodies)
    weights = {"c": np.array(True), "w": np.array([1, np.nan], np.float32)}
    model = make_model([condition], {"x": [2]}, ["y"], weights)
    assert _refusal(model) == f"Add (which.sum): its weight 'w' {end}"


def test_infinite_weights_are_weights(make_model: MakeModel) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="sum")
    numbers = np.array([np.inf, -np.inf], np.float32)
    assert len(import_onnx(make_model([node], {"x": [2]}, ["y"], {"w": numbers})).nodes) == 1


# --- graphs -----------------------------------------------------------------------------------


def test_a_dimension_without_a_size(make_model: MakeModel) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], {"x": ["batch", 3]}, ["y"])
    assert _refusal(model) == (
        "input x has dimension 'batch', whose size is not known: give dims={'batch': 1} "
        "or shapes={'x': [...]}"
    )
    assert import_onnx(model, dims={"batch": 2}).inputs[0].type.shape == (2, 3)
    assert import_onnx(model, shapes={"x": [4, 3]}).inputs[0].type.shape == (4, 3)


@pytest.mark.parametrize("size", [-2, "two", 1.5, None])
def test_sizes_that_are_none(make_model: MakeModel, size: Any) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch"]}, ["y"])
    expected = f"dims says that dimension 'batch' is {size!r}, expected a size"
    assert _refusal(model, dims={"batch": size}) == expected


def test_a_dimension_without_a_name(make_model: MakeModel) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [None]}, ["y"])
    assert _refusal(model) == (
        "input x has a dimension without a name, whose size is not known: give shapes={'x': [...]}"
    )


def test_an_input_without_a_shape() -> None:
    """No shape is not the shape of a scalar."""
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "main", [given], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert _refusal(model) == "input x has no shape: give shapes={'x': [...]}"
    assert import_onnx(model, shapes={"x": [4, 3]}).inputs[0].type.shape == (4, 3)
    assert import_onnx(model, shapes={"x": []}).inputs[0].type.shape == ()


def test_bindings_of_what_is_not_there(relu: bytes) -> None:
    assert _refusal(relu, shapes={"z": [2, 3]}) == "there is no input 'z'; the model has x"
    assert _refusal(relu, shapes={"x": [2]}) == "input x has 2 axes, shapes says [2]"


def test_shapes_that_do_not_fit_the_model(make_model: MakeModel) -> None:
    node = helper.make_node("Add", ["x", "y"], ["z"])
    model = make_model([node], {"x": ["n", 3], "y": ["n", 3]}, ["z"])
    expected = "input x has an extent of 3, shapes says [2, 4]"
    assert _refusal(model, shapes={"x": [2, 4]}) == expected
    expected = "input y has dimension 'n' of 2, shapes says [4, 3]"
    assert _refusal(model, shapes={"x": [2, 3], "y": [4, 3]}) == expected
    expected = "input x has dimension 'n' of 5, shapes says [2, 3]"
    assert _refusal(model, dims={"n": 5}, shapes={"x": [2, 3]}) == expected
    graph = import_onnx(model, shapes={"x": [2, 3]})
    assert [value.type.shape for value in graph.inputs] == [(2, 3), (2, 3)]


@pytest.mark.parametrize("opset", [6, 1000])
def test_versions_that_are_not_known(make_model: MakeModel, opset: int) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = make_model([node], {"x": [2]}, ["y"], opset=opset)
    newest = onnx.defs.onnx_opset_version()
    assert _refusal(model) == (
        f"the model uses version {opset} of ONNX's operators; 7 to {newest} can be imported "
        "(onnx.version_converter changes the version)"
    )


def test_an_old_version_of_an_operator_that_did_not_change(make_model: MakeModel) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], opset=6)
    assert [node.op for node in import_onnx(model).nodes] == ["nn.relu"]


def test_operators_that_are_missing_are_listed_at_once(make_model: MakeModel) -> None:
    nodes = [
        helper.make_node("Blur", ["x"], ["a"], name="first"),
        helper.make_node("Blur", ["a"], ["b"]),
        helper.make_node("Sharpen", ["b"], ["y"], domain="acme"),
    ]
    assert _refusal(make_model(nodes, {"x": [2]}, ["y"])) == (
        "operators that cannot be imported yet: Blur (2: first, Blur_1); "
        "acme.Sharpen (1: Sharpen_2)"
    )


def test_nodes_that_no_output_needs_are_left_out(make_model: MakeModel) -> None:
    """Also where they stand in the bodies of other nodes; what bodies read is needed."""
    blur = helper.make_node("Blur", ["x"], ["b"], domain="acme")
    twice = helper.make_node("Add", ["x", "x"], ["twice"])
    branches = {
        name: helper.make_graph(
            [blur, helper.make_node(op_type, ["twice"], ["z"])],
            name, [], [helper.make_empty_tensor_value_info("z")],
        )
        for name, op_type in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }  # fmt: skip
    chosen = helper.make_node("If", ["c"], ["y"], **branches)
    model = make_model([blur, twice, chosen], {"x": [2]}, ["y"], {"c": np.array(True)})
    assert [node.op for node in import_onnx(model).nodes] == ["add", "nn.relu"]
    unread = helper.make_node("Relu", ["nothing"], ["n"], name="unread")
    expected = "Relu (unread) reads 'nothing', which nothing before it makes"
    assert _refusal(make_model([twice, unread], {"x": [2]}, ["twice"])) == expected


def test_nodes_out_of_order_or_in_a_circle(make_model: MakeModel) -> None:
    nodes = [
        helper.make_node("Relu", ["a"], ["y"], name="late"),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    assert _refusal(make_model(nodes, {"x": [2]}, ["y"])) == (
        "Relu (late) reads 'a', which a later node makes: the nodes are not in order, "
        "or form a cycle"
    )
    circle = [helper.make_node("Add", ["x", "y"], ["y"], name="own")]
    assert _refusal(make_model(circle, {"x": [2]}, ["y"])).startswith("Add (own) reads 'y', which ")


def test_names_that_nothing_makes_or_two_make(make_model: MakeModel) -> None:
    node = helper.make_node("Relu", ["a"], ["y"], name="act")
    expected = "Relu (act) reads 'a', which nothing before it makes"
    assert _refusal(make_model([node], {"x": [2]}, ["y"])) == expected
    twice = [helper.make_node("Relu", ["x"], ["y"], name=name) for name in ("one", "two")]
    assert _refusal(make_model(twice, {"x": [2]}, ["y"])) == "Relu (two) makes 'y' a second time"
    own = [helper.make_node("Relu", ["x"], ["y"])]
    expected = "the graph reads 'z', which nothing before it makes"
    assert _refusal(make_model(own, {"x": [2]}, ["z"])) == expected


def test_types_that_do_not_fit_name_node_and_operator(make_model: MakeModel) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    model = make_model([node], {"x": [2, 3]}, ["y"], {"w": np.zeros((4, 5), np.float32)})
    assert _refusal(model).startswith("MatMul (fc): nn.matmul of float32[2, 3], float32[4, 5]: ")


def test_inputs_of_two_types(make_model: MakeModel) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="sum")
    model = make_model([node], {"x": [2]}, ["y"], {"w": np.zeros(2, np.int32)})
    expected = "its inputs 'x' and 'w' have elements of types float32 and int32, expected one type"
    assert _refusal(model) == f"Add (sum): {expected}"
    assert _refusal(model, partial=True) == f"Add (sum): {expected}"


def test_an_input_that_is_left_out(make_model: MakeModel) -> None:
    model = make_model([helper.make_node("Add", ["x"], ["y"], name="sum")], {"x": [2]}, ["y"])
    assert _refusal(model).startswith("Add (sum): ")
    assert "has input size 1 not in range [min=2, max=2]" in _refusal(model)


def test_attributes_that_are_missing_or_wrong(make_model: MakeModel) -> None:
    node = helper.make_node("Concat", ["x", "x"], ["y"], name="join")
    expected = "Concat (join): Required attribute 'axis' is missing"
    assert _refusal(make_model([node], {"x": [2]}, ["y"])) == expected
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="pick")
    model = make_model([node], {"x": []}, ["y"], {"i": np.array([0])})
    assert _refusal(model).startswith("Gather (pick): ")
    node = helper.make_node("If", ["x"], ["y"], name="which")
    assert _refusal(make_model([node], {"x": [1]}, ["y"])).startswith("If (which): ")


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "DeformConv"])
def test_windows_that_are_not_those_of_the_weights(make_model: MakeModel, operator: str) -> None:
    inputs = ["x", "w", "offsets"] if operator == "DeformConv" else ["x", "w"]
    node = helper.make_node(operator, inputs, ["y"], name="conv", kernel_shape=[5, 3])
    weights = {"w": np.zeros((4, 4, 3, 3), np.float32)}
    weights["offsets"] = np.zeros((1, 18, 6, 6), np.float32)
    model = make_model([node], {"x": [1, 4, 8, 8]}, ["y"], weights)
    expected = f"{operator} (conv): kernel_shape is [5, 3], and the weights have windows of [3, 3]"
    assert _refusal(model) == expected


def test_a_sequence_that_depends_on_an_input(make_model: MakeModel) -> None:
    def branch(name: str) -> Any:
        node = helper.make_node("SequenceConstruct", ["x"], [name])
        return helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(name)])

    node = helper.make_node(
        "If", ["c"], ["y"], name="which", then_branch=branch("t"), else_branch=branch("e")
    )
    expected = "If (which): c decides about a sequence, but is known only when the model runs"
    assert _refusal(make_model([node], {"c": [], "x": [2]}, ["y"])) == expected


def test_names_that_are_not_text(relu: bytes) -> None:
    model = relu.replace(b"act", b"\xff\xfe\xfd")
    expected = "the bytes cannot be read as an ONNX model: a name in it is not text"
    assert _refusal(model) == expected


def test_strings(make_model: MakeModel) -> None:
    given = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2])
    result = helper.make_empty_tensor_value_info("y")
    node = helper.make_node("Identity", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "main", [given], [result]))
    expected = "input x has elements of type string, which is not supported"
    assert _refusal(model.SerializeToString()) == expected


def test_functions_that_call_themselves() -> None:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    inner = helper.make_node("F", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "F", ["a"], ["b"], [inner], opsets)
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node("F", ["x"], ["y"], domain="own")],
        "main", [given], [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    assert _refusal(model.SerializeToString()) == "function F of the model calls itself"


def test_shapes_that_are_known_only_when_the_model_runs(make_model: MakeModel) -> None:
    nodes = [
        helper.make_node("Cast", ["s"], ["whole"], to=onnx.TensorProto.INT64),
        helper.make_node("Reshape", ["x", "whole"], ["y"], name="form"),
    ]
    model = make_model(nodes, {"x": [6], "s": [2]}, ["y"])
    assert _refusal(model) == (
        "Reshape (form): cast decides about shapes, but is known only when the model runs"
    )
    assert import_onnx(model, values={"s": np.array([2, 3])}).outputs[0].type.shape == (2, 3)


def test_a_constant_too_large_to_make(make_model: MakeModel) -> None:
    """The shape is looked at before memory is asked for."""
    node = helper.make_node("ConstantOfShape", ["s"], ["y"])
    shape = np.array([1 << 20, 1 << 20], np.int64)
    graph = import_onnx(make_model([node], {}, ["y"], {"s": shape}))
    assert [one.op for one in graph.nodes] == ["broadcast_to"]


# --- calls ------------------------------------------------------------------------------------


def test_inputs_of_the_wrong_name_shape_or_type(relu: bytes) -> None:
    model = SpecializedModel(relu)
    good = np.zeros((2, 3), np.float32)
    for inputs, message in (
        ({"z": good}, "the model takes inputs x; got z"),
        ({}, "the model takes inputs x; got none"),
        ({"x": good[:1]}, "input x: expected float32[2, 3], got float32[1, 3]"),
        ({"x": good[0]}, "input x: expected float32[2, 3], got float32[3]"),
        ({"x": good.astype(np.float64)}, "input x: expected float32[2, 3], got float64[2, 3]"),
    ):
        with pytest.raises(ArgumentError) as caught:
            model(inputs)
        assert str(caught.value) == message
    (result,) = model({"x": good})
    np.testing.assert_array_equal(result, good)


def test_an_output_of_another_type_than_the_model_says() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="act")
    x, y = (helper.make_tensor_value_info(name, kind, [2]) for name, kind in (("x", 1), ("y", 7)))
    model = helper.make_model(helper.make_graph([node], "main", [x], [y]))
    expected = "Relu (act) makes float32, and the model says that output 'y' is int64"
    assert _refusal(model.SerializeToString()) == expected


@pytest.mark.parametrize(
    ("value", "given"),
    [(np.zeros((2, 4), "float32"), "float32[2, 4]"), (np.full((2, 3), 0.1), "float64[2, 3]")],
)
def test_values_that_an_input_cannot_have(relu: bytes, value: Any, given: str) -> None:
    expected = f"values gives input x {given}, expected float32[2, 3]"
    assert _refusal(relu, values={"x": value}) == expected


def test_extents_that_kernels_cannot_count_to(make_model: MakeModel) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], {"x": ["batch", 3]}, ["y"])
    assert _refusal(model, dims={"batch": 1 << 33}) == (
        "input x has an extent of 8589934592, more than the 2147483647 that kernels count to"
    )


def test_what_is_no_model() -> None:
    message = "expected a path, the bytes of a model or an onnx.ModelProto, got int"
    assert _refusal(5) == message


def test_inputs_of_a_specialized_model_that_have_no_names(relu: bytes) -> None:
    with pytest.raises(ArgumentError) as caught:
        SpecializedModel(relu)(np.zeros((2, 3), "float32"))  # type: ignore[arg-type]
    assert str(caught.value) == "the model takes its inputs by name, as a mapping; got ndarray"

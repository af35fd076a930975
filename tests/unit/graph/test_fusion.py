"""Kinds of operators, and what fuses, by TVM's rules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.graph import GraphBuilder, GraphValue, TensorType, parse_graph
from tilewright.graph.fusion import MAX_GROUP, FusedGroup, fuse
from tilewright.graph.lowering import kind_of_node
from tilewright.graph.patterns import Kind

_IMAGE = TensorType((1, 4, 6, 6), "float32")
_MATRIX = TensorType((6, 4), "float32")
_ROW = TensorType((4,), "float32")
_INDICES = TensorType((6, 4), "int64")
_POOL = {"kernel": 2, "stride": 2, "dilation": 1, "padding": 0}


@pytest.mark.parametrize(
    ("kind", "op", "inputs", "attrs"),
    [
        (Kind.ELEMENTWISE, "exp", [_MATRIX], {}),
        (Kind.ELEMENTWISE, "cast", [_MATRIX], {"dtype": "float16"}),
        (Kind.ELEMENTWISE, "clip", [_MATRIX], {"a_min": 0.0, "a_max": 1.0}),
        (Kind.ELEMENTWISE, "nn.relu", [_MATRIX], {}),
        (Kind.ELEMENTWISE, "add", [_MATRIX, _MATRIX], {}),
        (Kind.ELEMENTWISE, "add", [_MATRIX, _ROW], {}),  # as one operand is read where it writes
        (Kind.BROADCAST, "broadcast_to", [_ROW], {"shape": [6, 4]}),
        (Kind.BROADCAST, "multiply", [TensorType((6, 1), "float32"), _ROW], {}),
        (Kind.INJECTIVE, "transpose", [_MATRIX], {"axes": [1, 0]}),
        (Kind.INJECTIVE, "reshape", [_MATRIX], {"newshape": [3, 8]}),
        (Kind.INJECTIVE, "concatenate", [_MATRIX, _MATRIX], {"axis": 0}),
        (Kind.INJECTIVE, "split", [_MATRIX], {"indices_or_sections": 2, "axis": 0}),
        (Kind.INJECTIVE, "strided_slice", [_MATRIX], {"begin": [1], "end": [4]}),
        (Kind.INJECTIVE, "take", [_ROW, _INDICES], {"axis": 0}),
        (Kind.INJECTIVE, "gather", [_MATRIX, _INDICES], {"axis": 0}),
        (Kind.INJECTIVE, "nn.pad", [_ROW], {"pad_before": [1], "pad_after": [2]}),
        (Kind.REDUCTION, "sum", [_MATRIX], {"axis": [1]}),
        (Kind.REDUCTION, "max", [_MATRIX], {"axis": [0, 1]}),
        (Kind.REDUCTION, "mean", [_MATRIX], {"axis": [1]}),
        (Kind.REDUCTION, "sum", [TensorType((6, 4), "float16")], {"axis": [1]}),
        (Kind.REDUCTION, "argmax", [_MATRIX], {"axis": 1}),
        (Kind.ANCHOR, "nn.dense", [_MATRIX, _MATRIX], {}),
        (Kind.ANCHOR, "nn.conv2d", [_IMAGE, TensorType((8, 4, 3, 3), "float32")],
         {"strides": 1, "padding": 1, "dilation": 1}),
        (Kind.ANCHOR, "nn.pool2d", [_IMAGE], {**_POOL, "pool_type": "max"}),
        (Kind.ANCHOR, "nn.softmax", [_MATRIX], {"axis": -1}),
        (Kind.ANCHOR, "nn.layer_norm", [_MATRIX, _ROW, _ROW], {"axis": [1]}),
        (Kind.OPAQUE, "topk", [_MATRIX], {"k": 2}),
        (Kind.OPAQUE, "sort", [_MATRIX], {}),
        (Kind.OPAQUE, "cumsum", [_MATRIX], {"axis": 0}),
        (Kind.OPAQUE, "scatter_elements", [_MATRIX, _INDICES, _MATRIX], {"axis": 0}),
    ],
)  # fmt: skip
def test_kinds_are_read_from_programs(
    kind: Kind, op: str, inputs: Sequence[TensorType], attrs: dict[str, object]
) -> None:
    builder = GraphBuilder()
    builder.calls(op, [builder.input("x", one) for one in inputs], attrs)
    assert kind_of_node(builder.nodes[0]) is kind


def _groups(text: str) -> list[str]:
    return [group.name for group in fuse(parse_graph(text), kind_of_node)]


_CONV = "strides=1, padding=1, dilation=1"


def test_a_residual_block() -> None:
    """The first convolution takes the sum in; the other one ends with its bias."""
    assert _groups(f"""
def main(x: float32[1, 8, 6, 6]):
    w = constant(float32[8, 8, 3, 3])
    b = constant(float32[8, 1, 1])
    a = nn.conv2d(x, w, {_CONV})
    a_bias = add(a, b)
    a_relu = nn.relu(a_bias)
    c = nn.conv2d(a_relu, w, {_CONV})
    c_bias = add(c, b)
    d = nn.conv2d(x, w, {_CONV})
    d_bias = add(d, b)
    total = add(c_bias, d_bias)
    y = nn.relu(total)
    return y
""") == [
        "fused_nn_conv2d_add_nn_relu",
        "fused_nn_conv2d_add",
        "fused_nn_conv2d_add_add_nn_relu",
    ]


def test_an_encoder_layer() -> None:
    """Products take bias and activation; a norm is a kernel of its own."""
    assert _groups("""
def main(x: float32[6, 8]):
    w = constant(float32[8, 8])
    b = constant(float32[8])
    dense = nn.dense(x, w)
    biased = add(dense, b)
    heads = reshape(biased, newshape=[6, 2, 4])
    turned = transpose(heads, axes=[1, 0, 2])
    scores = nn.batch_matmul(turned, turned)
    scaled = multiply(scores, scores)
    soft = nn.softmax(scaled, axis=-1)
    out = nn.dense(x, w)
    gelu = nn.gelu(out)
    skipped = add(gelu, x)
    norm = nn.layer_norm(skipped, b, b, axis=[1])
    return soft, norm
""") == [
        "fused_nn_dense_add",
        "fused_reshape_transpose",
        "fused_nn_batch_matmul_multiply",
        "fused_nn_softmax",
        "fused_nn_dense_nn_gelu_add",
        "fused_nn_layer_norm",
    ]


@pytest.mark.parametrize(
    ("inputs", "steps", "groups"),
    [
        (
            "x: float32[6, 8]",
            "a = exp(x); b = sum(a, axis=[1]); c = sqrt(b); return c",
            ["fused_exp_sum", "fused_sqrt"],
        ),
        (
            "x: float32[6, 8], w: float32[4, 6]",
            "a = transpose(x, axes=[1, 0]); b = nn.dense(a, w); return b",
            ["fused_transpose", "fused_nn_dense"],
        ),
        (
            "x: float32[6, 8], w: float32[4, 8], b: float32[4]",
            "half = multiply(b, b); c = nn.dense(x, w); d = add(c, half); return d",
            ["fused_multiply_nn_dense_add"],
        ),
        (
            "x: float32[6, 8]",
            "a = exp(x); b = sqrt(a); c = negative(a); d = add(b, c); return d",
            ["fused_exp_sqrt_negative_add"],
        ),
        ("x: float32[6, 8]", "a = exp(x); b = sqrt(a); return a, b", ["fused_exp", "fused_sqrt"]),
        (
            "x: float32[6, 8]",
            "a = exp(x); b = sort(a); c = exp(b); return c",
            ["fused_exp", "fused_sort", "fused_exp"],
        ),
    ],
    ids=[
        "a reduction takes its producers and no consumer",
        "what moves elements does not join the input of a product",
        "a bias that was computed joins the product",
        "branches that meet again are one kernel",
        "an output in the middle ends a kernel",
        "opaque operators stay alone",
    ],
)
def test_small_graphs(inputs: str, steps: str, groups: list[str]) -> None:
    body = "\n    ".join(steps.split("; "))
    assert _groups(f"\ndef main({inputs}):\n    {body}\n") == groups


def _chain(count: int) -> list[FusedGroup]:
    builder = GraphBuilder()
    value: GraphValue = builder.input("x", _ROW)
    for _ in range(count):
        value = builder.call("negative", value)
    return fuse(builder.graph([value]), lambda node: Kind.ELEMENTWISE)


def test_groups_have_a_limit() -> None:
    assert [len(group.nodes) for group in _chain(MAX_GROUP)] == [MAX_GROUP]
    sizes = [len(group.nodes) for group in _chain(MAX_GROUP + 10)]
    assert max(sizes) <= MAX_GROUP
    assert sum(sizes) == MAX_GROUP + 10


def test_long_names_are_cut() -> None:
    (group,) = _chain(20)
    assert len(group.name) == 80 + 10
    assert group.name.startswith("fused_negative_negative")

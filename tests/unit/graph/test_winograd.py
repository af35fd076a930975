"""Which convolutions Winograd's tiles could compute, and graphs in which they do."""

from __future__ import annotations

import pytest

from tilewright.graph import Graph, parse_graph
from tilewright.graph.passes.winograd import winograd_candidates, with_winograd

CONV = "nn.conv2d(x, w, padding=[1, 1], data_layout='NHWC')"


def graph_of(
    call: str, data: str = "float32[1, 8, 8, 16]", weight: str = "float32[3, 3, 16, 16]"
) -> Graph:
    return parse_graph(
        f"""
def main(x: {data}):
    w = constant({weight})
    y = {call}
    return y
"""
    )


def test_a_convolution_becomes_one_of_tiles_and_keeps_its_name() -> None:
    graph = graph_of(CONV)
    (node,) = winograd_candidates(graph)
    made = with_winograd(graph, {node.outputs[0]: 4})
    (new,) = made.nodes
    assert new.op == "nn.winograd_conv2d"
    assert new.attrs == {"padding": [1, 1], "tile_size": 4}
    assert new.outputs[0].name == "y"
    assert new.outputs[0].type == node.outputs[0].type
    assert with_winograd(graph, {node.outputs[0]: 0}) is graph


@pytest.mark.parametrize(
    ("call", "data", "weight"),
    [
        (CONV.replace(")", ", strides=[2, 2])"), "float32[1, 8, 8, 16]", "float32[3, 3, 16, 16]"),
        (CONV.replace(")", ", dilation=2)"), "float32[1, 8, 8, 16]", "float32[3, 3, 16, 16]"),
        (CONV, "float32[1, 8, 8, 16]", "float32[1, 1, 16, 16]"),
        (CONV, "float32[1, 8, 8, 16]", "float32[5, 5, 16, 16]"),
        (CONV, "float32[1, 8, 8, 3]", "float32[3, 3, 3, 64]"),
        (CONV, "float16[1, 8, 8, 16]", "float16[3, 3, 16, 16]"),
        (CONV.replace("NHWC", "NCHW"), "float32[1, 16, 8, 8]", "float32[16, 16, 3, 3]"),
    ],
    ids=["stride", "dilation", "1x1", "5x5", "few channels", "float16", "channels first"],
)
def test_what_stays_direct(call: str, data: str, weight: str) -> None:
    assert winograd_candidates(graph_of(call, data, weight)) == []


def test_weights_that_are_computed_stay_direct() -> None:
    graph = parse_graph(
        """
def main(x: float32[1, 8, 8, 16], w: float32[3, 3, 16, 16]):
    y = nn.conv2d(x, w, padding=[1, 1], data_layout='NHWC')
    return y
"""
    )
    assert winograd_candidates(graph) == []

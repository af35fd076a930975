"""Parts of graphs for other backends: legal, and computing the same."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.byoc import (
    external_nodes,
    is_constant,
    is_op,
    partition,
    register_pattern_table,
    wildcard,
)
from tilewright.byoc.partition import partition_graph
from tilewright.byoc.pattern_table import get_pattern_table
from tilewright.byoc.regions import PartRegion, merge_compiler_regions, merge_composite
from tilewright.errors import GraphError, RegistryError
from tilewright.graph import Graph, GraphBuilder, TensorType, parse_graph
from tilewright.model import compile_model
from tilewright.testing.numpy_graphs import evaluate

THEIRS = ("add", "nn.relu", "tanh")
OURS = ("multiply", "negative", "abs", "maximum")


@register_pattern_table("test.numpy")
def table() -> list[object]:
    activated = is_op("nn.relu")(is_op("add")(wildcard(), is_constant()))
    return [("test.add_relu", activated), *((f"test.{op}", is_op(op)) for op in THEIRS)]


def random_graph(rng: np.random.Generator, count: int) -> Graph:
    """Calls of one or two earlier values, with several outputs."""
    builder = GraphBuilder()
    kind = TensorType((3,), "float32")
    values = [builder.input("x", kind), builder.input("y", kind)]
    for _ in range(count):
        op = str(rng.choice(THEIRS + OURS))
        pool = values[-6:]
        inputs = [pool[int(rng.integers(len(pool)))]]
        if op in ("add", "multiply", "maximum"):
            other = (
                builder.constant(rng.standard_normal(3).astype(np.float32))
                if rng.random() < 0.3
                else pool[int(rng.integers(len(pool)))]
            )
            inputs.append(other)
        values.append(builder.call(op, *inputs))
    return builder.graph([values[-1], values[int(rng.integers(2, len(values)))]])


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(3, 30)))
    parts = partition(graph, "test.numpy")  # a graph whose nodes come after what they read
    assert not {node.op for node in parts.nodes} & set(THEIRS)
    x, y = rng.standard_normal((2, 3)).astype(np.float32)
    for found, wanted in zip(evaluate(parts, [x, y]), evaluate(graph, [x, y]), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(40))
def test_no_two_neighbours_are_left_that_could_be_joined(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    graph = random_graph(rng, 14)
    tables = {"test.numpy": get_pattern_table("test.numpy")}
    regions = merge_compiler_regions(graph, merge_composite(graph, tables))
    owner = {node: region for region in regions for node in region.nodes}
    makers = graph.makers()
    for node in graph.nodes:
        for value in node.operands:
            pair = owner[node], owner.get(makers.get(value))  # type: ignore[arg-type]
            if pair[1] is None or pair[0] is pair[1] or not pair[0].backend or not pair[1].backend:
                continue
            joined = [region for region in regions if region not in pair]
            both = PartRegion((*pair[1].nodes, *pair[0].nodes), "test.numpy")
            assert _is_cyclic(graph, [*joined, both])


def _is_cyclic(graph: Graph, regions: list[PartRegion]) -> bool:
    """By taking away what reads nothing of the rest, again and again."""
    owner = {node: number for number, region in enumerate(regions) for node in region.nodes}
    makers = graph.makers()
    edges = {
        (owner[makers[value]], owner[node])
        for node in graph.nodes
        for value in node.operands
        if value in makers and owner[makers[value]] != owner[node]
    }
    left = set(range(len(regions)))
    while left:
        free = {n for n in left if not any(a in left and b == n for a, b in edges)}
        if not free:
            return True
        left -= free
    return False


def test_a_path_that_leaves_and_comes_back_keeps_regions_apart() -> None:
    graph = parse_graph(
        """
def main(x: float32[4]):
    a = tanh(x)
    b = negative(a)
    c = add(a, b)
    return c
"""
    )
    parts = partition(graph, "test.numpy")
    assert [node.op for node in parts.nodes] == ["external", "negative", "external"]


def test_neighbours_become_one_part() -> None:
    graph = parse_graph(
        """
def main(x: float32[4]):
    w = constant(float32[4])
    a = tanh(x)
    b = add(a, w)
    c = nn.relu(b)
    d = negative(c)
    e = add(d, c)
    return e, b
"""
    )
    parts = partition(graph, "test.numpy")
    first, middle, last = parts.nodes
    assert (first.op, middle.op, last.op) == ("external", "negative", "external")
    assert first.attrs["program"] == (
        "def part(x: float32[4], w: float32[4]):\n"
        "    a = tanh(x)  # float32[4]\n"
        "    b = add(a, w)  # float32[4]\n"
        "    c = nn.relu(b)  # float32[4]\n"
        "    return b, c\n"
    )
    x = np.asarray([-1, 0, 1, 2], np.float32)
    for found, wanted in zip(compile_model(parts)(x), evaluate(graph, [x]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_is_read_elsewhere_does_not_vanish_in_a_pattern() -> None:
    text = """
def main(x: float32[4]):
    w = constant(float32[4])
    a = add(x, w)
    b = nn.relu(a)
    c = negative(a)
    return b, c
"""
    graph = parse_graph(text)
    regions = merge_composite(graph, {"test.numpy": get_pattern_table("test.numpy")})
    assert [region.composites for region in regions] == [("test.add",), ("test.nn.relu",), ()]


def test_small_parts_stay_ours() -> None:
    graph = parse_graph(
        "def main(x: float32[4]):\n    a = tanh(x)\n    b = negative(a)\n    return b\n"
    )
    assert len(external_nodes(partition(graph, "test.numpy", min_flop=0), "test.numpy")) == 1
    assert not external_nodes(partition(graph, "test.numpy", min_flop=1e6), "test.numpy")


def test_the_first_backend_that_wants_a_node_gets_it() -> None:
    @register_pattern_table("test.other")
    def other() -> list[object]:
        return [("other.tanh", is_op("tanh")), ("other.negative", is_op("negative"))]

    graph = parse_graph(
        "def main(x: float32[4]):\n    a = tanh(x)\n    b = negative(a)\n    return b\n"
    )
    parts = partition(graph, ["test.numpy", "test.other"])
    assert [n.attrs["backend"] for n in parts.nodes] == ["test.numpy", "test.other"]


def test_bad_backends() -> None:
    graph = parse_graph("def main(x: float32[4]):\n    a = tanh(x)\n    return a\n")
    with pytest.raises(GraphError, match="partition: no backend is given"):
        partition(graph, [])
    with pytest.raises(GraphError, match="there is no pattern table for 'nobody'"):
        partition(graph, "nobody")
    nobody = partition_graph(graph, [PartRegion(graph.nodes, "nobody")])
    with pytest.raises(RegistryError, match="unknown external backend 'nobody'; known: "):
        compile_model(nobody)

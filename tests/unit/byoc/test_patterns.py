"""Patterns of nodes, and tables of them."""

from __future__ import annotations

import pytest

from tilewright.byoc import get_pattern_table, is_constant, is_op, register_pattern_table, wildcard
from tilewright.byoc.dataflow_pattern import DFPattern, PatternMatcher
from tilewright.errors import GraphError
from tilewright.graph import parse_graph

GRAPH = parse_graph(
    """
def main(x: float32[4, 8], y: float32[4, 16]):
    w = constant(float32[16, 8])
    b = constant(float32[16])
    dense = nn.dense(x, w)
    add = add(b, dense)
    relu = nn.relu(add)
    square = multiply(relu, relu)
    mixed = multiply(square, y)
    soft = nn.softmax(mixed, axis=-1)
    return soft
"""
)
VALUES = {value.name: value for value in GRAPH.values()}


def matched(pattern: DFPattern, name: str) -> list[str] | None:
    found = PatternMatcher(GRAPH).match(pattern, VALUES[name])
    return None if found is None else [node.op for node in found.nodes]


def dense() -> DFPattern:
    return is_op("nn.dense")(wildcard(), is_constant())


def test_calls_match_by_name_and_operands() -> None:
    assert matched(dense(), "dense") == ["nn.dense"]
    assert matched(dense(), "add") is None
    assert matched(is_op("nn.dense")(is_constant(), wildcard()), "dense") is None
    assert matched(is_op("nn.dense")(wildcard()), "dense") is None
    assert matched(is_op("nn.dense"), "dense") == ["nn.dense"]


def test_inputs_and_constants_have_no_nodes() -> None:
    assert matched(wildcard(), "x") == []
    assert matched(is_constant(), "w") == []
    assert matched(is_constant(), "x") is None


def test_operands_of_commutative_operators_may_change_places() -> None:
    assert matched(is_op("add")(dense(), is_constant()), "add") == ["add", "nn.dense"]


def test_an_optional_part_is_taken_where_it_is() -> None:
    pattern = is_op("add")(dense(), is_constant()).optional(lambda x: is_op("nn.relu")(x))
    assert matched(pattern, "relu") == ["nn.relu", "add", "nn.dense"]
    assert matched(pattern, "add") == ["add", "nn.dense"]


def test_one_of_two() -> None:
    pattern = is_op("nn.relu")(wildcard()) | is_op("nn.softmax")(wildcard())
    assert matched(pattern, "relu") == ["nn.relu"]
    assert matched(pattern, "soft") == ["nn.softmax"]
    assert matched(pattern, "mixed") is None


def test_a_pattern_that_is_used_twice_stands_for_one_value() -> None:
    same = wildcard()
    assert matched(is_op("multiply")(same, same), "square") == ["multiply"]
    assert matched(is_op("multiply")(same, same), "mixed") is None
    assert matched(is_op("multiply")(wildcard(), wildcard()), "mixed") == ["multiply"]


def test_attributes() -> None:
    soft = is_op("nn.softmax")(wildcard())
    assert matched(soft.has_attr({"axis": -1}), "soft") == ["nn.softmax"]
    assert matched(soft.has_attr({"axis": 0}), "soft") is None


def test_operands_have_to_be_patterns() -> None:
    with pytest.raises(GraphError) as error:
        is_op("add")(wildcard(), 3)  # type: ignore[arg-type]
    assert str(error.value) == "operand 1 of the pattern add is not a pattern"


def test_tables() -> None:
    @register_pattern_table("test.table")
    def table() -> list[object]:
        return [("first", is_op("add")), ("second", is_op("add"), lambda match: False)]

    first, second = get_pattern_table("test.table")
    found = PatternMatcher(GRAPH).match(first.pattern, VALUES["add"])
    assert found is not None
    assert (first.check(found), second.check(found)) == (True, False)
    with pytest.raises(GraphError) as error:
        register_pattern_table("test.table")(table)
    assert str(error.value) == "the pattern table of 'test.table' is registered already"


def test_a_table_that_is_wrong() -> None:
    @register_pattern_table("test.wrong")
    def table() -> list[object]:
        return [("first", "add")]

    with pytest.raises(GraphError) as error:
        get_pattern_table("test.wrong")
    assert str(error.value) == (
        "the pattern table of 'test.wrong' has ('first', 'add'); "
        "expected (name, pattern) or (name, pattern, check)"
    )


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(GraphError) as error:
        get_pattern_table("onnxruntim")
    assert str(error.value) == (
        "there is no pattern table for 'onnxruntim'; did you mean 'onnxruntime'?"
    )

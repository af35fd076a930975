"""Whole models: graphs of operators, from import to a program that runs."""

from tilewright.graph import external as _external, operators as _operators  # register them
from tilewright.graph.builder import GraphBuilder as GraphBuilder
from tilewright.graph.graph import (
    Graph as Graph,
    GraphNode as GraphNode,
    GraphValue as GraphValue,
    TensorType as TensorType,
)
from tilewright.graph.operator import operator as operator, operator_names as operator_names
from tilewright.graph.parser import parse_graph as parse_graph
from tilewright.graph.passes.half_precision import to_float16 as to_float16

del _external, _operators

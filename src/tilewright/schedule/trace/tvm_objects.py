"""Index maps as TVM writes them into traces: graphs of objects in JSON.

    {"root_index": 2, "nodes": [{"type": "None"}, {"type": "ir.IntImm", "data": {...}}, ...]}
    {"root": 1, "nodes": [{"type_key": ""}, {"type_key": "IntImm", "attrs": {...}}, ...]}

The first form is that of TVM today, the second that of 0.14, where all attributes are strings. An
object that belongs to another one is its position in the list. Only the objects that an index map
can hold are known here; whoever reads other graphs brings the makers of more kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tilewright import arith, ir
from tilewright.errors import ScheduleError, TilewrightError
from tilewright.ir.json import checked_node
from tilewright.support.decoding import decoding

Maker: TypeAlias = "Callable[[ObjectGraph, Any], Any]"


def is_object_graph(document: object) -> bool:
    """True for what TVM writes."""
    return isinstance(document, dict) and isinstance(document.get("nodes"), list)


def read_index_map(document: Mapping[str, Any]) -> arith.IndexMap:
    """The index map in a graph of objects."""
    root = document.get("root_index", document.get("root"))
    with decoding("the index map that TVM wrote is damaged", ScheduleError):
        found = ObjectGraph(document["nodes"]).object_at(root)
        if not isinstance(found, arith.IndexMap):
            raise ScheduleError(f"expected an index map from TVM, got {type(found).__name__}")
        return checked_node(found)


class ObjectGraph:
    """The objects, each made once, when it is first needed."""

    def __init__(
        self,
        records: list[Mapping[str, Any]],
        makers: Mapping[str, Maker] | None = None,
        what: str = "an index map",
    ) -> None:
        self._records = records
        self._makers = EXPR_MAKERS if makers is None else makers
        self._what = what
        self._made: dict[int, Any] = {}

    def object_at(self, position: int | str) -> Any:
        where = int(position)
        if where not in self._made:
            if not 0 <= where < len(self._records):
                raise IndexError(f"no object {where}")
            self._made[where] = self._make(self._records[where])
        return self._made[where]

    def expr_at(self, position: int | str) -> ir.PrimExpr:
        found = self.object_at(position)
        if not isinstance(found, ir.PrimExpr):
            raise TypeError(f"object {position} is not an expression")
        return found

    def text_at(self, position: int | str) -> str:
        return str(self.object_at(position))

    def _make(self, record: Mapping[str, Any]) -> Any:
        kind: str = record["type"] if "type" in record else record["type_key"]
        if (make := self._makers.get(kind.rpartition(".")[2])) is None:
            raise ScheduleError(f"{self._what} with the object {kind!r} of TVM cannot be read")
        content = next((record[key] for key in _CONTENT_KEYS if key in record), None)
        if "keys" in record:
            content = dict(zip(record["keys"], record["data"], strict=True))
        try:
            return make(self, content)
        except ScheduleError:
            raise
        except TilewrightError as error:
            noun = self._what.partition(" ")[2]
            raise ScheduleError(f"the {noun} that TVM wrote is wrong: {error}") from error


_CONTENT_KEYS = ("data", "attrs", "repr_str")
_BINARY = (ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max)
_COMPARISONS = (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or)


def _binary(kind: type[ir.BinaryOp]) -> Callable[[ObjectGraph, Mapping[str, Any]], ir.BinaryOp]:
    def make(graph: ObjectGraph, fields: Mapping[str, Any]) -> ir.BinaryOp:
        a, b = graph.expr_at(fields["a"]), graph.expr_at(fields["b"])
        if a.dtype != b.dtype:
            raise TypeError(f"{kind.__name__} of {a.dtype} and {b.dtype}")
        return kind(a, b)

    return make


def _let(graph: ObjectGraph, fields: Mapping[str, Any]) -> ir.Let:
    var = graph.object_at(fields["var"])
    if not isinstance(var, ir.Var):
        raise TypeError(f"object {fields['var']} is not a variable")
    return ir.Let(var, graph.expr_at(fields["value"]), graph.expr_at(fields["body"]))


def _call(graph: ObjectGraph, fields: Mapping[str, Any]) -> ir.Call:
    operator, arguments = graph.object_at(fields["op"]), _exprs(graph, fields["args"])
    if not isinstance(operator, ir.Op):
        raise TypeError(f"object {fields['op']} is not an operator")
    return ir.Call(ir.DType(fields["dtype"]), operator, arguments)


def _index_map(graph: ObjectGraph, fields: Mapping[str, Any]) -> arith.IndexMap:
    initial, final = _exprs(graph, fields["initial_indices"]), fields["final_indices"]
    variables = tuple(index for index in initial if isinstance(index, ir.Var))
    if len(set(variables)) != len(initial):
        raise TypeError("indices that are not variables")
    inverse = graph.object_at(fields.get("inverse_index_map", 0))
    if not isinstance(inverse, arith.IndexMap | None):
        raise TypeError("an inverse that is not an index map")
    return arith.IndexMap(variables, _exprs(graph, final), inverse)


def _exprs(graph: ObjectGraph, position: int | str) -> tuple[ir.PrimExpr, ...]:
    found: tuple[Any, ...] = graph.object_at(position)
    if not all(isinstance(item, ir.PrimExpr) for item in found):
        raise TypeError(f"object {position} does not hold expressions only")
    return found


# By the last part of their names: what is `tir.Var` in 0.14 is `tirx.Var` today.
EXPR_MAKERS: Mapping[str, Maker] = {
    "": lambda graph, content: None,
    "None": lambda graph, content: None,
    "String": lambda graph, content: content,
    "Array": lambda graph, positions: tuple(map(graph.object_at, positions or ())),
    "Op": lambda graph, name: ir.Op.get(f"tir.{name.rpartition('.')[2]}"),
    "Var": lambda graph, of: ir.Var(graph.text_at(of["name"]), ir.DType(of["dtype"])),
    "SizeVar": lambda graph, of: ir.SizeVar(graph.text_at(of["name"]), ir.DType(of["dtype"])),
    "IntImm": lambda graph, of: ir.IntImm(ir.DType(of["dtype"]), int(of["value"])),
    "FloatImm": lambda graph, of: ir.FloatImm(ir.DType(of["dtype"]), float(of["value"])),
    "StringImm": lambda graph, of: ir.StringImm(graph.text_at(of["value"])),
    "Cast": lambda graph, of: ir.Cast(ir.DType(of["dtype"]), graph.expr_at(of["value"])),
    "Not": lambda graph, of: ir.Not(graph.expr_at(of["a"])),
    "Select": lambda graph, of: ir.Select(
        *(graph.expr_at(of[name]) for name in ("condition", "true_value", "false_value"))
    ),
    "Let": _let,
    "Call": _call,
    "IndexMap": _index_map,
    **{kind.__name__: _binary(kind) for kind in (*_BINARY, *_COMPARISONS)},
}

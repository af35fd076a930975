"""Arguments of instructions: in JSON, in Python text, and with other handles."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.ir import FloatImm, IntImm, PrimExpr, StringImm, Var, free_vars, substitute
from tilewright.ir.json import load_json, save_json
from tilewright.schedule.state import BlockRV, ExprRV, LoopRV
from tilewright.schedule.trace.tvm_objects import is_object_graph, read_index_map
from tilewright.support.decoding import decoding

_PROBABILITIES = re.compile(r", probs=\[[^\]]*\]")


def without_probabilities(line: str) -> str:
    """A step as Python for people, who seldom want to know how likely each choice was."""
    return _PROBABILITIES.sub("", line)


def name_rv(rv: object, names: dict[object, str]) -> str:
    """The name of a random variable, a new one unless it has one already."""
    if rv not in names:
        prefix = "b" if isinstance(rv, BlockRV) else "l" if isinstance(rv, LoopRV) else "v"
        names[rv] = f"{prefix}{len(names)}"
    return names[rv]


def python_value(value: object, names: Mapping[object, str]) -> str:
    """An argument as Python text."""
    match value:
        case BlockRV() | LoopRV() | ExprRV():
            return names.get(value, "_")
        case None | bool() | int():
            return str(value)
        case float():
            return f"{value:.17g}"
        case str():
            return _quoted(value)
        case IntImm():
            return str(bool(value.value)) if value.dtype.is_bool else str(value.value)
        case FloatImm():
            return f"{value.value:.17g}"
        case StringImm():
            return _quoted(value.value)
        case list() | tuple():
            return f"[{', '.join(python_value(item, names) for item in value)}]"
        case dict():
            items = (f"{_quoted(k)}: {python_value(v, names)}" for k, v in sorted(value.items()))
            return f"{{{', '.join(items)}}}"
        case PrimExpr():
            return str(substitute(value, lambda var: Var(names.get(var, "_"), var.dtype)))
        case IndexMap():
            return _index_map_text(with_rvs(value, lambda rv: named_rv(rv, names)))
    return str(value)


def _index_map_text(value: IndexMap) -> str:
    inverse = value.inverse_index_map
    if inverse is None:
        return str(value)
    return f"tir.IndexMap.from_func({value}, inverse_index_map={inverse})"


def _quoted(text: str) -> str:
    """A string in double quotes, as TVM writes it; what would not read back is escaped."""
    return msgspec.json.encode(str(text)).decode()  # a plain one: scopes are a kind of string


def input_to_json(value: object, names: Mapping[object, str]) -> object:
    """An input as JSON: strings gain quotes so that they cannot be taken for names."""
    match value:
        case BlockRV() | LoopRV() | ExprRV():
            if (name := names.get(value)) is None:
                raise ScheduleError("the trace uses a random variable before it defines it")
            return name
        case None:
            return "None"
        case str():
            return f'"{value}"'
        case bool() | int() | float():
            return value
        case IntImm() | FloatImm():
            return value.value
        case StringImm():
            return f'"{value.value}"'
        case list() | tuple():
            return [input_to_json(item, names) for item in value]
        case dict():
            return {key: input_to_json(item, names) for key, item in value.items()}
        case IndexMap():
            return index_map_to_json(with_rvs(value, lambda rv: named_rv(rv, names)))
        case PrimExpr():
            raise ScheduleError(f"the expression `{value}` over random variables has no JSON form")
    raise ScheduleError(f"{value!r} has no JSON form in a trace")


def input_from_json(value: object, known: Mapping[str, object]) -> object:
    """An input read back."""
    if isinstance(value, list):
        return [input_from_json(item, known) for item in value]
    if isinstance(value, dict):
        return {key: input_from_json(item, known) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    if value.startswith("{") and value.endswith("}"):
        rvs = {name: rv for name, rv in known.items() if isinstance(rv, ExprRV)}
        return with_rvs(index_map_from_json(value), lambda var: rvs.get(var.name))
    if value not in known:
        raise ScheduleError(f"the trace uses {value!r} before it defines it")
    return known[value]


def translated(value: object, known: Mapping[object, Any]) -> object:
    """An input of a step with the handles of another schedule."""
    if isinstance(value, (BlockRV, LoopRV, ExprRV)):
        if value not in known:
            raise ScheduleError("the trace uses a random variable before it defines it")
        return known[value]
    if isinstance(value, (list, tuple)):
        return type(value)(translated(item, known) for item in value)
    if isinstance(value, dict):
        return {key: translated(item, known) for key, item in value.items()}
    if isinstance(value, PrimExpr):
        return substitute(value, lambda var: known.get(var))
    if isinstance(value, IndexMap):
        return with_rvs(value, known.get)
    return value


def rvs_in(value: object) -> Iterator[object]:
    """The handles in an input of a step."""
    if isinstance(value, (BlockRV, LoopRV, Var)):
        yield value
    elif isinstance(value, PrimExpr):
        yield from free_vars(value)
    elif isinstance(value, IndexMap):
        yield from rvs_in((value.final_indices, value.inverse_index_map))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from rvs_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from rvs_in(item)


def with_rvs(index_map: IndexMap, value_of: Callable[[Var], PrimExpr | None]) -> IndexMap:
    """An index map with other values for the random variables in it."""
    own = set(index_map.initial_indices)
    final = tuple(
        substitute(index, lambda var: None if var in own else value_of(var))
        for index in index_map.final_indices
    )
    inverse = index_map.inverse_index_map
    other = None if inverse is None else with_rvs(inverse, value_of)
    if other is inverse and all(map(operator.is_, final, index_map.final_indices)):
        return index_map
    return IndexMap(index_map.initial_indices, final, other)


def named_rv(var: Var, names: Mapping[object, str]) -> Var | None:
    """The variable that stands for a random one in texts."""
    return Var(names.get(var, "_"), var.dtype) if isinstance(var, ExprRV) else None


def index_map_to_json(index_map: IndexMap) -> str:
    """An index map as JSON text."""
    return msgspec.json.encode({"index_map": save_json(index_map)}).decode()


def index_map_from_json(text: str) -> IndexMap:
    """An index map from JSON text, our own or TVM's."""
    with decoding(f"cannot read an index map from {text[:60]!r}", ScheduleError):
        document = json.loads(text)  # TVM writes infinities as they are, which msgspec refuses
        if is_object_graph(document):
            return read_index_map(document)
        loaded = load_json(document["index_map"])
        if not isinstance(loaded, IndexMap):
            raise ScheduleError(f"expected an index map, got {type(loaded).__name__}")
        return loaded

"""Spellings of the same things in different versions of TVM.

`0.14` is the version whose names Tilewright follows, `0.25` the one that installs today; TVM 0.25
reads what is written in its dialect. The layout of graphs of 0.14 is taken from files of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import DatabaseError
from tilewright.support.suggestions import did_you_mean


@dataclass(frozen=True)
class Dialect:
    """The names and shapes of one version."""

    name: str
    node: Callable[
        [str, Mapping[str, object]], dict[str, object]
    ]  # kind and fields -> entry of a graph
    array: Callable[[list[int]], dict[str, object]]
    mapping: Callable[[list[int], list[int]], dict[str, object]]  # positions of keys and values
    text: Callable[[str], dict[str, object]]
    operator: Callable[[str], dict[str, object]]
    document: Callable[[list[object], int], dict[str, object]]
    nothing: Mapping[str, object]
    attr_prefix: str  # of attributes such as `tir.noalias`
    has_plain_numbers: bool  # numbers in attributes need no node of their own
    marks_blocks: bool  # functions with blocks carry the attribute `s_tir`
    instruction_kinds: Mapping[str, str]  # our name -> its name
    split_flags: int  # how many flags `Split` has


# The kinds whose names begin with `ir.`, where they have a prefix.
_NAMES_OF_IR = (
    "IntImm FloatImm Range GlobalVar DictAttrs IRModule SourceMap PrimType PointerType TupleType"
)
_OF_IR = frozenset(_NAMES_OF_IR.split())
_RENAMED_025 = {"Block": "SBlock", "BlockRealize": "SBlockRealize"}
# Fields that only one of the two has.
_ONLY_025 = {
    "For": {"step"},
    "Buffer": {"layout", "allocated_addr"},
    "Call": {"attrs"},
    "BufferLoad": {"predicate"},
    "BufferStore": {"predicate"},
    "SourceMap": {"source_map"},
}
_ONLY_014 = {
    "IRModule": {"global_type_var_map_", "type_definitions"},
    "PrimFunc": {"_checked_type_"},
    "GlobalVar": {"_checked_type_", "virtual_device_"},
    "IterVar": {"span"},
}
_WITHOUT_SPAN = {"IRModule", "DictAttrs", "SourceMap", "BufferRegion", "MatchBufferRegion"}


def _chosen(
    kind: str, fields: Mapping[str, object], unwanted: Mapping[str, set[str]]
) -> dict[str, object]:
    left_out = unwanted.get(kind, set())
    chosen = {name: value for name, value in fields.items() if name not in left_out}
    if kind not in _WITHOUT_SPAN and "span" not in left_out:
        chosen["span"] = 0
    return chosen


def _node_025(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    name = ("ir." if kind in _OF_IR else "tirx.") + _RENAMED_025.get(kind, kind)
    return {"type": name, "data": _chosen(kind, fields, _ONLY_014)}


def _node_014(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    name = kind if kind in _OF_IR else f"tir.{kind}"
    chosen = _chosen(kind, fields, _ONLY_025)
    return {"type_key": name, "attrs": {key: str(chosen[key]) for key in sorted(chosen)}}


def _alternating(keys: list[int], values: list[int]) -> list[int]:
    return [position for pair in zip(keys, values, strict=True) for position in pair]


TVM_025 = Dialect(
    name="0.25",
    node=_node_025,
    array=lambda items: {"type": "ffi.Array", "data": items},
    mapping=lambda keys, values: {"type": "ffi.Map", "data": _alternating(keys, values)},
    text=lambda text: {"type": "ffi.String", "data": text},
    operator=lambda name: {"type": "ir.Op", "data": name.replace("tir.", "tirx.", 1)},
    document=lambda nodes, root: {
        "root_index": root,
        "nodes": nodes,
        "metadata": {"tvm_version": "0.25.0.post1"},
    },
    nothing={"type": "None"},
    attr_prefix="tirx.",
    has_plain_numbers=True,
    marks_blocks=True,
    instruction_kinds={"GetBlock": "GetSBlock"},
    split_flags=2,
)

TVM_014 = Dialect(
    name="0.14",
    node=_node_014,
    array=lambda items: {"type_key": "Array", "data": items},
    mapping=lambda keys, values: {"type_key": "Map", "data": _alternating(keys, values)},
    text=lambda text: {"type_key": "runtime.String", "repr_str": text},
    operator=lambda name: {"type_key": "Op", "repr_str": name},
    document=lambda nodes, root: {
        "root": root,
        "nodes": nodes,
        "b64ndarrays": [],
        "attrs": {"tvm_version": "0.14.0"},
    },
    nothing={"type_key": ""},
    attr_prefix="tir.",
    has_plain_numbers=False,
    marks_blocks=False,
    instruction_kinds={},
    split_flags=1,
)

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (TVM_014, TVM_025)}


def get_dialect(name: str) -> Dialect:
    """The dialect of a version."""
    if name not in DIALECTS:
        raise DatabaseError(f"unknown dialect of TVM {name!r}{did_you_mean(name, DIALECTS)}")
    return DIALECTS[name]


def trace_in_dialect(trace: list[Any], dialect: Dialect) -> list[Any]:
    """A trace in JSON under the names of a version."""
    insts, decisions = trace
    if not dialect.instruction_kinds and dialect.split_flags == 1:
        return trace
    return [[_instruction(inst, dialect) for inst in insts], decisions]


def _instruction(inst: list[Any], dialect: Dialect) -> list[Any]:
    kind, inputs, attrs, outputs = inst
    if kind == "Split":
        attrs = [*attrs, *[0] * (dialect.split_flags - len(attrs))]
    return [dialect.instruction_kinds.get(kind, kind), inputs, attrs, outputs]

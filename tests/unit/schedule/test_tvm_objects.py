# mypy: disable-error-code="valid-type, no-untyped-def"
"""Index maps in the JSON of TVM, and the numbers that were sampled for them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.ir import Call, FloatImm, PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.trace.text import index_map_from_json, index_map_to_json
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

# --- as TVM 0.25 writes them ---

_NAMES = """
{"type":"None"},
{"type":"ffi.String","data":"i"},
{"type":"ir.PrimType","data":{"span":0,"dtype":"int32"}},
{"type":"tirx.Var","data":{"span":0,"dtype":"int32","name":1,"type_annotation":2}},
{"type":"ffi.String","data":"j"},
{"type":"ir.PrimType","data":{"span":0,"dtype":"int32"}},
{"type":"tirx.Var","data":{"span":0,"dtype":"int32","name":4,"type_annotation":5}},
{"type":"ffi.Array","data":[3,6]},
"""  # objects 0 to 7: nothing, i is 3, j is 6, both are 7
TILED = f"""{{"root_index":13,"nodes":[{_NAMES}
{{"type":"ir.IntImm","data":{{"span":0,"dtype":"int32","value":4}}}},
{{"type":"tirx.FloorDiv","data":{{"span":0,"dtype":"int32","a":3,"b":8}}}},
{{"type":"ir.IntImm","data":{{"span":0,"dtype":"int32","value":4}}}},
{{"type":"tirx.FloorMod","data":{{"span":0,"dtype":"int32","a":3,"b":10}}}},
{{"type":"ffi.Array","data":[9,6,11]}},
{{"type":"tirx.IndexMap","data":{{"initial_indices":7,"final_indices":12,"inverse_index_map":0}}}}
],"metadata":{{"tvm_version":"0.25.0.post1"}}}}"""
TURNED = f"""{{"root_index":18,"nodes":[{_NAMES}
{{"type":"ffi.Array","data":[6,3]}},
{{"type":"ffi.String","data":"a"}},
{{"type":"ir.PrimType","data":{{"span":0,"dtype":"int32"}}}},
{{"type":"tirx.Var","data":{{"span":0,"dtype":"int32","name":9,"type_annotation":10}}}},
{{"type":"ffi.String","data":"b"}},
{{"type":"ir.PrimType","data":{{"span":0,"dtype":"int32"}}}},
{{"type":"tirx.Var","data":{{"span":0,"dtype":"int32","name":12,"type_annotation":13}}}},
{{"type":"ffi.Array","data":[11,14]}},
{{"type":"ffi.Array","data":[14,11]}},
{{"type":"tirx.IndexMap","data":{{"initial_indices":15,"final_indices":16,"inverse_index_map":0}}}},
{{"type":"tirx.IndexMap","data":{{"initial_indices":7,"final_indices":8,"inverse_index_map":17}}}}
],"metadata":{{"tvm_version":"0.25.0.post1"}}}}"""
FUSED = """{
  "root_index": 12,
  "nodes": [NAMES
    {"type": "ir.IntImm", "data": {"span": 0, "dtype": "int32", "value": 12}},
    {"type": "tirx.Mul", "data": {"span": 0, "dtype": "int32", "a": 3, "b": 8}},
    {"type": "tirx.Add", "data": {"span": 0, "dtype": "int32", "a": 9, "b": 6}},
    {"type": "ffi.Array", "data": [10]},
    {
      "type": "tirx.IndexMap",
      "data": {"initial_indices": 7, "final_indices": 11, "inverse_index_map": 0}
    }
  ],
  "metadata": {"tvm_version": "0.25.0.post1"}
}""".replace("NAMES", _NAMES)
# (i < 3 ? i : j), max(i, Select(not i == j, j, i))
CONDITIONS = f"""{{"root_index":18,"nodes":[{_NAMES}
{{"type":"ir.Op","data":"tirx.if_then_else"}},
{{"type":"ir.IntImm","data":{{"span":0,"dtype":"int32","value":3}}}},
{{"type":"tirx.LT","data":{{"span":0,"dtype":"bool","a":3,"b":9}}}},
{{"type":"ffi.Array","data":[10,3,6]}},
{{"type":"tirx.Call","data":{{"span":0,"dtype":"int32","op":8,"args":11,"attrs":0}}}},
{{"type":"tirx.EQ","data":{{"span":0,"dtype":"bool","a":3,"b":6}}}},
{{"type":"tirx.Not","data":{{"span":0,"dtype":"bool","a":13}}}},
{{"type":"tirx.Select","data":{{"span":0,"dtype":"int32","condition":14,"true_value":6,"false_value":3}}}},
{{"type":"tirx.Max","data":{{"span":0,"dtype":"int32","a":3,"b":15}}}},
{{"type":"ffi.Array","data":[12,16]}},
{{"type":"tirx.IndexMap","data":{{"initial_indices":7,"final_indices":17,"inverse_index_map":0}}}}
],"metadata":{{"tvm_version":"0.25.0.post1"}}}}"""
PADDING = """{"root_index":14,"nodes":[NAMES
{"type":"ffi.String","data":"k"},
{"type":"ir.PrimType","data":{"span":0,"dtype":"int32"}},
{"type":"tirx.Var","data":{"span":0,"dtype":"int32","name":8,"type_annotation":9}},
{"type":"ffi.Array","data":[3,6,10]},
{"type":"ir.FloatImm","data":{"span":0,"dtype":"float32","value":VALUE}},
{"type":"ffi.Array","data":[12]},
{"type":"tirx.IndexMap","data":{"initial_indices":11,"final_indices":13,"inverse_index_map":0}}
],"metadata":{"tvm_version":"0.25.0.post1"}}""".replace("NAMES", _NAMES)

# --- as TVM 0.14 writes them ---

OLD_TILED = """{
  "root": 1,
  "nodes": [
    {"type_key": ""},
    {"type_key": "tir.IndexMap",
     "attrs": {"final_indices": "8", "initial_indices": "2", "inverse_index_map": "0"}},
    {"type_key": "Array", "data": [3, 6]},
    {"type_key": "tir.Var",
     "attrs": {"dtype": "int32", "name": "4", "span": "0", "type_annotation": "5"}},
    {"type_key": "runtime.String", "repr_str": "i"},
    {"type_key": "PrimType", "attrs": {"dtype": "int32"}},
    {"type_key": "tir.Var",
     "attrs": {"dtype": "int32", "name": "7", "span": "0", "type_annotation": "5"}},
    {"type_key": "runtime.String", "repr_str": "j"},
    {"type_key": "Array", "data": [9, 6, 11]},
    {"type_key": "tir.FloorDiv", "attrs": {"a": "3", "b": "10", "dtype": "int32", "span": "0"}},
    {"type_key": "IntImm", "attrs": {"dtype": "int32", "span": "0", "value": "4"}},
    {"type_key": "tir.FloorMod", "attrs": {"a": "3", "b": "10", "dtype": "int32", "span": "0"}}
  ],
  "b64ndarrays": [],
  "attrs": {"tvm_version": "0.14.0"}
}"""
OLD_UNDEFINED = """{
  "root": 1,
  "nodes": [
    {"type_key": ""},
    {"type_key": "tir.IndexMap",
     "attrs": {"final_indices": "5", "initial_indices": "2", "inverse_index_map": "0"}},
    {"type_key": "Array", "data": [3]},
    {"type_key": "tir.Var",
     "attrs": {"dtype": "int32", "name": "4", "span": "0", "type_annotation": "0"}},
    {"type_key": "runtime.String", "repr_str": "i"},
    {"type_key": "Array", "data": [6]},
    {"type_key": "tir.Call", "attrs": {"args": "7", "dtype": "float32", "op": "8", "span": "0"}},
    {"type_key": "Array"},
    {"type_key": "Op", "repr_str": "tir.undef"}
  ],
  "b64ndarrays": [],
  "attrs": {"tvm_version": "0.14.0"}
}"""


@T.prim_func
def two_stages(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    B = T.alloc_buffer((16, 12), "float32")
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TILED, "lambda i, j: (i // 4, j, i % 4,)"),
        (TURNED, "lambda i, j: (j, i,)"),
        (FUSED, "lambda i, j: (i * 12 + j,)"),
        (
            CONDITIONS,
            "lambda i, j: (T.if_then_else(i < 3, i, j), T.max(i, T.Select(not i == j, j, i)),)",
        ),
        (OLD_TILED, "lambda i, j: (i // 4, j, i % 4,)"),
        (OLD_UNDEFINED, 'lambda i: (T.undef("float32"),)'),
    ],
)
def test_index_maps_of_tvm_are_read(text: str, expected: str) -> None:
    found = index_map_from_json(text)
    assert str(found) == expected
    again = index_map_from_json(index_map_to_json(found))
    assert (str(again), str(again.inverse_index_map)) == (expected, str(found.inverse_index_map))


def test_variables_are_shared() -> None:
    found = index_map_from_json(TILED)
    assert found.final_indices[1] is found.initial_indices[1]
    assert found.map_shape([32, 24])[2].value == 4  # type: ignore[attr-defined]


def test_an_inverse_is_read() -> None:
    inverse = index_map_from_json(TURNED).inverse_index_map
    assert isinstance(inverse, IndexMap)
    assert str(inverse) == "lambda a, b: (b, a,)"


@pytest.mark.parametrize("value", ["1.5", "-Infinity", "NaN"])
def test_numbers_of_all_kinds_are_read(value: str) -> None:
    (result,) = index_map_from_json(PADDING.replace("VALUE", value)).final_indices
    assert isinstance(result, FloatImm)
    expected = float(value)
    assert result.value == expected or (math.isnan(expected) and math.isnan(result.value))


def test_operators_keep_their_type() -> None:
    (result,) = index_map_from_json(OLD_UNDEFINED).final_indices
    assert isinstance(result, Call)
    assert (str(result.dtype), result.op.name) == ("float32", "tir.undef")


# --- records ---


def _record(*steps: list[Any]) -> list[Any]:
    return [[["GetSBlock", [], ["B", "main"], ["b0"]], *steps], []]


def _replayed(record: list[Any], func: PrimFunc = two_stages) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    Trace.apply_json_to_schedule(json.loads(json.dumps(record)), sch)
    verify_trace_roundtrip(sch, func)
    assert_same_result(func, sch.mod)
    return sch


@pytest.mark.parametrize("text", [TILED, OLD_TILED])
def test_a_record_with_a_layout_replays(text: str) -> None:
    sch = _replayed(_record(["TransformLayout", ["b0", text], [0, 1, None, False], []]))
    expected = Schedule(two_stages)
    expected.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4))
    assert_structural_equal(sch.mod, expected.mod)
    assert str(sch.trace) == str(expected.trace)


def test_a_record_with_a_layout_and_its_inverse_replays() -> None:
    sch = _replayed(_record(["TransformLayout", ["b0", TURNED], [0, 1, None, False], []]))
    assert "B = T.alloc_buffer((12, 16))" in sch.mod.script()
    assert (
        "index_map=tir.IndexMap.from_func(lambda i, j: (j, i,), "
        "inverse_index_map=lambda a, b: (b, a,))"
    ) in str(sch.trace)


def test_a_record_with_a_padded_layout_replays() -> None:
    by_five = TILED.replace('"value":4', '"value":5')
    padding = PADDING.replace("VALUE", "2.5")
    sch = _replayed(_record(["TransformLayout", ["b0", by_five], [0, 1, padding, False], []]))
    assert "T.if_then_else(v_axis0 == 3 and 1 <= v_axis2, T.float32(2.5)," in sch.mod.script()


def test_a_record_with_a_block_layout_replays() -> None:
    sch = _replayed(_record(["TransformBlockLayout", ["b0"], [FUSED], []]))
    expected = Schedule(two_stages)
    expected.transform_block_layout("B", lambda i, j: (i * 12 + j,))
    assert_structural_equal(sch.mod, expected.mod)


def test_a_map_uses_the_numbers_that_the_record_samples() -> None:
    sampled = _NAMES.replace('"j"', '"v4"')
    text = f"""{{"root_index":11,"nodes":[{sampled}
    {{"type":"tirx.FloorDiv","data":{{"span":0,"dtype":"int32","a":3,"b":6}}}},
    {{"type":"tirx.FloorMod","data":{{"span":0,"dtype":"int32","a":3,"b":6}}}},
    {{"type":"ffi.Array","data":[8,12,9]}},
    {{"type":"tirx.IndexMap","data":{{"initial_indices":14,"final_indices":10,
      "inverse_index_map":0}}}},
    {{"type":"tirx.Var","data":{{"span":0,"dtype":"int32","name":13,"type_annotation":2}}}},
    {{"type":"ffi.String","data":"j"}},
    {{"type":"ffi.Array","data":[3,12]}}
    ]}}"""
    record = _record(
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l1"], [2, 16], ["v3", "v4"]],
        ["TransformLayout", ["b0", text], [0, 1, None, False], []],
    )
    record[1] = [[2, [2, 8]]]
    sch = _replayed(record)
    assert "B = T.alloc_buffer((2, 12, 8))" in sch.mod.script()
    assert "index_map=lambda i, j: (i // v4, j, i % v4,)" in str(sch.trace)


# --- sampled numbers in maps of our own ---


def _with_sampled_layout() -> Schedule:
    sch = Schedule(two_stages, seed=3, debug_mask="all")
    block = sch.get_block("B")
    _, tile = sch.sample_perfect_tile(sch.get_loops(block)[0], n=2, decision=[4, 4])
    inverse = lambda a, b, c: (a * tile + c, b)  # noqa: E731
    layout = IndexMap.from_func(lambda i, j: (i // tile, j, i % tile), inverse_index_map=inverse)
    sch.transform_layout(block, ("write", 0), layout)
    return sch


def test_layout_by_a_sampled_number() -> None:
    sch = _with_sampled_layout()
    assert "B = T.alloc_buffer((4, 12, 4))" in sch.mod.script()
    verify_trace_roundtrip(sch, two_stages)
    assert_same_result(two_stages, sch.mod)


def test_a_layout_follows_a_changed_decision() -> None:
    sch = _with_sampled_layout()
    assert sch.trace is not None
    sampled = next(inst for inst in sch.trace.insts if inst.primitive.kind == "SamplePerfectTile")
    changed = sch.trace.with_decision(sampled, [8, 2], remove_postproc=False)
    other = Schedule(two_stages, debug_mask="all")
    changed.apply_to_schedule(other, remove_postproc=False)
    assert "B = T.alloc_buffer((8, 12, 2))" in other.mod.script()
    verify_trace_roundtrip(other, two_stages)


def test_samples_that_a_map_uses_are_not_dead() -> None:
    sch = _with_sampled_layout()
    assert sch.trace is not None
    kinds = [inst.primitive.kind for inst in sch.trace.simplified(remove_postproc=False).insts]
    assert kinds == ["GetBlock", "GetLoops", "SamplePerfectTile", "TransformLayout"]


def test_cache_in_a_layout_by_a_sampled_number() -> None:
    sch = Schedule(two_stages, debug_mask="all")
    block = sch.get_block("B")
    _, tile = sch.sample_perfect_tile(sch.get_loops(block)[0], n=2, decision=[4, 4])
    sch.reindex_cache_read(block, 0, "global", lambda i, j: (i // tile, j, i % tile))
    assert "A_global = T.alloc_buffer((4, 12, 4))" in sch.mod.script()
    verify_trace_roundtrip(sch, two_stages)
    assert_same_result(two_stages, sch.mod)


# --- what cannot be read ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot read an index map from '{'"),
        ('{"map": 1}', """cannot read an index map from '{"map": 1}'"""),
        (
            '{"root_index": 0, "nodes": [{"type": "tirx.Ramp", "data": {}}]}',
            "an index map with the object 'tirx.Ramp' of TVM cannot be read",
        ),
        (
            '{"root_index": 0, "nodes": [{"type": "None"}]}',
            "expected an index map from TVM, got NoneType",
        ),
        (
            '{"root_index": 5, "nodes": [{"type": "None"}]}',
            "the index map that TVM wrote is damaged: IndexError('no object 5')",
        ),
        (
            TILED.replace('"a":3,"b":8', '"a":3,"b":7'),
            "the index map that TVM wrote is damaged: TypeError('object 7 is not an expression')",
        ),
        (
            TILED.replace('"a":3,"b":8', '"a":3'),
            "the index map that TVM wrote is damaged: KeyError('b')",
        ),
        (
            TILED.replace(
                '{"type":"ir.IntImm","data":{"span":0,"dtype":"int32"',
                '{"type":"ir.IntImm","data":{"span":0,"dtype":"int64"',
                1,
            ),
            "the index map that TVM wrote is damaged: TypeError('FloorDiv of int32 and int64')",
        ),
        (
            TILED.replace('"initial_indices":7', '"initial_indices":12'),
            "the index map that TVM wrote is damaged: TypeError('indices that are not variables')",
        ),
        (
            TILED.replace('"data":[3,6]', '"data":[3,3]'),
            "the index map that TVM wrote is damaged: TypeError('indices that are not variables')",
        ),
        (
            TILED.replace('"inverse_index_map":0', '"inverse_index_map":3'),
            "the index map that TVM wrote is damaged: "
            "TypeError('an inverse that is not an index map')",
        ),
        (
            TILED.replace('"dtype":"int32","a":3', '"dtype":"int32","a":9'),
            "the index map that TVM wrote is damaged: ",
        ),
        (
            CONDITIONS.replace("tirx.if_then_else", "tirx.unheard_of"),
            "the index map that TVM wrote is wrong: ",
        ),
        (
            CONDITIONS.replace('"op":8', '"op":3'),
            "the index map that TVM wrote is damaged: TypeError('object 3 is not an operator')",
        ),
    ],
)
def test_damaged_maps(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        index_map_from_json(text)
    assert str(caught.value).startswith(message)


def test_a_damaged_map_leaves_the_schedule_alone() -> None:
    sch = Schedule(two_stages)
    before = sch.mod
    broken = TILED.replace('"root_index":13', '"root_index":99')
    record = _record(["TransformLayout", ["b0", broken], [0, 1, None, False], []])
    with pytest.raises(ScheduleError, match="no object 99"):
        Trace.apply_json_to_schedule(record, sch)
    assert_structural_equal(sch.mod, before)
    assert sch.trace is not None
    assert not sch.trace.insts

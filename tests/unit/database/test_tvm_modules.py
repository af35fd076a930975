"""Modules as graphs of TVM's objects, written and read back."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tilewright.database.tvm_format.dialects import DIALECTS, TVM_014, TVM_025
from tilewright.database.tvm_format.module_reader import read_module
from tilewright.database.tvm_format.module_writer import write_module
from tilewright.errors import DatabaseError
from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.script import tir as T
from tilewright.testing.conformance.database import matmul
from tilewright.testing.te_workload import CONFIGS, create_te_workload


@T.prim_func
def many_kinds(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), n: T.int32):
    T.func_attr({"tir.noalias": T.bool(True), "layout_free_buffers": [1], "note": "x"})
    with T.block("root"):
        T.reads()
        T.writes()
        C = T.alloc_buffer((16, 16), scope="shared")
        for i in T.thread_binding(16, thread="blockIdx.x"):
            for j in T.vectorized(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, vj])
                    T.writes(C[vi, vj])
                    T.block_attr({"a": 1, "b": "text", "c": [1, 2]})
                    C[vi, vj] = T.Select(
                        A[vi, vj] > T.float32(0), T.exp(A[vi, vj]), T.Cast("float32", vi)
                    ) + T.min(A[vi, vj], T.float32("-inf"))
        for i in T.unroll(16, annotations={"pragma_x": 1}):
            for j in T.parallel(16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.opaque(16, j)
                    T.where(i * 16 + j < 200 + n)
                    T.reads(C[vi, 0:16])
                    T.writes(B[vi, vj])
                    if vi < 3:
                        B[vi, vj] = C[vi, vj] - T.float32(2)
                    else:
                        B[vi, vj] = T.if_then_else(
                            (vi % 2 == 0 and not vj > 3) or vi // 2 != 1, C[vi, vj], T.float32(1)
                        )


@T.prim_func
def views(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float16", strides=(32, 1), align=32)
    B = T.match_buffer(b, (4,), "int32", offset_factor=2)
    with T.block("root"):
        T.reads()
        T.writes()
        for i in range(4):
            with T.block("X"):
                vi = T.axis.reduce(4, i)
                T.reads(A[vi * 4 : vi * 4 + 4, 0:16])
                T.writes(A[vi * 4 : vi * 4 + 4, 0:16])
                D = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, 0:16],
                    (4, 16),
                    "float16",
                    strides=("s0", "s1"),
                    offset_factor=1,
                )
                D[0, T.ramp(0, 1, 4)] = T.broadcast(T.float16(1), 4)
                with T.LetStmt(vi + 1) as x:
                    T.evaluate(x)
                while B[0] < 3:
                    B[0] = B[0] + 1
                T.attr("key", "pragma", 1)
                assert B[0] <= 3, "too many"
                B[1] = T.Let(vi, where={vi: B[2]})


FUNCTIONS: dict[str, Callable[[], PrimFunc]] = {
    "many_kinds": lambda: many_kinds,
    "views": lambda: views,
    **{name: partial(create_te_workload, name, 0) for name in CONFIGS},
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_round_trip(name: str, dialect: Any) -> None:
    mod = IRModule({"main": FUNCTIONS[name]()}, {"who": "me"})
    again = read_module(write_module(mod, dialect))
    assert_structural_equal(again, mod)
    assert again.script() == mod.script()


def test_the_layouts_of_the_dialects() -> None:
    new = json.loads(write_module(matmul(8, 8, 8), TVM_025))
    assert new["nodes"][0] == {"type": "None"}
    assert new["nodes"][new["root_index"]]["type"] == "ir.IRModule"
    kinds = {node["type"] for node in new["nodes"]}
    assert {"tirx.SBlock", "tirx.SBlockRealize", "tirx.For", "ffi.Map", "ffi.String"} <= kinds
    old = json.loads(write_module(matmul(8, 8, 8), TVM_014))
    assert old["nodes"][0] == {"type_key": ""}
    assert old["nodes"][old["root"]]["type_key"] == "IRModule"
    values = [value for node in old["nodes"] for value in node.get("attrs", {}).values()]
    assert all(isinstance(value, str) for value in values)
    names = {node["repr_str"] for node in old["nodes"] if "repr_str" in node}
    assert {"C", "root", "tir.noalias"} <= names


def test_maps_of_texts_in_0_14() -> None:
    """There, a map whose keys are texts holds them itself."""
    document = json.loads(write_module(matmul(8, 8, 8), TVM_014))
    nodes = document["nodes"]
    for node in nodes:
        if node.get("type_key") == "DictAttrs":
            position = int(node["attrs"]["__dict__"])
            pairs = nodes[position]["data"]
            keys = [nodes[key]["repr_str"] for key in pairs[::2]]
            nodes[position] = {"type_key": "Map", "keys": keys, "data": pairs[1::2]}
    assert_structural_equal(read_module(json.dumps(document)), matmul(8, 8, 8))


def spoiled(change: Callable[[list[Any]], None]) -> str:
    document = json.loads(write_module(matmul(8, 8, 8), TVM_025))
    change(document["nodes"])
    return json.dumps(document)


def of_kind(nodes: list[Any], kind: str) -> Any:
    return next(node for node in nodes if node["type"].endswith(kind))


def rename(nodes: list[Any]) -> None:
    of_kind(nodes, "BufferStore")["type"] = "tirx.Teleport"


def drop_field(nodes: list[Any]) -> None:
    del of_kind(nodes, ".For")["data"]["extent"]


def far_away(nodes: list[Any]) -> None:
    of_kind(nodes, ".For")["data"]["body"] = 10_000


def in_steps(nodes: list[Any]) -> None:
    two = of_kind(nodes, "IntImm")
    two["data"]["value"] = 2
    of_kind(nodes, ".For")["data"]["step"] = nodes.index(two)


BAD: dict[str, tuple[str, str]] = {
    "unknown object": (
        spoiled(rename),
        "a module with the object 'tirx.Teleport' of TVM cannot be read",
    ),
    "missing field": (
        spoiled(drop_field),
        "the module that TVM wrote is damaged: KeyError('extent')",
    ),
    "dangling": (
        spoiled(far_away),
        "the module that TVM wrote is damaged: IndexError('no object 10000')",
    ),
    "steps": (spoiled(in_steps), "a module with a loop in steps cannot be read"),
    "no module": (
        '{"root_index": 0, "nodes": [{"type": "None"}]}',
        "expected a module from TVM, got NoneType",
    ),
    "no JSON": ("{", "the module that TVM wrote is damaged: Expecting property name"),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged_graphs(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(DatabaseError, match="^" + re.escape(message)):
        read_module(text)

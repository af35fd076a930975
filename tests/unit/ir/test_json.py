"""IR as JSON: exact round trips with sharing, and errors that say what is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tilewright.errors import IRError, RegistryError
from tilewright.ir import (
    HANDLE,
    TRUE,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    DeclBuffer,
    DType,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    GlobalVar,
    IRModule,
    IterType,
    IterVar,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    Ramp,
    Range,
    Shuffle,
    SizeVar,
    Stmt,
    Var,
    While,
    const,
    decl_buffer,
    intrinsics,
    no_op,
    root_realize,
    seq,
    structural_equal,
)
from tilewright.ir.json import load_json, register_json_type, save_json


def rich_program() -> PrimFunc:
    """One of nearly everything."""
    n, i, thread = SizeVar("n"), Var("i"), Var("threadIdx.x")
    a = decl_buffer(
        (n, 4), "float16", "A", strides=(Var("s"), 1), offset_factor=8, axis_separators=[1]
    )
    table = Var("table", HANDLE, PointerType(DType("int8"), "local"))
    small = decl_buffer((3,), "int8", "table", table, scope="local")
    view = decl_buffer((1, 4), "float16", "V", offset_factor=1)
    region = BufferRegion(a, (Range(i, const(1)), Range(const(0), const(4))))
    lanes = Ramp(const(0), const(1), 4)
    stores: list[Stmt] = [
        BufferStore(a, BufferLoad(a, (i, lanes)), (i, lanes), lanes < Ramp(const(2), const(0), 4)),
        Evaluate(
            intrinsics.call_extern("int32", "f", view.data, FloatImm(DType("float64"), math.inf))
        ),
        Evaluate(Call(DType("int32"), GlobalVar("g"), (i,))),
        Evaluate(Shuffle((lanes,), (const(3), const(0)))),
        While(BufferLoad(small, (const(0),)) < const(1, "int8"), no_op()),
        AssertStmt(i < 4, "small enough", no_op()),
        AttrStmt(
            IterVar(None, thread, IterType.THREAD_INDEX, "threadIdx.x"), "thread_extent", n, no_op()
        ),
        DeclBuffer(decl_buffer((4,), "int8", "D", table), no_op()),
    ]
    block = Block(
        (), (region,), (region,), "b", seq(stores), None, (), (MatchBufferRegion(view, region),)
    )
    loop = For(
        i,
        const(0),
        n,
        ForKind.UNROLLED,
        root_realize(block),
        None,
        {"unroll": 4, "deep": (1, ["x"], {"k": 0.5})},
    )
    body = AllocateConst(table, DType("int8"), (const(3),), (1, -2, 3), loop)
    handle = Var("a", HANDLE)
    return PrimFunc(
        (handle,), body, {handle: a}, {"global_symbol": "main", "tir.noalias": TRUE}, "int32"
    )


def test_round_trip_is_structurally_equal() -> None:
    module = IRModule({"main": rich_program()}, {"note": "x", "nothing": None, "limit": math.inf})
    again = load_json(save_json(module))
    assert structural_equal(module, again)
    assert save_json(again) == save_json(module)
    assert str(again) == str(module)


def test_sharing_is_kept() -> None:
    x = Var("x")
    pair = load_json(save_json(x + x * x))
    assert pair.a is pair.b.a is pair.b.b
    func = load_json(save_json(rich_program()))
    (buffer,) = func.buffer_map.values()
    assert func.params[0] in func.buffer_map
    assert func.body.body.body.block.reads[0].buffer is buffer


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.1, -0.0, 1e300, 5e-324])
def test_floats_are_exact(value: float) -> None:
    node = FloatImm(DType("float64"), value)
    assert structural_equal(node, load_json(save_json(node)))


@pytest.mark.parametrize(
    ("value", "kind"), [(2**63 - 1, "int64"), (-(2**63), "int64"), (2**64 - 1, "uint64")]
)
def test_wide_integers_are_exact(value: int, kind: str) -> None:
    assert load_json(save_json(const(value, kind))).value == value


def test_the_document_is_small_and_readable() -> None:
    assert save_json(Var("x") + 1) == (
        '{"tilewright":1,"root":2,"nodes":[["Var","x","int32",null],["IntImm","int32",1],["Add",0,1]]}'
    )


@dataclass(frozen=True)
class Kept:
    size: int
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Unknown:
    size: int


def test_registered_dataclasses_travel_in_attributes() -> None:
    register_json_type(Kept)
    func = PrimFunc((), no_op(), {}, {"kept": Kept(3, (DType("int8"), "x"))})
    kept = load_json(save_json(func)).attrs["kept"]
    assert kept == Kept(3, (DType("int8"), "x"))
    assert isinstance(kept.parts[0], DType)
    with pytest.raises(IRError, match="type Unknown cannot be saved as JSON; if it is a frozen"):
        save_json(func.with_attr("bad", Unknown(3)))
    with pytest.raises(RegistryError, match="another type called 'Kept'"):
        register_json_type(type("Kept", (), {}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON document: "),
        ("[]", "not IR saved by Tilewright: the key 'tilewright' is missing"),
        ('{"tilewright":99}', "the IR was saved with schema 99, this version reads schema 1"),
        ('{"tilewright":1,"root":0,"nodes":[["Nope"]]}', "the saved IR is damaged: "),
        ('{"tilewright":1,"root":3,"nodes":[]}', "the saved IR is damaged: "),
        ('{"tilewright":1,"root":0,"nodes":[["Var"]]}', "the saved IR is damaged: "),
    ],
)
def test_bad_documents(text: str, message: str) -> None:
    with pytest.raises(IRError) as caught:
        load_json(text)
    assert str(caught.value).startswith(message)


def test_it_is_plain_json() -> None:
    document = msgspec.json.decode(save_json(rich_program()))
    assert set(document) == {"tilewright", "root", "nodes"}
    assert document["root"] == len(document["nodes"]) - 1

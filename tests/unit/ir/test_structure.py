"""Structural equality, its explanation and the stable hash."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tilewright.errors import IRError
from tilewright.ir import (
    HANDLE,
    TRUE,
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    FloatImm,
    For,
    ForKind,
    IRModule,
    IterType,
    IterVar,
    Let,
    LetStmt,
    PrimExpr,
    PrimFunc,
    Range,
    Rewriter,
    SeqStmt,
    SizeVar,
    Stmt,
    StructuralMismatchError,
    Var,
    assert_structural_equal,
    builder,
    const,
    decl_buffer,
    expr_deep_equal,
    no_op,
    replace,
    root_realize,
    structural_equal,
    structural_hash,
)


def copy_program(prefix: str = "", **block_fields: Any) -> PrimFunc:
    """B[i] = A[i] + 1 with every name prefixed."""
    a = decl_buffer((8,), "float32", prefix + "A")
    b = decl_buffer((8,), "float32", prefix + "B")
    i, vi = Var(prefix + "i"), Var(prefix + "vi")
    axis = IterVar(Range(const(0), const(8)), vi, IterType.DATA_PAR)
    body = BufferStore(b, BufferLoad(a, (vi,)) + 1.0, (vi,))
    block = Block((axis,), (), (), prefix + "copy", body, **block_fields)
    loop = For(i, const(0), const(8), ForKind.SERIAL, BlockRealize((i,), TRUE, block))
    params = Var(prefix + "a", HANDLE), Var(prefix + "b", HANDLE)
    root = root_realize(Block((), (), (), "root", loop))
    buffers = dict(zip(params, (a, b), strict=True))
    return PrimFunc(params, root, buffers, {"global_symbol": "main"})


class _Change(Rewriter):
    """Replaces fields of the nodes of one class."""

    def __init__(self, name: str, **fields: Any) -> None:
        self._name, self._fields = name, fields

    def generic_visit(self, node: Any) -> Any:
        node = super().generic_visit(node)
        return replace(node, **self._fields) if type(node).__name__ == self._name else node


def changed(class_name: str, **fields: Any) -> PrimFunc:
    func = copy_program()
    return func.with_body(_Change(class_name, **fields).rewrite(func.body))


def test_names_do_not_count() -> None:
    first, second = copy_program(), copy_program("other_")
    assert structural_equal(first, second)
    assert_structural_equal(first, second)
    assert structural_hash(first) == structural_hash(second)
    assert structural_equal(IRModule({"main": first}), IRModule({"main": second}))


DIFFERENT: dict[str, Callable[[], PrimFunc]] = {
    "loop kind": lambda: changed("For", kind=ForKind.PARALLEL),
    "loop extent": lambda: changed("For", extent=const(9)),
    "loop annotation": lambda: changed("For", annotations={"pragma": 1}),
    "constant": lambda: changed("FloatImm", value=2.0),
    "operator": lambda: changed("Add", b=const(1.0) * Var("free", const(1.0).dtype)),
    "iterator kind": lambda: changed("IterVar", iter_type=IterType.OPAQUE),
    "block annotation": lambda: copy_program(annotations={"x": 1}),
    "attribute": lambda: copy_program().with_attr("tir.noalias", True),
    "name of the function": lambda: copy_program().with_attr("global_symbol", "other"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_differences_count(what: str) -> None:
    original, other = copy_program(), DIFFERENT[what]()
    assert not structural_equal(original, other)
    assert structural_hash(original) != structural_hash(other)
    with pytest.raises(StructuralMismatchError):
        assert_structural_equal(original, other)


def test_buffers_count_by_shape_type_scope_and_layout() -> None:
    base = decl_buffer((4, 4), "float32", "A")
    x = Var("x")

    def load(**fields: Any) -> PrimFunc:
        buffer = decl_buffer(**{"shape": (4, 4), "dtype": "float32", "name": "A", **fields})
        param = Var("p", HANDLE)
        return PrimFunc((param,), no_op(), {param: buffer})

    assert structural_equal(load(), load(name="B"))
    assert structural_equal(load(), load(elem_offset=0))
    variants = [
        load(shape=(4, 5)), load(dtype="int32"), load(scope="shared"), load(strides=(4, 1)),
        load(offset_factor=4, elem_offset=x), load(data_alignment=16), load(axis_separators=[1]),
    ]  # fmt: skip
    hashes = {structural_hash(variant) for variant in [load(), *variants]}
    assert len(hashes) == len(variants) + 1
    assert not any(structural_equal(load(), variant) for variant in variants)
    assert base.scope == "global"


def test_free_buffers_map_to_each_other() -> None:
    n, m = Var("n"), Var("m")
    a, b = decl_buffer((n, 4), name="a"), decl_buffer((m, 4), name="b")
    c = decl_buffer((n, 4), name="c")

    def add(left: Buffer, right: Buffer) -> PrimExpr:
        return left[0, 1] + right[0, 1]

    assert structural_equal(add(a, a), add(b, b))
    assert structural_equal(add(a, c), add(c, a))
    assert not structural_equal(add(a, c), add(a, a))
    assert structural_hash(add(a, a)) == structural_hash(add(b, b))
    assert not structural_equal(a[n, 0], b[n, 0])
    assert not structural_equal(a[0, n * 2], b[0, n * 2])  # n is the extent of `a` only
    with pytest.raises(StructuralMismatchError):
        assert_structural_equal(add(a, c), add(a, a))


def test_parts_of_one_program_are_equal_only_over_the_same_buffers() -> None:
    x = Var("x")
    a, b = decl_buffer((4,), name="a"), decl_buffer((4,), name="b")
    assert expr_deep_equal(a[x] + 1, a[x] + 1)
    assert not expr_deep_equal(a[x], b[x])
    assert not expr_deep_equal(a[x], a[Var("y")])
    assert expr_deep_equal(a.access_ptr("r"), a.access_ptr("r"))
    assert not expr_deep_equal(a.access_ptr("r"), b.access_ptr("r"))


def test_offset_factor_1_promises_nothing() -> None:
    plain, offset = decl_buffer((4,)), decl_buffer((4,), elem_offset=0, offset_factor=1)
    assert structural_equal(plain, offset)
    assert structural_hash(plain) == structural_hash(offset)
    assert not structural_equal(plain, decl_buffer((4,), offset_factor=1))  # at any offset
    assert not structural_equal(plain, decl_buffer((4,), elem_offset=0, offset_factor=2))


def test_free_variables_are_themselves_unless_mapped() -> None:
    x, y = Var("x"), Var("y")
    assert structural_equal(x + x, x + x)
    assert not structural_equal(x + 1, y + 1)
    assert structural_equal(x + 1, y + 1, map_free_vars=True)
    assert not structural_equal(x + x, x + y, map_free_vars=True)
    assert not structural_equal(x + y, y + y, map_free_vars=True)
    assert not structural_equal(x, Var("x", const(1, "int64").dtype), map_free_vars=True)
    assert not structural_equal(x, SizeVar("x"), map_free_vars=True)
    assert structural_hash(x + 1) == structural_hash(y + 1)
    assert structural_hash(x + x) != structural_hash(x + y)


def test_bound_variables_are_paired_where_they_are_bound() -> None:
    def nested(order: bool) -> Stmt:
        i, j = Var("i"), Var("j")
        buffer = decl_buffer((8, 8), "int32", "A", Var("data", HANDLE))
        store = BufferStore(buffer, const(0), (i, j) if order else (j, i))
        inner = For(j, const(0), const(8), ForKind.SERIAL, store)
        return For(i, const(0), const(8), ForKind.SERIAL, inner)

    assert structural_equal(nested(True), nested(True), map_free_vars=True)
    assert not structural_equal(nested(True), nested(False), map_free_vars=True)


def test_a_reused_variable_equals_two_of_them() -> None:
    def two_loops(first: Var, second: Var) -> Stmt:
        return SeqStmt(
            tuple(
                For(v, const(0), const(4), ForKind.SERIAL, LetStmt(Var("t"), v, no_op()))
                for v in (first, second)
            )
        )

    i = Var("i")
    assert structural_equal(two_loops(i, i), two_loops(Var("a"), Var("b")))
    assert structural_hash(two_loops(i, i)) == structural_hash(two_loops(Var("a"), Var("b")))


def test_lowered_buffers_are_known_by_their_pointer() -> None:
    def program(name: str, swap: bool = False) -> Stmt:
        first, second = (decl_buffer((4,), "int32", name + each) for each in "ab")
        target = second if swap else first
        body: Stmt = BufferStore(target, BufferLoad(target, (const(0),)), (const(1),))
        for buffer in (second, first):
            body = Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, body)
        return body

    assert structural_equal(program("x"), program("y"))
    assert structural_hash(program("x")) == structural_hash(program("y"))
    assert not structural_equal(program("x"), program("x", swap=True))


def test_floats_are_exact() -> None:
    kind = const(0.0).dtype
    assert structural_equal(FloatImm(kind, math.nan), FloatImm(kind, math.nan))
    assert not structural_equal(FloatImm(kind, 0.0), FloatImm(kind, -0.0))
    assert not structural_equal(FloatImm(kind, 0.1), FloatImm(kind, math.nextafter(0.1, 1)))


def test_let_binds_only_its_body() -> None:
    x, y, free = Var("x"), Var("y"), Var("free")
    assert structural_equal(Let(x, free, x + 1), Let(y, free, y + 1))
    assert not structural_equal(Let(x, x, x + 1), Let(y, free, y + 1))


@dataclass(frozen=True)
class Note:
    text: str
    sizes: tuple[int, ...]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, const(1), True),
        (True, 1, True),
        (1.0, 1, False),
        ("a", "b", False),
        ([1, 2], (1, 2), True),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, True),
        (Note("x", (1, 2)), Note("x", (1, 2)), True),
        (Note("x", (1, 2)), Note("x", (1, 3)), False),
        (None, 0, False),
    ],
)
def test_attribute_values(left: Any, right: Any, same: bool) -> None:
    first, second = (copy_program().with_attr("value", value) for value in (left, right))
    assert structural_equal(first, second) is same
    assert (structural_hash(first) == structural_hash(second)) is same


def test_attribute_values_without_meaning_are_refused() -> None:
    with pytest.raises(IRError, match="an attribute value of type object cannot be compared"):
        structural_hash(copy_program().with_attr("value", object()))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: changed("For", extent=const(9)),
            """the programs differ at main.body.block.body.extent
  expected: 9
  actual:   8""",
        ),
        (
            lambda: changed("For", kind=ForKind.PARALLEL),
            """the programs differ at main.body.block.body.kind
  expected: PARALLEL
  actual:   SERIAL""",
        ),
        (
            lambda: changed("FloatImm", value=2.0),
            """the programs differ at main.body.block.body.body.block.body.value.b
  expected: T.float32(2)
  actual:   T.float32(1)""",
        ),
        (
            lambda: copy_program().with_attr("tir.noalias", True),
            """the programs differ at main.attrs
  expected: {'global_symbol': 'main', 'tir.noalias': True}
  actual:   {'global_symbol': 'main'}""",
        ),
    ],
)
def test_the_first_difference_is_shown(build: Callable[[], PrimFunc], message: str) -> None:
    with pytest.raises(StructuralMismatchError) as caught:
        assert_structural_equal(copy_program(), build())
    assert str(caught.value) == message


def test_modules_must_have_the_same_functions() -> None:
    one, two = IRModule({"f": copy_program()}), IRModule({"g": copy_program()})
    with pytest.raises(StructuralMismatchError) as caught:
        assert_structural_equal(one, two)
    assert str(caught.value) == "the programs differ at functions\n  expected: g\n  actual:   f"


def test_hash_does_not_change_between_processes_and_versions() -> None:
    func = copy_program()
    assert structural_hash(func) == PINNED_HASH
    code = (
        "from tilewright.ir import *\n"
        "i = Var('whatever')\n"
        "print(structural_hash(For(i, const(0), const(4), ForKind.SERIAL, Evaluate(i * 2))))"
    )
    ib = builder.create()
    with ib.for_range(0, 4) as i:
        ib.emit(i * 2)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) == structural_hash(ib.get())


PINNED_HASH = 7325721593667512066

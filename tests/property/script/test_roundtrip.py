"""Random expressions, raw and folded, print to text that parses to the same expression."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tilewright.ir import (
    BOOL,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferStore,
    Cast,
    Div,
    DType,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    PrimFunc,
    Select,
    Sub,
    Var,
    assert_structural_equal,
    decl_buffer,
    intrinsics,
    max_value_of,
)
from tilewright.script import from_source

INT_TYPES = tuple(map(DType, ("int32", "int64", "int8", "uint8")))
FLOAT_TYPES = tuple(map(DType, ("float32", "float64", "float16")))
TYPES = (*INT_TYPES, *FLOAT_TYPES, BOOL)
PARAMS = {dtype: (Var(f"a_{dtype}", dtype), Var(f"b_{dtype}", dtype)) for dtype in TYPES}
LOCAL = Var("local", DType("int32"))
BUFFER = decl_buffer((16, 16), "int32", name="A")
BUFFER_PARAM = Var("A_handle", DType("handle"))


def ints(dtype: DType) -> st.SearchStrategy[PrimExpr]:
    low = 0 if dtype.is_uint else -128
    literal = st.integers(low, 127).map(lambda value: IntImm(dtype, value))
    variables: list[PrimExpr] = list(PARAMS[dtype])
    return st.one_of(literal, st.sampled_from(variables))


def floats(dtype: DType) -> st.SearchStrategy[PrimExpr]:
    largest = float(max_value_of(dtype))
    value = st.one_of(st.floats(width=16), st.floats(-largest, largest))
    literal = value.map(lambda number: FloatImm(dtype, number))
    variables: list[PrimExpr] = list(PARAMS[dtype])
    return st.one_of(literal, st.sampled_from(variables))


@st.composite
def arithmetic(draw: st.DrawFn, dtype: DType, depth: int) -> PrimExpr:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(floats(dtype) if dtype.is_float else ints(dtype))
    kind = draw(st.sampled_from(("binary", "select", "cast", "call", "special")))
    if kind == "select":
        condition, sides = (
            draw(logic(depth - 1)),
            [draw(arithmetic(dtype, depth - 1)) for _ in "ab"],
        )
        return Select(condition, *sides)
    if kind == "cast":
        return Cast(dtype, draw(arithmetic(draw(st.sampled_from(TYPES[:-1])), depth - 1)))
    a, b = draw(arithmetic(dtype, depth - 1)), draw(arithmetic(dtype, depth - 1))
    if kind == "call":
        return intrinsics.if_then_else(draw(logic(depth - 1)), a, b)
    if kind == "special" and dtype == "int32":
        special = (Let(LOCAL, a, b + LOCAL), BUFFER[a % 16, b % 16], a & b, ~a)
        chosen = draw(st.sampled_from(special))
        assert isinstance(chosen, PrimExpr)
        return chosen
    nodes = [Add, Sub, Mul, Min, Max, Div]
    if not dtype.is_float:
        nodes += [FloorDiv, FloorMod, Mod]
    return draw(st.sampled_from(nodes))(a, b)


@st.composite
def logic(draw: st.DrawFn, depth: int) -> PrimExpr:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        variables: list[PrimExpr] = [*PARAMS[BOOL], IntImm(BOOL, 1), IntImm(BOOL, 0)]
        return draw(st.sampled_from(variables))
    kind = draw(st.sampled_from(("compare", "join", "not")))
    if kind == "not":
        return Not(draw(logic(depth - 1)))
    if kind == "join":
        node = draw(st.sampled_from((And, Or, EQ, NE)))
        return node(draw(logic(depth - 1)), draw(logic(depth - 1)))
    dtype = draw(st.sampled_from(TYPES[:-1]))
    operands = [draw(arithmetic(dtype, depth - 1)) for _ in "ab"]
    return draw(st.sampled_from((EQ, NE, LT, LE, GT, GE)))(*operands)


def function(expr: PrimExpr) -> PrimFunc:
    params = [var for pair in PARAMS.values() for var in pair]
    attrs = {"global_symbol": "main"}
    return PrimFunc((BUFFER_PARAM, *params), Evaluate(expr), {BUFFER_PARAM: BUFFER}, attrs)


@settings(max_examples=100)
@given(st.one_of(*(arithmetic(dtype, 4) for dtype in TYPES[:-1]), logic(4)))
def test_expression(expr: PrimExpr) -> None:
    original = function(expr)
    parsed = from_source(original.script(), check_well_formed=False)
    assert_structural_equal(parsed, original)
    assert parsed.script() == original.script()


@settings(max_examples=60)
@given(arithmetic(DType("int32"), 3), arithmetic(DType("int32"), 3))
def test_store(index: PrimExpr, value: PrimExpr) -> None:
    in_bounds = FloorMod(index, IntImm(DType("int32"), 16))
    store = BufferStore(BUFFER, value, (in_bounds, in_bounds))
    original = PrimFunc(
        function(value).params, store, {BUFFER_PARAM: BUFFER}, {"global_symbol": "f"}
    )
    parsed = from_source(original.script(), check_well_formed=False)
    assert_structural_equal(parsed, original)

"""Iterator maps: the structures TVM finds too, errors, inverses and subspaces."""

from __future__ import annotations

import pytest

from tilewright.arith import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from tilewright.errors import ArithError
from tilewright.ir import TRUE, PrimExpr, Range, SizeVar, Var, const, logical_and, minimum

x, y, z, w = Var("x"), Var("y"), Var("z"), Var("w")
a, b, c = Var("a"), Var("b"), Var("c")
n, m = SizeVar("n"), SizeVar("m")


def _domains(**extents: int | PrimExpr | tuple[int, int]) -> dict[Var, Range]:
    by_name = {"x": x, "y": y, "z": z, "w": w}
    result = {}
    for name, extent in extents.items():
        first, size = extent if isinstance(extent, tuple) else (0, extent)
        result[by_name[name]] = Range(const(first), const(size) if isinstance(size, int) else size)
    return result


def _show(node: PrimExpr | IterMark) -> str:
    """A compact text of the structure: `split(mark, lower, extent, scale)`, `[...] + base`."""
    match node:
        case IterSumExpr(args=args, base=base):
            return f"[{', '.join(map(_show, args))}] + {base}"
        case IterSplitExpr():
            numbers = f"{node.lower_factor}, {node.extent}, {node.scale}"
            return f"split({_show(node.source)}, {numbers})"
        case IterMark():
            return f"mark({_show(node.source)}; {node.extent})"
    return str(node)


def _one(index: PrimExpr, predicate: PrimExpr = TRUE, **extents: int) -> str:
    found = detect_iter_map([index], _domains(**extents), predicate)
    assert not found.errors
    return _show(found.indices[0])


def test_a_variable_becomes_a_fused_iterator_of_one_part() -> None:
    assert _one(x, x=3) == "[split(mark([split(mark(x; 3), 1, 3, 1)] + 0; 3), 1, 3, 1)] + 0"


def test_fused_iterators() -> None:
    parts = "split(mark(x; 3), 1, 3, 4), split(mark(y; 4), 1, 4, 1)"
    assert _one(x * 4 + y, x=3, y=4) == f"[split(mark([{parts}] + 0; 12), 1, 12, 1)] + 0"
    assert _one(y + x * 4 + 5, x=3, y=4) == f"[split(mark([{parts}] + 0; 12), 1, 12, 1)] + 5"


def test_overlapping_iterators_fuse_without_gaps() -> None:
    parts = "split(mark(x; 5), 1, 5, 8), split(mark(y; 9), 1, 9, 1)"
    assert _one(x * 8 + y, x=5, y=9) == f"[split(mark([{parts}] + 0; 41), 1, 41, 1)] + 0"


def test_quotient_and_remainder() -> None:
    found = detect_iter_map([x // 4, x % 4], _domains(x=12), TRUE, "bijective")
    assert [_show(index) for index in found.indices] == [
        "[split(mark([split(mark(x; 12), 4, 3, 1)] + 0; 3), 1, 3, 1)] + 0",
        "[split(mark([split(mark(x; 12), 1, 4, 1)] + 0; 4), 1, 4, 1)] + 0",
    ]


def test_a_remainder_without_multiples_of_its_divisor() -> None:
    """The simplifier drops them; the quotient still shows what was divided."""
    domains, predicate = _domains(x=3, y=32), x * 32 + y < 75
    plain = detect_iter_map([(x * 32 + y) // 15, (x * 32 + y) % 15], domains, predicate)
    found = detect_iter_map([(x * 32 + y) // 15, (x * 2 + y) % 15], domains, predicate)
    assert not found.errors
    assert [_show(index) for index in found.indices] == [_show(index) for index in plain.indices]
    other = detect_iter_map([(x * 32 + y) // 15, (x * 3 + y) % 15], domains, predicate)
    assert other.errors


def test_remainders_of_a_number_of_three_parts() -> None:
    """Tiles of 32 rows, of images of 12 x 20 rows."""
    domains, rows = _domains(x=15, y=32), x * 32 + y
    parts = [rows // 240, rows % 240 // 20]
    plain = detect_iter_map([*parts, rows % 20], domains, TRUE, "bijective")
    found = detect_iter_map([*parts, (x * 12 + y) % 20], domains, TRUE, "bijective")
    assert not found.errors
    assert [_show(index) for index in found.indices] == [_show(index) for index in plain.indices]
    assert detect_iter_map([*parts, (x * 13 + y) % 20], domains).errors


def test_digits_recombine_to_their_mark() -> None:
    assert _one(x // 4 * 4 + x % 4, x=16) == "[split(mark(x; 16), 1, 16, 1)] + 0"


def test_predicates_bound_fused_iterators() -> None:
    parts = "split(mark(x; 10), 1, 10, 10), split(mark(y; 10), 1, 10, 1)"
    fused = x * 10 + y
    assert _one(fused, fused < 95, x=10, y=10) == (
        f"[split(mark([{parts}] + 0; 95), 1, 95, 1)] + 0"
    )
    assert _one(fused, logical_and(fused < 95, fused >= 5), x=10, y=10) == (
        f"[split(mark([{parts}] + -5; 90), 1, 90, 1)] + 5"
    )


def test_predicates_on_one_variable_shrink_its_domain() -> None:
    shown = _one(x, logical_and(x >= 2, x < 5), x=10)
    assert shown == "[split(mark([split(mark(x - 2; 3), 1, 3, 1)] + 0; 3), 1, 3, 1)] + 2"


def test_padding_of_a_quotient() -> None:
    assert _one(x // 4, x=10) == (
        "[split(mark([split(mark([split(mark(x; 10), 1, 10, 1)] + 0; 12), 4, 3, 1)] + 0; 3),"
        " 1, 3, 1)] + 0"
    )


def test_symbolic_extents() -> None:
    found = detect_iter_map([x * n + y], _domains(x=m, y=n))
    assert str(found.indices[0].args[0].extent) == "m * n"
    split = detect_iter_map([x // n, x % n], _domains(x=n * m))
    assert [str(index.args[0].extent) for index in split.indices] == ["m", "n"]


def test_trivial_iterators() -> None:
    domains = _domains(x=1, y=4)
    assert _show(detect_iter_map([x, y], domains).indices[0]) == "[] + 0"
    kept = detect_iter_map([x, y], domains, simplify_trivial_iterators=False)
    assert (
        _show(kept.indices[0]) == "[split(mark([split(mark(x; 1), 1, 1, 1)] + 0; 1), 1, 1, 1)] + 0"
    )


@pytest.mark.parametrize(
    ("indices", "level", "error"),
    [
        ([x, x], "surjective", "the indices are not independent"),
        ([x % 8, x // 4], "surjective", "the indices are not independent"),
        ([x // 5, x % 5], "surjective", "indices depend on each other where an iterator is padded"),
        ([x // 5, x % 5], "bijective", "an iterator of extent 16 cannot be divided by 5"),
        ([x // 4], "bijective", "the indices do not form a bijective map"),
        ([x], "bijective", "the indices do not form a bijective map"),
        ([x * y], "surjective", "the product of two iterators, x * y, cannot be an iterator map"),
        ([x * 4 - y], "surjective", "the scales of the iterators do not chain into one iterator"),
        ([minimum(x, 3)], "surjective", "Min of iterators cannot be an iterator map"),
        ([x // y], "surjective", "division by an iterator in x // y cannot be an iterator map"),
        ([(x + 3) % 32], "surjective", "an iterator of extent 16 misses some remainders"),
    ],
)
def test_what_is_no_iterator_map(indices: list[PrimExpr], level: str, error: str) -> None:
    result = detect_iter_map(indices, _domains(x=16, y=4), TRUE, level)
    assert result.indices == ()
    assert result.errors == (error,)


def test_predicates_that_are_no_bounds() -> None:
    result = detect_iter_map([x], _domains(x=16), x.equal(3))
    assert result.errors == (
        "the predicate is not a conjunction of bounds on linear expressions of the iterators",
    )


def test_predicates_must_not_couple_separate_indices() -> None:
    result = detect_iter_map([x, y], _domains(x=10, y=10), x * 10 + y < 95)
    assert result.errors == ("the predicate couples iterators that the indices separate",)


def test_unknown_level() -> None:
    with pytest.raises(ArithError) as caught:
        detect_iter_map([x], _domains(x=4), TRUE, "injective")
    assert str(caught.value) == (
        "unknown check level 'injective'; expected one of bijective, surjective, nocheck"
    )


@pytest.mark.parametrize(
    ("indices", "extents", "simplified"),
    [
        ([x // 8, x // 2 % 4, x % 2], {"x": 64}, ["x // 8", "x % 8 // 2", "x % 2"]),
        ([(x * 16 + y) // 4], {"x": 8, "y": 16}, ["(x * 16 + y) // 4"]),
        ([x * 4 + y * 2], {"x": 3, "y": 2}, ["(x * 2 + y) * 2"]),
        ([x, x], {"x": 4}, ["x", "x"]),
        ([x + 0], {"x": 1}, ["0"]),
    ],
)
def test_iter_map_simplify(
    indices: list[PrimExpr], extents: dict[str, int], simplified: list[str]
) -> None:
    assert [str(e) for e in iter_map_simplify(indices, _domains(**extents))] == simplified


def test_normalize_to_iter_sum() -> None:
    total = normalize_to_iter_sum(x * 4 + y + x * 4 + w, _domains(x=3, y=4))
    assert str(normalize_iter_map_to_expr(total)) == "x * 8 + y + w"
    with pytest.raises(ArithError, match=r"x \* y is not a sum of iterators"):
        normalize_to_iter_sum(x * y, _domains(x=3, y=4))


@pytest.mark.parametrize(
    ("indices", "extents", "inverse"),
    [
        ([x * 4 + y], {"x": 3, "y": 4}, {x: "a // 4", y: "a % 4"}),
        ([x // 4, x % 4], {"x": 12}, {x: "a * 4 + b"}),
        ([x // 8, x // 2 % 4, x % 2], {"x": 64}, {x: "a * 8 + b * 2 + c"}),
        ([x + 2], {"x": 3}, {x: "a - 2"}),
        ([3 - x], {"x": 4}, {x: "3 - a"}),
        ([y, x], {"x": 4, "y": 5}, {x: "b", y: "a"}),
        ([x], {"x": (3, 5)}, {x: "a"}),
    ],
)
def test_inverses(
    indices: list[PrimExpr], extents: dict[str, int], inverse: dict[Var, str]
) -> None:
    found = detect_iter_map(indices, _domains(**extents), TRUE, IterMapLevel.BIJECTIVE)
    result = inverse_affine_iter_map(found.indices, [a, b, c][: len(indices)])
    assert {var: str(value) for var, value in result.items()} == inverse


def test_inverses_that_do_not_exist() -> None:
    strided = detect_iter_map([x * 2], _domains(x=4))
    with pytest.raises(ArithError, match="an index advances in steps of 2"):
        inverse_affine_iter_map(strided.indices, [a])
    overlapping = detect_iter_map([x + y], _domains(x=4, y=4))
    with pytest.raises(ArithError, match="two iterators overlap in one index"):
        inverse_affine_iter_map(overlapping.indices, [a])
    with pytest.raises(ArithError, match="the map has 1 indices but 2 outputs were given"):
        inverse_affine_iter_map(strided.indices, [a, b])


@pytest.mark.parametrize(
    ("indices", "extents", "expected"),
    [
        ([x // 12, x % 12], {"x": 192}, {"x": "b + a * 12"}),
        ([x % 4, x // 4], {"x": 16}, {"x": "b * 4 + a"}),
        ([x * 48 + y * 12 + z], {"x": 4, "y": 4, "z": 12},
         {"x": "a // 48", "y": "a // 12 % 4", "z": "a % 12"}),
        ([15 - x, y + 3], {"x": 16, "y": 4}, {"x": "(a - 15) * -1", "y": "b - 3"}),
    ],
)  # fmt: skip
def test_inverses_as_tvm_writes_them(
    indices: list[PrimExpr], extents: dict[str, int], expected: dict[str, str]
) -> None:
    found = detect_iter_map(indices, _domains(**extents), TRUE, IterMapLevel.BIJECTIVE)
    inverse = inverse_affine_iter_map(found.indices, [a, b, c][: len(indices)], simplified=False)
    assert {var.name: str(value) for var, value in inverse.items()} == expected


def _divide(
    bindings: list[PrimExpr], inner: list[Var], predicate: PrimExpr = TRUE, **extents: int
) -> list[str]:
    """`outer (extent) | inner (extent)` for each binding, and the predicates."""
    divisions = subspace_divide(bindings, _domains(**extents), inner, predicate)
    return [
        " | ".join(f"{normalize_iter_map_to_expr(m.source)} ({m.extent})" for m in pair)
        for pair in divisions
    ]


def test_subspaces() -> None:
    no_predicate = "0 (T.bool(True)) | 0 (T.bool(True))"
    assert _divide([x * 4 + y], [y], x=3, y=4) == ["x (3) | y (4)", no_predicate]
    assert _divide([x, y], [y], x=3, y=4) == ["x (3) | 0 (1)", "0 (1) | y (4)", no_predicate]
    assert _divide([x * 4 + y], [], x=3, y=4) == ["x * 4 + y (12) | 0 (1)", no_predicate]
    assert _divide([x * 4 + y + 2], [y], x=3, y=4) == ["x (3) | y + 2 (4)", no_predicate]
    assert _divide([x * 16 + y * 4 + z, w], [z, w], x=3, y=4, z=4, w=5) == [
        "x * 4 + y (12) | z (4)",
        "0 (1) | w (5)",
        no_predicate,
    ]


def test_subspaces_of_a_fused_loop_that_was_split_again() -> None:
    fused = x * 6 + y
    no_predicate = "0 (T.bool(True)) | 0 (T.bool(True))"
    rows, columns = fused // 12 * 8 + fused % 6 // 3 * 4 + z, fused % 12 // 6 * 3 + fused % 3
    assert _divide([rows, columns], [y, z], x=8, y=6, z=4) == [
        "x // 2 (4) | y // 3 * 4 + z (8)",
        "x % 2 (2) | y % 3 (3)",
        no_predicate,
    ]


def test_subspaces_split_the_predicate() -> None:
    fused = x * 12 + y * 4 + z
    assert _divide([fused], [z], x * 3 + y < 8, x=3, y=3, z=4) == [
        "x * 3 + y (8) | z (4)",
        "0 (x * 3 + y < 8) | 0 (T.bool(True))",
    ]


@pytest.mark.parametrize(
    ("binding", "inner", "predicate"),
    [
        (x * 4 + y, x, TRUE),  # the inner iterator is the outer one of the sum
        (x * 4 + y, y, x * 4 + y < 10),  # the predicate cuts through
        (x * 8 + y * 2, y, TRUE),  # steps of two
        (x * y, y, TRUE),
    ],
)
def test_bindings_that_cannot_be_divided(
    binding: PrimExpr, inner: Var, predicate: PrimExpr
) -> None:
    assert subspace_divide([binding], _domains(x=3, y=4), [inner], predicate) == []

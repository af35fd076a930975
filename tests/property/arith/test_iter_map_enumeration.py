"""Iterator maps of random expressions, checked by running through all iterations."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.arith import (
    IterMapLevel,
    IterMark,
    IterSumExpr,
    covers,
    detect_iter_map,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    subspace_divide,
)
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.ir import (
    TRUE,
    IntImm,
    PrimExpr,
    Range,
    Var,
    const,
    uses_var,
)

Array = npt.NDArray[Any]
x, y, z = Var("x"), Var("y"), Var("z")
VARS = (x, y, z)
Domains = dict[Var, Range]


def _expression(rng: random.Random, depth: int) -> PrimExpr:
    if depth == 0:
        return rng.choice(VARS)
    a = _expression(rng, depth - 1)
    kind = rng.randrange(9)
    if kind < 3:
        return a * rng.choice((2, 3, 4, 6, 8, 12)) + _expression(rng, depth - 1)
    if kind < 5:
        return a // rng.choice((2, 3, 4, 6, 8))
    if kind < 7:
        return a % rng.choice((2, 3, 4, 6, 8))
    return a + rng.choice((1, 2, 3, 4)) if kind == 7 else _digits(rng)


def _digits(rng: random.Random) -> PrimExpr:
    """What splitting and fusing loops leaves behind: digits of a fused sum that chains."""
    fused = x * 12 + y * 4 + z
    upper = rng.choice((12, 24, 48))
    lower = rng.choice((1, 2, 3, 4, 6, 12))
    return (fused % upper) // lower if rng.random() < 0.5 else fused // lower


def _indices(rng: random.Random) -> list[PrimExpr]:
    """Random indices; often all digits of one fused sum, in any order, which makes a bijection."""
    if rng.random() < 0.7:
        return [_expression(rng, rng.choice((1, 1, 2))) for _ in range(rng.choice((1, 2, 3)))]
    if rng.random() < 0.2:
        return _divided(rng.choice((5, 7, 8, 9, 10)))
    digits: list[PrimExpr] = []
    lower = 1
    for factor in rng.choice(((4, 3, 4), (2, 2, 12), (12, 4), (6, 8), (2, 24), (3, 16), (5, 2))):
        digits.append((x * 12 + y * 4 + z) % (lower * factor) // lower)
        lower *= factor
    rng.shuffle(digits)
    return digits


def _divided(divisor: int) -> list[PrimExpr]:
    """A quotient, and the remainder without multiples of the divisor."""
    rest = x * (12 % divisor) + y * (4 % divisor) + z
    return [(x * 12 + y * 4 + z) // divisor, rest % divisor]


def _domains(rng: random.Random) -> Domains:
    if rng.random() < 0.4:
        return {x: _range(0, 4), y: _range(0, 3), z: _range(0, 4)}
    extents = (1, 2, 3, 4, 6, 8, 12)
    return {var: _range(rng.choice((0, 0, 0, 2)), rng.choice(extents)) for var in VARS}


def _range(first: int, extent: int) -> Range:
    return Range(const(first), const(extent))


def _predicate(rng: random.Random) -> PrimExpr:
    if rng.random() < 0.6:
        return TRUE
    subject = rng.choice((x, y, z, x * 12 + y * 4 + z, y * 4 + z, x * 3 + y))
    limit = rng.randrange(1, 40)
    return subject < limit if rng.random() < 0.7 else subject >= rng.randrange(4)


def _points(domains: Domains, predicate: PrimExpr) -> dict[Var, Array]:
    axes = [np.arange(_int(d.min), _int(d.min) + _int(d.extent)) for d in domains.values()]
    grid = np.meshgrid(*axes, indexing="ij")
    points: dict[Var, Array] = {v: g.ravel() for v, g in zip(domains, grid, strict=True)}
    mask = np.broadcast_to(evaluate_on_arrays(predicate, points), points[x].shape)
    return {var: values[mask] for var, values in points.items()}


def _int(expr: PrimExpr) -> int:
    assert isinstance(expr, IntImm)
    return expr.value


def _values(expr: PrimExpr, points: dict[Var, Array]) -> Array:
    return np.broadcast_to(evaluate_on_arrays(expr, points), points[x].shape)


def _size(total: IterSumExpr) -> int:
    return _int(total.args[0].extent) if total.args else 1


@pytest.mark.parametrize("level", [IterMapLevel.SURJECTIVE, IterMapLevel.BIJECTIVE])
@pytest.mark.parametrize("batch", range(4))
def test_detected_maps_are_what_they_claim(level: IterMapLevel, batch: int) -> None:
    found = 0
    for seed in range(batch * 350, batch * 350 + 350):
        rng = random.Random(seed)
        indices, domains, predicate = _indices(rng), _domains(rng), _predicate(rng)
        points = _points(domains, predicate)
        result = detect_iter_map(indices, domains, predicate, level, rng.random() < 0.7)
        if result.errors or points[x].size == 0:
            continue
        found += 1
        reached = np.stack([_values(index, points) for index in indices])
        for index, total in zip(indices, result.indices, strict=True):
            plain = normalize_iter_map_to_expr(total)
            assert np.array_equal(_values(index, points), _values(plain, points)), index
        distinct = np.unique(reached, axis=1).shape[1]
        message = f"{indices} over {domains} where {predicate}"
        assert distinct == np.prod([_size(total) for total in result.indices]), message
        if level == IterMapLevel.BIJECTIVE:
            assert distinct == points[x].size, message
    assert found > 15


def test_simplified_maps_keep_their_values() -> None:
    for seed in range(500):
        rng = random.Random(10_000 + seed)
        indices, domains = [_expression(rng, 2), _expression(rng, 1)], _domains(rng)
        points = _points(domains, TRUE)
        for before, after in zip(indices, iter_map_simplify(indices, domains), strict=True):
            assert np.array_equal(_values(before, points), _values(after, points))


def test_inverses_lead_back() -> None:
    inverted = 0
    for seed in range(2500):
        rng = random.Random(20_000 + seed)
        indices = [_expression(rng, rng.choice((0, 1, 2))) for _ in range(rng.choice((1, 2, 3)))]
        domains = _domains(rng)
        result = detect_iter_map(indices, domains, TRUE, IterMapLevel.BIJECTIVE)
        if result.errors or any(_step(total) != 1 for total in result.indices):
            continue
        inverted += 1
        points = _points(domains, TRUE)
        outputs = [Var(f"out{i}") for i in range(len(indices))]
        images = {out: _values(index, points) for out, index in zip(outputs, indices, strict=True)}
        for var, value in inverse_affine_iter_map(result.indices, outputs).items():
            again = np.broadcast_to(evaluate_on_arrays(value, images), points[x].shape)
            assert np.array_equal(again, points[var]), f"{var} from {indices}"
    assert inverted > 40


def _step(total: IterSumExpr) -> int:
    return abs(_int(total.args[0].scale)) if total.args else 1


def test_divided_bindings_recombine() -> None:
    divided = 0
    for seed in range(2500):
        rng = random.Random(30_000 + seed)
        bindings = [_expression(rng, rng.choice((0, 1, 1, 2))) for _ in range(rng.choice((1, 2)))]
        domains, predicate = _domains(rng), _predicate(rng)
        inner_vars = set(rng.sample(VARS, rng.choice((1, 2))))
        divisions = subspace_divide(bindings, domains, inner_vars, predicate)
        points = _points(domains, predicate)
        if not divisions or points[x].size == 0:
            continue
        divided += 1
        for binding, (outer, inner) in zip(bindings, divisions, strict=False):
            _check_division(binding, outer, inner, inner_vars, points)
        _check_predicates(divisions[-1], predicate, domains, inner_vars)
    assert divided > 200


def _check_division(
    binding: PrimExpr,
    outer: IterMark,
    inner: IterMark,
    inner_vars: set[Var],
    points: dict[Var, Array],
) -> None:
    outer_expr = normalize_iter_map_to_expr(outer.source)
    inner_expr = normalize_iter_map_to_expr(inner.source)
    assert not uses_var(outer_expr, lambda var: var in inner_vars)
    assert not uses_var(inner_expr, lambda var: var not in inner_vars)
    combined = _values(outer_expr, points) * _int(inner.extent) + _values(inner_expr, points)
    assert np.array_equal(combined, _values(binding, points)), binding
    assert len(np.unique(_values(inner_expr, points))) == _int(inner.extent), binding
    assert len(np.unique(_values(outer_expr, points))) == _int(outer.extent), binding


def _check_predicates(
    division: tuple[IterMark, IterMark], predicate: PrimExpr, domains: Domains, inner: set[Var]
) -> None:
    outer_predicate, inner_predicate = division[0].extent, division[1].extent
    assert not uses_var(outer_predicate, lambda var: var in inner)
    assert not uses_var(inner_predicate, lambda var: var not in inner)
    points = _points(domains, predicate)
    for part in (outer_predicate, inner_predicate):
        assert np.all(evaluate_on_arrays(part, points)), "a part of the predicate is too strong"


def test_region_bounds_hold_and_strict_ones_are_exact() -> None:
    exact = 0
    for seed in range(900):
        rng = random.Random(40_000 + seed)
        domains, predicate = _domains(rng), _predicate(rng)
        rank = rng.choice((1, 2))
        extents = [rng.choice((1, 1, 2, 4)) for _ in range(rank)]
        region = [Range(_expression(rng, rng.choice((0, 1, 2))), const(e)) for e in extents]
        points = _points(domains, predicate)
        if points[x].size == 0:
            continue
        touched = _touched(region, extents, points)
        upper = estimate_region_upper_bound(region, domains, predicate)
        for dim, bound in enumerate(upper):
            if bound.has_lower_bound:
                assert _int(bound.min_value) <= min(p[dim] for p in touched)
            if bound.has_upper_bound:
                assert max(p[dim] for p in touched) <= _int(bound.max_value)
        strict = estimate_region_strict_bound(region, domains, predicate)
        if strict is not None:
            exact += 1
            sizes = [_int(b.max_value) - _int(b.min_value) + 1 for b in strict]
            assert len(touched) == np.prod(sizes), f"{region} over {domains} where {predicate}"
            assert covers(upper, strict)
    assert exact > 150


def _touched(
    region: list[Range], extents: list[int], points: dict[Var, Array]
) -> set[tuple[int, ...]]:
    starts = np.stack([_values(dim.min, points) for dim in region], axis=1)
    offsets = np.stack(np.meshgrid(*map(np.arange, extents), indexing="ij"), axis=-1)
    every = starts[:, None, :] + offsets.reshape(1, -1, len(extents))
    return {tuple(map(int, point)) for point in np.unique(every.reshape(-1, len(extents)), axis=0)}

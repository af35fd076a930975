"""Expressions, constraints, populations and scores by themselves."""

from __future__ import annotations

import itertools
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright import te
from tilewright.algebra import expr, moving
from tilewright.algebra.constraints import (
    CeilDiv,
    Constraint,
    ConstraintProblem,
    Eq,
    In,
    IntegerVariable,
    Le,
    MaxOf,
    MinOf,
    Prod,
    SelectFrom,
    Sum,
)
from tilewright.algebra.decisions import CategoricalDecision, LocationDecision, TileDecision
from tilewright.algebra.description import Formulas
from tilewright.algebra.evaluation import ArrayProgram
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel
from tilewright.algebra.population import every_vector, moved_factors, random_population
from tilewright.algebra.scoring import BatchScorer
from tilewright.cost_model.prior import Machine
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.space_algebra import ReplayedSketch, sketches_of
from tilewright.testing.te_workload import create_te_workload, matmul

CPU = "llvm -mcpu=cascadelake -num-cores 4"
A, B = range(1, 7), range(-2, 5)
OPERATIONS: dict[str, tuple[Any, Any]] = {
    "add": (expr.add, lambda a, b: a + b),
    "multiply": (expr.multiply, lambda a, b: a * b),
    "minimum": (expr.minimum, min),
    "maximum": (expr.maximum, max),
    "less_equal": (expr.less_equal, lambda a, b: int(a <= b)),
    "equal": (expr.equal, lambda a, b: int(a == b)),
    "both": (expr.both, lambda a, b: min(a, b)),
}


def trees() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(["a", "b"]) | st.integers(-3, 8)
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
        max_leaves=8,
    )


def built(tree: Any, names: dict[str, Any], which: int) -> Any:
    """A tree as an expression (0) or a number (1)."""
    if isinstance(tree, tuple):
        operation, left, right = tree
        return OPERATIONS[operation][which](built(left, names, which), built(right, names, which))
    return names.get(tree, tree) if isinstance(tree, str) else tree


@settings(max_examples=120)
@given(tree=trees())
def test_expressions_are_what_their_operations_say(tree: Any) -> None:
    graph = expr.ExprGraph()
    names = {"a": graph.variable("a", A[0], A[-1]), "b": graph.variable("b", B[0], B[-1])}
    value = built(tree, names, 0)
    points = list(itertools.product(A, B))
    columns = {"a": np.array([a for a, _ in points]), "b": np.array([b for _, b in points])}
    (made,) = ArrayProgram([value])(columns)
    expected = [built(tree, {"a": a, "b": b}, 1) for a, b in points]
    assert np.broadcast_to(made, len(points)).tolist() == expected
    low, high = expr.bounds(value)
    assert low <= min(expected)
    assert high >= max(expected)


def test_divisions() -> None:
    graph = expr.ExprGraph()
    a, b = graph.variable("a", 0, 20), graph.variable("b", 1, 6)
    outputs = [expr.floor_divide(a, b), expr.remainder(a, b), expr.ceil_divide(a, b)]
    points = list(itertools.product(range(21), range(1, 7)))
    columns = {"a": np.array([x for x, _ in points]), "b": np.array([y for _, y in points])}
    made = [column.tolist() for column in ArrayProgram(outputs)(columns)]
    assert made[0] == [x // y for x, y in points]
    assert made[1] == [x % y for x, y in points]
    assert made[2] == [-(-x // y) for x, y in points]


def test_known_products_are_numbers() -> None:
    graph = expr.ExprGraph()
    parts = [graph.variable(name, 1, 64) for name in "abc"]
    graph.know_product(parts, 64)
    assert expr.product_of(parts) == 64
    assert expr.multiply(expr.multiply(parts[2], 3), expr.multiply(parts[0], parts[1])) == 192
    assert expr.bounds(expr.multiply(parts[0], parts[1])) == (1, 64)


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Prod("o", "r", ("a", 3)), {"r": 6, "a": 2}, {"r": 6, "a": 3}),
        (Sum("o", "r", ("a", 3)), {"r": 5, "a": 2}, {"r": 6, "a": 2}),
        (Eq("o", "r", 4), {"r": 4}, {"r": 5}),
        (Le("o", "r", 4), {"r": 4}, {"r": 5}),
        (In("o", "r", (1, 4)), {"r": 4}, {"r": 2}),
        (SelectFrom("o", "r", "a", (7, "b")), {"r": 9, "a": 1, "b": 9}, {"r": 9, "a": 0, "b": 9}),
        (SelectFrom("o", "r", "a", (7,)), {"r": 7, "a": 0}, {"r": 7, "a": 1}),
        (CeilDiv("o", "r", 7, "a"), {"r": 4, "a": 2}, {"r": 3, "a": 2}),
        (MinOf("o", "r", ("a", 3)), {"r": 2, "a": 2}, {"r": 3, "a": 2}),
        (MaxOf("o", "r", ("a", 3)), {"r": 3, "a": 2}, {"r": 2, "a": 2}),
    ],
)
def test_constraints_hold(
    constraint: Constraint, good: dict[str, int], bad: dict[str, int]
) -> None:
    assert constraint.holds(good)
    assert not constraint.holds(bad)
    variables = tuple(IntegerVariable(name, range(100)) for name in good)
    problem = ConstraintProblem(variables, (constraint,))
    assert list(problem.broken_by(good)) == []
    assert list(problem.broken_by(bad)) == [constraint]


def test_problems_are_checked() -> None:
    variable = IntegerVariable("a", range(3))
    with pytest.raises(ValueError, match=r"^variable 'a' is declared twice$"):
        ConstraintProblem((variable, variable), ())
    with pytest.raises(ValueError) as error:
        ConstraintProblem((variable,), (Le("split of i", "b", 3),))
    assert str(error.value) == (
        "a constraint from 'split of i' speaks of 'b', which is not among the variables"
    )


def test_populations_are_made_of_possible_decisions() -> None:
    tile = TileDecision(None, "t", 360, 3, 8)  # type: ignore[arg-type]
    pick = CategoricalDecision(None, "c", (5, 1, 3))  # type: ignore[arg-type]
    made = random_population([tile, pick], 2000, np.random.default_rng(0))
    factors = np.stack([made[name] for name in tile.names])
    assert set(factors.prod(0)) == {360}
    assert set(factors[2]) == {1, 2, 3, 4, 5, 6, 8}
    assert set(made["c"]) == {1, 3, 5}
    prime = TileDecision(None, "p", 127, 2, 8)  # type: ignore[arg-type]
    assert set(random_population([prime], 50, np.random.default_rng(0))["p.1"]) == {1}


def test_all_vectors_of_a_small_space() -> None:
    tile = TileDecision(None, "t", 12, 2, 4)  # type: ignore[arg-type]
    pick = CategoricalDecision(None, "c", (5, 1))  # type: ignore[arg-type]
    place = LocationDecision(None, "l", 1)  # type: ignore[arg-type]
    made = every_vector([tile, pick, place], 24)
    assert made is not None
    expected = itertools.product([(12, 1), (6, 2), (4, 3), (3, 4)], [5, 1], [-2, -1, 0])
    found = zip(made["t.0"], made["t.1"], made["c"], made["l"], strict=True)
    assert sorted(found) == sorted((a, b, c, d) for (a, b), c, d in expected)
    assert every_vector([tile, pick, place], 23) is None
    assert every_vector([], 1) == {}


def test_a_prime_factor_goes_to_another_place() -> None:
    tile = TileDecision(None, "t", 360, 3, 8)  # type: ignore[arg-type]
    columns = random_population([tile], 500, np.random.default_rng(0))
    before = np.stack([columns[name] for name in tile.names], axis=1)
    after = moved_factors(tile, before, np.random.default_rng(1))
    assert set(after.prod(1)) == {360}
    assert after[:, 2].max() <= 8
    changed = (after != before).sum(1)
    assert set(changed) == {0, 2}
    assert (changed == 2).mean() > 0.2
    assert set((np.maximum(after, before) // np.minimum(after, before)).max(1)) == {1, 2, 3, 5}


def test_few_structures_are_interpreted_at_a_time() -> None:
    target = Target("llvm -mcpu=cascadelake -num-cores 4")
    mod, sketches, postprocs = sketches_of(create_te_workload("TBG", 0), target, "post-order-apply")
    model = ReplayedSketch(mod, sketches[0], postprocs, [], []).model()
    columns = random_population(model.decisions, 40, np.random.default_rng(0))
    before = len(model.tree.nodes)
    scorer = BatchScorer(model, Machine.of(target))
    some = scorer.score(columns, most_new=6)
    assert before + 4 <= len(model.tree.nodes) <= before + 6
    known = np.isfinite(some.prior)
    assert 0 < known.sum() < 40
    assert (some.legal == known).all()
    assert not some.to_replay
    everything = scorer.score(columns)
    assert np.isfinite(everything.prior).all()
    assert np.array_equal(everything.prior[known], some.prior[known])
    assert np.array_equal(everything.features[known], some.features[known])


class Doubling:
    """Trees that say of every candidate that it takes twice as long."""

    def predict(self, rows: Any) -> Any:
        return np.ones(len(rows))


def test_scores() -> None:
    target = Target("llvm -mcpu=cascadelake -num-cores 4")
    mod, sketches, postprocs = sketches_of(create_te_workload("GMM", 0), target, "tilewright")
    model = ReplayedSketch(mod, sketches[0], postprocs, [], []).model()
    columns = random_population(model.decisions, 300, np.random.default_rng(0))
    plain = BatchScorer(model, Machine.of(target)).score(columns)
    doubled = BatchScorer(model, Machine.of(target), trees=Doubling()).score(columns)
    assert np.allclose(doubled.predicted, plain.prior + 1.0)
    assert np.isfinite(plain.features).all()
    assert len(np.unique(plain.prior)) > 20
    assert not plain.to_replay


def test_rows_that_are_not_covered_come_back_with_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are moved along a quotient, say, while those that stay where they are go on."""

    def refuse(axis: object, digit: object) -> None:
        raise NotInterpreted("a quotient")

    monkeypatch.setattr(moving._Axis, "_begin", refuse)
    target = Target("llvm -mcpu=cascadelake -num-cores 4")
    mod, sketches, postprocs = sketches_of(create_te_workload("T2D", 0), target, "post-order-apply")
    model = ReplayedSketch(mod, sketches[2], postprocs, [], []).model()
    columns = random_population(model.decisions, 20, np.random.default_rng(0))
    scores = BatchScorer(model, Machine.of(target)).score(columns)
    assert set(scores.to_replay.values()) == {"a quotient"}
    assert set(scores.to_replay) == set(np.flatnonzero(np.isnan(scores.prior)))
    assert 0 < len(scores.to_replay) < 20


# --- models as values ---------------------------------------------------------------------------


def model_of(func: PrimFunc, target: str) -> SpaceModel:
    mod, sketches, postprocs = sketches_of(func, Target(target), "post-order-apply")
    return ReplayedSketch(mod, sketches[0], postprocs, [], []).model()


def half_gemm() -> PrimFunc:
    return te.create_prim_func(matmul(64, 64, 64, "float16", "float32"))


def test_a_model_as_text_shows_variables_constraints_and_expressions() -> None:
    text = str(model_of(half_gemm(), "nvidia/geforce-rtx-3080"))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "variables"
    assert "d1.0, d1.1, d1.2, d1.3, d1.4: product 4, the last at most 4" in lines
    assert any(re.fullmatch(r"d\d: in \{0, 16, 64, 512, 1024\}", line) for line in lines)
    assert any(line.startswith("require ") and "max_threads" in line for line in lines)
    assert any(line.startswith("loops of ") for line in lines)
    assert any(line.startswith("stores to ") for line in lines)


def test_places_of_blocks_are_variables() -> None:
    text = str(model_of(create_te_workload("C2D", 0), CPU))
    assert re.search(r"d\d+: from -2 to \d+, a place to compute a block at", text)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_model_that_was_written_down_is_the_same(on_gpu: bool) -> None:
    """Cases are made in the same order, so that the ways to them lead to the same structures."""
    made = (
        (half_gemm(), "nvidia/geforce-rtx-3080") if on_gpu else (create_te_workload("C2D", 0), CPU)
    )
    model = model_of(*made)
    columns = random_population(model.decisions, 40, np.random.default_rng(3))
    assert len(list(model.cases(columns))) > 1
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert hash(again) == hash(model)
    assert str(again) == str(model)


def test_models_of_other_sketches_differ() -> None:
    model = model_of(create_te_workload("GMM", 0), CPU)
    assert model == model_of(create_te_workload("GMM", 0), CPU)
    assert model != model_of(create_te_workload("GMM", 1), CPU)
    assert model != "a model"


def test_what_formulas_share_is_written_once() -> None:
    graph = expr.ExprGraph()
    a, b = (graph.variable(name, 1, 9) for name in "ab")
    both = expr.add(a, b)
    made = [expr.multiply(both, 3), expr.remainder(both, 4), expr.minimum(a, expr.multiply(b, 2))]
    text = Formulas(made)
    assert text.definitions == ["x0 = a + b"]
    assert [text.of(each) for each in made] == ["x0 * 3", "x0 % 4", "min(a, b * 2)"]
    alone = expr.multiply(expr.add(a, 1), expr.add(b, 1))
    assert Formulas([alone]).of(alone) == "(a + 1) * (b + 1)"

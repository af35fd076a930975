"""Verdicts from the algebra agree with post-processors, and as constraints with themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.algebra.decisions import Columns
from tilewright.algebra.legality import verdicts_of
from tilewright.algebra.model import SpaceModel, StructureCase
from tilewright.algebra.population import random_population, vector_at
from tilewright.algebra.problem import problem_of
from tilewright.target import Target
from tilewright.testing.space_algebra import (
    ReplayedSketch,
    differences,
    sketches_of,
)
from tilewright.testing.te_workload import create_te_workload

GPU = Target("nvidia/geforce-rtx-3080")
TVM = "post-order-apply"


def chosen(model: SpaceModel, count: int) -> tuple[Columns, list[int]]:
    """A population, and rows of it of which half are legal."""
    columns = random_population(model.decisions, 40 * count + 4000, np.random.default_rng(3))
    legal = verdicts_of(model, columns).legal
    rows = [*np.flatnonzero(legal)[: count // 2], *np.flatnonzero(~legal)[: count // 2]]
    return columns, [int(row) for row in rows]


def check(name: str, config: int, sketch: int, count: int) -> None:
    mod, sketches, postprocs = sketches_of(create_te_workload(name, config), GPU, TVM)
    empty = ReplayedSketch(mod, sketches[sketch], postprocs, [], [])
    model = empty.model()
    columns, rows = chosen(model, count)
    assert len(rows) == count
    vectors = [vector_at(model.decisions, columns, row) for row in rows]
    replayed = empty.asked_for(vectors)
    accepted = replayed.vectors
    # Of what fetches touch, readers of programs know less than enumeration (test_enumerated).
    left_out = ("footprints", "strides")
    assert [e for e in differences(replayed, model) if e.quantity not in left_out] == []
    verdicts = verdicts_of(model, columns)
    assert not verdicts.to_replay
    for row, vector in zip(rows, vectors, strict=True):
        assert verdicts.legal[row] == (vector in accepted), verdicts.reasons.get(row, "legal")


def test_verdicts_on_a_gpu() -> None:
    check("GMM", 0, 0, 8)


@pytest.mark.slow
@pytest.mark.parametrize("sketch", [0, 1, 2])
@pytest.mark.parametrize(("name", "config"), [("GMM", 0), ("GMM", 3), ("C2D", 0)])
def test_verdicts_on_all_sketches(name: str, config: int, sketch: int) -> None:
    check(name, config, sketch, 200)


def gpu_model() -> SpaceModel:
    mod, sketches, postprocs = sketches_of(create_te_workload("GMM", 0), GPU, TVM)
    return ReplayedSketch(mod, sketches[0], postprocs, [], []).model()


def test_refusals_have_reasons() -> None:
    model = gpu_model()
    columns = random_population(model.decisions, 10_000, np.random.default_rng(1))
    verdicts = verdicts_of(model, columns)
    assert set(verdicts.reasons) == set(np.flatnonzero(~verdicts.legal))
    assert set(verdicts.reasons.values()) == {
        "block 'Z_update' asks for at least 32 threads",
        "block 'Z_update' asks for at most 1024 threads",
        "max_shared_memory_per_block = 49152 of the target",
    }


def test_the_constraint_problem_says_the_same() -> None:
    """A vector is legal where values for all variables follow from it that satisfy everything."""
    model = gpu_model()
    columns = random_population(model.decisions, 300, np.random.default_rng(2))
    legal = verdicts_of(model, columns).legal
    ((case, _),) = model.cases(columns)
    assert isinstance(case, StructureCase)
    made = problem_of(case)
    assert not [each for each in made.left_out if "target" in each or "threads" in each]
    for row in range(300):
        values = {name: int(column[row]) for name, column in columns.items()}
        broken = False
        for constraint in made.problem.constraints:
            missing = [name for name in constraint.names if name not in values]
            if missing:
                values[missing[0]] = solved(constraint, values)
            broken = broken or not constraint.holds(values)
        assert broken != legal[row]


def solved(constraint: Any, values: dict[str, int]) -> int:
    """The one number for its result that satisfies a constraint."""
    known = [values[t] if isinstance(t, str) else t for t in constraint.terms[1:]]
    match type(constraint).__name__:
        case "Prod":
            return int(np.prod(known))
        case "Sum":
            return sum(known)
        case "MinOf":
            return min(known)
        case "MaxOf":
            return max(known)
        case "CeilDiv":
            return -(-known[0] // known[1])
        case "SelectFrom":
            return known[1 + known[0]]
    raise AssertionError(f"{constraint} has no result")

"""Sketches as constraint problems: solutions are candidates that post-processors accept."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.cli.watched_rules import make_context
from tilewright.schedule import Schedule
from tilewright.search.constrained.decision_problem import sketch_problem
from tilewright.solver.array_solver import ArraySolver
from tilewright.target import Target
from tilewright.testing.te_workload import create_te_workload


@pytest.mark.parametrize(
    ("workload", "space", "target"),
    [
        ("GMM", "cuda", "cuda -arch=sm_70"),  # of random decisions about one in ten is legal
        ("GMM", "llvm", "llvm"),
        ("C2D", "llvm", "llvm"),  # a choice of places
        ("SFM", "tilewright", "llvm"),
    ],
)
def test_all_solutions_are_accepted(workload: str, space: str, target: str) -> None:
    context = make_context(create_te_workload(workload, 0), Target(target), space)
    assert context.mod is not None
    assert context.space_generator is not None
    postprocs = context.space_generator.postprocs
    found = sketch_problem(context.mod, context.generate_design_space()[0], postprocs)
    solutions = ArraySolver().prepare(found.problem)
    for values in solutions.sample(4, np.random.default_rng(0)).assignments():
        assert not list(found.problem.broken_by(values))
        sch = Schedule(context.mod, seed=1)
        found.trace_of(values).apply_to_schedule(sch, remove_postproc=False)
        sch.enter_postproc()
        assert all(postproc.apply(sch) for postproc in postprocs)


def test_as_many_candidates_as_were_counted_by_hand() -> None:
    """The product of 1024 x 1024 x 1024 on a GPU: 359,377,280 of 4.18 billion are legal."""
    context = make_context(create_te_workload("GMM", 3), Target("cuda -arch=sm_70"), "cuda")
    assert context.mod is not None
    assert context.space_generator is not None
    sketch = context.generate_design_space()[0]
    found = sketch_problem(context.mod, sketch, context.space_generator.postprocs)
    assert ArraySolver().prepare(found.problem).count == pytest.approx(359_377_280)

"""A rule with a reason, in one file: found by name, tuned with, asked why it did nothing."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.cli.watched_rules import watch
from tilewright.ir import PrimFunc
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import constant_extent
from tilewright.space.generators import PostOrderApply
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.handwritten import matmul
from tilewright.tune import tune_tir
from tilewright.tune.context import TuneContext

TARGET = "llvm -num-cores=2"
NAME = "made-up-halves"


@schedule_rules.register(NAME)
class Halves(ScheduleRule):
    """Splits the outermost loop of a block in two pieces, one of which the search sizes."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        loops = sch.get_loops(block)
        if not loops:
            return NotApplied(sch, "it has no loops")
        outer = loops[0]
        extent = constant_extent(sch.get_sref(outer))
        if extent is None or extent % 2:
            return NotApplied(sch, f"its outermost loop runs {extent} times, which is odd")
        sch.split(outer, sch.sample_perfect_tile(outer, n=2, max_innermost_factor=8))
        return [sch]


def space() -> PostOrderApply:
    return PostOrderApply(sch_rules=[schedule_rules.create(NAME)], postprocs=[], mutator_probs={})


def exponentials(rows: int) -> PrimFunc:
    a = te.placeholder((rows, 4), name="A")
    return te.create_prim_func([a, te.compute(a.shape, lambda i, j: te.exp(a[i, j]), name="B")])


@pytest.mark.parametrize(
    ("rows", "applied", "detail"),
    [(6, True, ""), (7, False, "its outermost loop runs 7 times, which is odd")],
)
def test_it_says_why(rows: int, applied: bool, detail: str) -> None:
    context = TuneContext(exponentials(rows), target=TARGET, space_generator=space())
    (log,) = watch(context)
    assert [(v.rule, v.block, v.applied, v.detail) for v in log.visits] == [
        ("Halves", "root", False, "it has no loops"),
        ("Halves", "B", applied, detail),
    ]


def test_it_is_tuned_with() -> None:
    database = tune_tir(
        matmul(32, 32, 32),
        TARGET,
        max_trials_global=4,
        builder=FakeBuilder(),
        runner=FakeRunner(),
        cost_model="random",
        space=space(),
        strategy="replay-trace",
        console=False,
    )
    (record, *_) = database.get_all_tuning_records()
    steps = [step.kind.name for step in record.trace.insts]
    assert steps[-3:] == ["SamplePerfectTile", "Split", "EnterPostproc"]

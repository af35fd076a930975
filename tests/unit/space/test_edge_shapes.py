"""Extents of 0 and 1 and results without dimensions: rules, features, models, all of a search."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tilewright.cost_model.base import cost_models
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.features.per_store import PerStoreFeature
from tilewright.records import MeasureCandidate, RunnerResult, args_info_of
from tilewright.report.roofline import roofline_of
from tilewright.schedule import Trace
from tilewright.search.replayer import Replayer, SearchStatistics
from tilewright.testing.edge_programs import EDGE_PROGRAMS
from tilewright.tune.context import TuneContext

SPACES = [
    ("llvm -mcpu=haswell -num-cores=2", "tilewright"),
    ("llvm -mcpu=haswell -num-cores=2", "post-order-apply"),
    ("llvm -mcpu=cascadelake -num-cores=2", "tilewright"),
    ("llvm -mcpu=sapphirerapids -num-cores=2", "tilewright"),
    ("nvidia/geforce-gtx-1080-ti", "post-order-apply"),
    ("nvidia/geforce-rtx-3080", "post-order-apply"),
]


def candidates_of(context: TuneContext) -> list[MeasureCandidate]:
    """What the sketches of a task become; every one becomes something."""
    assert context.mod is not None
    assert context.space_generator is not None
    sketches = context.generate_design_space()
    counts = SearchStatistics()
    replayer = Replayer(
        context.mod,
        args_info_of(context.mod),
        context.space_generator.postprocs,
        counts,
        logging.getLogger("tilewright.tune"),
    )
    drafts = [
        replayer.replay(Trace(sketch.trace.insts), 1)
        for sketch in sketches
        if sketch.trace is not None
    ]
    assert drafts
    assert all(drafts), counts
    return [draft.candidate for draft in drafts if draft is not None]


@pytest.mark.parametrize(("target", "space"), SPACES)
@pytest.mark.parametrize("name", EDGE_PROGRAMS)
def test_rules_post_processors_mutators_and_features(
    name: str, target: str, space: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = TuneContext(
        EDGE_PROGRAMS[name].func, target=target, space_generator=space, rand_state=1
    )
    candidates = candidates_of(context)
    assert not caplog.records  # a rule that fails is skipped with a warning
    assert context.space_generator is not None
    for mutator in context.space_generator.mutator_probs:
        for candidate in candidates:
            assert candidate.sch.trace is not None
            mutator.apply(candidate.sch.trace, 5)
    for rows in PerStoreFeature().extract_from(context, candidates):
        assert np.isfinite(rows).all()
    assert context.target is not None
    if context.target.is_cpu:
        assert np.isfinite(AnalyticPrior().score(context, candidates)).all()
        assert context.mod is not None
        roofline = roofline_of(context.mod, context.target)
        assert roofline is not None
        assert np.isfinite(roofline.seconds)


@pytest.mark.parametrize("kind", ["gbdt", "mlp", "random"])
def test_cost_models(kind: str) -> None:
    model = cost_models.create(kind)
    for program in list(EDGE_PROGRAMS.values())[::6]:
        context = TuneContext(
            program.func,
            target="llvm -mcpu=haswell -num-cores=2",
            space_generator="post-order-apply",
            rand_state=1,
        )
        candidates = candidates_of(context)
        model.update(context, candidates, [RunnerResult((1e-9,)) for _ in candidates])
        assert np.isfinite(model.predict(context, candidates)).all()

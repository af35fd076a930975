"""Milliseconds that the features and the prior of a candidate take, over the sketches of workloads.

python benchmarks/features.py [--quick] [--json FILE] [--only ROW ...]

To compare with another commit, run this file once with `PYTHONPATH` at the `src` of each.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Sequence

from harness import HEADER, Report, Row, finish, interleaved, parse_arguments

from tilewright import meta_schedule as ms
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.features.per_store import PerStoreFeature
from tilewright.records import MeasureCandidate, args_info_of
from tilewright.schedule import Trace
from tilewright.search.replayer import Replayer, SearchStatistics
from tilewright.testing.te_workload import create_te_workload

WORKLOADS = (
    "C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "T2D", "TBG",
)  # fmt: skip
CPU = "llvm -mcpu=cascadelake -num-cores=4"
SPACES = {
    "kernels": (CPU, "tilewright"),
    "llvm": (CPU, "post-order-apply"),
    "cuda": ("nvidia/geforce-rtx-3080", "post-order-apply"),
}

Look = Callable[[Sequence[MeasureCandidate]], object]


def candidates_of(context: ms.TuneContext, draws: int) -> list[MeasureCandidate]:
    """Random candidates of every sketch of a task."""
    assert context.mod is not None
    assert context.space_generator is not None
    replayer = Replayer(
        context.mod,
        args_info_of(context.mod),
        context.space_generator.postprocs,
        SearchStatistics(),
        logging.getLogger("tilewright.benchmark"),
    )
    traces = [sketch.trace for sketch in context.generate_design_space()]
    drafts = (
        replayer.replay(Trace(trace.insts), seed)
        for trace in traces
        if trace is not None
        for seed in range(1, draws + 1)
    )
    return [draft.candidate for draft in drafts if draft is not None]


def milliseconds(look: Look, candidates: Sequence[MeasureCandidate]) -> Callable[[], float]:
    """Measures one look at all candidates, which nobody has looked at, for each of them."""

    def measure() -> float:
        new = [MeasureCandidate(each.sch, each.args_info, each.shash) for each in candidates]
        start = time.perf_counter()
        look(new)
        return (time.perf_counter() - start) * 1e3 / len(candidates)

    return measure


def looks_of(context: ms.TuneContext) -> dict[str, Look]:
    """Features, prior, and both of one candidate after another."""
    extractor, prior = PerStoreFeature(), AnalyticPrior()

    def features(some: Sequence[MeasureCandidate]) -> object:
        return extractor.extract_from(context, some)

    def scores(some: Sequence[MeasureCandidate]) -> object:
        return prior.score(context, some)

    def both(some: Sequence[MeasureCandidate]) -> object:
        return [(features([each]), scores([each])) for each in some]

    return {"features": features, "prior": scores, "both": both}


def rows_of(report: Report, name: str, draws: int, rounds: int) -> None:
    """The candidates of a workload, in each space."""
    for space, (target, generator) in SPACES.items():
        func = create_te_workload(name, 0)
        context = ms.TuneContext(func, target=target, space_generator=generator, rand_state=1)
        candidates = candidates_of(context, draws)
        if not candidates:
            report.skip(f"{name}_{space}", "no candidate is legal")
            continue
        looks = looks_of(context)
        best = interleaved([milliseconds(look, candidates) for look in looks.values()], rounds, 0)
        for what, value in zip(looks, best, strict=True):
            note = f"{len(candidates)} candidates"
            report.add(Row(f"{name}_{space}_{what}", value, None, "", "ms", note))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse_arguments(__doc__ or "", argv)
    report = Report("features")
    print(HEADER)
    gc.disable()
    for name in WORKLOADS:
        if not options.only or name in options.only:
            rows_of(report, name, 1 if options.quick else 4, 3 if options.quick else 7)
    for what in ("features", "prior", "both"):
        values = [row.ours for row in report.rows if row.name.endswith(what)]
        report.add(Row(f"mean_{what}", sum(values) / len(values), None, "", "ms"))
    finish(report, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

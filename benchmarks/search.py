"""Seconds to score 10,000 candidates: features, verdicts, prior and boosted trees, no replays.

python benchmarks/search.py [--quick] [--json FILE] [--only ROW ...]

The space is MetaSchedule's, of which most candidates differ; all sketches that the algebra
covers take part, and the note says how many that are. The rival is the same by replay: a few
candidates are replayed and looked at, and their time is scaled up. TVM scores about 500 a second,
so 20 seconds. The structures of the candidates are interpreted before; the note says how long that
took, once for all populations to come. What is not legal is refused and has no features; on GPUs
the prior is that of CPUs, as columns for trees.

`memory_*`: the most megabytes of a process that evolves 100,000 candidates, imports and all.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from features import SPACES, candidates_of
from harness import HEADER, Report, Row, finish, parse_arguments

from tilewright import meta_schedule as ms, te
from tilewright.algebra.evolution import ArrayEvolution
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel
from tilewright.algebra.population import random_population
from tilewright.algebra.scoring import BatchScorer, Scores
from tilewright.cost_model.boosters import Trees, kinds_named
from tilewright.cost_model.gbdt import GBDTConfig
from tilewright.cost_model.pack_sum import PackSum
from tilewright.cost_model.prior import AnalyticPrior, Machine
from tilewright.features.per_store import PerStoreFeature
from tilewright.search.replayer import Sketch
from tilewright.testing.te_workload import batch_matmul_nkkm, create_te_workload

ROWS = ("GMM_3", "C2D_2", "TBG_0", "SFM_2", "CBR_1", "GEMM_tensorcore")
GPU = "nvidia/nvidia-a100"
MEMORY_ROWS = ("C2D_2", "TBG_0", "GEMM_tensorcore")
COUNT = 10_000
EVOLVED = 100_000
_GENERATIONS = 4
LEARNED = 256  # candidates that the trees have learned from
SEED = 7


def context_of(row: str) -> ms.TuneContext:
    """A task in the space of MetaSchedule."""
    name, config = row.split("_")
    if config == "tensorcore":
        operands = batch_matmul_nkkm(1, 1024, 1024, 1024, "float16", "float32")
        func, target, space = te.create_prim_func(operands), GPU, "cuda-tensorcore"
    else:
        func = create_te_workload(name, int(config))
        target, space = SPACES["llvm"]
    return ms.TuneContext(func, target=target, space_generator=space, rand_state=SEED)


def models_of(context: ms.TuneContext) -> tuple[list[SpaceModel], list[str]]:
    """The algebra of all sketches, and why some have none."""
    assert context.mod is not None
    assert context.space_generator is not None
    found: list[SpaceModel] = []
    reasons: list[str] = []
    for number, each in enumerate(context.generate_design_space()):
        sketch = Sketch(number, each)
        try:
            found.append(SpaceModel(context.mod, sketch.trace, context.space_generator.postprocs))
        except NotInterpreted as reason:
            reasons.append(str(reason))
    return found, reasons


def trees_for(scores: Scores) -> Trees:
    """Trees that have learned from some candidates, of which the times are made up."""
    rows = scores.features[scores.legal][:LEARNED].astype(np.float32)
    random = np.random.default_rng(SEED)
    wrong = random.normal(size=len(rows))
    data = PackSum([row[None] for row in rows], wrong, np.ones(len(rows)))
    (kind,) = kinds_named(["histogram"])
    config = GBDTConfig().booster_config(len(rows), 1)
    return kind.train(data, config, lambda *_: True)


def scored(models: list[SpaceModel], machine: Machine, runs: int) -> tuple[float, str]:
    """The least seconds of some runs; then, in words, what was done before, and for which part."""
    share = -(-COUNT // len(models))
    random = np.random.default_rng(SEED)
    tasks = []
    begin = time.perf_counter()
    for model in models:
        columns = random_population(model.decisions, share, random)
        scores = BatchScorer(model, machine).score(columns)
        tasks.append((model, columns, scores))
    before = time.perf_counter() - begin
    scorers = [BatchScorer(model, machine, trees=trees_for(known)) for model, _, known in tasks]
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        for scorer, (_, columns, _) in zip(scorers, tasks, strict=True):
            scorer.score(columns)
        seconds.append(time.perf_counter() - start)
    legal = np.mean([known.legal.mean() for _, _, known in tasks])
    note = f"{len(models)} sketches, interpreted in {before:.1f} s; {legal:.0%} legal"
    return min(seconds) * COUNT / (share * len(models)), note


def evolved_megabytes(row: str) -> float:
    """The most memory that this process has taken after an evolution of all sketches."""
    context = context_of(row)
    models, _ = models_of(context)
    random = np.random.default_rng(SEED)
    size = EVOLVED // (len(models) * _GENERATIONS)
    for model in models:
        scorer = BatchScorer(model, Machine.of(context.target))
        ArrayEvolution(scorer, size, _GENERATIONS - 1).run(random)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024  # `ru_maxrss` has the parent's, too


def megabytes(row: str) -> float:
    """The same in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(evolved_megabytes, (row,))


def replayed(context: ms.TuneContext, draws: int) -> float:
    """Seconds to replay and look at as many candidates, from a few of them."""
    start = time.perf_counter()
    some = candidates_of(context, draws)
    while not some:
        draws *= 4
        some = candidates_of(context, draws)
    PerStoreFeature().extract_from(context, some)
    AnalyticPrior().score(context, some)
    return (time.perf_counter() - start) * COUNT / len(some)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all rows."""
    options = parse_arguments(__doc__ or "", argv)
    report = Report("search")
    print(HEADER)
    for task in ROWS:
        row = f"scored_{task}"
        if options.only and row not in options.only:
            continue
        context = context_of(task)
        models, reasons = models_of(context)
        ours, note = scored(models, Machine.of(context.target), 2 if options.quick else 5)
        rival = replayed(context, 1 if options.quick else 3)
        report.add(Row(row, ours, rival, "replay", "s", f"{note}; {len(reasons)} by replay"))
    for task in MEMORY_ROWS:
        row = f"memory_{task}"
        if not options.only or row in options.only:
            report.add(Row(row, megabytes(task), None, "", "MB", f"{EVOLVED} candidates"))
    finish(report, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

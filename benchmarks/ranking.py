"""How well trees rank recorded candidates: our columns, read off the algebra, against TVM's.

python benchmarks/ranking.py [--quick] [--json FILE] [--only ROW ...]
python benchmarks/ranking.py --record COUNT [--only ROW ...]

Both sets of columns see the same candidates and times (`recorded/`), and the same prior, whose
errors the trees learn. They learn from some candidates and rank all others; figures are means over
several ways to choose. `pairs` is the share of pairs ranked wrong, `missed` the share of the best
1 % that is not among the 5 % ranked first: less is better for both.

`--record` draws candidates of MetaSchedule's space for one core and measures them here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from harness import HEADER, Report, Row, finish, parse_arguments

from tilewright import te
from tilewright.algebra.scoring import BatchScorer
from tilewright.cost_model.boosters import HISTOGRAM
from tilewright.cost_model.gbdt import GBDTConfig
from tilewright.cost_model.pack_sum import PackSum
from tilewright.cost_model.prior import Machine
from tilewright.cost_model.quality import ranking_quality
from tilewright.driver import build
from tilewright.features.per_store import PerStoreFeature
from tilewright.ir import IRModule, PrimFunc
from tilewright.target import Target
from tilewright.testing.space_algebra import ReplayedSketch, sketches_of
from tilewright.workloads.configs import CONFIGS

Floats = npt.NDArray[np.float64]
RECORDED = Path(__file__).resolve().parent / "recorded"
SPACE = "post-order-apply"
# Small shapes: a candidate takes less than a millisecond.
SHAPES: dict[str, tuple[Any, ...]] = {
    "GMM": (1, 128, 128, 128),
    "C2D": (1, 28, 28, 32, 32, 3, 1, 1),
    "CBR": (1, 28, 28, 16, 32, 3, 1, 1),
    "SFM": (256, 256),
}
LEARNED = 128  # candidates
SPLITS = 48
_QUICK_SPLITS = 2
_ROUNDS = 15  # of timing: the least time counts


def function_of(name: str) -> PrimFunc:
    """A workload in its small shape."""
    maker: Any = CONFIGS[name][0]
    return te.create_prim_func(maker(*SHAPES[name]))


# --- recording ----------------------------------------------------------------------------------


def seconds_of(func: PrimFunc, target: Target) -> float:
    """The least time of a few calls."""
    entry = build(IRModule({"main": func}), target)["main"]
    random = np.random.default_rng(1)
    shapes = [[int(extent.value) for extent in each.shape] for each in func.buffer_map.values()]
    arrays = [random.random(shape).astype("float32") for shape in shapes]
    times = entry.time_evaluator(number=1, repeat=_ROUNDS)(*arrays).results
    return float(min(times))


def record(name: str, count: int) -> None:
    """Draw so many candidates from all sketches, measure them and write them down."""
    target = Target(f"llvm -mcpu={Target('llvm').mcpu} -num-cores=1")
    mod, sketches, postprocs = sketches_of(function_of(name), target, SPACE)
    share = -(-count // len(sketches))
    rows: list[Any] = []
    for sketch in sketches:
        drawn = ReplayedSketch.draw(mod, sketch, postprocs, share)
        for vector, func in zip(drawn.vectors, drawn.functions, strict=True):
            rows.append([sketch.number, vector, seconds_of(func, target)])
    RECORDED.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    text = f'{{"target": {json.dumps(str(target))}, "candidates": [\n{lines}\n]}}\n'
    (RECORDED / f"{name}.json").write_text(text)
    print(f"{name}: {len(rows)} candidates", flush=True)


# --- ranking ------------------------------------------------------------------------------------


class Recorded:
    """Recorded candidates of a workload, as both sets of columns see them."""

    def __init__(self, name: str) -> None:
        read = json.loads((RECORDED / f"{name}.json").read_text())
        target = Target(read["target"])
        mod, sketches, postprocs = sketches_of(function_of(name), target, SPACE)
        self.ours: list[Floats] = []  # a matrix a candidate, of one row
        self.theirs: list[Floats] = []  # of a row for each store
        priors: list[Floats] = []
        seconds: list[float] = []
        for sketch in sketches:
            rows = [row for row in read["candidates"] if row[0] == sketch.number]
            empty = ReplayedSketch(mod, sketch, postprocs, [], [])
            drawn = empty.asked_for([vector for _, vector, _ in rows])
            model = drawn.model()
            scores = BatchScorer(model, Machine.of(target)).score(model.columns(drawn.vectors))
            self.ours += list(scores.features[:, None])
            self.theirs += [_columns_of_tvm(func) for func in drawn.functions]
            priors.append(scores.prior)
            seconds += [row[2] for row in rows]
        self.seconds = np.array(seconds)
        self.prior = np.concatenate(priors)

    def splits(self, count: int) -> Iterator[tuple[list[int], list[int]]]:
        """Candidates to learn from, and the others."""
        for seed in range(count):
            order = np.random.default_rng(seed).permutation(len(self.seconds)).tolist()
            yield order[:LEARNED], order[LEARNED:]


def _columns_of_tvm(func: PrimFunc) -> Floats:
    return PerStoreFeature().extract(IRModule({"main": func}), is_gpu=False)


def wrong(recorded: Recorded, features: Sequence[Floats], splits: int) -> tuple[float, float]:
    """The share of pairs ranked wrong, and of the best 1 % that the first 5 % miss."""
    found = []
    times = np.log2(recorded.seconds)
    for learned, others in recorded.splits(splits):
        rows = [features[n].astype(np.float32) for n in learned]
        errors = (times - recorded.prior)[learned]
        config = GBDTConfig().booster_config(len(rows), 1)
        data = PackSum(rows, errors, np.ones(len(rows)))
        trees = HISTOGRAM.train(data, config, lambda *_: True)
        asked = PackSum([features[n].astype(np.float32) for n in others])
        scores = -(asked.sum(trees.predict(asked.rows)) + recorded.prior[others])
        found.append(_judged(scores, recorded.seconds[others]))
    pairs, missed = np.mean(found, axis=0)
    return float(pairs), float(missed)


def _judged(scores: Floats, seconds: Floats) -> tuple[float, float]:
    quality = ranking_quality(scores, seconds)
    assert quality is not None
    best = np.argsort(seconds, kind="stable")[: max(1, round(len(seconds) * 0.01))]
    first = np.argsort(-scores, kind="stable")[: max(1, round(len(seconds) * 0.05))]
    return 1.0 - quality.pairwise_accuracy, 1.0 - len(np.intersect1d(best, first)) / len(best)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all rows, or record."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    count = 0
    if "--record" in arguments:
        at = arguments.index("--record")
        count = int(arguments.pop(at + 1))
        arguments.pop(at)
    options = parse_arguments(__doc__ or "", arguments)
    names = [name for name in SHAPES if not options.only or name in options.only]
    if count:
        for name in names:
            record(name, count)
        return 0
    report = Report("ranking")
    print(HEADER)
    for name in names:
        recorded = Recorded(name)
        splits = _QUICK_SPLITS if options.quick else SPLITS
        ours = wrong(recorded, recorded.ours, splits)
        theirs = wrong(recorded, recorded.theirs, splits)
        note = f"{len(recorded.seconds)} candidates, {LEARNED} learned from"
        for kind, own, rival in zip(("pairs", "missed"), ours, theirs, strict=True):
            report.add(Row(f"{kind}_{name}", own, rival, "TVM's columns", "share", note))
    finish(report, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a cost model that was trained on other models saves: trials until 95 % of the best.

    python benchmarks/pretrained.py DATASET [--hold-out NAME ...] [--share 0.95 ...] [--json FILE]

DATASET is what `tilewright dataset` made, or `processor_time.py` of that. Each model is held out in
turn. The candidates of its tasks are a pool: a search measures those that it thinks best, a batch
at a time, and learns from them. Counted are the trials until one is within 5 % of the best of the
pool, for four ways to choose: at random, by the prior alone, by a model that learns from this task
alone (with the prior, as a search does), and by one that learned from the other models before.
Tasks of which half of the pool is as good as that are left out: there is nothing to find.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

import numpy as np

from tilewright.cost_model.gbdt import GBDTModel
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.dataset import Dataset, DatasetTask
from tilewright.dataset.pretrain import new_model
from tilewright.records import MeasureCandidate, RunnerResult
from tilewright.tune.api import make_cost_model
from tilewright.tune.context import TuneContext

LEAST = 16  # candidates of a task that counts
GOOD = 0.95  # of the speed of the best
WAYS = ("random", "prior", "own", "pretrained")
Scores = Callable[[Sequence[int]], np.ndarray]
Learn = Callable[[list[int]], None]
Row = dict[str, Any]


class Pool:
    """The measured candidates of a task."""

    def __init__(self, dataset: Dataset, task: DatasetTask) -> None:
        self.task = task
        self.context = TuneContext(task.workload.mod, target=task.target, num_threads=1)
        self.candidates: list[MeasureCandidate] = []
        self.results: list[RunnerResult] = []
        for record in dataset.measurements(task):
            candidate = record.as_candidate_or_none()
            if candidate is not None:
                self.candidates.append(candidate)
                self.results.append(record.as_result())
        self.secs = [min(r.run_secs) if r.run_secs else float("inf") for r in self.results]

    @property
    def is_useful(self) -> bool:
        """There is something to search for."""
        ran = [secs for secs in self.secs if secs < float("inf")]
        if len(ran) < LEAST or max(ran) <= 1.2 * min(ran):
            return False
        return sum(secs <= min(ran) / GOOD for secs in ran) <= len(ran) / 2

    def order(self, choose: Scores, learn: Learn, batch: int) -> list[int]:
        """All candidates as a search would measure them."""
        left, done = list(range(len(self.candidates))), []
        while left:
            ranks = np.argsort(-choose(left), kind="stable")[:batch]
            chosen = [left[n] for n in ranks]
            done += chosen
            learn(chosen)
            left = [number for number in left if number not in chosen]
        return done

    def trials(self, order: Sequence[int], share: float) -> int:
        """How many are measured until one is good enough."""
        good = min(self.secs) / share
        return 1 + next(n for n, number in enumerate(order) if self.secs[number] <= good)


def with_model(pool: Pool, model: GBDTModel, batch: int) -> list[int]:
    """The order of a search with a model that goes on learning."""

    def choose(left: Sequence[int]) -> np.ndarray:
        return np.asarray(model.predict(pool.context, [pool.candidates[n] for n in left]))

    def learn(chosen: list[int]) -> None:
        model.update(
            pool.context, [pool.candidates[n] for n in chosen], [pool.results[n] for n in chosen]
        )

    return pool.order(choose, learn, batch)


def by_prior(pool: Pool) -> list[int]:
    """The order of the prior."""
    return list(np.argsort(AnalyticPrior().score(pool.context, pool.candidates), kind="stable"))


def at_random(pool: Pool, times: int = 20) -> list[list[int]]:
    """Orders of searches that know nothing."""
    rng = np.random.default_rng(0)
    return [list(rng.permutation(len(pool.candidates))) for _ in range(times)]


def trained_without(pools: Sequence[Pool], name: str) -> GBDTModel:
    """A model that learned all tasks but those that the held out model has, too."""
    own = {pool.task.workload.shash for pool in pools if pool.task.model == name}
    model = new_model()
    for pool in pools:
        if pool.task.workload.shash not in own and pool.candidates:
            model.update(pool.context, pool.candidates, pool.results)
    return model


def fresh_copy(trained: GBDTModel) -> GBDTModel:
    """The trained model, as it was before it learned of a task."""
    model = new_model()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.npz")
        trained.save(path)
        model.load(path)
    return model


def rows_of(pools: Sequence[Pool], name: str, options: argparse.Namespace) -> Iterator[Row]:
    """A row for each task of a model that is held out."""
    trained = trained_without(pools, name)
    for pool in pools:
        if pool.task.model != name or not pool.is_useful:
            continue
        own = make_cost_model("gbdt", 1)
        assert isinstance(own, GBDTModel)
        orders = {
            "random": at_random(pool),
            "prior": [by_prior(pool)],
            "own": [with_model(pool, own, options.batch)],
            "pretrained": [with_model(pool, fresh_copy(trained), options.batch)],
        }
        trials = {
            share: {
                way: mean(pool.trials(one, share) for one in ways) for way, ways in orders.items()
            }
            for share in options.share
        }
        yield {"model": name, "task": pool.task.name, "pool": len(pool.candidates),
               "trials": trials}  # fmt: skip


def all_pools(dataset: Dataset) -> list[Pool]:
    """Programs that are the same count once for each model."""
    return [pool for task in dataset.tasks() if (pool := Pool(dataset, task)).candidates]


def main() -> None:
    """Print a row a task and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--share", type=float, nargs="+", default=[0.95])
    parser.add_argument("--hold-out", nargs="+", help="models; all of them by default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dataset = Dataset(options.dataset)
    rows, pools = [], all_pools(dataset)
    for name in options.hold_out or dataset.models:
        for row in rows_of(pools, name, options):
            rows.append(row)
            shown = "   ".join(
                " ".join(f"{count:5.1f}" for count in by_way.values())
                for by_way in row["trials"].values()
            )
            print(f"{name:16} {row['task'][:44]:44} {row['pool']:4}   {shown}", flush=True)
    for share in options.share:
        print(f"{len(rows)} tasks, trials to {share:.0%} of the best: mean, geometric mean")
        for way in WAYS:
            figures = [float(row["trials"][share][way]) for row in rows]
            print(f"  {way:12} {mean(figures):6.2f} {geometric_mean(figures):6.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

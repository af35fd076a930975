"""What a cost model that was trained on other models saves: trials until 95 % of the best.

    python benchmarks/pretrained.py DATASET [--batch 4] [--share 0.95] [--json FILE]

DATASET is what `tilewright dataset` made. Each model is held out in turn. The candidates of its
tasks are a pool: a search measures those that it thinks best, a batch at a time, and learns from
them. Counted are the trials until one is within 5 % of the best of the pool, for four ways to
choose: at random, by the prior alone, by a model that learns from this task alone (with the prior,
as a search does), and by one that learned from the other models before.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean, mean

import numpy as np

from tilewright.cost_model.gbdt import GBDTModel
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.dataset import Dataset, DatasetTask, pretrain
from tilewright.dataset.pretrain import new_model
from tilewright.records import MeasureCandidate, RunnerResult
from tilewright.tune.context import TuneContext

LEAST = 16  # candidates of a task that counts
Scores = Callable[[Sequence[int]], np.ndarray]


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
        return len(ran) >= LEAST and max(ran) > 1.2 * min(ran)

    def trials(
        self, choose: Scores, learn: Callable[[list[int]], None], batch: int, share: float
    ) -> int:
        """How many were measured until one was good enough."""
        left = list(range(len(self.candidates)))
        good, count = min(self.secs) / share, 0
        while left:
            scores = choose(left)
            order = np.argsort(-scores, kind="stable")[:batch]
            chosen = [left[n] for n in order]
            for number in chosen:
                count += 1
                if self.secs[number] <= good:
                    return count
            learn(chosen)
            left = [number for number in left if number not in chosen]
        return count


def with_model(pool: Pool, model: GBDTModel, batch: int, share: float) -> int:
    """Trials of a search with a model that goes on learning."""

    def choose(left: Sequence[int]) -> np.ndarray:
        return np.asarray(model.predict(pool.context, [pool.candidates[n] for n in left]))

    def learn(chosen: list[int]) -> None:
        model.update(
            pool.context, [pool.candidates[n] for n in chosen], [pool.results[n] for n in chosen]
        )

    return pool.trials(choose, learn, batch, share)


def at_random(pool: Pool, batch: int, share: float, times: int = 20) -> float:
    """The mean of some searches that know nothing."""
    rng = np.random.default_rng(0)
    return mean(
        pool.trials(lambda left: rng.random(len(left)), lambda _: None, batch, share)
        for _ in range(times)
    )


def by_prior(pool: Pool, batch: int, share: float) -> int:
    """Trials in the order of the prior."""
    prior = -np.asarray(AnalyticPrior().score(pool.context, pool.candidates))
    return pool.trials(lambda left: prior[list(left)], lambda _: None, batch, share)


def fresh_copy(trained: GBDTModel, path: Path) -> GBDTModel:
    """The trained model, as it was before it learned of a task."""
    trained.save(str(path))
    model = new_model()
    model.load(str(path))
    return model


def main() -> None:
    """Print a row a task and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.95)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dataset = Dataset(options.dataset)
    rows = []
    for name in dataset.models:
        trained = pretrain(dataset, held_out=[name])
        for task in dataset.tasks([name]):
            pool = Pool(dataset, task)
            if not pool.is_useful:
                continue
            path = options.dataset / ".pretrained.npz"
            try:
                model = fresh_copy(trained, path)
            finally:
                path.unlink(missing_ok=True)
            known = {"batch": options.batch, "share": options.share}
            row = {
                "model": name, "task": task.name, "pool": len(pool.candidates),
                "random": at_random(pool, **known), "prior": by_prior(pool, **known),
                "own": with_model(pool, GBDTModel(prior=AnalyticPrior()), **known),
                "pretrained": with_model(pool, model, **known),
            }  # fmt: skip
            rows.append(row)
            print(
                f"{name:16} {task.name[:44]:44} {row['pool']:4} {row['random']:7.1f} "
                f"{row['prior']:6} {row['own']:6} {row['pretrained']:6}",
                flush=True,
            )
    print(f"{len(rows)} tasks: trials to {options.share:.0%} of the best, mean and geometric mean")
    for way in ("random", "prior", "own", "pretrained"):
        figures = [float(row[way]) for row in rows]
        print(f"  {way:12} {mean(figures):6.1f} {geometric_mean(figures):6.1f}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

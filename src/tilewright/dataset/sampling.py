"""The third step: random candidates of each task."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tilewright.cost_model.base import cost_models
from tilewright.dataset.folder import Dataset, DatasetTask, Tell, row_of
from tilewright.dataset.rows import write_rows
from tilewright.errors import TilewrightError, TuneError
from tilewright.records import MeasureCandidate, RunnerResult, TuningRecord, candidate_hash
from tilewright.search import EvolutionarySearch
from tilewright.support.text import counted
from tilewright.tune.context import TuneContext

_MOST_EMPTY_ROUNDS = 10
_NOT_MEASURED = RunnerResult(None, "not measured")


def sample_candidates(
    folder: str | Path,
    num_samples_per_task: int = 64,
    models: Collection[str] | None = None,
    seed: int = 0,
    tell: Tell = print,
) -> Dataset:
    """Write candidates of tasks that have none yet.

    Random drafts evolve under a model that scores at random, as in TVM; those that are illegal are
    left out. A task whose space is small has fewer.
    """
    if num_samples_per_task < 1:
        raise TuneError(f"num_samples_per_task must be at least 1, got {num_samples_per_task}")
    dataset = Dataset(folder)
    tasks = dataset.tasks(models)
    if not tasks:
        raise TuneError(f"there are no tasks in {dataset.folder}: extract them first")
    for number, task in enumerate(tasks):
        path = dataset.candidates_file(task)
        if path.exists():
            continue
        try:
            found = _sampled(task, num_samples_per_task, seed + number)
        except TilewrightError as error:
            tell(f"{task.model}/{task.name}: skipped: {error}")
            continue
        write_rows(path, [row_of(_record(candidate, task)) for candidate in found])
        tell(f"{task.model}/{task.name}: {counted(len(found), 'candidate')}")
    return dataset


def _sampled(task: DatasetTask, count: int, seed: int) -> list[MeasureCandidate]:
    context = TuneContext(
        task.workload.mod,
        target=task.target,
        space_generator="tilewright",
        search_strategy=EvolutionarySearch.frugal(init_measured_ratio=0.0, init_min_unmeasured=1),
        task_name=task.name,
        rand_state=seed + 1,
        num_threads=1,
    )
    context.pre_tuning(count, min(count, 32), cost_model=cost_models.create("random", seed=seed))
    found: dict[str, MeasureCandidate] = {}
    empty = 0
    while len(found) < count and empty < _MOST_EMPTY_ROUNDS:
        candidates = context.generate_measure_candidates()
        if candidates is None:
            break
        known = len(found)
        found.update((candidate_hash(candidate), candidate) for candidate in candidates)
        empty += len(found) == known
        context.notify_runner_results(candidates, [_NOT_MEASURED] * len(candidates))
    context.post_tuning()
    return list(found.values())[:count]


def _record(candidate: MeasureCandidate, task: DatasetTask) -> TuningRecord:
    noted = {"candidate_hash": candidate_hash(candidate)}
    return TuningRecord(
        candidate.trace, task.workload, None, task.target, candidate.args_info, extra=noted
    )

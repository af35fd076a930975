"""A cost model learns again, in the same order, what it had learned when a search stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import TilewrightError
from tilewright.records import BASELINE, PLAIN, MeasureCandidate, RunnerResult, TuningRecord
from tilewright.tune.resume.measured import result_of
from tilewright.tune.task import TaskRecord

Failed = Callable[[Exception], object]  # told why a model could not learn


@dataclass
class Lesson:
    """What a model was told after a round."""

    task: TaskRecord
    elapsed: float
    records: list[TuningRecord] = field(default_factory=list)


def repeat_lessons(
    tasks: Sequence[TaskRecord], database: Database, model: CostModel, failed: Failed
) -> int:
    """Tell a model about the complete rounds of searches that go on; how many there were."""
    lessons = [lesson for task in tasks for lesson in _lessons_of(task, database)]
    lessons.sort(key=lambda lesson: lesson.elapsed)
    for lesson in lessons:
        candidates, results = _told(lesson)
        try:
            model.update(lesson.task.ctx, candidates, results)
        except Exception as error:
            failed(error)
            break
    return len(lessons)


def _lessons_of(task: TaskRecord, database: Database) -> list[Lesson]:
    assert task.ctx.mod is not None
    if not task.rounds:
        return []
    lessons: dict[int, Lesson] = {}
    workload = database.commit_workload(task.ctx.mod)
    for record in database.get_tuning_records_of(workload):
        number = record.extra.get("round")
        if record.extra.get("seed") != task.seed or not isinstance(number, int):
            continue
        if record.extra.get(BASELINE) == PLAIN:
            continue
        if number < task.rounds and record.extra.get("built", True):
            elapsed = float(record.extra.get("elapsed", 0.0))
            lessons.setdefault(number, Lesson(task, elapsed)).records.append(record)
    for lesson in lessons.values():
        lesson.records.sort(key=lambda record: record.extra.get("trial", 0))
    return list(lessons.values())


def _told(lesson: Lesson) -> tuple[list[MeasureCandidate], list[RunnerResult]]:
    candidates, results = [], []
    for record in lesson.records:
        try:
            candidate = record.as_measure_candidate()
        except TilewrightError:  # of another version
            continue
        candidates.append(candidate)
        results.append(first_result(record))
    return candidates, results


def first_result(record: TuningRecord) -> RunnerResult:
    """What a record said when it was made, before a final corrected it."""
    first = record.extra.get("first_run_secs")
    if first:
        return RunnerResult(tuple(first), protocol=str(record.extra.get("protocol", "")))
    return result_of(record)

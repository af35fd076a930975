"""Retrains a cost model in the order in which it had learned when a search stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.cost_model.base import CostModel
from tilewright.errors import TilewrightError
from tilewright.records import PLAIN, MeasureCandidate, RunnerResult, TuningRecord
from tilewright.tune.task import TaskRecord

Failed = Callable[[Exception], object]  # called if a model cannot learn


@dataclass
class Lesson:
    """The records that a model was told about after a round."""

    task: TaskRecord
    elapsed: float
    records: list[TuningRecord] = field(default_factory=list)


def retrain(model: CostModel, tasks: Sequence[TaskRecord], failed: Failed) -> None:
    """Tell a model about the complete rounds of searches that go on."""
    lessons = [lesson for task in tasks for lesson in _lessons_of(task)]
    for lesson in sorted(lessons, key=lambda lesson: lesson.elapsed):
        try:
            model.update(lesson.task.ctx, *_replayed(lesson))
        except Exception as error:
            failed(error)
            break


def _lessons_of(task: TaskRecord) -> list[Lesson]:
    if not task.counts.rounds or task.records is None:
        return []
    lessons: dict[int, Lesson] = {}
    for record in task.records.earlier:
        number = record.extra.get("round")
        is_own = record.extra.get("seed") == task.seed and record.baseline != PLAIN
        if not is_own or not isinstance(number, int) or not record.extra.get("built", True):
            continue
        if number < task.counts.rounds:
            elapsed = float(record.extra.get("elapsed", 0.0))
            lessons.setdefault(number, Lesson(task, elapsed)).records.append(record)
    for lesson in lessons.values():
        lesson.records.sort(key=lambda record: record.extra.get("trial", 0))
    return list(lessons.values())


def _replayed(lesson: Lesson) -> tuple[list[MeasureCandidate], list[RunnerResult]]:
    """The candidates of a lesson, and their results before a final corrected them."""
    candidates, results = [], []
    for record in lesson.records:
        try:
            candidates.append(record.as_measure_candidate())
        except TilewrightError:  # of another version
            continue
        results.append(record.as_made().as_result())
    return candidates, results

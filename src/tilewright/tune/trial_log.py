"""The lines of a task's log: what it is searched in, and what each trial gave."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult
from tilewright.tune.task import TaskRecord


def log_space(task: TaskRecord) -> None:
    """The program and the sketches of a task."""
    logger = task.ctx.logger
    logger.info("%s\n%s", task.ctx.task_name, task.ctx.mod)
    logger.info("Total %d design space(s) generated", len(task.sketches))
    for number, sketch in enumerate(task.sketches):
        logger.info("Design space #%d:\n%s\n%s", number, sketch.mod, sketch.trace)


def log_trials(
    task_id: int,
    task: TaskRecord,
    candidates: Sequence[MeasureCandidate],
    built: Sequence[BuilderResult],
    results: Sequence[RunnerResult],
) -> None:
    """The trials of a round that are not counted yet, each with its trace."""
    best = task.gflops or 0.0
    for place in range(task.begun, len(results)):
        candidate, result = candidates[place], results[place]
        head = f"[Task #{task_id}: {task.ctx.task_name}] Trial #{task.first_trial + place + 1}:"
        if result.run_secs:
            secs = median(result.run_secs)
            speed = task.flop / secs / 1e9
            best = max(best, speed)
            known = " (known already)" if place in task.reused_now else ""
            task.ctx.logger.info(
                "%s GFLOPs: %.4f. Time: %.4f us. Best GFLOPs: %.4f%s\n%s",
                head, speed, secs * 1e6, best, known, candidate.sch.trace,
            )  # fmt: skip
        else:
            what = "running" if built[place].error_msg is None else "building"
            task.ctx.logger.info(
                "%s Error in %s:\n%s\n%s\n%s",
                head, what, result.error_msg, candidate.sch.mod, candidate.sch.trace,
            )  # fmt: skip

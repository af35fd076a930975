"""One round of a task: search, build and run, learn, keep."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tilewright.records import Candidates, MeasureCandidate
from tilewright.tune.abilities import SelfRating
from tilewright.tune.baselines import baselines_of
from tilewright.tune.callbacks import AddToDatabase, UpdateCostModel
from tilewright.tune.events import PhaseChanged, RoundMeasured
from tilewright.tune.logs import log_trials
from tilewright.tune.measuring import Measurer, RoundResults
from tilewright.tune.profiler import Profiler
from tilewright.tune.session import TuningSession
from tilewright.tune.task import Round, TaskRecord, funnel_of

# A strategy may propose nothing for a while; for so long it is asked again.
_MOST_EMPTY_ROUNDS = 100
_MEMBERS = {"build": "builder", "run": "runner"}  # by phase


class RoundEnd(NamedTuple):
    """The outcome of a round for the loop."""

    task_ends: str = ""  # why its task gets no more rounds; empty: it goes on
    out_of_time: bool = False  # there was no time to measure everything


def run_round(session: TuningSession, task_id: int) -> RoundEnd:
    """Search, measure, learn."""
    task = session.tasks[task_id]
    baselines = _claimed(task, baselines_of(task))
    candidates: Candidates = list(baselines.values())
    if not candidates:
        candidates, end = _search(session, task_id)
        if not candidates:
            return RoundEnd(end)
    session.logger.info('TaskScheduler picks Task #%d: "%s"', task_id, task.ctx.task_name)
    counted, predicted = task.counts.restored, session.predictions(task, candidates)
    task.round = Round(task.counts.rounds, task.trials - counted, predicted, tuple(baselines))
    allowed = candidates[: counted + session.trials_left(task)]
    some = allowed[: counted + session.budget.fitting(len(allowed) - counted)]
    measured = _measure(session, task_id, some)
    end = _learn(session, task_id, candidates, measured)
    session.policy.join_running_task(task_id)
    if measured.interrupt is not None:
        raise measured.interrupt
    return RoundEnd(end or session.plateau(task), len(measured.results) < len(allowed))


def _claimed(
    task: TaskRecord, baselines: dict[str, MeasureCandidate]
) -> dict[str, MeasureCandidate]:
    """Baselines without those that another tuner, which has just started as well, measures."""
    kept = {id(each) for each in task.claim(list(baselines.values()))}
    return {name: each for name, each in baselines.items() if id(each) in kept}


def _search(session: TuningSession, task_id: int) -> tuple[list[MeasureCandidate], str]:
    """The candidates that the strategy proposes, or why its task ends; neither: ask again later."""
    session.tell(PhaseChanged(task_id, "search", 0))
    task, start = session.tasks[task_id], session.policy.clock()
    found: list[MeasureCandidate] | None = []
    left = session.budget.fitting(session.trials_left(task))

    def chosen(candidate: MeasureCandidate) -> None:
        nonlocal left
        if left > 0:  # others would be built in vain
            left -= 1
            session.measurer.build_ahead(task, candidate)

    def ask() -> None:
        nonlocal found
        found = task.ctx.choose_candidates(chosen)

    with Profiler.timeit("Search"):
        failure = session.search_failure(task_id, ask)
    found = found and task.claim(found)
    session.budget.searched(session.policy.clock() - start)
    session.empty_rounds = 0 if found else session.empty_rounds + 1
    if not failure and (found is None or session.empty_rounds >= _MOST_EMPTY_ROUNDS):
        failure = task.search.finished = "the search has no more candidates"
    return found or [], failure


def _measure(session: TuningSession, task_id: int, candidates: Candidates) -> RoundResults:
    def tell(phase: str, count: int) -> None:
        session.logger.info("Sending %d sample(s) to %s", count, _MEMBERS[phase])
        session.tell(PhaseChanged(task_id, phase, count))

    task, budget, start = session.tasks[task_id], session.budget, session.policy.clock()
    measured = session.measurer.measure(task, candidates, tell, budget.has_time)
    fresh = len(measured.results) - len(task.round.reused)
    budget.measured(fresh, session.policy.clock() - start)
    return measured


def _learn(
    session: TuningSession, task_id: int, candidates: Candidates, measured: RoundResults
) -> str:
    """Count and keep the results, and tell whoever learns from them; why the task ends, if so."""
    task, results = session.tasks[task_id], measured.results
    some = list(candidates[: len(results)])
    log_trials(task_id, task, some, measured.built, results)
    new = len(results) - task.counts.restored
    task.add_trials(some, results, session.earlier_secs + session.budget.elapsed)
    failure = ""
    if len(results) == len(candidates) or task.round.baselines:
        failure = _end_round(session, task_id, some, measured)
    _call_back(session, task_id, some, measured)
    _report(session, task_id, task, new)
    return failure


def _end_round(
    session: TuningSession, task_id: int, some: list[MeasureCandidate], measured: RoundResults
) -> str:
    """Tell the strategy about a round that is complete."""
    task, results = session.tasks[task_id], measured.results
    notify = partial(task.ctx.notify_runner_results, some, results)
    if task.round.baselines:
        notify = partial(task.ctx.notify_known, some)
    failure = session.search_failure(task_id, notify)
    task.end_round(None if task.round.baselines else funnel_of(task, measured.built, results))
    return failure


def _call_back(
    session: TuningSession, task_id: int, some: list[MeasureCandidate], measured: RoundResults
) -> None:
    policy = session.policy
    for callback in policy.measure_callbacks:
        name = type(callback).__name__
        with Profiler.timeit(f"MeasureCallback/{name}"):
            try:
                callback.apply(policy, task_id, some, measured.built, measured.results)
            except Exception as error:
                if isinstance(callback, AddToDatabase):
                    raise  # measuring on would be in vain
                if isinstance(callback, UpdateCostModel):
                    session.model_failed(error)
                else:
                    session.member_failed(f"measure callback {name}", error, callback)


def _report(session: TuningSession, task_id: int, task: TaskRecord, new_trials: int) -> None:
    """Log a round, and show it to the observers."""
    logger, funnel = session.logger, task.round.funnel
    model: object = session.policy.cost_model
    quality = model.last_quality if isinstance(model, SelfRating) else None
    logger.info('[Updated] Task #%d: "%s"', task_id, task.ctx.task_name)
    if quality is not None:
        logger.info("Cost model: %s", quality)
    if funnel is not None:
        logger.info("Funnel: %s", funnel)
    session.policy.print_tuning_statistics()
    session.tell(RoundMeasured(task_id, new_trials, session.budget.elapsed, quality, funnel))
    if isinstance(session.measurer, Measurer):
        for seen in session.measurer.nodes_seen():
            session.tell(seen)

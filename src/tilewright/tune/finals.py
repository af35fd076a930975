"""Finals: the best candidates of a task are measured once more, against each other.

The best of many noisy figures is often one that was lucky. So at the end of a task its contenders
run again, in turns, on other data, until their order is beyond noise; what they take there is what
their records say from then on. The schedule that was calculated takes part unless it is far slower,
so that what a search ends with is never slower than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tilewright.database import Database, TaskRecords
from tilewright.records import FAILED_RUN_SECS, ZERO_SEARCH, RunnerResult, TuningRecord
from tilewright.tune.measuring import LEAST_HEATS, Measuring
from tilewright.tune.task import TaskRecord

MOST = 5
CLOSE = 1.2  # times what the best takes: a contender takes no longer
CLOSE_SECOND = 2.0  # the second may take longer: the best may have been lucky
SECONDS = 0.5  # for the heats that all contenders run in at least
MOST_ROWS = 12  # of a contender in a heat
_ROW_SECS = 0.00125  # of a fast kernel
# If the contenders as a group are so much slower than before, the machine is disturbed.
_DISTURBED = 1.1
_AHEAD = 0.999  # of the best record that was not in the final: what the winner takes at most


@dataclass(frozen=True)
class Contender:
    """A record, and its result in the final."""

    record: TuningRecord
    result: RunnerResult

    def __str__(self) -> str:
        first = self.record.mean_secs * 1e6
        return f"{_secs(self.result) * 1e6:.4f} us ({first:.4f} us at first)"


def hold_final(task: TaskRecord, measurer: Measuring, seconds: float) -> list[Contender]:
    """Measure the contenders of a task again and correct their records; the best comes first."""
    if task.records is None or not measurer.can_rematch:
        return []
    records, database = _that_fit(_contenders(task.records)), task.records.source
    if len(records) < 2:
        return []
    known = task.records.best(2 * MOST)
    contenders = _measure(task, measurer, records, seconds)
    ran = [c for c in contenders if c.result.run_secs]
    if not ran:
        return []
    scale = scale_of(ran, [r for r in known if all(r is not own for own in records)])

    def keep() -> None:
        for contender in contenders:
            _correct(contender, scale, task, database)

    database.atomically(keep)
    return sorted(ran, key=lambda contender: _secs(contender.result))


def scale_of(ran: Sequence[Contender], others: Iterable[TuningRecord]) -> float:
    """The factor that makes times of the final comparable with those of other records.

    Those keep their first figures, which are as lucky as the contenders' were: who was behind the
    contenders must not overtake the winner only because nobody looked at it again.
    """
    slower = median(_secs(each.result) / each.record.mean_secs for each in ran)
    winner = min(_secs(each.result) for each in ran)
    first = min(each.record.mean_secs for each in ran)
    behind = [record.mean_secs for record in others if record.mean_secs >= first]
    usual = 1 / slower if slower > _DISTURBED else 1.0
    return min([usual, *(_AHEAD * secs / winner for secs in behind)])


def _contenders(records: TaskRecords) -> list[TuningRecord]:
    best = records.best(2 * MOST)[:MOST]
    limits = [CLOSE, CLOSE_SECOND, *[CLOSE] * MOST]
    chosen = [
        record
        for record, limit in zip(best, limits, strict=False)
        if record.mean_secs <= limit * best[0].mean_secs
    ]
    calculated = None if any(r.baseline == ZERO_SEARCH for r in chosen) else _calculated(records)
    if calculated is None or calculated.mean_secs > CLOSE_SECOND * best[0].mean_secs:
        return chosen
    # Behind the best, so that it stays where few have time to run.
    return [*chosen[:1], calculated, *chosen[1 : MOST - 1]]


def _calculated(records: TaskRecords) -> TuningRecord | None:
    """The record of the schedule that needed no search."""
    own = records.source.valid_records(records.workload.mod)
    return next((r for r in own if r.baseline == ZERO_SEARCH and r.is_for(records.target)), None)


def _that_fit(records: Sequence[TuningRecord]) -> Sequence[TuningRecord]:
    """As many of the best as can run in turns in the time; of kernels that take long, none."""
    while records and LEAST_HEATS * _turn_secs(records) > SECONDS:
        records = records[:-1]
    return records


def _turn_secs(records: Sequence[TuningRecord]) -> float:
    return sum(max(record.mean_secs, _ROW_SECS) for record in records)


def _measure(
    task: TaskRecord, measurer: Measuring, records: Sequence[TuningRecord], seconds: float
) -> list[Contender]:
    replayed = [(record, record.as_candidate_or_none()) for record in records]
    found = [(record, candidate) for record, candidate in replayed if candidate is not None]
    candidates = [candidate for _, candidate in found]
    # How many rows each contender has in a heat.
    rows = max(1, min(MOST_ROWS, int(SECONDS / LEAST_HEATS / _turn_secs(records))))
    results = measurer.rematch(task, candidates, rows, seconds)
    return [
        Contender(record, result)
        for (record, _), result in zip(found, results, strict=True)
        if result is not None
    ]


def _correct(contender: Contender, scale: float, task: TaskRecord, database: Database) -> None:
    """Put the result of the final into the record, which keeps its first figures beside it."""
    record, result = contender.record, contender.result
    secs = tuple(secs * scale for secs in result.run_secs or ())
    extra = {
        **record.extra,
        "first_run_secs": record.as_made().plain_secs or [],
        "final_run_secs": list(result.run_secs or ()),
        "final_heat_secs": list(result.heat_secs),
        "final_protocol": result.protocol,
        "checked": result.checked or bool(record.extra.get("checked")),
    }
    corrected = replace(
        record,
        run_secs=secs or (FAILED_RUN_SECS,),
        failure=result.failure,
        error_msg=result.error_msg,
        extra=extra,
    )
    if not database.correct_record(record, corrected):
        return
    trial = record.extra.get("trial")
    is_own = record.extra.get("seed") == task.seed and record.extra.get("run") == task.run
    if is_own and isinstance(trial, int):
        task.counts.correct(trial, secs)


def _secs(result: RunnerResult) -> float:
    assert result.run_secs
    return median(result.run_secs)

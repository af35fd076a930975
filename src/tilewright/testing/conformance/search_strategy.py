"""Checks that every search strategy must pass.

from tilewright.testing.conformance import search_strategy

@pytest.mark.parametrize("check", search_strategy.CHECKS)
def test_conformance(check):
    check(MyStrategy)

Checks take a function that makes the strategy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.base import CostModel
from tilewright.database import MemoryDatabase
from tilewright.errors import TilewrightError
from tilewright.ir import structural_hash
from tilewright.records import (
    CANDIDATE_HASH,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
    args_info_of,
    candidate_hash,
)
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Postproc
from tilewright.testing.conformance.drafts import task_for
from tilewright.testing.conformance.small_programs import small_programs

MakeStrategy = Callable[[], SearchStrategy]
_TRIALS, _BATCH = 10, 4


class FixedModel(CostModel):
    """Scores that follow from the candidate and never change."""

    def load(self, path: str) -> None:
        """Nothing to read."""

    def save(self, path: str) -> None:
        """Nothing to write."""

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        """Nothing to learn."""

    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        return np.array([1.0 / seconds_of(candidate) for candidate in candidates])


class SearchSession:
    """A strategy at work on a small program, with times that follow from the candidate."""

    def __init__(
        self, strategy: SearchStrategy, database: MemoryDatabase | None = None, seed: int = 42
    ) -> None:
        self.strategy = strategy
        self.module = small_programs()["matmul_relu"]
        self.database = MemoryDatabase() if database is None else database
        self.task = task_for(self.module, seed=seed)

    def begin(self, trials: int = _TRIALS, batch: int = _BATCH) -> SearchSession:
        """Call `pre_tuning`."""
        self.strategy._initialize_with_tune_context(self.task)
        assert self.task.space_generator is not None
        spaces = self.task.space_generator.generate_design_space(self.module)
        model = FixedModel()
        self.strategy.pre_tuning(trials, batch, spaces, self.database, model)
        return self

    def batches(self, most: int = 20) -> Iterator[list[MeasureCandidate]]:
        """What the strategy proposes, each batch measured before the next one is asked for."""
        for _ in range(most):
            batch = self.strategy.generate_measure_candidates()
            if batch is None:
                return
            yield batch
            self.tell(batch)
        raise AssertionError(f"the search did not end within {most} batches")

    def tell(self, batch: list[MeasureCandidate]) -> None:
        """Measure a batch, record it, and tell the strategy."""
        results = [RunnerResult((seconds_of(candidate),)) for candidate in batch]
        workload = self.database.commit_workload(self.module)
        for candidate, result in zip(batch, results, strict=True):
            assert candidate.sch.trace is not None
            self.database.commit_tuning_record(
                TuningRecord(
                    candidate.sch.trace,
                    workload,
                    result.run_secs,
                    self.task.target,
                    candidate.args_info,
                    extra={CANDIDATE_HASH: candidate_hash(candidate)},
                )
            )
        self.strategy.notify_runner_results(batch, results)


def seconds_of(candidate: MeasureCandidate) -> float:
    """A time for a candidate that is always the same."""
    return 1e-3 * (1 + structural_hash(candidate.sch.mod) % 997)


def _hashes(batch: list[MeasureCandidate]) -> list[str]:
    return [candidate_hash(candidate) for candidate in batch]


def check_fills_batches(make: MakeStrategy) -> None:
    """Batches have the size that was asked for; the last one only what is left of the trials."""
    sizes = [len(batch) for batch in SearchSession(make()).begin().batches()]
    assert sizes == [4, 4, 2], sizes


def check_candidates_are_finished(make: MakeStrategy) -> None:
    """Candidates are post-processed, know their arguments, and their traces repeat them."""
    session = SearchSession(make()).begin()
    for batch in session.batches():
        for candidate in batch:
            trace = candidate.sch.trace
            assert trace is not None
            assert any(inst.primitive.is_postproc for inst in trace.insts)
            assert candidate.args_info == args_info_of(session.module)
            record = TuningRecord(trace, session.database.commit_workload(session.module))
            again = record.as_measure_candidate()
            assert structural_hash(again.sch.mod) == structural_hash(candidate.sch.mod)


def check_nothing_twice(make: MakeStrategy) -> None:
    """No candidate is proposed twice, nor one that an earlier run measured."""
    database = MemoryDatabase()
    seen: list[str] = []
    for seed in (1, 2):
        for batch in SearchSession(make(), database, seed).begin().batches():
            seen += _hashes(batch)
    assert len(set(seen)) == len(seen)


def check_is_deterministic(make: MakeStrategy) -> None:
    """A seed and the measurements decide everything."""
    runs = [[_hashes(batch) for batch in SearchSession(make()).begin().batches()] for _ in range(2)]
    assert runs[0] == runs[1]


def check_order_of_calls(make: MakeStrategy) -> None:
    """Calls out of order are refused; a search can end at any time and begin again."""
    session = SearchSession(make()).begin()
    spaces = [*session.task.space_generator.generate_design_space(session.module)]  # type: ignore[union-attr]
    arguments = (_TRIALS, _BATCH, spaces, session.database, FixedModel())
    _refuses(lambda: session.strategy.pre_tuning(*arguments))
    session.strategy.post_tuning()
    session.strategy.post_tuning()
    _refuses(session.strategy.generate_measure_candidates)
    session.strategy.pre_tuning(*arguments)
    assert session.strategy.generate_measure_candidates()


def _refuses(call: Callable[[], Any]) -> None:
    try:
        call()
    except TilewrightError:
        return
    raise AssertionError("a call out of order must raise an error of ours")


class _Broken(Postproc):
    def apply(self, sch: Any) -> bool:
        raise RuntimeError("a post-processor with a bug")


def check_survives_broken_members(make: MakeStrategy) -> None:
    """A post-processor that raises rejects its candidates; the search ends, it does not raise."""
    session = SearchSession(make())
    assert session.task.space_generator is not None
    session.task.space_generator.postprocs = [_Broken()]
    assert not [batch for batch in session.begin().batches() if batch]


def check_goes_on_from_its_state(make: MakeStrategy) -> None:
    """A search that is restored proposes again what was not measured, then the same as before."""
    whole = [_hashes(batch) for batch in SearchSession(make()).begin().batches()]
    session = SearchSession(make()).begin()
    first = session.strategy.generate_measure_candidates()
    assert first is not None
    session.tell(first)
    session.strategy.generate_measure_candidates()
    state = json.loads(json.dumps(session.strategy.state_dict()))
    if not state:
        return
    resumed = SearchSession(make(), session.database).begin()
    resumed.strategy.load_state_dict(state)
    rest = [_hashes(batch) for batch in resumed.batches()]
    assert [_hashes(first), *rest] == whole


def check_clone(make: MakeStrategy) -> None:
    """A clone is another strategy with the same settings, ready for another task."""
    strategy = make()
    runs = [
        [_hashes(batch) for batch in SearchSession(one).begin().batches()]
        for one in (strategy.clone(), strategy)
    ]
    assert strategy.clone() is not strategy
    assert runs[0] == runs[1]


CHECKS: tuple[Callable[[MakeStrategy], None], ...] = (
    check_fills_batches,
    check_candidates_are_finished,
    check_nothing_twice,
    check_is_deterministic,
    check_order_of_calls,
    check_survives_broken_members,
    check_goes_on_from_its_state,
    check_clone,
)

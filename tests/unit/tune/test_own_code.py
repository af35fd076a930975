"""Members of the user's own that raise: the run stops at once and shows their line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model.random_model import RandomModel
from tilewright.database import Database, MemoryDatabase
from tilewright.errors import MemberError, ScheduleError
from tilewright.measure import FunctionFuture
from tilewright.records import FailureKind, RunnerFuture, RunnerInput
from tilewright.schedule import BlockRV, Schedule, Trace
from tilewright.search import EvolutionarySearch
from tilewright.space.base import Mutator, Postproc, ScheduleRule
from tilewright.space.generators import PostOrderApply, ScheduleFn, SpaceGeneratorUnion
from tilewright.space.tvm import auto_inline
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune import tune_tir
from tilewright.tune.callbacks import AddToDatabase, MeasureCallback
from tilewright.tune.events import Event, MemberFailed
from tilewright.tune.policy import RoundRobin


def oops() -> Any:
    """A bug of the user's."""
    raise LookupError("oops")


class BadRule(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        return list(oops())


class BadPostproc(Postproc):
    def apply(self, sch: Schedule) -> bool:
        return bool(oops())


class BadMutator(Mutator):
    def apply(self, trace: Trace, seed: int) -> Trace | None:
        oops()
        return None


class BadPredictions(RandomModel):
    def predict(self, *args: Any) -> npt.NDArray[np.float64]:
        return np.asarray(oops())


class BadLessons(RandomModel):
    def update(self, *args: Any) -> None:
        oops()


class BadSearch(EvolutionarySearch):
    def generate_measure_candidates(self) -> Any:
        oops()


class BadCallback(MeasureCallback):
    def apply(self, *args: Any) -> None:
        oops()


class BadScheduler(RoundRobin):
    def next_task_id(self) -> int:
        return int(oops())


class BadBuilder(FakeBuilder):
    def build(self, build_inputs: Any) -> Any:
        oops()


class BadRunner(FakeRunner):
    def run(self, runner_inputs: Any) -> Any:
        oops()


class BadResults(FakeRunner):
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [FunctionFuture(lambda: True, oops) for _ in runner_inputs]


class BadDatabase(MemoryDatabase):
    def commit_tuning_record(self, record: Any) -> None:
        oops()


def bad_function(sch: Schedule) -> None:
    oops()


def with_members(**members: Any) -> ScheduleFn:
    chosen: dict[str, Any] = {"sch_rules": [], "postprocs": [], "mutator_probs": {}, **members}
    return ScheduleFn(tile_all, **chosen)


def rules(*chosen: ScheduleRule) -> PostOrderApply:
    return PostOrderApply(None, list(chosen), [], {})


def small_search() -> EvolutionarySearch:
    return EvolutionarySearch(population_size=8, genetic_num_iters=1, init_min_unmeasured=2)


def tune(**options: Any) -> Database:
    defaults: dict[str, Any] = {
        "builder": FakeBuilder(),
        "runner": FakeRunner(),
        "space": tile_all,
        "strategy": small_search(),
        "cost_model": RandomModel(seed=1),
        "seed": 7,
        "console": False,
    }
    return tune_tir(
        matmul,
        "llvm -num-cores=2",
        max_trials_global=8,
        num_trials_per_iter=4,
        **{**defaults, **options},
    )


def bad_observer(event: Event) -> None:
    oops()


# What is wrong, how it is named, and whether a run can go on without it.
BAD: dict[str, tuple[Callable[[], dict[str, Any]], str, bool]] = {
    "rule": (
        lambda: {"space": SpaceGeneratorUnion([rules(BadRule()), with_members()], [], [], {})},
        "schedule rule BadRule at block 'root'",
        True,
    ),
    "postproc": (
        lambda: {"space": with_members(postprocs=[BadPostproc()])},
        "post-processor BadPostproc",
        False,  # it rejects every candidate
    ),
    "mutator": (
        lambda: {"space": with_members(mutator_probs={BadMutator(): 1.0})},
        "mutator BadMutator",
        True,
    ),
    "predict": (lambda: {"cost_model": BadPredictions(seed=1)}, "cost model BadPredictions", True),
    "update": (lambda: {"cost_model": BadLessons(seed=1)}, "cost model BadLessons", True),
    "strategy": (lambda: {"strategy": BadSearch()}, "the search strategy of task 'main'", False),
    "callback": (
        lambda: {"measure_callbacks": [AddToDatabase(), BadCallback()]},
        "measure callback BadCallback",
        True,
    ),
    "observer": (lambda: {"observers": [bad_observer]}, "an observer of the tuning", True),
    "function": (
        lambda: {"space": bad_function},
        "the search space or strategy of task 'main'",
        False,
    ),
    "function of a union": (
        lambda: {
            "space": SpaceGeneratorUnion(
                [ScheduleFn(bad_function, [], [], {}), with_members()], [], [], {}
            )
        },
        "space generator ScheduleFn",
        True,
    ),
    "drawn function": (
        lambda: {"space": FailsLater(), "strategy": "replay-func"},
        "space generator FailsLater",
        False,
    ),
    "builder": (lambda: {"builder": BadBuilder()}, "builder BadBuilder", True),
    "runner": (lambda: {"runner": BadRunner()}, "runner BadRunner", True),
    "future": (lambda: {"runner": BadResults()}, "runner BadResults", True),
    "task scheduler": (lambda: {"task_scheduler": BadScheduler()}, "code of your own", False),
    "database": (lambda: {"database": BadDatabase()}, "code of your own", False),
}


class FailsLater(ScheduleFn):
    """Makes a space once, and fails when it is asked again."""

    def __init__(self) -> None:
        super().__init__(tile_all, [], [], {})
        self.made = 0

    def generate_design_space(self, mod: Any) -> list[Schedule]:
        self.made += 1
        return super().generate_design_space(mod) if self.made == 1 else list(oops())


@pytest.mark.parametrize("name", BAD)
def test_the_run_stops_with_the_users_line(name: str) -> None:
    make, who, _ = BAD[name]
    with pytest.raises(MemberError) as caught:
        tune(**make())
    text = str(caught.value)
    assert text.startswith(f"{who} failed: LookupError: oops\n")
    assert f'File "{__file__}", line ' in text
    assert 'raise LookupError("oops")' in text
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("name", [name for name, (_, _, can_go_on) in BAD.items() if can_go_on])
def test_a_run_that_keeps_going_shows_it_once(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, who, _ = BAD[name]
    database = tune(**make(), keep_going=True)
    assert len(database) == 8
    if name == "observer":  # which is to show it
        return
    told = capsys.readouterr().err
    assert told.count(f"{who} failed: LookupError: oops\n") == 1
    assert told.count('raise LookupError("oops")') == told.count("it is skipped")


def test_observers_are_told_instead_and_the_log_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[Event] = []
    tune(
        measure_callbacks=[AddToDatabase(), BadCallback()],
        observers=[events.append],
        keep_going=True,
        work_dir=tmp_path,
    )
    (told,) = [event.message for event in events if isinstance(event, MemberFailed)]
    assert told.startswith("measure callback BadCallback failed: LookupError: oops")
    assert capsys.readouterr().err == ""
    assert told in (tmp_path / "logs" / "tilewright.tune.task_scheduler.log").read_text()


def test_the_console_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    tune(measure_callbacks=[AddToDatabase(), BadCallback()], console=True, keep_going=True)
    assert capsys.readouterr().out.count("measure callback BadCallback failed: LookupError") == 1


def test_what_was_measured_before_is_kept() -> None:
    class Late(FakeRunner):
        def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
            return list(oops()) if len(self.ran) == 6 else super().run(runner_inputs)

    database = MemoryDatabase()
    with pytest.raises(MemberError, match="runner Late failed: LookupError: oops"):
        tune(database=database, runner=Late())
    assert len(database) == 6


def test_candidates_that_a_runner_failed_at_are_failures() -> None:
    records = tune(runner=BadRunner(), keep_going=True).get_all_tuning_records()
    assert {record.failure for record in records} == {FailureKind.RUN_ERROR}
    assert {r.error_msg for r in records} == {"runner BadRunner failed: LookupError: oops"}


def test_a_candidate_that_a_postproc_cannot_schedule_is_only_rejected() -> None:
    class Picky(Postproc):
        turn = 0

        def apply(self, sch: Schedule) -> bool:
            self.turn += 1
            if self.turn % 2:
                raise ScheduleError("not this one")
            return True

    assert len(tune(space=with_members(postprocs=[Picky()]))) == 8


def test_bugs_of_ours_are_survived(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(auto_inline, "is_root", None)  # a rule of ours fails at every block
    assert len(tune(space="llvm")) == 8
    assert capsys.readouterr().err == ""

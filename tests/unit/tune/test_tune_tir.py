# mypy: disable-error-code="valid-type, no-untyped-def"
"""`tune_tir`, `tune_tasks`, `tune_te`, `compile_tir` with fakes: options, seeds, files, logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.database import Database, JSONDatabase, MemoryDatabase, SQLiteDatabase
from tilewright.errors import TuneError
from tilewright.ir import IRModule, PrimFunc, replace, structural_equal
from tilewright.records import FailureKind, normalize_mod
from tilewright.script import tir as T
from tilewright.search import DefaultSearch, EvolutionarySearch, ReplayTrace
from tilewright.space.generators import DefaultSpace, PostOrderApply, ScheduleFn
from tilewright.target import Target
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, nothing, tile_all, tile_two
from tilewright.tune import TuneContext, compile_tir, tune_tasks, tune_te, tune_tir
from tilewright.tune.events import Event, RoundMeasured, TuningStarted
from tilewright.tune.module_tasks import make_strategy
from tilewright.tune.options import TuneOptions
from tilewright.tune.policy import RoundRobin
from tilewright.tune.task import TaskRecord


@T.prim_func
def add_one(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    for i in range(64):
        with T.block("add"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + 1.0


def split_add(sch: Any) -> None:
    (loop,) = sch.get_loops(sch.get_block("add"))
    sch.split(loop, sch.sample_perfect_tile(loop, n=2))


def named(func: PrimFunc, name: str) -> PrimFunc:
    return replace(func, attrs={**func.attrs, "global_symbol": name})


TARGET = "llvm -num-cores=2"
QUICK: dict[str, Any] = {"strategy": "replay-trace", "cost_model": None, "console": False}


def tune(mod: Any, trials: int = 4, **options: Any) -> Database:
    fakes = {"builder": FakeBuilder(), "runner": FakeRunner()}
    return tune_tir(mod, TARGET, max_trials_global=trials, **{**QUICK, **fakes, **options})


def tasks_of(mod: Any, **options: Any) -> list[TaskRecord]:
    events: list[Event] = []
    tune(mod, observers=[events.append], **options)
    (started,) = [event for event in events if isinstance(event, TuningStarted)]
    return list(started.tasks)


# --- tasks --------------------------------------------------------------------------------------


def test_a_task_for_each_function_by_name() -> None:
    mod = IRModule({"z": matmul, "a": add_one})
    tasks = tasks_of(mod, special_space={"z": tile_two, "a": split_add})
    assert [task.ctx.task_name for task in tasks] == ["a", "z"]
    assert [task.task_weight for task in tasks] == [1.0, 1.0]


def test_special_spaces() -> None:
    mod = IRModule({"product": matmul, "sum": add_one})
    tasks = tasks_of(mod, space=tile_two, special_space={"sum": None})
    assert [task.ctx.task_name for task in tasks] == ["product"]


def test_equal_functions_are_one_task() -> None:
    mod = IRModule({name: matmul for name in ("c", "a", "b")} | {"d": named(matmul, "d")})
    tasks = tasks_of(mod, space=tile_two, trials=6)
    assert [(task.ctx.task_name, task.task_weight) for task in tasks] == [("a", 3.0), ("d", 1.0)]


def test_seeds_follow_from_one() -> None:
    """As in TVM: one number below 2**30 for each task, from NumPy's generator."""
    mod = IRModule({"a": matmul, "b": named(matmul, "b")})
    tasks = tasks_of(mod, space=tile_two, seed=17)
    drawn = np.random.RandomState(17).randint(1, 2**30, 2)
    assert [task.seed for task in tasks] == drawn.tolist()


def test_the_same_seed_measures_the_same() -> None:
    def traces(seed: int) -> list[str]:
        database = tune(matmul, space=tile_all, seed=seed)
        return [str(record.trace) for record in database.get_all_tuning_records()]

    assert traces(1) == traces(1)
    assert traces(1) != traces(2)


def test_members_that_are_given_are_copied_for_each_task() -> None:
    strategy, space = ReplayTrace(), ScheduleFn(tile_two, [], [], {})
    mod = IRModule({"a": matmul, "b": named(matmul, "b")})
    tasks = tasks_of(mod, strategy=strategy, space=space)
    members = [(task.ctx.search_strategy, task.ctx.space_generator) for task in tasks]
    assert len({id(each) for pair in members for each in (*pair, strategy, space)}) == 6


def test_weights_of_tasks() -> None:
    context = TuneContext(
        matmul, target=TARGET, space_generator=tile_two, search_strategy="replay-trace"
    )
    events: list[Event] = []
    tune_tasks(
        tasks=[context], task_weights=[3], max_trials_global=2, builder=FakeBuilder(),
        runner=FakeRunner(), cost_model=None, console=False, observers=[events.append],
    )  # fmt: skip
    (started,) = [event for event in events if isinstance(event, TuningStarted)]
    assert [task.task_weight for task in started.tasks] == [3.0]


def test_records_of_a_module_given_as_it_is_are_found() -> None:
    module = IRModule({"main": matmul})
    context = TuneContext(
        module, target=TARGET, space_generator=tile_two, search_strategy="replay-trace"
    )
    database = tune_tasks(
        tasks=[context], task_weights=[1], max_trials_global=2, builder=FakeBuilder(),
        runner=FakeRunner(), cost_model=None, console=False,
    )  # fmt: skip
    best = database.query_ir_module(module, Target(TARGET), "main")
    assert best is not None
    assert structural_equal(database.scheduled(module, Target(TARGET)), best)


def test_tasks_need_weights() -> None:
    context = TuneContext(matmul, target=TARGET, space_generator=nothing)
    with pytest.raises(TuneError, match="there are no tasks to tune; give at least one"):
        tune_tasks(tasks=[], task_weights=[], max_trials_global=1)
    with pytest.raises(TuneError, match="1 tasks have 2 weights; give one for each"):
        tune_tasks(tasks=[context], task_weights=[1.0, 2.0], max_trials_global=1)


def test_tasks_need_a_program_and_a_target() -> None:
    with pytest.raises(
        TuneError, match=r"task 'main' has no program \(mod\); give TuneContext one"
    ):
        tune_tasks(tasks=[TuneContext()], task_weights=[1.0], max_trials_global=1)
    with pytest.raises(TuneError, match=r"task 'x' has no target; give TuneContext one"):
        tune_tasks(
            tasks=[TuneContext(matmul, task_name="x")], task_weights=[1.0], max_trials_global=1
        )


def test_a_scheduler_of_the_user_may_be_used_again() -> None:
    events: list[Event] = []
    scheduler, observer = RoundRobin(), events.append
    for seed in range(2):
        tune(matmul, space=tile_two, task_scheduler=scheduler, observers=[observer], seed=seed)
    assert sum(isinstance(event, TuningStarted) for event in events) == 2


def test_a_tensor_expression() -> None:
    a = te.placeholder((16,), "float32", name="A")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="B")
    events: list[Event] = []
    fakes: dict[str, Any] = {"builder": FakeBuilder(), "runner": FakeRunner()}
    database = tune_te(
        [a, b], TARGET, max_trials_global=2, observers=[events.append], **QUICK, **fakes
    )
    assert isinstance(database, MemoryDatabase)
    assert any(isinstance(event, RoundMeasured) for event in events)


# --- limits and strategies ----------------------------------------------------------------------


def test_small_rounds_at_first() -> None:
    def size(trials: int | None, per_iter: int | None = None, budget: float | None = None) -> int:
        options = TuneOptions(
            max_trials_global=trials, num_trials_per_iter=per_iter, budget_secs=budget
        )
        return options.round_trials

    assert [size(n) for n in (4, 32, 64, 200, 256, 2000)] == [8, 8, 16, 50, 64, 64]
    assert size(64, 10) == 10
    assert size(None, budget=60.0) == 16


def test_our_own_space_needs_a_small_population() -> None:
    small = make_strategy("evolutionary", "tilewright")
    assert isinstance(small, EvolutionarySearch)
    assert small.population_size == 48
    assert isinstance(make_strategy("evolutionary", DefaultSpace()), EvolutionarySearch)
    own = PostOrderApply(sch_rules="kernels", postprocs="kernels", mutator_probs="kernels")
    assert isinstance(make_strategy("evolutionary", own), EvolutionarySearch)
    assert make_strategy("evolutionary", "post-order-apply") == "evolutionary"
    default = make_strategy("default", "tilewright")
    assert isinstance(default, DefaultSearch)
    assert default.settings()["genetic_num_iters"] == small.genetic_num_iters
    assert make_strategy("default", "post-order-apply") == "default"
    assert make_strategy("evolutionary", PostOrderApply(sch_rules="kernels")) == "evolutionary"
    assert make_strategy("replay-trace", "tilewright") == "replay-trace"
    given = ReplayTrace()
    copied = make_strategy(given, "tilewright")
    assert isinstance(copied, ReplayTrace)
    assert copied is not given


# --- recorded measurements ----------------------------------------------------------------------


def test_a_search_against_recorded_measurements() -> None:
    """The same seed goes the same way: nothing that it asks for is missing."""
    options: dict[str, Any] = {"space": tile_all, "seed": 4, "num_trials_per_iter": 4}
    recorded = tune(matmul, 16, **options)
    found = tune_tir(
        matmul, TARGET, max_trials_global=16, database=recorded, runner="replay", **QUICK, **options
    )
    assert found is not recorded
    assert len(recorded) == 16
    pairs = [
        [(str(record.trace), record.run_secs) for record in database.get_all_tuning_records()]
        for database in (recorded, found)
    ]
    assert pairs[0] == pairs[1]


def test_what_was_not_recorded_fails() -> None:
    recorded = tune(matmul, 4, space=tile_all, seed=4)
    found = tune_tir(
        matmul, TARGET, max_trials_global=4, database=recorded, runner="replay", space=tile_all,
        seed=5, **QUICK,
    )  # fmt: skip
    errors = {record.error_msg for record in found.get_all_tuning_records()}
    assert errors == {"ReplayRunner: this program was not measured in the recorded run"}


# --- databases and files ------------------------------------------------------------------------


def test_databases_by_name(tmp_path: Path) -> None:
    kinds: dict[str, type[Database]] = {"sqlite": SQLiteDatabase, "json": JSONDatabase}
    for name, kind in kinds.items():
        database = tune(matmul, space=tile_two, database=name, work_dir=tmp_path / name)
        assert isinstance(database, kind)
        assert len(database) == 4
        database.close()
    assert (tmp_path / "sqlite" / "tilewright.db").exists()
    assert (tmp_path / "json" / "database_tuning_record.json").exists()
    assert isinstance(tune(matmul, space=tile_two), MemoryDatabase)


def test_files_of_tvm_resume_too(tmp_path: Path) -> None:
    runners = [FakeRunner(), FakeRunner()]
    for runner in runners:
        tune(matmul, 6, space=tile_all, database="json", work_dir=tmp_path, runner=runner, seed=1)
    assert [len(runner.ran) for runner in runners] == [6, 0]


def test_a_run_is_in_the_history(tmp_path: Path) -> None:
    database = tune(IRModule({"a": matmul, "b": named(matmul, "b")}), space=tile_two, seed=1)
    (run,) = database.history.runs()
    assert (run.name, run.status, run.target) == ("a, b", "finished", str(Target(TARGET)))
    assert run.seed == 1  # as it was given, so that it can be given again
    assert run.options == {"max_trials": 4, "budget_secs": None}
    assert run.finished is not None


def test_the_best_schedule_comes_back() -> None:
    database = tune(matmul, 12, space=tile_all)
    sch = compile_tir(database, matmul, TARGET)
    assert sch is not None
    (workload,) = database.workloads()
    (best,) = database.get_top_k(workload, 1)
    assert str(sch.trace) == str(best.trace)
    assert compile_tir(database, add_one, TARGET) is None
    record = database.query_tuning_record(normalize_mod(matmul), Target(TARGET), "main")
    assert record is not None
    assert record.mean_secs == best.mean_secs


def test_logs_tell_what_happened(tmp_path: Path) -> None:
    tune(IRModule({"product": matmul}), 5, space=tile_two, work_dir=tmp_path, seed=3,
         num_trials_per_iter=4)  # fmt: skip
    log = (tmp_path / "logs" / "tilewright.tune.task_scheduler.log").read_text()
    messages = [line.split("] ", 1)[1] for line in log.splitlines() if "[INFO]" in line]
    kept = [line for line in messages if not line.startswith(("Funnel", "Logging", "Cost"))]
    assert [line for line in kept if line] == [
        'Initializing Task #0: "product"',
        'TaskScheduler picks Task #0: "product"',
        "Sending 4 sample(s) to builder",
        "Sending 4 sample(s) to runner",
        '[Updated] Task #0: "product"',
        'TaskScheduler picks Task #0: "product"',
        "Sending 1 sample(s) to builder",
        "Sending 1 sample(s) to runner",
        '[Updated] Task #0: "product"',
        "Task #0 has finished (all trials are done). Remaining task(s): 0",
    ]
    assert log.count("Weighted Latency (us)") == 2
    assert "Total trials: 5" in log


def test_the_log_of_a_task_has_every_trial(tmp_path: Path) -> None:

    runner = FakeRunner(lambda shash: FailureKind.CRASH if shash % 2 else None)
    builder = FakeBuilder(lambda shash: FailureKind.BUILD_ERROR if shash % 3 == 0 else None)
    database = tune(
        IRModule({"product": matmul}), 12, space=tile_two, work_dir=tmp_path, seed=3,
        runner=runner, builder=builder,
    )  # fmt: skip
    log = (tmp_path / "logs" / "tilewright.tune.task_0_product.log").read_text()
    assert "Total 1 design space(s) generated" in log
    assert "Design space #0:" in log
    good = re.findall(
        r"\[Task #0: product\] Trial #(\d+): GFLOPs: [\d.]+\. Time: [\d.]+ us\. "
        r"Best GFLOPs: ([\d.]+)\n",
        log,
    )
    bad = re.findall(r"\[Task #0: product\] Trial #(\d+): Error in (building|running):\nfake", log)
    assert len(good) + len(bad) == len(database) == 12
    assert {what for _, what in bad} == {"building", "running"}
    bests = [float(best) for _, best in good]
    assert bests == sorted(bests)
    assert log.count("sample_perfect_tile") >= 12


def test_the_console_shows_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    tune(matmul, space=tile_two, console=True)
    out = capsys.readouterr().out
    assert "[INFO] TaskScheduler picks Task #0" in out
    assert "Speed (GFLOPS)" in out


def test_ranking_quality_is_told(tmp_path: Path) -> None:
    events: list[Event] = []
    tune(matmul, 16, space=tile_all, cost_model="gbdt", work_dir=tmp_path, num_trials_per_iter=8,
         observers=[events.append])  # fmt: skip
    rounds = [event for event in events if isinstance(event, RoundMeasured)]
    assert [event.quality is not None for event in rounds] == [True, True]
    quality = rounds[0].quality
    assert quality is not None
    assert 0.0 <= quality.pairwise_accuracy <= 1.0
    assert 0.0 <= quality.top_k_recall <= 1.0
    log = (tmp_path / "logs" / "tilewright.tune.task_scheduler.log").read_text()
    assert len(re.findall(r"\[INFO\] Cost model: \d+% of pairs ranked right, \d+% of", log)) == 2

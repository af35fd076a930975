"""Arguments, builders, runners, futures and records, used as scripts for TVM use them."""

from __future__ import annotations

import itertools
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import meta_schedule as ms
from tilewright.errors import MemberError, TuneError
from tilewright.ir import structural_equal, structural_hash
from tilewright.meta_schedule.testing import dummy_object, tune_utils
from tilewright.runtime import register_func, remove_global_func
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.small_search import MODULE, matmul, tile_all

INFO = [ms.arg_info.TensorInfo("float32", (32, 32)) for _ in range(3)]
ONCE = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0, enable_cpu_cache_flush=False)
HOOK = "test.measuring_names"


# --- arguments ----------------------------------------------------------------------------------


def test_types_of_arguments() -> None:
    arg_info = ms.arg_info.ArgInfo
    assert list(arg_info.from_prim_func(matmul)) == INFO
    assert list(arg_info.from_entry_func(MODULE, remove_preproc=True)) == INFO
    assert arg_info.from_json(json_obj=["TENSOR", "float32", [32, 32]]) == INFO[0]


def test_shapes_may_be_lists() -> None:
    made = ms.arg_info.TensorInfo(dtype="int8", shape=[4, np.int64(2)])  # type: ignore[arg-type]
    assert made.shape == (4, 2)
    assert made.as_json() == ["TENSOR", "int8", [4, 2]]
    assert hash(made) == hash(ms.arg_info.TensorInfo("int8", (4, 2)))


# --- builders -----------------------------------------------------------------------------------


@pytest.fixture
def hook() -> Iterator[str]:
    yield HOOK
    remove_global_func(HOOK)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    builder = ms.builder.LocalBuilder(max_workers=1)
    (result,) = builder.build([ms.builder.BuilderInput(MODULE, Target("llvm"))])
    assert result.error_msg is None
    assert result.artifact_path is not None
    yield result.artifact_path
    builder.close()


def fails(*args: Any) -> Any:
    raise ValueError("meant to fail")


def sleeps(*args: Any) -> Any:
    time.sleep(3)


@pytest.mark.parametrize("option", ["f_build", "f_export"])
def test_hooks_of_a_builder_that_raise(hook: str, option: str) -> None:
    options: dict[str, Any] = {option: hook}
    builder = ms.builder.LocalBuilder(
        initializer=lambda: register_func(hook, fails, override=True), **options
    )
    (result,) = builder.build([ms.builder.BuilderInput(MODULE, Target("llvm"))])
    assert result.artifact_path is None
    assert str(result.error_msg).startswith("LocalBuilder: An exception occurred")
    assert "meant to fail" in str(result.error_msg)


def test_a_hook_of_a_builder_that_does_not_end(hook: str) -> None:
    builder = ms.builder.LocalBuilder(
        timeout_sec=1, f_build=hook, initializer=lambda: register_func(hook, sleeps, override=True)
    )
    (result,) = builder.build([ms.builder.BuilderInput(MODULE, Target("llvm"))])
    assert result.artifact_path is None
    assert str(result.error_msg).startswith("LocalBuilder: Timeout")


def test_hooks_that_are_not_registered() -> None:
    with pytest.raises(ValueError, match="wrong-name"):
        ms.builder.LocalBuilder(f_build="wrong-name")


def test_the_default_functions_of_a_builder_do_its_work(tmp_path: Path) -> None:
    def build(mod: Any, target: Any, params: Any) -> Any:
        return ms.builder.default_build(mod, target, params)

    builder = ms.builder.LocalBuilder(f_build=build, f_export=ms.builder.default_export)
    (result,) = builder.build([ms.builder.BuilderInput(MODULE, Target("llvm"))])
    path = str(result.artifact_path)
    assert run_once(ms.runner.LocalRunner(evaluator_config=ONCE), path).error_msg is None
    clean = ms.utils.get_global_func_with_default_on_worker("meta_schedule.remove_build_dir", print)
    clean(path)
    assert not os.path.exists(os.path.dirname(path))


def test_which_function_a_hook_means() -> None:
    find = ms.utils.get_global_func_with_default_on_worker
    assert find(None, print) is print
    assert find(sleeps, print) is sleeps
    with pytest.raises(ValueError, match="no such function"):
        find("no such function", print)


# --- runners ------------------------------------------------------------------------------------


def run_once(runner: Any, path: str) -> Any:
    (future,) = runner.run([ms.runner.RunnerInput(path, "llvm", INFO)])  # type: ignore[arg-type]
    assert future.done()
    return future.result()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, "LocalRunner: An exception occurred\n"),
        (sleeps, "LocalRunner: Timeout, killed after"),
    ],
)
def test_hooks_of_a_runner_that_fail(hook: str, artifact: str, function: Any, message: str) -> None:
    runner = ms.runner.LocalRunner(
        timeout_sec=1,
        evaluator_config=ONCE,
        f_alloc_argument=hook,
        initializer=lambda: register_func(hook, function, override=True),
    )
    result = run_once(runner, artifact)
    assert result.run_secs is None
    assert result.error_msg.startswith(message)


def test_hooks_of_a_runner_that_add_to_the_default_ones(artifact: str) -> None:
    before: list[Any] = []
    cleaned: list[int] = []

    def allocate(device: Any, args_info: Any, alloc_repeat: int) -> Any:
        sets = ms.runner.default_alloc_argument(device, args_info, alloc_repeat)
        before.extend([array.numpy().copy() for array in args] for args in sets)
        return sets

    def run(rt_mod: Any, device: Any, evaluator_config: Any, repeated_args: Any) -> Any:
        secs = ms.runner.default_run_evaluator(rt_mod, device, evaluator_config, repeated_args)
        for (a, b, _), args in zip(before, repeated_args, strict=True):
            np.testing.assert_allclose(args[2].numpy(), a @ b, rtol=1e-4, atol=1e-4)
        return secs

    runner = ms.runner.LocalRunner(
        evaluator_config=ms.runner.EvaluatorConfig(1, 3, 0),
        alloc_repeat=2,
        f_alloc_argument=allocate,
        f_run_evaluator=run,
        f_cleanup=lambda: cleaned.append(1),
    )
    result = run_once(runner, artifact)
    assert result.error_msg is None
    assert len(result.run_secs) == 6
    assert cleaned


def test_a_runner_that_times_with_the_module(artifact: str) -> None:
    def run(rt_mod: Any, device: Any, evaluator_config: Any, repeated_args: Any) -> list[float]:
        evaluator = rt_mod.time_evaluator(
            func_name=rt_mod.entry_name,
            dev=device,
            number=evaluator_config.number,
            repeat=evaluator_config.repeat,
            min_repeat_ms=evaluator_config.min_repeat_ms,
            f_preproc="",
        )
        device.sync()
        costs = [evaluator(*args).results for args in repeated_args]
        return [float(cost) for cost in itertools.chain.from_iterable(costs)]

    runner = ms.runner.LocalRunner(evaluator_config=ONCE, f_run_evaluator=run)
    assert run_once(runner, artifact).error_msg is None


def test_futures() -> None:
    result = ms.runner.RunnerResult([1.0], None)  # type: ignore[arg-type]
    made = ms.runner.RunnerFuture(f_done=lambda: True, f_result=lambda: result)
    assert made.done()
    assert made.result().run_secs == (1.0,)

    @ms.derived_object
    class Future(ms.runner.PyRunnerFuture):
        def done(self) -> bool:
            return True

        def result(self) -> Any:
            return result

    assert Future().result() is result
    dummy = dummy_object.DummyRunner().run([None, None])  # type: ignore[list-item]
    assert all(each.done() and each.result().run_secs for each in dummy)


# --- records ------------------------------------------------------------------------------------


def record(database: Any, *secs: float) -> Any:
    sch = Schedule(MODULE)
    tile_all(sch)
    workload = database.commit_workload(MODULE)
    info = ms.arg_info.ArgInfo.from_prim_func(matmul)
    made = ms.database.TuningRecord(
        sch.trace,  # type: ignore[arg-type]
        workload,
        list(secs),  # type: ignore[arg-type]
        Target("llvm -num-cores=2"),
        info,
    )
    database.commit_tuning_record(made)
    return made


def test_a_workload_knows_its_hash() -> None:
    workload = ms.database.Workload(MODULE)
    assert workload.shash == structural_hash(MODULE)
    again = ms.database.Workload.from_json(workload.as_json())
    assert (again.shash, structural_equal(again.mod, MODULE)) == (workload.shash, True)


@pytest.mark.parametrize("kind", ["memory", "json", "sqlite"])
def test_times_of_records_have_values(kind: str, tmp_path: Path) -> None:
    options = {} if kind == "memory" else {"work_dir": str(tmp_path)}
    database = ms.database.create(kind, **options)
    for secs in ([1.5, 4.5], [], [0.0, 2.0], [2.0], [3.0, 1e10], [1e10]):
        record(database, *secs)
    best = database.get_top_k(database.commit_workload(MODULE), 5)
    times = [[secs.value for secs in each.run_secs] for each in best]  # type: ignore[union-attr]
    assert times == [[0.0, 2.0], [2.0], [1.5, 4.5], [3.0, 1e10]]
    assert best[0].as_json()[1] == [0.0, 2.0]
    assert {type(secs) for secs in best[0].as_json()[1]} == {float}


def test_a_database_of_ones_own() -> None:
    @ms.derived_object
    class Lists(ms.database.PyDatabase):
        def __init__(self) -> None:
            super().__init__()
            self.records: list[Any] = []
            self.known: list[Any] = []

        def has_workload(self, mod: Any) -> bool:
            return any(structural_equal(mod, each.mod) for each in self.known)

        def commit_workload(self, mod: Any) -> Any:
            if not self.has_workload(mod):
                self.known.append(ms.database.Workload(mod))
            return next(each for each in self.known if structural_equal(mod, each.mod))

        def commit_tuning_record(self, record: Any) -> None:
            self.records.append(record)

        def get_all_tuning_records(self) -> list[Any]:
            return self.records

        def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
            return sorted(self.records, key=lambda each: each.mean_secs)[:top_k]

        def __len__(self) -> int:
            return len(self.records)

    database, cpu = Lists(), Target("llvm -num-cores=2")
    assert database.query_tuning_record(MODULE, cpu, "main") is None
    record(database, 2.0)
    best = record(database, 1.0)
    assert database.query_tuning_record(MODULE, cpu, "main") is best
    assert database.query_schedule(MODULE, cpu, "main") is not None
    assert database.query_ir_module(MODULE, cpu, "main") is not None
    with database:
        assert ms.Database.current() is database


# --- the rest -----------------------------------------------------------------------------------


def test_profilers() -> None:
    assert ms.Profiler.current() is None
    with ms.Profiler() as outer, ms.Profiler.timeit("step"):
        assert ms.Profiler.current() is outer
        with ms.Profiler() as inner:
            assert ms.Profiler.current() is inner
    assert ms.Profiler.current() is None
    assert set(outer.get()) == {"Total", "step"}


def test_input_data() -> None:
    np.random.seed(0)
    make = tune_utils.generate_input_data
    floats = make([3, 4], "float32")
    assert (floats.shape, floats.dtype) == ((3, 4), np.float32)
    assert 0 <= floats.min() <= floats.max() < 1
    assert make([1000], "int8").min() < 0
    assert set(make([100], "int64", low=3, high=5)) == {3, 4}
    with pytest.raises(TuneError, match="'int16' has no usual range; give low and high"):
        make([1], "int16")
    with pytest.raises(TuneError, match="give both of low and high, or none"):
        make([1], "int16", low=3)


@pytest.mark.parametrize("kind", [ValueError, KeyError, IndexError, OSError, UnicodeDecodeError])
def test_failures_of_members_are_of_their_own_kind(kind: type[Exception]) -> None:
    error = (
        UnicodeDecodeError("utf-8", b"", 0, 1, "no") if kind is UnicodeDecodeError else kind("no")
    )

    @ms.derived_object
    class Rule(ms.schedule_rule.PyScheduleRule):
        def apply(self, sch: Any, block: Any) -> list[Any]:
            raise error

    space = ms.space_generator.PostOrderApply(sch_rules=[Rule()], postprocs=[], mutator_probs={})
    context = ms.TuneContext(MODULE, target="llvm", space_generator=space)
    with pytest.raises(kind, match="schedule rule Rule at block 'root' failed") as raised:
        context.generate_design_space()
    assert isinstance(raised.value, MemberError)
    assert raised.value.__cause__ is error
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)

# mypy: disable-error-code="valid-type, no-untyped-def"
"""Tuning for real: worker processes, compiled kernels, measured times."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.database import MemoryDatabase, SQLiteDatabase
from tilewright.ir import IRModule
from tilewright.measure import LocalBuilder, LocalRunner
from tilewright.records import FailureKind
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.small_search import matmul as larger, tile_all, tile_two
from tilewright.tune import Profiler, tune_tir
from tilewright.tune.events import Event, PhaseChanged, RoundMeasured, TuningFinished


@T.prim_func
def matmul(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def relu(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for i in range(256):
        with T.block("relu"):
            vi = T.axis.spatial(256, i)
            B[vi] = T.max(A[vi], 0.0)


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    shared = LocalBuilder(max_workers=1)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    shared = LocalRunner(seed=1)
    yield shared
    shared.close()


@pytest.fixture
def local(builder: LocalBuilder, runner: LocalRunner) -> dict[str, Any]:
    return {"builder": builder, "runner": runner, "console": False, "num_tuning_cores": 1}


def children() -> set[int]:
    own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return {int(pid) for pid in own.read_text().split()}


def test_a_module_is_tuned_and_built(local: dict[str, Any], tmp_path: Path) -> None:
    mod = IRModule({"matmul": matmul, "relu": relu})
    with Profiler() as profiler:
        database = tune_tir(mod, "llvm", tmp_path, 10, num_trials_per_iter=5, seed=1, **local)
    assert isinstance(database, SQLiteDatabase)
    records = database.get_all_tuning_records()
    assert {record.extra["task"] for record in records} == {"matmul", "relu"}
    assert all(record.is_valid for record in records), [r.error_msg for r in records]
    assert any(record.extra["checked"] for record in records)
    with database:
        module = tw.build(mod, "llvm")
    a, b = (np.random.default_rng(n).random((16, 16), dtype=np.float32) for n in range(2))
    c = np.full((16, 16), np.nan, np.float32)
    module["matmul"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    steps = profiler.get()
    assert {"Total", "InitializeTask", "Search", "SendToBuilder", "SendToRunner"} <= set(steps)
    assert {"MeasureCallback/AddToDatabase", "LocalRunner/run"} <= set(steps)


def test_wrong_kernels_are_found_out(local: dict[str, Any]) -> None:
    """A schedule function that changes what the program computes, for some decisions."""

    def wrong_sometimes(sch: Schedule) -> None:
        block = sch.get_block("relu")
        sch.cache_write(block, 0, "global")
        (loop,) = sch.get_loops(block)
        _, inner = sch.split(loop, sch.sample_perfect_tile(loop, n=2, max_innermost_factor=64))
        loop_node: Any = sch.get(inner)
        if loop_node.extent.value > 4:
            sch.unsafe_set_dtype(block, 0, "float16")

    # With this seed a wrong one comes first; later ones may be too slow to be worth comparing.
    database = tune_tir(
        relu, "llvm", max_trials_global=4, space=wrong_sometimes, strategy="replay-func",
        cost_model=None, seed=6, database=MemoryDatabase(), **local,
    )  # fmt: skip
    kinds = [record.failure for record in database.get_all_tuning_records()]
    assert set(kinds) == {None, FailureKind.WRONG_RESULT}


def test_a_space_of_the_user_and_files_of_tvm(local: dict[str, Any], tmp_path: Path) -> None:
    database = tune_tir(
        larger, "llvm", tmp_path, 3, database="json", space=tile_two, strategy="replay-trace",
        cost_model="random", task_scheduler="round-robin", **local,
    )  # fmt: skip
    assert len(database) == 3
    assert (tmp_path / "database_workload.json").exists()


def test_workers_go_away_with_the_run() -> None:
    before = children()
    tune_tir(relu, "llvm", max_trials_global=2, cost_model=None, strategy="replay-trace",
             space=_split, console=False, num_tuning_cores=1)  # fmt: skip
    assert children() <= before


def _split(sch: Schedule) -> None:
    (loop,) = sch.get_loops(sch.get_block("relu"))
    sch.split(loop, sch.sample_perfect_tile(loop, n=2))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a gc callback
@pytest.mark.parametrize("phase", ["search", "build", "run"])
def test_ctrl_c_at_any_moment(phase: str, tmp_path: Path) -> None:
    """A signal in each phase: workers end, what was measured is there, the run says so."""
    before, events = children(), list[Event]()
    key = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def press(event: Event) -> None:
        events.append(event)
        if isinstance(event, PhaseChanged) and event.phase == phase and key.ident is None:
            key.start()

    database = SQLiteDatabase(tmp_path / "a.db")
    with pytest.raises(KeyboardInterrupt):
        tune_tir(
            larger, "llvm", max_trials_global=1000, num_trials_per_iter=8, database=database,
            console=False, observers=[press], seed=2, num_tuning_cores=1, space=tile_all,
        )  # fmt: skip
    assert children() <= before
    last = events[-1]
    assert isinstance(last, TuningFinished)
    assert last.reason == "interrupted"
    (run,) = database.history.runs()
    assert run.status == "interrupted"
    trials = database.history.trials()
    # Before anything was measured, the schedule without a search becomes the result.
    searched = [r for r in database.get_all_tuning_records() if "trial" in r.extra]
    assert [trial.number for trial in trials] == list(range(len(searched)))
    assert len(database) > 0


def test_ctrl_c_that_somebody_swallows(local: dict[str, Any]) -> None:
    """As Python does in finalisers and gc callbacks: the run ends before its next round."""
    events = list[Event]()

    def press(event: Event) -> None:
        events.append(event)
        if isinstance(event, PhaseChanged) and event.phase == "search":
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tune_tir(
            relu, "llvm", max_trials_global=50, num_trials_per_iter=2, space=_split,
            strategy="replay-trace", cost_model=None, observers=[press], **local,
        )  # fmt: skip
    assert isinstance(events[-1], TuningFinished)
    assert events[-1].reason == "interrupted"
    assert sum(isinstance(event, RoundMeasured) for event in events) == 1

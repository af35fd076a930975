"""A machine without disk space, files, memory or processes: no candidate is to blame for it."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.errors import MachineError
from tilewright.ir import PrimFunc, as_module
from tilewright.measure import Builder, LocalBuilder, LocalRunner, pool as pools
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerInput,
    args_info_of,
)
from tilewright.space.generators import ScheduleFn
from tilewright.target import Target
from tilewright.testing import faults
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune import compile_tir, tune_tir

HOOKS = "tilewright.testing.faulty_hooks"
GO_ON = ", then start again: what was measured is kept"
NO_FILES = "too many files are open in one process ("
NO_MEMORY = "there is no memory left ("
NO_DISK = "the disk is full ("
LARGE_FILE = "a file grows over the limit for files ("
NO_PROCESSES = "the system cannot start more processes or threads ("
Child = subprocess.CompletedProcess[str]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limits or /proc")


def one_line(error: pytest.ExceptionInfo[MachineError], what: str) -> None:
    text = str(error.value)
    assert text.startswith(what)
    assert text.endswith(GO_ON)
    assert "\n" not in text


def task(name: str, payload: bytes = b"", timeout_sec: float = 30.0) -> Task:
    return Task(f"{HOOKS}:task_{name}", payload, timeout_sec)


# --- tasks of a pool ---


@pytest.mark.parametrize(
    ("limit", "step", "what"),
    [
        ("limit_files", "open_a_file", NO_FILES),
        ("limit_file_size", "write_a_file", LARGE_FILE),
        ("limit_memory", "take_memory", NO_MEMORY),
        (None, "write_to_a_full_disk", NO_DISK),
        (None, "start_a_thread_too_many", NO_PROCESSES),
    ],
)
@on_linux
def test_task_on_a_machine_that_lacks_something(limit: str | None, step: str, what: str) -> None:
    """Two workers have tried."""
    pool = WorkerPool(PoolOptions(1, initializer=None if limit is None else f"{HOOKS}:{limit}"))
    with pytest.raises(MachineError) as caught:
        pool.run([task(step)])
    assert pool.pids == []
    pool.close()
    one_line(caught, what)


@on_linux
def test_a_fault_of_one_worker_is_gone_with_it(tmp_path: Path) -> None:
    """A worker that ran out of files, say, because tasks before left them open."""
    pool = WorkerPool(PoolOptions(1))
    marker = str(tmp_path / "full").encode()
    assert pool.run([task("full_once", marker)]) == [Outcome(b"room again")]
    pool.close()


def test_memory_that_a_task_asks_for_is_the_tasks_fault() -> None:
    pool = WorkerPool(PoolOptions(1, memory_limit=200 << 20))
    (outcome,) = pool.run([task("ask_for_a_terabyte")])
    pool.close()
    assert outcome.failure is FailureKind.OUT_OF_MEMORY
    assert outcome.message.startswith("MemoryError")


# --- builders ---

GIVEN = BuilderInput(as_module(faults.double), Target("llvm"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"initializer": f"{HOOKS}:limit_file_size"}, LARGE_FILE),
        pytest.param({"initializer": f"{HOOKS}:limit_files"}, NO_FILES, marks=pytest.mark.slow),
        pytest.param(
            {"f_export": f"{HOOKS}:export_to_a_full_disk"}, NO_DISK, marks=pytest.mark.slow
        ),
    ],
)
@on_linux
def test_builder_on_a_machine_that_lacks_something(options: dict[str, Any], what: str) -> None:
    builder = LocalBuilder(max_workers=1, **options)
    with pytest.raises(MachineError) as caught:
        builder.build([GIVEN])
    assert os.listdir(builder._folder.path) == ["lock"]  # no half of an artefact
    builder.close()
    one_line(caught, what)


@pytest.mark.slow
def test_artefacts_whose_folder_is_gone() -> None:
    """Somebody cleaned up /tmp: whatever the reason, the candidate has none of it."""
    builder = LocalBuilder(max_workers=1)
    (built,) = builder.build([GIVEN])
    shutil.rmtree(Path(str(built.artifact_path)).parents[1])
    with pytest.raises(MachineError) as caught:
        builder.build([GIVEN])
    builder.close()
    one_line(caught, "a compiled candidate cannot be kept (")


def test_hooks_that_run_in_this_process() -> None:
    def build(mod: Any, target: Any, params: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")

    builder = LocalBuilder(f_build=build)
    with pytest.raises(MachineError) as caught:
        builder.build([GIVEN])
    one_line(caught, NO_DISK)
    assert "'/somewhere'" in str(caught.value)


# --- processes ---


def refuse(*args: Any, **options: Any) -> Any:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.parametrize("wanted", ["subprocess.Popen", "tempfile.TemporaryFile"])
def test_workers_that_cannot_be_started(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(PoolOptions(2))
    monkeypatch.setattr(f"tilewright.measure.process.{wanted}", refuse)
    for start in (pool.warm_up, lambda: pool.run([task("echo")])):
        with pytest.raises(MachineError) as caught:
            start()
        one_line(caught, NO_PROCESSES)
    monkeypatch.undo()
    assert pool.run([task("echo", b"again")]) == [Outcome(b"again")]
    pool.close()


def test_fewer_workers_do_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(PoolOptions(4))
    pool.warm_up(1)
    monkeypatch.setattr("tilewright.measure.process.subprocess.Popen", refuse)
    pool.warm_up()
    assert pool.run([task("echo", b"x")] * 5) == [Outcome(b"x")] * 5
    assert len(pool.pids) == 1
    pool.close()


@on_linux
def test_worker_that_the_system_ends_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took little: the memory was used up by others."""
    kills = iter(range(100))
    monkeypatch.setattr(pools, "system_kills", lambda: next(kills))
    pool = WorkerPool(PoolOptions(1, memory_limit=8 << 30))
    with pytest.raises(MachineError) as caught:
        pool.run([task("die", b"SIGKILL")])
    pool.close()
    one_line(caught, NO_MEMORY + "the worker process died of SIGKILL")


# --- runners ---


@pytest.fixture(scope="module")
def given() -> Iterator[RunnerInput]:
    builder = LocalBuilder(max_workers=1)
    (built,) = builder.build([GIVEN])
    path = str(built.artifact_path)
    yield RunnerInput(path, "llvm", args_info_of(as_module(faults.double)), reference_path=path)
    builder.close()


@on_linux
def test_runner_that_cannot_keep_what_it_expects(given: RunnerInput) -> None:
    """It must not go on without comparing results."""
    runner = LocalRunner(initializer=f"{HOOKS}:limit_file_size", seed=1)
    with pytest.raises(MachineError) as caught:
        runner.run([given])
    runner.close()
    one_line(caught, LARGE_FILE)


@pytest.mark.slow
@on_linux
def test_runner_without_files(given: RunnerInput) -> None:
    runner = LocalRunner(initializer=f"{HOOKS}:limit_files", seed=1)
    alone = dataclasses.replace(given, reference_path=None)
    for measure in (runner.run, runner.measure_again):
        with pytest.raises(MachineError) as caught:
            measure([alone])
        one_line(caught, NO_FILES)
    runner.close()


# --- tuning ---


TARGET = "llvm -num-cores=1"


def tune(program: PrimFunc, database: SQLiteDatabase, builder: Builder, **options: Any) -> None:
    tune_tir(
        program,
        TARGET,
        max_trials_global=8,
        num_trials_per_iter=2,
        seed=1,
        database=database,
        builder=builder,
        space=ScheduleFn(tile_all),
        cost_model=None,
        strategy="replay-trace",
        console=False,
        **options,
    )


def failures_in(database: SQLiteDatabase) -> list[Any]:
    return [record.failure for record in database.get_all_tuning_records()]


@pytest.mark.parametrize("built", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1))])
@on_linux
def test_a_full_disk_stops_the_run_and_the_next_goes_on(tmp_path: Path, built: int) -> None:
    room, database = tmp_path / "room", SQLiteDatabase(str(tmp_path / "records.db"))
    program = matmul.with_attr("room", str(room))
    builder = LocalBuilder(max_workers=1, f_build=f"{HOOKS}:build_while_there_is_room")
    room.write_bytes(b"." * built)
    with pytest.raises(MachineError) as caught:
        tune(program, database, builder, keep_going=True)
    one_line(caught, NO_DISK)
    kept = failures_in(database)
    assert set(kept) <= {None}
    assert len(kept) < 8
    if built == 5:
        assert compile_tir(database, program, TARGET) is not None
    room.write_bytes(b"." * 100)
    tune(program, database, builder)
    builder.close()
    assert failures_in(database) == [None] * 8
    database.close()


class BuilderWithoutMemory(Builder):
    def build(self, build_inputs: Any) -> list[BuilderResult]:
        raise MemoryError


@pytest.mark.parametrize("keep_going", [False, True])
def test_members_of_the_users_own(tmp_path: Path, keep_going: bool) -> None:
    """A run that is to keep going stops, too: each further candidate would fail."""
    database = SQLiteDatabase(str(tmp_path / "records.db"))
    with pytest.raises(MachineError) as caught:
        tune(matmul, database, BuilderWithoutMemory(), keep_going=keep_going)
    one_line(caught, NO_MEMORY + "MemoryError")
    assert failures_in(database) == []
    database.close()


# --- the whole thing on a disk that is really full ---

_FULL_DISK = """
mount -t tmpfs -o size={size} none {folder} || exit 77
mkdir {folder}/temporary
TMPDIR={folder}/temporary {python} -m tilewright.cli tune GMM:0 --trials 4 --db {database}
status=$?
ls {folder}/temporary
exit $status
"""


def tune_on_a_full_disk(folder: Path, size: str, database: Path) -> Child:
    folder.mkdir()
    names = {"size": size, "folder": folder, "database": database, "python": sys.executable}
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        done = subprocess.run(
            [*command, "sh", "-c", _FULL_DISK.format(**names)],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode in (1, 77) and "error: " not in done.stderr:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr}")
    return done


@pytest.mark.slow
@pytest.mark.parametrize("size", ["4k", "32k", "100k"])
@on_linux
def test_tune_with_a_full_disk(tmp_path: Path, size: str) -> None:
    path = tmp_path / "records.db"
    done = tune_on_a_full_disk(tmp_path / "disk", size, path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {NO_DISK}")
    assert done.stderr.count("\n") == 1
    assert done.stdout.splitlines()[-1].endswith("; the same command continues from here")
    database = SQLiteDatabase(str(path))
    assert set(failures_in(database)) <= {None}
    database.close()


# --- reports and exports ---


_LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # half of it would be left for everybody
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
"""

_EXPORT = """
import tilewright as tw
from tilewright.testing import faults
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
built = tw.build(faults.double, "llvm")
for suffix in ("so", "o", "ll", "s"):
    try:
        built.export_library(f"{folder}/kernel.{{suffix}}")
    except tw.TilewrightError as error:
        print(error)
"""


@on_linux
def test_half_an_export_is_not_left_behind(
    run_in_child: Callable[[str], Any], tmp_path: Path
) -> None:
    done = run_in_child(_LIMITED + _EXPORT.format(folder=tmp_path))
    assert done.stdout.splitlines() == [
        f"cannot export {tmp_path}/kernel.{suffix}: File too large"
        for suffix in ("so", "o", "ll", "s")
    ]
    assert os.listdir(tmp_path) == []


_WRITE = """
from tilewright.cli.app import app
for arguments in {commands!r}:
    try:
        app([*arguments, "--db", {database!r}])
    except SystemExit as end:
        assert end.code == 2
"""


@on_linux
def test_half_a_report_does_not_replace_the_last_one(
    run_in_child: Callable[[str], Any], tmp_path: Path
) -> None:
    path, folder = str(tmp_path / "records.db"), tmp_path / "out"
    database = SQLiteDatabase(path)
    tune(matmul, database, FakeBuilder(), runner=FakeRunner())
    database.close()
    folder.mkdir()
    names = ["page.html", "records.csv", "records.json"]
    for name in names:
        (folder / name).write_text("the last one")
    page, csv, json = (str(folder / name) for name in names)
    commands = [
        ["report", "--output", page],
        ["db", "export", csv],
        ["db", "export", json],
        ["db", "export", "--format", "tvm", str(folder / "tvm")],
    ]
    done = run_in_child(_LIMITED + _WRITE.format(commands=commands, database=path))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line.startswith(f"error: {LARGE_FILE}") for line in lines] == [True] * 4, lines
    assert {(folder / name).read_text() for name in names} == {"the last one"}
    assert sorted(os.listdir(folder)) == names

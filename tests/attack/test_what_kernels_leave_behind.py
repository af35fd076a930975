"""Kernels and hooks that fork, answer out of turn, or start processes that hide from their pool."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.errors import TuneError
from tilewright.ir import as_module
from tilewright.measure import LocalBuilder, LocalRunner
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.measure.wire import Reply, frame
from tilewright.records import BuilderInput, FailureKind, RunnerInput, args_info_of
from tilewright.target import Target
from tilewright.testing import faults

FAULTS = "tilewright.testing.faulty_hooks"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs the orphans of a process")


def task(name: str, payload: bytes = b"", timeout_sec: float = 30.0) -> Task:
    return Task(f"{FAULTS}:task_{name}", payload, timeout_sec)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    own = WorkerPool(PoolOptions(1))
    yield own
    own.close()


# --- answers that belong to no request ---


def test_child_of_a_task_does_not_answer_for_the_next(pool: WorkerPool) -> None:
    """It comes back while the next task is at work."""
    fork, sleep = task("fork", b"from the parent"), task("sleep", b"2")
    assert pool.run([fork, sleep]) == [Outcome(b"from the parent"), Outcome(b"2")]


def test_kernel_that_forks_is_measured_like_any_other() -> None:
    # Each call doubles the processes, since children go on with the measurement: so make few calls.
    once = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
    builder, runner = LocalBuilder(max_workers=1), LocalRunner(evaluator_config=once, seed=1)
    kernels = [faults.forks, faults.double, faults.triple]
    built = builder.build([BuilderInput(as_module(kernel), Target("llvm")) for kernel in kernels])
    paths = [str(result.artifact_path) for result in built]
    infos = args_info_of(as_module(faults.double))
    inputs = [RunnerInput(path, "llvm", infos, reference_path=paths[1]) for path in paths]
    results = [future.result() for future in runner.run(inputs)]
    runner.close()
    builder.close()
    assert [result.failure for result in results] == [None, None, FailureKind.WRONG_RESULT]


@pytest.mark.parametrize("number", [0, 1, 77])
@on_linux
def test_answers_with_another_number_are_not_taken(pool: WorkerPool, number: int) -> None:
    """Those of the past, and of a future that may never come."""
    assert pool.run([task("echo", b"first")]) == [Outcome(b"first")]
    forged = frame(Reply(number, b"forged"))
    assert pool.run([task("answer", forged)]) == [Outcome(b"answered")]
    assert pool.run([task("echo", b"next")] * 2) == [Outcome(b"next")] * 2


@on_linux
def test_an_answer_given_twice_counts_once(pool: WorkerPool) -> None:
    """The second of the forged answers and that of the worker come too late."""
    forged = frame(Reply(1, b"forged"))
    assert pool.run([task("answer", forged * 2)]) == [Outcome(b"forged")]
    assert pool.run([task("echo", b"next")] * 3) == [Outcome(b"next")] * 3


@pytest.mark.parametrize(
    "noise", [b"\x03" + b"\0" * 7 + b"abc", frame(Reply(1))[:8] + b"\xc1" * 99]
)
@on_linux
def test_noise_instead_of_an_answer_is_a_crash(pool: WorkerPool, noise: bytes) -> None:
    bad, good = pool.run([task("answer", noise), task("echo", b"good")])
    assert bad.failure is FailureKind.CRASH
    assert bad.message == "the worker process sent something that is not an answer"
    assert good.payload == b"good"


@on_linux
def test_noise_of_an_earlier_task_is_not_held_against_the_next(pool: WorkerPool) -> None:
    tasks = [task("answer_later", b"\x03" + b"\0" * 7 + b"abc"), task("sleep", b"1")]
    assert pool.run(tasks) == [Outcome(b"answered"), Outcome(b"1")]


@on_linux
def test_forged_answer_of_a_kind_that_is_not_there(pool: WorkerPool) -> None:
    forged = frame(Reply(1, failure="nonsense"))  # type: ignore[arg-type]
    (outcome,) = pool.run([task("answer", forged)])
    assert outcome.failure is FailureKind.CRASH


@on_linux
def test_noise_while_a_worker_starts() -> None:
    pool = WorkerPool(PoolOptions(1, initializer=f"{FAULTS}:answer_noise"))
    with pytest.raises(TuneError) as caught:
        pool.run([task("echo")])
    pool.close()
    text = "a worker could not start: the worker process sent something that is not an answer"
    assert str(caught.value) == text


# --- processes that hide ---


def running(pids: list[int]) -> list[int]:
    """Those that are there and are no zombies."""
    found = []
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if text.rpartition(")")[2].split()[0] != "Z":
            found.append(pid)
    return found


def wait_until_gone(pids: list[int]) -> None:
    for _ in range(500):
        if not running(pids):
            return
        time.sleep(0.02)
    raise AssertionError(f"still running: {running(pids)}")


def left_by(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()]


@on_linux
def test_processes_live_as_long_as_their_worker_and_no_longer(
    pool: WorkerPool, tmp_path: Path
) -> None:
    file = tmp_path / "left"
    pool.run([task("leave_children", str(file).encode())])
    assert pool.run([task("echo", b"still there")]) == [Outcome(b"still there")]
    assert running(left_by(file)) == left_by(file)
    pool.close()
    assert running(left_by(file)) == []


@pytest.mark.parametrize("end", ["SIGSEGV", "exit"])
@on_linux
def test_they_end_with_a_worker_that_crashes(pool: WorkerPool, tmp_path: Path, end: str) -> None:
    """At once: they hold the worker's pipe, and must not keep the pool waiting for its end."""
    file = tmp_path / "left"
    crashed, fine = pool.run(
        [task("leave_children", f"{file} {end}".encode(), 3600), task("echo", b"fine")]
    )
    assert crashed.failure is FailureKind.CRASH
    assert fine.payload == b"fine"
    assert running(left_by(file)) == []


@on_linux
def test_they_end_with_a_worker_that_takes_too_long(pool: WorkerPool, tmp_path: Path) -> None:
    file = tmp_path / "left"
    pool.run([task("echo")])
    late = task("leave_children", f"{file} SIGSTOP".encode(), timeout_sec=2)
    (outcome,) = pool.run([late])
    assert outcome.failure is FailureKind.TIMEOUT
    assert running(left_by(file)) == []


_PARENT = f"""
import sys
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
pool = WorkerPool(PoolOptions(1))
pool.run([Task("{FAULTS}:task_leave_children", sys.argv[1].encode(), 60)])
print(*pool.pids, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["kill", "exit"])
@on_linux
def test_they_end_with_the_process_of_the_pool(end: str, tmp_path: Path) -> None:
    file = tmp_path / "left"
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()] + left_by(file)
    assert running(pids) == pids
    if end == "kill":
        parent.kill()
    parent.communicate()
    wait_until_gone(pids)


@on_linux
def test_they_end_with_a_worker_that_is_killed(pool: WorkerPool, tmp_path: Path) -> None:
    file = tmp_path / "left"
    pool.run([task("leave_children", str(file).encode())])
    os.kill(pool.pids[0], 9)
    wait_until_gone(left_by(file))
    assert pool.run([task("echo", b"on")]) == [Outcome(b"on")]


# --- all of it ---


@pytest.mark.slow
@on_linux
def test_tasks_that_do_it_all_in_turns(tmp_path: Path, attack_seeds: list[int]) -> None:
    """Those between them get their own answers, and nothing is left."""
    for seed in attack_seeds[:20]:
        rng, pool = random.Random(seed), WorkerPool(PoolOptions(2))
        files = [tmp_path / f"{seed}-{turn}" for turn in range(12)]
        for turn, file in enumerate(files):
            end = rng.choice(["", "exit", "SIGSEGV", "SIGKILL"])
            attacks = [
                task("fork"),
                task("answer", frame(Reply(rng.randrange(40), b"forged"))),
                task("answer", rng.randbytes(rng.randrange(1, 30)), timeout_sec=2),
                task("leave_children", f"{file} {end}".encode()),
            ]
            quiet = [task("echo", f"{seed} {turn} {n}".encode()) for n in range(4)]
            outcomes = pool.run([rng.choice(attacks), *quiet])
            assert [each.payload for each in outcomes[1:]] == [each.payload for each in quiet], seed
        pool.close()
        left = [pid for file in files if file.exists() for pid in left_by(file)]
        assert running(left) == [], seed


# --- memory ---


def test_limit_of_memory_leaves_out_what_is_reserved_but_not_used() -> None:
    """Stacks of threads on a machine with many cores, for example."""
    limited = PoolOptions(1, memory_limit=300 << 20, initializer=f"{FAULTS}:reserve_memory")
    pool = WorkerPool(limited)
    (outcome,) = pool.run([task("take_all_memory")])
    pool.close()
    assert outcome.failure is FailureKind.OUT_OF_MEMORY
    assert outcome.message == "the worker process took more than its 300 MiB of memory"

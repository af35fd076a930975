"""`WorkerPool`: tasks in worker processes that crash, hang, eat memory, or get killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.errors import TuneError
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.records import FailureKind

FAULTS = "tilewright.testing.faulty_hooks"
MEMORY_LIMIT = 600 << 20


def task(name: str, payload: bytes = b"", timeout_sec: float = 30.0) -> Task:
    return Task(f"{FAULTS}:task_{name}", payload, timeout_sec)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    shared = WorkerPool(PoolOptions(2, memory_limit=MEMORY_LIMIT))
    yield shared
    shared.close()


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_gone(pids: list[int]) -> None:
    for _ in range(500):
        if not any(map(is_running, pids)):
            return
        time.sleep(0.02)
    raise AssertionError(f"still running: {[pid for pid in pids if is_running(pid)]}")


def test_outcomes_come_in_the_order_of_the_tasks(pool: WorkerPool) -> None:
    delays = [b"0.05", b"0", b"0.02", b"0"]
    outcomes = pool.run([task("sleep", delay) for delay in delays])
    assert outcomes == [Outcome(payload=delay) for delay in delays]


def test_no_tasks(pool: WorkerPool) -> None:
    assert pool.run([]) == []


def test_tasks_begin_one_by_one(pool: WorkerPool) -> None:
    begun = [pool.begin(task("sleep", delay)) for delay in (b"0.05", b"0", b"0.02")]
    assert [each.result() for each in reversed(begun)] == [
        Outcome(payload=delay) for delay in (b"0.02", b"0", b"0.05")
    ]
    assert all(each.done() for each in begun)


def test_begun_tasks_are_over_before_others_run(pool: WorkerPool) -> None:
    begun = [pool.begin(task("sleep", b"0.1")) for _ in range(3)]
    assert pool.run([task("echo", b"x")]) == [Outcome(payload=b"x")]
    assert all(each.done() for each in begun)
    assert pool.begin(task("echo", b"y")).result() == Outcome(payload=b"y")


def test_begun_tasks_fail_by_themselves(pool: WorkerPool) -> None:
    bad, good = pool.begin(task("abort")), pool.begin(task("echo", b"x"))
    assert good.result() == Outcome(payload=b"x")
    assert bad.result().failure is FailureKind.CRASH


def test_what_goes_wrong_at_the_beginning_is_told_at_the_end() -> None:
    own = WorkerPool(PoolOptions(1, preload=("tilewright.nowhere:at_all",)))
    begun = own.begin(task("echo"))
    with pytest.raises(TuneError, match=r"^a worker could not start:\n"):
        begun.result()
    own.close()


def test_tasks_of_a_closed_pool_do_not_go_on() -> None:
    own = WorkerPool(PoolOptions(1))
    begun = own.begin(task("sleep", b"60"))
    own.close()
    with pytest.raises(TuneError, match=r"^the tasks of a pool of workers were stopped$"):
        begun.result()
    assert own.pids == []


def test_workers_are_kept(pool: WorkerPool) -> None:
    pids = {pool.run([task("pid")])[0].payload for _ in range(5)}
    assert len(pids) == 1
    assert int(pids.pop()) in pool.pids


def test_large_messages_both_ways(pool: WorkerPool) -> None:
    payload = os.urandom(5 << 20)
    assert pool.run([task("echo", payload)] * 3) == [Outcome(payload=payload)] * 3


def test_what_tasks_print_does_not_get_between_the_messages(pool: WorkerPool) -> None:
    assert pool.run([task("print", b"noise")]) == [Outcome(payload=b"printed")]


def test_exception_is_an_outcome(pool: WorkerPool) -> None:
    bad, good = pool.run([task("sleep", b"soon"), task("sleep", b"0")])
    assert bad.failure is FailureKind.RUN_ERROR
    assert "ValueError: could not convert string to float: b'soon'" in bad.message
    assert good.failure is None


def test_unknown_function_is_an_outcome(pool: WorkerPool) -> None:
    (outcome,) = pool.run([Task(f"{FAULTS}:nothing", b"", 5)])
    assert outcome.failure is FailureKind.RUN_ERROR
    assert f"hook '{FAULTS}:nothing': {FAULTS} has no function 'nothing'" in outcome.message


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE", "SIGILL"])
def test_crash_names_the_signal(pool: WorkerPool, name: str) -> None:
    crashed, fine = pool.run([task("die", name.encode()), task("echo", b"fine")])
    assert crashed.failure is FailureKind.CRASH
    assert crashed.message == f"the worker process died of {name}"
    assert fine.payload == b"fine"


def test_crash_shows_the_last_words(pool: WorkerPool) -> None:
    (outcome,) = pool.run([task("abort", b"LLVM ERROR: out of registers\n")])
    assert outcome.message == ("the worker process died of SIGABRT:\nLLVM ERROR: out of registers")


def test_timeout_kills_the_worker(pool: WorkerPool) -> None:
    before = set(pool.pids)
    slow, quick = pool.run([task("sleep", b"3600", timeout_sec=0.2), task("echo", b"quick")])
    assert slow.failure is FailureKind.TIMEOUT
    assert quick.payload == b"quick"
    gone = before - set(pool.pids)
    assert not any(map(is_running, gone))


def test_killed_from_outside_is_tried_again(pool: WorkerPool, tmp_path: Path) -> None:
    marker = str(tmp_path / "died").encode()
    assert pool.run([task("die_once", marker)]) == [Outcome(payload=b"survived")]


def test_killed_again_and_again_is_a_crash(pool: WorkerPool) -> None:
    (outcome,) = pool.run([task("die", b"SIGKILL")])
    assert outcome.failure is FailureKind.CRASH
    assert outcome.message == "the worker process died of SIGKILL"


def test_idle_worker_that_was_killed_is_replaced(pool: WorkerPool) -> None:
    pool.run([task("echo")] * 4)
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    assert pool.run([task("echo", b"again")] * 2) == [Outcome(payload=b"again")] * 2


def test_workers_killed_at_random(pool: WorkerPool) -> None:
    """Every task gets its own answer, or is a crash after two kills."""
    rng, stop = random.Random(7), threading.Event()

    def kill_now_and_then() -> None:
        pause = 0.2
        while not stop.wait(pause):
            pause *= 1.3  # workers that never get to start are a fault of the machine
            victims = pool.pids
            if victims:
                os.kill(rng.choice(victims), signal.SIGKILL)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        payloads = [f"0.00{i % 10}".encode() for i in range(60)]
        outcomes = pool.run([task("sleep", payload) for payload in payloads])
    finally:
        stop.set()
        killer.join()
    for payload, outcome in zip(payloads, outcomes, strict=True):
        assert outcome.payload == payload or outcome.failure is FailureKind.CRASH


def test_recycled_after_enough_uses() -> None:
    pool = WorkerPool(PoolOptions(1, max_uses=2))
    pids = [pool.run([task("pid")])[0].payload for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    assert not is_running(int(pids[0]))
    pool.close()
    wait_until_gone([int(pids[3])])


def test_worker_that_cannot_start() -> None:
    pool = WorkerPool(PoolOptions(1, initializer="no_such_module:start"))
    with pytest.raises(TuneError, match="a worker could not start:") as caught:
        pool.run([task("echo")])
    assert "cannot import 'no_such_module'" in str(caught.value)
    assert pool.pids == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 looks into its folder first")
def test_files_around_do_not_disturb_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise ImportError('not the queue of the library')")
    monkeypatch.chdir(tmp_path)
    pool = WorkerPool(PoolOptions(1))
    assert pool.run([task("echo", b"fine")]) == [Outcome(payload=b"fine")]
    pool.close()


def interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_ends_busy_workers_and_the_pool_goes_on(pool: WorkerPool) -> None:
    pool.run([task("echo")] * 2)
    timer = interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        pool.run([task("sleep", b"3600"), task("sleep", b"3600")])
    timer.join()
    assert pool.pids == []
    assert pool.run([task("echo", b"on")]) == [Outcome(payload=b"on")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a gc callback
def test_ctrl_c_at_any_moment(pool: WorkerPool) -> None:
    """Whatever is interrupted, the next answers belong to the next tasks."""
    rng = random.Random(3)
    for turn in range(6):
        timer = interrupt_after(rng.uniform(0, 0.03))
        try:
            for _ in range(1000):
                pool.run([task("echo", b"old")] * 3)
        except KeyboardInterrupt:
            pass
        timer.join()
        mark = f"new {turn}".encode()
        assert pool.run([task("echo", mark)] * 3) == [Outcome(payload=mark)] * 3


_PARENT = f"""
import sys
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
pool = WorkerPool(PoolOptions(2))
pool.run([Task("{FAULTS}:task_echo", b"", 60)] * 4)
print(*pool.pids, flush=True)
if sys.argv[1] == "busy":
    pool.run([Task("{FAULTS}:task_sleep", b"3600", 7200)] * 2)
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_workers_die_with_their_parent(state: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    parent.kill()
    parent.communicate()
    wait_until_gone(pids)


def test_closed_pool_leaves_no_process_behind() -> None:
    pool = WorkerPool(PoolOptions(2))
    pool.warm_up()
    pids = pool.pids
    assert len(pids) == 2
    pool.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)  # not even a zombie

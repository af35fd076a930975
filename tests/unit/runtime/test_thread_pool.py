"""The thread pool: every item exactly once, no waiting, no burnt core, fork and exit."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.codegen.host import loading
from tilewright.codegen.llvm import compiler
from tilewright.errors import ArgumentError
from tilewright.native.platform import platform_of
from tilewright.native.runtime_ir import runtime_ir
from tilewright.native.thread_pool_ir import MAX_THREADS, thread_pool_ir
from tilewright.runtime import threads

# count: add one to each item of the chunk. fail: the chunk's first index + 1 as its status.
# nest: launch `count` over all items from inside a region. spin: wait until both threads are in.
TASKS = """
declare i32 @tw_parallel_launch(ptr, ptr, i64)

define i32 @count(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %loop ]
  %cell = getelementptr i32, ptr %data, i64 %i
  %old = atomicrmw add ptr %cell, i32 1 monotonic
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i32 @fail(ptr %data, i64 %begin, i64 %end) {
  %low = trunc i64 %begin to i32
  ret i32 %low
}

define i32 @nest(ptr %data, i64 %begin, i64 %end) {
  %status = call i32 @tw_parallel_launch(ptr @count, ptr %data, i64 16)
  ret i32 %status
}

define i32 @meet(ptr %arrived, i64 %begin, i64 %end) {
entry:
  %old = atomicrmw add ptr %arrived, i32 1 seq_cst
  br label %wait
wait:
  %now = load atomic i32, ptr %arrived acquire, align 4
  %both = icmp sge i32 %now, 2
  br i1 %both, label %done, label %wait
done:
  ret i32 0
}

define i32 @repeat(ptr %task, ptr %data, i64 %extent, i64 %times) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %status = call i32 @tw_parallel_launch(ptr %task, ptr %data, i64 %extent)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %times
  br i1 %more, label %loop, label %done
done:
  ret i32 %status
}
"""

Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
Repeat = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class Pool:
    """A loaded pool with the test's tasks linked against it."""

    def __init__(self, addresses: dict[str, int]) -> None:
        self.addresses = addresses
        self.tasks = loading.load_objects([compiler.compile_ir(TASKS)], addresses)
        self.repeat_launch = Repeat(self.tasks["repeat"])
        self.set_num_threads = ctypes.CFUNCTYPE(None, ctypes.c_int32)(
            addresses["tw_set_num_threads"]
        )
        self.num_threads = ctypes.CFUNCTYPE(ctypes.c_int32)(addresses["tw_num_threads"])
        self.limit_threads = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(
            addresses["tw_limit_threads"]
        )
        self.set_spin_ns = ctypes.CFUNCTYPE(None, ctypes.c_int64)(addresses["tw_set_spin_ns"])

    def launch(self, task: str, data: object, extent: int, times: int = 1) -> int:
        return int(self.repeat_launch(self.tasks[task], data, extent, times))


def variant(name: str) -> dict[str, int]:
    """The process's own pool, or the one of systems without futexes, or the one without threads."""
    if name == "default":
        return threads.symbols()
    platform = platform_of(compiler.host_machine().triple)
    changes = {"condition": {"futex_syscall": None}, "serial": {"has_threads": False}}[name]
    # "system" decides about huge pages and key types, not about the pool.
    platform = dataclasses.replace(platform, **changes)  # type: ignore[arg-type]
    source = thread_pool_ir(platform) + "declare ptr @calloc(i64, i64)\n"
    return loading.load_permanently([compiler.compile_ir(source)])


@pytest.fixture(scope="module", params=["default", "condition", "serial"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    pool = Pool(variant(request.param))
    before = pool.num_threads()
    yield pool
    pool.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("extent", [0, 1, 2, 5, 64, 1000])
def test_every_item_runs_exactly_once(pool: Pool, threads: int, extent: int) -> None:
    pool.set_num_threads(threads)
    counts = (ctypes.c_int32 * 1000)()
    assert pool.launch("count", counts, extent, times=50) == 0
    assert list(counts) == [50] * extent + [0] * (1000 - extent)


def test_regions_work_when_the_workers_sleep(pool: Pool) -> None:
    pool.set_num_threads(3)
    pool.set_spin_ns(0)
    counts = (ctypes.c_int32 * 100)()
    pause = threading.Event()
    for _ in range(20):
        pause.wait(0.001)
        assert pool.launch("count", counts, 100) == 0
    pool.set_spin_ns(200_000)
    assert list(counts) == [20] * 100


def test_the_first_failing_chunk_wins(pool: Pool) -> None:
    pool.set_num_threads(4)
    counts = (ctypes.c_int32 * 1)()
    # Chunks of 25: the first one returns 0, the others 25, 50 and 75.
    expected = 25 if pool.num_threads() == 4 else 0
    for _ in range(100):
        assert pool.launch("fail", counts, 100) == expected


def test_nested_regions_run_serially(pool: Pool) -> None:
    pool.set_num_threads(4)
    counts = (ctypes.c_int32 * 16)()
    assert pool.launch("nest", counts, 4) == 0
    chunks = 4 if pool.num_threads() == 4 else 1
    assert list(counts) == [chunks] * 16


def test_a_thread_can_have_a_number_of_threads_of_its_own(pool: Pool) -> None:
    pool.set_num_threads(4)
    chunks: list[int] = []

    def count_chunks() -> None:
        counts = (ctypes.c_int32 * 16)()
        pool.launch("nest", counts, 4)
        chunks.append(counts[0])

    assert pool.limit_threads(2) == 0
    count_chunks()
    other = threading.Thread(target=count_chunks)
    other.start()
    other.join()
    pool.limit_threads(0)
    count_chunks()
    has_threads = pool.num_threads() == 4
    assert chunks == ([2, 4, 4] if has_threads else [1, 1, 1])


def test_concurrent_callers_do_not_disturb_each_other(pool: Pool) -> None:
    pool.set_num_threads(2)
    results: list[list[int]] = []

    def call() -> None:
        counts = (ctypes.c_int32 * 64)()
        pool.launch("count", counts, 64, times=2000)
        results.append(list(counts))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [[2000] * 64] * 4


def test_two_threads_really_run_at_once() -> None:
    pool = Pool(threads.symbols())
    before = threads.num_threads()
    threads.set_num_threads(2)
    for _ in range(20):
        arrived = (ctypes.c_int32 * 1)()
        assert pool.launch("meet", arrived, 2) == 0
        assert arrived[0] == 2
    threads.set_num_threads(before)


def test_thread_count_is_checked() -> None:
    before = threads.num_threads()
    threads.set_num_threads(3)
    assert threads.num_threads() == 3
    threads.set_num_threads(before)
    for bad in (0, -1, MAX_THREADS + 1):
        with pytest.raises(
            ArgumentError, match=f"expected a number of threads from 1 to 256, got {bad}"
        ):
            threads.set_num_threads(bad)
    with pytest.raises(ArgumentError, match="set_spin_time: expected 0 or more microseconds"):
        threads.set_spin_time(-1)


@pytest.mark.parametrize(
    ("line", "cores"),
    [("max 100000", 8), ("150000 100000", 1), ("50000 100000", 1), ("400000 100000", 4), ("", 8)],
)
def test_a_container_quota_limits_the_cores(tmp_path: Path, line: str, cores: int) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(line)
    assert threads._quota_cores(path, 8) == cores
    assert threads._quota_cores(tmp_path / "missing", 8) == 8
    assert threads.available_cores() >= 1


def test_the_runtime_compiles_for_every_known_platform() -> None:
    host = platform_of(compiler.host_machine().triple)
    for triple in ("x86_64-unknown-linux-gnu", "x86_64-apple-darwin", "x86_64-pc-windows-msvc"):
        platform = dataclasses.replace(
            platform_of(triple), relax_instruction=host.relax_instruction
        )
        defined = compiler.compile_ir(runtime_ir(platform)).defined
        assert sorted(defined) == [
            "tw_expect_regions",
            "tw_limit_threads",
            "tw_num_threads",
            "tw_parallel_launch",
            "tw_request_tiles",
            "tw_set_num_threads",
            "tw_set_spin_ns",
            "tw_workspace_alloc",
            "tw_workspace_free",
        ]


PRELUDE = f"""
import ctypes, os, time
from tilewright.runtime import threads
from tilewright.codegen.host import loading
from tilewright.codegen.llvm import compiler
TASKS = '''{TASKS}'''
tasks = loading.load_objects([compiler.compile_ir(TASKS)], threads.symbols())
repeat = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)(tasks["repeat"])
def meet():
    arrived = (ctypes.c_int32 * 1)()
    repeat(tasks["meet"], arrived, 2, 1)
    assert arrived[0] == 2
threads.set_num_threads(2)
meet()
"""


def run_script(text: str) -> str:
    """Run in a fresh process, so that threads, fork and exit are those of a user's program."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + text], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sleeping_workers_burn_no_core() -> None:
    out = run_script(
        "time.sleep(0.05)\nbefore = time.process_time()\ntime.sleep(0.3)\n"
        "print(time.process_time() - before)\n"
    )
    assert float(out) < 0.03


EXPECT = "expect = ctypes.CFUNCTYPE(None, ctypes.c_int32)(threads.symbols()['tw_expect_regions'])\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads the states of threads in /proc")
@pytest.mark.parametrize(("calls", "states"), [((1,), {"R"}), ((1, -1), {"S"})])
def test_workers_stay_awake_while_regions_are_expected(
    calls: tuple[int, ...], states: set[str]
) -> None:
    out = run_script(
        EXPECT
        + "threads.set_spin_time(100)\n"
        + "".join(f"expect({more})\n" for more in calls)
        + "before = {task for task in os.listdir('/proc/self/task')}\n"
        "states = set()\n"
        "for _ in range(5):\n"
        "    meet()\n"
        "    time.sleep(0.004)\n"
        "    for task in before - {str(os.getpid())}:\n"
        "        with open(f'/proc/self/task/{task}/stat') as file:\n"
        "            states.add(file.read().rsplit(') ', 1)[1][0])\n"
        "print(*sorted(states))\n"
    )
    assert states <= set(out.split())


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    out = run_script(
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "pid = os.fork()\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "meet()\n"
        "after = len(os.listdir('/proc/self/task'))\n"
        "if pid == 0:\n"
        "    print(before, after, flush=True)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "print(before, after)\n"
    )
    assert out.splitlines() == ["1 2", "2 2"]


def test_the_interpreter_exits_while_workers_spin() -> None:
    run_script("threads.set_spin_time(10_000_000)\nmeet()\n")


@pytest.mark.skipif(sys.platform != "linux", reason="reads signal masks in /proc")
def test_workers_leave_signals_to_the_program() -> None:
    out = run_script(
        "tid = [t for t in os.listdir('/proc/self/task') if int(t) != os.getpid()][0]\n"
        "status = open(f'/proc/self/task/{tid}/status').read()\n"
        "print([l for l in status.splitlines() if l.startswith('SigBlk')][0])\n"
    )
    blocked = int(out.split()[1], 16)
    sigint, sigterm = 1 << (2 - 1), 1 << (15 - 1)
    assert blocked & sigint
    assert blocked & sigterm

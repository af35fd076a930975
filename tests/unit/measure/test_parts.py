"""The small parts: messages, hooks, folders, interrupts, the adaptive protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import TuneError
from tilewright.measure import AdaptiveProtocol
from tilewright.measure.base import FinishedFuture, FunctionFuture
from tilewright.measure.hook_placement import SessionFolder, remove_abandoned_folders
from tilewright.measure.hooks import importable_name, resolve_hook
from tilewright.measure.interrupts import delayed_interrupts
from tilewright.measure.memory import usable_memory
from tilewright.measure.wire import FrameBuffer, TaskCall, frame, read_frame, write_all
from tilewright.records import RunnerResult
from tilewright.runtime import register_func, remove_global_func
from tilewright.testing import faulty_hooks

# --- messages ---


def test_frames_in_pieces() -> None:
    first, second = TaskCall("a:b", b"x" * 300, 1), TaskCall("c:d", b"", 2)
    data = frame(first) + frame(second)
    buffer = FrameBuffer()
    bodies = [body for byte in data for body in buffer.feed(bytes([byte]))]
    assert len(bodies) == 2
    assert buffer.feed(data + data[:-1]) == [*bodies, bodies[0]]
    assert buffer.feed(data[-1:]) == bodies[1:]


def test_frames_through_a_pipe() -> None:
    reader, writer = os.pipe()
    write_all(writer, frame(TaskCall("a:b", b"1", 1)) + frame(TaskCall("c:d", b"2", 2)))
    os.close(writer)
    first, second = read_frame(reader), read_frame(reader)
    assert first is not None
    assert second is not None
    assert b"a:b" in first
    assert b"c:d" in second
    assert read_frame(reader) is None
    os.close(reader)


def test_half_a_frame_is_the_end() -> None:
    reader, writer = os.pipe()
    write_all(writer, frame(TaskCall("a:b", b"1", 1))[:-1])
    os.close(writer)
    assert read_frame(reader) is None
    os.close(reader)


def test_workers_import_little() -> None:
    """They are started often: the scheduler, which is half of the package, is not for them."""
    program = (
        "import sys, tilewright.measure.worker, tilewright.measure.build_task;"
        "import tilewright.measure.run_task;"
        "sys.exit('tilewright.schedule' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- hooks ---


class Holder:
    @staticmethod
    def method() -> None: ...


def test_names_of_functions() -> None:
    assert importable_name("some.module:function") == "some.module:function"
    assert importable_name(faulty_hooks.task_echo) == "tilewright.testing.faulty_hooks:task_echo"
    assert importable_name(lambda: None) is None
    assert importable_name(Holder().method) == f"{__name__}:Holder.method"

    def local() -> None: ...

    assert importable_name(local) is None
    local.__module__ = "__main__"
    local.__qualname__ = "local"
    assert importable_name(local) is None


def test_resolving() -> None:
    assert resolve_hook("os.path:join") is os.path.join
    assert resolve_hook(len) is len
    register_func("measure.test_parts.hook", lambda: 42)
    assert resolve_hook("measure.test_parts.hook")() == 42
    remove_global_func("measure.test_parts.hook")
    with pytest.raises(TuneError) as caught:
        resolve_hook("no.such.module:f")
    assert str(caught.value) == (
        "hook 'no.such.module:f': cannot import 'no.such.module': No module named 'no'"
    )
    with pytest.raises(TuneError) as caught:
        resolve_hook("os:name")
    assert str(caught.value) == "hook 'os:name': os has no function 'name'"


# --- folders ---


def test_folder_goes_with_its_owner() -> None:
    folder = SessionFolder()
    path = Path(folder.path)
    assert path.is_dir()
    del folder
    assert not path.exists()


_OWNER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from tilewright.measure.hook_placement import SessionFolder
folder = SessionFolder()
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_folder_of_a_killed_owner_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    path = Path(owner.stdout.readline().strip())
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    remove_abandoned_folders()
    assert path.is_dir()
    owner.kill()
    owner.communicate()
    remove_abandoned_folders()
    assert not path.exists()


def test_young_folders_may_still_get_their_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    young = tmp_path / "tilewright-build-young"
    young.mkdir()
    remove_abandoned_folders()
    assert young.is_dir()


# --- interrupts, memory, futures ---


def test_interrupts_wait() -> None:
    done = []

    def interrupted() -> None:
        with delayed_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of the block")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all of the block"]
    with delayed_interrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_there_is_memory() -> None:
    assert 64 << 20 < usable_memory() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_futures() -> None:
    result = RunnerResult((1.0,))
    assert FinishedFuture(result).done()
    assert FinishedFuture(result).result() is result
    later = FunctionFuture(lambda: False, lambda: result)
    assert not later.done()
    assert later.result() is result


# --- the adaptive protocol, with a clock of its own ---


class FakeFunction:
    """Takes as long as it is told: one entry a call of `run_in_a_row`."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)
        self.numbers: list[int] = []

    def run_in_a_row(self, args: object, number: int = 1) -> float:
        self.numbers.append(number)
        return self.seconds.pop(0) * number


def look(best: float | None, *seconds: float) -> tuple[Any, FakeFunction]:
    function = FakeFunction(*seconds)
    return AdaptiveProtocol().first_look(function, (), best), function  # type: ignore[arg-type]


def test_first_look_without_a_best() -> None:
    found, function = look(None, 1e-3, 0.5e-3)
    assert found.secs == 0.5e-3
    assert not found.hopeless
    assert function.numbers == [1, 1]


def test_first_look_at_a_quick_function_runs_it_more_often() -> None:
    found, function = look(1e-5, 2e-5, 1e-5)
    assert not found.hopeless
    assert function.numbers == [1, 25]


def test_one_run_is_enough_for_the_worst() -> None:
    found, function = look(1e-3, 1.0)
    assert found.hopeless
    assert found.secs == 1.0
    assert function.numbers == [1]


def test_the_first_run_of_a_tiny_function_says_nothing() -> None:
    found, _ = look(1e-7, 1e-5, 1e-7)
    assert not found.hopeless
    assert found.secs == 1e-7


def test_disturbed_looks_are_repeated() -> None:
    found, function = look(1e-3, 8e-3, 9e-3, 7e-3, 1e-3)
    assert not found.hopeless
    assert len(function.numbers) == 4
    found, function = look(1e-3, 8e-3, 9e-3, 7e-3, 8e-3, 6e-3)
    assert found.hopeless
    assert found.secs == 6e-3


def test_looks_that_are_alike_need_no_third() -> None:
    found, function = look(1e-3, 3.0e-3, 2.9e-3)
    assert found.hopeless
    assert found.secs == 2.9e-3
    assert function.numbers == [1, 1]


def test_limit_of_a_first_look_grows_with_the_best() -> None:
    assert AdaptiveProtocol().look_limit(1e-3) == pytest.approx(4.02)
    assert AdaptiveProtocol().look_limit(1.0) == pytest.approx(24)


def test_long_runs_are_looked_at_once() -> None:
    found, function = look(10e-3, 60e-3, 50e-3)
    assert found.hopeless
    assert function.numbers == [1, 1]


def test_slow_functions_get_fewer_rows() -> None:
    protocol = AdaptiveProtocol()
    assert protocol.rows_for(1e-3) == 7
    assert protocol.rows_for(0.1) == 3
    function = FakeFunction(*[0.1] * 3)
    assert protocol.full(function, (), 0.1) == [0.1] * 3  # type: ignore[arg-type]
    assert function.numbers == [1, 1, 1]


def race(best: float | None, *seconds: float) -> list[float]:
    """The rows of a function that takes so long in each of them."""
    function = FakeFunction(*seconds)
    return AdaptiveProtocol().full(function, (), seconds[0], best)  # type: ignore[arg-type]


def test_who_falls_behind_has_fewer_rows() -> None:
    assert race(1e-3, 1.3e-3) == [1.3e-3]
    assert race(1e-3, 1.2e-3, 1.15e-3) == [1.2e-3, 1.15e-3]
    assert race(1e-3, 1.09e-3, 1.07e-3, 1.08e-3) == [1.09e-3, 1.07e-3, 1.08e-3]
    assert len(race(1e-3, 1.06e-3, 1.05e-3, 1.09e-3, 1.07e-3)) == 4


def test_who_is_as_fast_once_runs_all_rows() -> None:
    assert len(race(1e-3, 1.03e-3, 1.1e-3, *[1.03e-3] * 5)) == 7
    assert len(race(1e-3, 1.2e-3, 1.01e-3, *[1.3e-3] * 5)) == 7
    assert len(race(None, *[0.9e-3, 0.8e-3] * 4)) == 7


def test_rows_that_agree_need_no_others() -> None:
    assert race(1e-3, 1.01e-3, 1e-3, 1.01e-3) == [1.01e-3, 1e-3, 1.01e-3]
    assert race(None, 9e-3, 9e-3, 9e-3) == [9e-3] * 3


def test_a_look_as_long_as_a_row_says_as_much() -> None:
    found, _ = look(10e-3, 30e-3, 14e-3)
    assert found.hopeless
    found, _ = look(0.3e-3, 0.55e-3, 0.45e-3)  # shorter ones have to be worse by far
    assert not found.hopeless

"""Several GPUs: a worker for each, which sees no other; candidates are shared out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.errors import TuneError
from tilewright.measure import LocalRunner
from tilewright.measure.gpu_workers import chosen_gpus, pools_for, shared_out
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
from tilewright.records import RunnerInput
from tilewright.testing.fake_gpu import FakeDriver, installed

HOOKS = "tilewright.testing.gpu_hooks"


@pytest.fixture
def two_gpus() -> Iterator[FakeDriver]:
    fake = FakeDriver(device_count=2)
    with installed(fake):
        yield fake


def runner(**options: object) -> LocalRunner:
    hooks = {"f_load": f"{HOOKS}:load", "f_run_evaluator": f"{HOOKS}:evaluate"}
    return LocalRunner(timeout_sec=60, **hooks, **options)  # type: ignore[arg-type]


def seen_by_workers(member: LocalRunner, count: int, folder: Path) -> list[int]:
    """The GPU that each of some candidates ran on."""
    inputs = [RunnerInput(str(folder / f"{number}.{count}"), "cuda", ()) for number in range(count)]
    try:
        results = [future.result() for future in member.run(inputs)]
    finally:
        member.close()
    assert [each.error_msg for each in results] == [None] * count
    return [int(each.run_secs[0]) for each in results if each.run_secs]


def test_candidates_are_shared_out(two_gpus: FakeDriver, tmp_path: Path) -> None:
    """The worker of each waits until that of the other has begun."""
    seen = seen_by_workers(runner(), 2, tmp_path)
    assert sorted(seen) == [0, 1]
    assert {file.read_text() for file in tmp_path.iterdir()} == {"0", "1"}


def test_gpus_that_are_visible_here(
    two_gpus: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    assert sorted(seen_by_workers(runner(), 2, tmp_path)) == [3, 5]


def test_one_of_two(two_gpus: FakeDriver, tmp_path: Path) -> None:
    assert seen_by_workers(runner(devices=[1]), 1, tmp_path) == [1]


def test_all_of_the_first_ones_model(two_gpus: FakeDriver) -> None:
    assert chosen_gpus(None, "it") == [0, 1]
    two_gpus.other_names[1] = "NVIDIA A100"
    assert chosen_gpus(None, "it") == [0]
    assert chosen_gpus([1, 0], "it") == [1, 0]


def test_a_single_gpu_has_the_plain_worker() -> None:
    pool = WorkerPool(PoolOptions(1))
    assert pools_for([0], pool) == [pool]


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ([0, 2], "there is no cuda:2; this machine has cuda:0 to cuda:1"),
        ([-1], "there is no cuda:-1; this machine has cuda:0 to cuda:1"),
        ([1, 1], "name each GPU once, and at least one"),
        ([], "name each GPU once, and at least one"),
    ],
)
def test_gpus_that_are_not_there(
    two_gpus: FakeDriver, devices: list[int], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(TuneError) as error:
        seen_by_workers(runner(devices=devices), 1, tmp_path)
    assert str(error.value) == f"LocalRunner: devices={devices}: {reason}"


@pytest.mark.parametrize(("wanted", "named"), [(None, ""), ([0], "devices=[0]: ")])
def test_no_driver(wanted: list[int] | None, named: str) -> None:
    """A search ends with one line, instead of candidates that all fail."""
    with pytest.raises(TuneError) as error:
        chosen_gpus(wanted, "it")
    assert str(error.value).startswith(f"it: {named}no NVIDIA driver was found; ")


def test_an_error_stops_all() -> None:
    pools = [WorkerPool(PoolOptions(1)) for _ in range(2)]
    began = threading.Event()

    def run(number: int, pool: WorkerPool | None) -> int:
        assert pool is not None
        if number == 0:
            began.wait(30)
            raise TuneError("no more")
        began.set()
        with pytest.raises(TuneError, match=r"^the tasks of a pool of workers were stopped$"):
            pool.run([Task(f"{HOOKS}:wait_forever", b"", 60.0)])
        return number

    with pytest.raises(TuneError, match=r"^no more$"):
        shared_out(range(10), pools, run)
    for pool in pools:
        pool.close()

"""What is gathered from a database, and the figures that follow from it."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.database import Database, MemoryDatabase
from tilewright.database.record_ids import find_records, looks_like_id, record_id
from tilewright.ir import IRModule
from tilewright.records import FailureKind, TuningRecord
from tilewright.report.collect import StageTotal, collect
from tilewright.report.roofline import flop_of, roofline_of
from tilewright.report.units import duration, gflops, percent, seconds, short_target
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.conformance.database import a_record, matmul


def test_tasks(database: Database) -> None:
    small, big, loose = collect(database)
    assert (small.title, big.title, loose.title) == (
        "mm · C 16x16x16",
        "big · C 64x64x64",
        "C 8x8x8",
    )
    times = [trial.mean_secs for trial in small.predicted]
    assert times == [8e-6, None, 4e-6, 6e-6, 2e-6, 3e-6, 1e-6]
    assert [trial.run for trial in small.predicted] == [1] * 5 + [2] * 2
    assert small.course.best == [(1, 8e-6), (3, 4e-6), (5, 2e-6), (7, 1e-6)]
    assert small.course.runs == [(6, 2)]
    assert (small.best_secs, small.failed, small.records) == (1e-6, 1, 7)
    assert small.errors == {FailureKind.TIMEOUT: "took <10 s>"}
    assert small.flop == 2 * 16**3
    assert loose.best_secs == 5e-7


def test_nothing_worked() -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_tuning_record(a_record(workload, 1e10, failure=FailureKind.CRASH))
    (task,) = collect(database)
    assert (task.best, task.best_secs, task.share, task.failed) == (None, None, None, 1)


def test_the_funnel_that_was_counted(database: Database) -> None:
    _, big, _ = collect(database)
    assert big.funnel == (
        StageTotal("proposed", 10),
        StageTotal("legal", 4, {"VerifyGPUCode": 5, "DisallowDynamicLoop": 1}),
        StageTotal("built", 2),
    )


def test_the_funnel_that_follows_from_trials() -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul(8, 8, 8))
    failures = [
        None,
        FailureKind.BUILD_ERROR,
        FailureKind.CRASH,
        FailureKind.TIMEOUT,
        FailureKind.TIMEOUT,
        FailureKind.WRONG_RESULT,
        None,
    ]
    for number, failure in enumerate(failures):
        secs = 1e-6 * (number + 1) if failure is None else 1e10
        extra = {"seed": number, "round": 0}
        database.commit_tuning_record(a_record(workload, secs, failure=failure, extra=extra))
    (task,) = collect(database)
    assert task.funnel == (
        StageTotal("measured", 7),
        StageTotal("built", 6, {"build_error": 1}),
        StageTotal("ran", 3, {"timeout": 2, "crash": 1}),
        StageTotal("correct", 2, {"wrong_result": 1}),
    )


# --- ids ----------------------------------------------------------------------------------------


def _by_id(database: Database) -> dict[str, TuningRecord]:
    return {record_id(record): record for record in database.get_all_tuning_records()}


def test_ids(database: Database) -> None:
    ids = _by_id(database)
    assert len(ids) == len(database)
    for name, record in ids.items():
        assert len(name) == 10
        assert find_records(database, name.upper()) == [(name, record)]
    assert len(find_records(database, "")) == len(database)


def test_ids_do_not_depend_on_the_database(database: Database) -> None:
    other = MemoryDatabase()
    other.commit_tuning_records(reversed(database.get_all_tuning_records()))
    assert _by_id(other).keys() == _by_id(database).keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a1b2", True), ("A1B2C3", True), ("abc", False), ("GMM:0", False), ("f.py", False)],
)
def test_what_looks_like_an_id(text: str, expected: bool) -> None:
    assert looks_like_id(text) is expected


# --- figures ------------------------------------------------------------------------------------

# 2 cores x 8 lanes x 4 operations x 3.5 GHz
PEAK = 224e9


@pytest.mark.parametrize(
    ("tag", "dtype", "size", "seconds", "bound"),
    [
        ("nvidia/nvidia-h200", "float32", 4096, 2 * 4096**3 / (132 * 1.98e9 * 256), "compute"),
        ("nvidia/nvidia-h200", "float16", 4096, 2 * 4096**3 / (132 * 1.98e9 * 4096), "compute"),
        ("nvidia/nvidia-h200", "uint8", 4096, 2 * 4096**3 / (132 * 1.98e9 * 8192), "compute"),
        ("nvidia/nvidia-a100", "bfloat16", 4096, 2 * 4096**3 / (108 * 1.41e9 * 2048), "compute"),
        ("nvidia/nvidia-h200", "float32", 16, 3 * 4 * 16**2 / (2 * 4.8e12), "memory"),
        ("nvidia/nvidia-l4", "float8_e4m3fn", 4096, 2 * 4096**3 / (58 * 2.04e9 * 2048), "compute"),
    ],
)
def test_rooflines_of_gpus(tag: str, dtype: str, size: int, seconds: float, bound: str) -> None:
    product = te.create_prim_func(te_workload.matmul(size, size, size, dtype))
    found = roofline_of(IRModule({"main": product}), Target(tag))
    assert found is not None
    assert found.bound == bound
    assert found.seconds == pytest.approx(seconds, rel=0.02)


def test_rooflines() -> None:
    target = Target("llvm -mcpu=haswell -num-cores=2")
    compute = roofline_of(matmul(256, 256, 256), target)
    assert compute is not None
    assert compute.bound == "compute"
    assert compute.seconds == pytest.approx(2 * 256**3 / PEAK)
    assert compute.share(2 * compute.seconds) == pytest.approx(0.5)
    assert compute.share(None) is None
    memory = roofline_of(matmul(256, 256, 1), target)
    assert memory is not None
    assert memory.bound == "memory"
    assert roofline_of(matmul(8, 8, 8), None) is None


def test_wide_vectors_in_two_halves() -> None:
    """What is twice as wide is no faster where it takes two steps."""

    def least(options: str) -> float:
        found = roofline_of(matmul(256, 256, 256), Target(f"llvm -num-cores=2 {options}"))
        assert found is not None
        return found.seconds

    assert least("-mcpu=znver4") == pytest.approx(least("-mcpu=haswell"))
    assert least("-mcpu=skylake-avx512") == pytest.approx(least("-mcpu=haswell") / 2)


def test_operations_are_counted() -> None:
    assert flop_of(matmul(8, 8, 8)) == 2 * 8**3


def test_units() -> None:
    assert [seconds(None), seconds(1.234e-5)] == ["-", "12.3 µs"]
    assert [gflops(1e9, secs) for secs in (None, 1e-3, 0.1, 2.0)] == ["-", "1000", "10.0", "0.500"]
    assert [percent(None), percent(0.123), percent(1.5)] == ["-", "12 %", "150 %"]
    assert [duration(0.4), duration(61), duration(3661)] == ["0 s", "1:01", "1:01:01"]
    assert [counted(1, "trial"), counted(0, "trial"), counted(2, "trial")] == [
        "1 trial",
        "0 trials",
        "2 trials",
    ]


def test_targets_in_a_few_words() -> None:
    assert short_target(None) == "-"
    assert short_target(Target("llvm -mcpu=haswell -num-cores=1")) == "llvm haswell, 1 core"
    assert short_target(Target("nvidia/nvidia-a100")) == "cuda sm_80"

"""Peaks of the machine, measured; shares of the roofline that never exceed all of it."""

from __future__ import annotations

import pytest

from tilewright.cost_model.prior import operations_per_cycle
from tilewright.database import MemoryDatabase
from tilewright.ir import as_module
from tilewright.report.collect import collect
from tilewright.report.roofline import BuiltFor, MeasuredPeaks, roofline_of
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul

HERE = Target("llvm -num-cores=1")


class Constant(BuiltFor):
    """A machine with a peak of the test's choice."""

    def operations(self) -> float:
        return 1e9

    def bandwidth(self, size: int) -> float:
        return 1e9


def test_no_share_is_more_than_all() -> None:
    limit = roofline_of(matmul(64, 64, 64), HERE, Constant(HERE))
    assert limit is not None
    assert limit.share(limit.seconds * 2) == pytest.approx(0.5)
    assert limit.share(limit.seconds / 7) == 1.0


def test_the_bound_follows_from_the_peaks() -> None:
    limit = roofline_of(matmul(64, 64, 64), HERE, Constant(HERE))
    assert limit is not None
    assert (limit.bound, limit.seconds) == ("compute", 2 * 64**3 / 1e9)
    limit = roofline_of(matmul(64, 64, 1), HERE, Constant(HERE))
    assert limit is not None
    assert (limit.bound, limit.seconds) == ("memory", 4 * (64 * 64 + 2 * 64) / 1e9)


def test_what_is_measured_is_of_this_world() -> None:
    """No more than any core has ever done, and more than an interpreter does."""
    peaks = MeasuredPeaks(HERE)
    assert 1e8 < peaks.operations() < 1e12
    for size in (1 << 10, 1 << 20, 1 << 30):
        assert 1e8 < peaks.bandwidth(size) < 1e12
    assert len(peaks.best_bandwidth) == 3


def test_the_best_of_several_measurements_counts() -> None:
    peaks = MeasuredPeaks(HERE, 1e15, {1 << 15: 1e15})
    peaks.measure_again()
    assert (peaks.operations(), peaks.bandwidth(1 << 15)) == (1e15, 1e15)
    low = MeasuredPeaks(HERE, 1.0, {1 << 15: 1.0})
    low.measure_again()
    assert low.operations() > 1e8
    assert low.bandwidth(1 << 15) > 1e8


def test_records_keep_the_peaks_that_they_were_measured_with() -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul(64, 64, 64))
    record = a_record(workload, 1e-3)
    database.commit_tuning_record(record)
    assert record.target is not None
    target = record.target
    (before,) = collect(database)
    assert before.roofline == roofline_of(workload.mod, target)
    MeasuredPeaks(target, 4e9, {1 << 15: 1e12}).save(database)
    MeasuredPeaks(target, 1e9, {1 << 15: 2e12, 1 << 20: 1e9}).save(database)
    (after,) = collect(database)
    assert after.roofline is not None
    assert after.roofline.seconds == pytest.approx(2 * 64**3 / 4e9)
    stored = MeasuredPeaks.stored(database, target)
    assert stored.best_bandwidth == {1 << 15: 2e12, 1 << 20: 1e9}


@pytest.mark.parametrize(
    ("mcpu", "dtypes", "times"),
    [
        ("haswell", ["float32"], 1.0),
        ("haswell", ["float64"], 0.5),
        ("haswell", ["float16", "float32"], 1.0),
        ("skylake-avx512", ["int8", "int8", "int32"], 4.0),
        ("sapphirerapids", ["int8", "int8", "int32"], 32.0),
        ("sapphirerapids", ["bfloat16", "bfloat16", "float32"], 16.0),
        ("cooperlake", ["bfloat16", "bfloat16", "float32"], 2.0),
    ],
)
def test_instructions_for_narrow_types(mcpu: str, dtypes: list[str], times: float) -> None:
    target = Target(f"llvm -mcpu={mcpu}")
    assert operations_per_cycle(target, dtypes) == times * operations_per_cycle(target)


def test_programs_of_functions() -> None:
    assert roofline_of(as_module(matmul(8, 8, 8)["main"]), HERE, Constant(HERE)) is not None

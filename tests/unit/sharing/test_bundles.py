"""Bundles: what is written is what is opened, built, checked and measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.errors import DatabaseError
from tilewright.ir import structural_equal
from tilewright.records import FAILED_RUN_SECS, FailureKind, Workload
from tilewright.sharing import bundle_of, measure_bundle, open_bundle, read_bundle, write_bundle
from tilewright.sharing.opening import OpenedBundle
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul

ARM = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")


def test_a_bundle_is_opened_and_measured(tmp_path: Path) -> None:
    record = a_record(Workload(matmul(16, 16, 16)), 1.5, 2.5)
    path = tmp_path / "kernel.twb"
    write_bundle(bundle_of(record), path)
    opened = open_bundle(path)
    assert structural_equal(opened.plain, record.workload.mod)
    assert structural_equal(opened.scheduled, record.as_measure_candidate().sch.mod)
    assert opened.bundle.run_secs == [1.5, 2.5]
    assert opened.made_for == record.target
    result = measure_bundle(opened)
    assert result.checked
    assert result.run_secs


def test_failed_records_can_be_sent(tmp_path: Path) -> None:
    failure, message = FailureKind.CRASH, "x" * 20_000
    workload = Workload(matmul(8, 8, 8))
    record = a_record(workload, FAILED_RUN_SECS, failure=failure, error_msg=message)
    path = tmp_path / "kernel.twb"
    write_bundle(bundle_of(record), path)
    read = read_bundle(path)
    assert (read.run_secs, read.failure, len(read.error_msg or "")) == (None, "crash", 10_000)


def test_where_it_is_measured() -> None:
    bundle = bundle_of(a_record(Workload(matmul(8, 8, 8)), 1.0, target=ARM))
    opened = OpenedBundle(bundle, matmul(8, 8, 8), matmul(8, 8, 8))
    assert opened.made_for is not None
    assert opened.measured_for.fingerprint == Target("llvm").fingerprint


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DatabaseError, match=f"^cannot write {tmp_path}/x.twb: "):
        write_bundle(bundle_of(a_record(Workload(matmul(8, 8, 8)), 1.0)), tmp_path / "x.twb")

"""Opens a bundle of anybody's: read, built, checked and measured in workers with limits."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tilewright.database.record_check import runs_here
from tilewright.database.stored_record import usable_module
from tilewright.errors import StoredDataError
from tilewright.ir import IRModule
from tilewright.ir.json import load_json
from tilewright.measure.local_builder import LocalBuilder
from tilewright.measure.local_runner import LocalRunner
from tilewright.measure.pool import PoolOptions, Task, WorkerPool
from tilewright.records import (
    FailureKind,
    MeasureCandidate,
    RunnerResult,
    args_info_of,
    read_target,
)
from tilewright.schedule import Schedule
from tilewright.sharing.bundle import Bundle, read_bundle
from tilewright.sharing.bundle_task import PERFORM, ReadProgram, ReadRequest
from tilewright.support.decoding import decoding
from tilewright.support.text import printable
from tilewright.target import Target
from tilewright.tune.context import TuneContext
from tilewright.tune.measuring import Measurer
from tilewright.tune.task import TaskRecord

READ_SECONDS = 60.0
READ_BYTES = 2 << 30
_WHY = {
    FailureKind.TIMEOUT: f"reading its program took more than {READ_SECONDS:.0f} s",
    FailureKind.OUT_OF_MEMORY: f"reading its program takes more than {READ_BYTES >> 30} GiB",
}
_logger = logging.getLogger("tilewright.sharing")


@dataclass(frozen=True)
class OpenedBundle:
    """A bundle whose programs were read."""

    bundle: Bundle
    plain: IRModule
    scheduled: IRModule

    @property
    def made_for(self) -> Target | None:
        """The target that it was measured on, if this version knows it."""
        return None if self.bundle.target is None else read_target(self.bundle.target)

    @property
    def measured_for(self) -> Target:
        """That target where its code may run here, else the CPU of this machine."""
        target = self.made_for
        is_fit = target is not None and (not target.is_cpu or runs_here(target))
        return target if target is not None and is_fit else Target("llvm")


def open_bundle(path: str | Path) -> OpenedBundle:
    """Read a bundle; what is wrong with it is one error."""
    bundle = read_bundle(Path(path))
    request = ReadRequest(bundle.program, list(bundle.trace))
    task = Task(PERFORM, msgspec.msgpack.encode(request), READ_SECONDS)
    with contextlib.closing(WorkerPool(PoolOptions(1, READ_BYTES))) as pool:
        (outcome,) = pool.run([task])
    if outcome.failure is not None:
        reason = _WHY.get(outcome.failure, "its program cannot be read")
        raise StoredDataError(f"{path}: {reason}")
    read = msgspec.msgpack.decode(outcome.payload, type=ReadProgram)
    if read.complaint:
        raise StoredDataError(printable(f"{path}: {read.complaint}"))
    with decoding(str(path), StoredDataError):
        plain, scheduled = (usable_module(load_json(t)) for t in (read.plain, read.scheduled))
    return OpenedBundle(bundle, plain, scheduled)


def measure_bundle(opened: OpenedBundle) -> RunnerResult:
    """Build the kernel, compare it with the plain program and time it, as a candidate."""
    task = TaskRecord(TuneContext(opened.plain, target=opened.measured_for))
    candidate = MeasureCandidate(Schedule(opened.scheduled), args_info_of(opened.plain))
    measurer = Measurer(LocalBuilder(max_workers=1), LocalRunner(), _logger)
    measured = measurer.measure(task, [candidate], lambda phase, count: None)
    if measured.interrupt is not None:
        raise measured.interrupt
    built = measured.built[0]
    if built.artifact_path is None:
        return RunnerResult(None, built.error_msg, FailureKind.BUILD_ERROR)
    return measured.results[0]

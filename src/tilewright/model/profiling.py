"""The time of each step of a model, beside what the machine could do."""

from __future__ import annotations

import io
import operator
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import ArgumentError
from tilewright.model.program import EXTERNAL, ModelProgram, ModelStep
from tilewright.runtime.timing import format_seconds
from tilewright.support.text import counted
from tilewright.target import Target

if TYPE_CHECKING:
    from rich.table import Table


class Peaks(Protocol):
    """The most that a machine does with all its cores."""

    def operations(self) -> float:
        """Operations of single precision a second."""
        ...

    def bandwidth(self, size: int) -> float:
        """Bytes a second, of that many bytes."""
        ...


@dataclass(frozen=True)
class StepProfile:
    """One step: how long it takes, and how long it would take at least."""

    name: str
    operators: tuple[str, ...]
    sources: tuple[str, ...]  # nodes of the original model
    seconds: float
    share: float  # of the time of all steps
    flop: float
    bytes: int  # of its arguments
    least_seconds: float | None  # by the roofline; None for steps that no kernel serves
    bound: str  # "compute", "memory" or "external"

    @property
    def gflops(self) -> float:
        """Operations a nanosecond."""
        return self.flop / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes a nanosecond."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def roofline_share(self) -> float | None:
        """How much of what is possible it reaches; never more than all of it."""
        if self.least_seconds is None or not self.seconds:
            return None
        return min(1.0, self.least_seconds / self.seconds)

    def row(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "name": self.name,
            "operators": list(self.operators),
            "sources": list(self.sources),
            "seconds": self.seconds,
            "share": self.share,
            "flop": self.flop,
            "bytes": self.bytes,
            "gflops": self.gflops,
            "gigabytes_per_second": self.gigabytes_per_second,
            "roofline_share": self.roofline_share,
            "bound": self.bound,
        }


@dataclass(frozen=True)
class ModelProfile(Sequence[StepProfile]):
    """The steps of a model in their order; prints as a table."""

    steps: tuple[StepProfile, ...]
    seconds: float  # the median of whole runs
    threads: int = 0  # on the CPU
    device: str = "cpu"

    def __getitem__(self, number: Any) -> Any:
        return self.steps[number]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[StepProfile]:
        return iter(self.steps)

    def rows(self) -> list[dict[str, Any]]:
        """The figures of all steps, for tables and files."""
        return [step.row() for step in self.steps]

    def table(self, limit: int | None = None) -> Table:
        """For a console: all steps, or the slowest ones."""
        from rich.table import Table

        where = f", {counted(self.threads, 'thread')}" if self.threads else f" on {self.device}"
        title = f"{format_seconds(self.seconds)} a run{where}"
        table = Table(title=title, title_justify="left")
        table.add_column("step", overflow="fold")
        for heading in ("time", "share", "GFLOP/s", "GB/s", "roofline", "bound"):
            table.add_column(heading, justify="right")
        table.add_column("nodes", overflow="fold")
        for step in self._chosen(limit):
            table.add_row(*_cells(step))
        return table

    def _chosen(self, limit: int | None) -> Sequence[StepProfile]:
        slowest_first = sorted(self.steps, key=lambda step: -step.seconds)
        return self.steps if limit is None else slowest_first[:limit]

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=140)
        with console.capture() as captured:
            console.print(self.table())
        return captured.get()


def _cells(step: StepProfile) -> tuple[str, ...]:
    reached = step.roofline_share
    return (
        step.name,
        format_seconds(step.seconds),
        f"{100 * step.share:.1f} %",
        f"{step.gflops:.1f}",
        f"{step.gigabytes_per_second:.1f}",
        "-" if reached is None else f"{100 * reached:.0f} %",
        step.bound,
        ", ".join(step.sources),
    )


def checked_repeats(repeats: int) -> int:
    """At least one run."""
    if operator.index(repeats) < 1:
        raise ArgumentError(f"profile: expected at least 1 repeat, got {repeats}")
    return repeats


def profile_of(
    program: ModelProgram, runs: Sequence[Sequence[int]], threads: int, peaks: Peaks | None
) -> ModelProfile:
    """The profile of runs, given by the nanoseconds of their steps."""
    target = Target(program.target) if program.target else None
    machine = _Cores(target, threads, peaks) if target is not None and target.is_cpu else None
    total = statistics.median(sum(times) for times in runs) / 1e9
    return ModelProfile(_steps(program, runs, machine), total, threads)


def gpu_profile_of(
    program: ModelProgram, runs: Sequence[Sequence[int]], whole: Sequence[int]
) -> ModelProfile:
    """The profile of kernels on a GPU, each timed by itself, and of whole runs."""
    target = Target(program.target) if program.target else None
    machine = None if target is None else _Gpu(target)
    name = "the GPU" if target is None else target.gpu.model
    total = statistics.median(whole) / 1e9
    return ModelProfile(_steps(program, runs, machine), total, device=name)


def _steps(
    program: ModelProgram, runs: Sequence[Sequence[int]], machine: _Machine | None
) -> tuple[StepProfile, ...]:
    medians = [statistics.median(times) / 1e9 for times in zip(*runs, strict=True)]
    whole = sum(medians) or 1.0
    return tuple(
        _step_profile(step, seconds, seconds / whole, machine)
        for step, seconds in zip(program.steps, medians, strict=True)
    )


class _Machine(Protocol):
    def least_seconds(self, step: ModelStep, size: int) -> tuple[float, str]:
        """By the roofline, and what it is bound by."""
        ...


@dataclass(frozen=True)
class _Gpu:
    target: Target

    def least_seconds(self, step: ModelStep, size: int) -> tuple[float, str]:
        from tilewright.cost_model.gpu_peaks import GpuPeaks  # which a run does not need

        peaks = GpuPeaks(self.target)
        compute = step.flop / peaks.operations([info.dtype for info in step.values])
        memory = size / peaks.bandwidth(size)
        return max(compute, memory), "compute" if compute >= memory else "memory"


@dataclass(frozen=True)
class _Cores:
    target: Target
    threads: int
    peaks: Peaks | None

    def least_seconds(self, step: ModelStep, size: int) -> tuple[float, str]:
        from tilewright.cost_model.peaks import BuiltFor  # which a run does not need
        from tilewright.cost_model.prior import operations_per_cycle

        peaks, dtypes = self.peaks or BuiltFor(self.target), [info.dtype for info in step.values]
        factor = operations_per_cycle(self.target, dtypes) / operations_per_cycle(self.target)
        cores = min(1.0, self.threads / self.target.num_cores)
        compute = step.flop / (peaks.operations() * factor * cores)
        memory = size / (peaks.bandwidth(size) * cores)
        return max(compute, memory), "compute" if compute >= memory else "memory"


def _step_profile(
    step: ModelStep, seconds: float, share: float, machine: _Machine | None
) -> StepProfile:
    size = sum(info.bytes for info in step.values)
    least, bound = None, "external"
    if step.kernel != EXTERNAL and machine is not None:
        least, bound = machine.least_seconds(step, size)
    return StepProfile(
        step.name, step.operators, step.sources, seconds, share, step.flop, size, least, bound
    )

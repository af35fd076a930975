"""A report on a compiled model: which record serves which of its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.model.kernels import KernelCall, ModelKernel
from tilewright.model.rounding import TiledConvolution
from tilewright.model.schedules import KernelOrigin, Match
from tilewright.model.tasks import task_name
from tilewright.runtime.timing import format_seconds
from tilewright.support.text import counted

_HEADER = ("kernel", "runs", "served by", "record", "measured", "operators")
_MOST_SOURCES = 3


@dataclass(frozen=True)
class ServedKernel:
    """One kernel, and what its schedule comes from."""

    name: str
    runs: int  # how often it runs in the model
    sources: tuple[str, ...]  # nodes of the original model
    origin: KernelOrigin

    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        secs, origin = self.origin.seconds, self.origin
        more = ", ..." if len(self.sources) > _MOST_SOURCES else ""
        return (
            self.name,
            str(self.runs),
            origin.match.value + (f" ({origin.note})" if origin.note else ""),
            origin.record_name or "-",
            "-" if secs is None else format_seconds(secs),
            ", ".join(self.sources[:_MOST_SOURCES]) + more,
        )


@dataclass(frozen=True)
class ServiceReport:
    """All kernels of a model in the order in which they run first; prints as a table."""

    kernels: Sequence[ServedKernel]
    tiled: Sequence[TiledConvolution] = ()  # those that Winograd's tiles compute

    def count(self, match: Match) -> int:
        """How many kernels are served like that."""
        return sum(kernel.origin.match is match for kernel in self.kernels)

    @property
    def knows_none(self) -> bool:
        """True if no kernel has a record, not even one that lost against a calculated kernel."""
        origins = [kernel.origin for kernel in self.kernels]
        return all(origin.match is Match.NONE and not origin.note for origin in origins)

    def summary(self) -> str:
        """`12 kernels: 10 exact, 1 anchor block, 1 without a record`."""
        counts = Counter(kernel.origin.match for kernel in self.kernels)
        words = {match: match.value for match in Match} | {Match.NONE: "without a record"}
        parts = ", ".join(f"{counts[match]} {words[match]}" for match in Match if counts[match])
        return f"{counted(len(self.kernels), 'kernel')}: {parts}"

    def rows(self) -> list[tuple[str, ...]]:
        """A header, and a row for each kernel."""
        return [_HEADER, *(kernel.cells() for kernel in self.kernels)]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self.summary(), *map(str, self.tiled)])


def report_of(calls: Iterable[object], tiled: Sequence[TiledConvolution] = ()) -> ServiceReport:
    """What serves the kernels among the steps of a model; what runs elsewhere has none."""
    by_kernel: dict[ModelKernel, list[KernelCall]] = {}
    for call in calls:
        if isinstance(call, KernelCall):
            by_kernel.setdefault(call.kernel, []).append(call)
    return ServiceReport([_served(kernel, own) for kernel, own in by_kernel.items()], tiled)


def _served(kernel: ModelKernel, calls: Sequence[KernelCall]) -> ServedKernel:
    sources = dict.fromkeys(
        node.source for call in calls for node in call.group.nodes if node.source
    )
    return ServedKernel(task_name(calls[0].group), len(calls), tuple(sources), kernel.origin)

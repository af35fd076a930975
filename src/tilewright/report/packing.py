"""What is said of kernels whose weights are packed before the clock starts."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import TilewrightError
from tilewright.ir import IRModule
from tilewright.lowering.prepacking import packed_weights
from tilewright.records import TuningRecord


def packed_in(mod: IRModule) -> list[str]:
    """The arguments that a scheduled program takes packed when it is measured."""
    return [name for func in mod.functions.values() for name in packed_weights(func)]


def packed_by(record: TuningRecord) -> list[str]:
    """The same for a record; nothing if it cannot be replayed here."""
    try:
        return packed_in(record.as_measure_candidate().sch.mod)
    except TilewrightError:
        return []


def packing_note(names: Sequence[str]) -> str:
    """What to know about a running time; empty if there is nothing to know."""
    if not names:
        return ""
    call = f"bind({', '.join(f'{name}=...' for name in names)})"
    return f"not counted: packing {' and '.join(names)}, which {call} does once"

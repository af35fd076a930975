"""Notes about kernels whose weights are packed before the clock starts."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import IRModule
from tilewright.lowering.prepacking import packed_weights
from tilewright.records import TuningRecord
from tilewright.space.layout_free import has_bound_weights


def packed_in(mod: IRModule) -> list[str]:
    """The arguments that a scheduled program packs."""
    return [name for func in mod.functions.values() for name in packed_weights(func)]


def packed_before(mod: IRModule) -> list[str]:
    """Those of them that are packed before the clock starts: the program says they are bound."""
    bound = any(map(has_bound_weights, mod.functions.values()))
    return packed_in(mod) if bound else []


def packed_by(record: TuningRecord) -> list[str]:
    """The same for a record; nothing if it cannot be replayed here."""
    candidate = record.as_candidate_or_none()
    return [] if candidate is None else packed_before(candidate.sch.mod)


def packing_note(names: Sequence[str]) -> str:
    """What to know about a running time; empty if there is nothing to know."""
    if not names:
        return ""
    call = f"bind({', '.join(f'{name}=...' for name in names)})"
    return f"not counted: packing {' and '.join(names)}, which {call} does once"

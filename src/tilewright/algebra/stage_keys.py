"""Keys of stages, by all that their nests depend on: stages of several cases are often the same.

Digits are known by the order in which loops, bindings and predicates mention them, so that trees
with other digits of the same extents have the same keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tilewright.algebra.expr import Value
from tilewright.algebra.loop_tree import Digit, LoopNode, StageNode, loops_of


def stage_key(stage: StageNode) -> Hashable | None:
    """All that its nests depend on; None for a stage with blocks or packed buffers inside."""
    if stage.outer is not None or stage.parts or stage.init_parts or stage.packed:
        return None
    digits = _Digits()
    notes = [_notes(stage.annotations), *[_notes(loop.annotations) for loop in loops_of(stage)]]
    if any(each is None for each in notes):
        return None
    return (
        stage.name, stage.block, stage.does, tuple(notes),
        tuple(digits.loop(loop) for loop in loops_of(stage)),
        tuple(digits.terms(terms) for terms in stage.bindings),
        tuple((digits.terms(each.terms), each.limit) for each in stage.predicates),
        tuple(digits.seen),
    )  # fmt: skip


def _notes(annotations: Mapping[str, object]) -> Hashable | None:
    """Annotations; None where they cannot be told apart."""
    found = tuple(annotations.items())
    try:
        hash(found)
    except TypeError:  # there are lists in it
        return None
    return found


class _Digits:
    """Numbers of digits, and what each of them is."""

    def __init__(self) -> None:
        self._numbers: dict[Digit, int] = {}
        self.seen: list[Hashable] = []

    def loop(self, loop: LoopNode) -> Hashable:
        numbers = tuple(self._number(digit) for digit in loop.digits)
        return numbers, loop.kind, loop.tag, loop.in_parallel, loop.in_vector

    def terms(self, terms: Mapping[Digit, Value]) -> Hashable:
        return tuple((self._number(digit), stride) for digit, stride in terms.items())

    def _number(self, digit: Digit) -> int:
        if digit not in self._numbers:
            source = None if digit.source is None else self.terms(digit.source)
            self._numbers[digit] = len(self._numbers)
            flags = digit.is_covered, digit.is_aligned
            self.seen.append((digit.extent, source, digit.below, digit.total, *flags))
        return self._numbers[digit]

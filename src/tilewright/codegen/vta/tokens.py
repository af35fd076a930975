"""Instructions in the order of the program, and the tokens that keep modules in step.

An instruction waits for the last one of a neighbour that it depends on, unless it, or one before it
in its module, has waited for that or a later one already. So the tokens of a queue are popped in
the order in which they are pushed, and the order of the program is one in which nothing is stuck.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.codegen.vta.nests import Array
from tilewright.codegen.vta.program import PlacedTensor
from tilewright.errors import CodegenError
from tilewright.vta import isa
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa import Engine, Instruction, MemoryKind, module_of

NEVER = -1
MOST_INSTRUCTIONS = (1 << 22) // isa.INSTRUCTION_BYTES
_Marks = dict[MemoryKind, npt.NDArray[np.int64]]


class Stream:
    """A program that grows; it knows which instruction used each element of a scratchpad last."""

    def __init__(self, configuration: Configuration) -> None:
        self._instructions: list[Instruction] = []
        self._waited = {(a, b): NEVER for a in Engine for b in Engine}
        held = (MemoryKind.INP, MemoryKind.WGT, MemoryKind.ACC)

        def marks() -> _Marks:
            return {memory: np.full(configuration.depth(memory), NEVER) for memory in held}

        # Scratchpads of operands pass from loads to operations, that of results on to stores.
        self._filled, self._drained = marks(), marks()
        self._moved: dict[tuple[PlacedTensor, Engine], int] = {}

    def add(
        self,
        instruction: Instruction,
        *,
        fills: Mapping[MemoryKind, Array] | None = None,
        drains: Mapping[MemoryKind, Array] | None = None,
        tensor: PlacedTensor | None = None,
    ) -> None:
        """An instruction, with the elements that it makes for another module, or takes from one.

        `tensor` is what a transfer reads in main memory, or writes.
        """
        module = module_of(instruction)
        waits = self._last_uses(fills or {}, drains or {})
        if tensor is not None:
            other = Engine.LOAD if module is Engine.STORE else Engine.STORE
            self._order_tensor(waits, module, self._moved.get((tensor, other), NEVER), other)
        number = self._append(instruction, waits)
        for memory, elements in (fills or {}).items():
            self._filled[memory][elements] = number
        for memory, elements in (drains or {}).items():
            self._drained[memory][elements] = number
        if tensor is not None:
            self._moved[tensor, module] = number

    def _last_uses(
        self, fills: Mapping[MemoryKind, Array], drains: Mapping[MemoryKind, Array]
    ) -> dict[Engine, int]:
        """By module: the last instruction that made what is taken, or took what is made anew."""
        found: dict[Engine, int] = {}
        for used, marks in ((fills, self._drained), (drains, self._filled)):
            for memory, elements in used.items():
                number = int(marks[memory][elements].max())
                if number != NEVER:
                    module = module_of(self._instructions[number])
                    found[module] = max(found.get(module, NEVER), number)
        return found

    def _order_tensor(
        self, waits: dict[Engine, int], module: Engine, number: int, other: Engine
    ) -> None:
        """Wait for an instruction that used a tensor; loads and stores meet only in the middle."""
        if number == NEVER:
            return
        if module is not Engine.COMPUTE:
            nothing = isa.LoadRows(memory=MemoryKind.UOP, x_size=0, y_size=0)
            number, other = self._append(nothing, {other: number}), Engine.COMPUTE
        waits[other] = max(waits.get(other, NEVER), number)

    def _append(self, instruction: Instruction, waits: Mapping[Engine, int]) -> int:
        module, pops = module_of(instruction), {}
        for other, number in waits.items():
            if number > self._waited[other, module]:
                self._waited[other, module] = number
                pops["pop_prev" if other < module else "pop_next"] = 1
                side = "push_next" if other < module else "push_prev"
                self._instructions[number] = _with_tokens(self._instructions[number], {side: 1})
        self._instructions.append(_with_tokens(instruction, pops))
        if len(self._instructions) > MOST_INSTRUCTIONS:
            raise CodegenError(
                f"vta: the program has more than {MOST_INSTRUCTIONS} instructions, the most that "
                "the machine reads; make its tiles larger"
            )
        return len(self._instructions) - 1

    def finish(self) -> tuple[Instruction, ...]:
        """The whole program, which ends when all modules are done."""
        last = {Engine.LOAD: NEVER, Engine.STORE: NEVER}
        for number, each in enumerate(self._instructions):
            if module_of(each) in last:
                last[module_of(each)] = number
        self._append(isa.Finish(), last)
        return tuple(self._instructions)


def _with_tokens(instruction: Instruction, tokens: Mapping[str, int]) -> Instruction:
    made: Any = replace(cast("Any", instruction), **tokens)
    return cast("Instruction", made)

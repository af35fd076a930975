"""Writing LLVM IR text, one function at a time.

Code is emitted into nested regions (loop bodies, branches). A pure instruction is placed in the
outermost region where its operands exist and is written only once there: loop-invariant code motion
and common-subexpression elimination happen while the text is made, so LLVM has far less to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# How many lines further on a load is still shared.
SHARING_REACH = 64


class Value(NamedTuple):
    """An SSA value or constant: LLVM type, text, and the depth of the region that defines it."""

    type: str
    text: str
    depth: int = 0

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


@dataclass
class Region:
    """Instructions that run under one condition: a function, a loop body or a branch."""

    label: str  # of the basic block that is open at the end of the region
    lines: list[str] = field(default_factory=list)
    known: dict[str, Value] = field(default_factory=dict)  # instruction text -> its value
    loaded: dict[str, tuple[Value, int]] = field(default_factory=dict)  # -> value, line number


class FunctionEmitter:
    """Collects the body of one function."""

    def __init__(self) -> None:
        self.regions = [Region("entry")]
        self.allocas: list[str] = []
        self.epoch = 0  # changes whenever code of another region comes in between
        self._counter = 0

    @property
    def depth(self) -> int:
        return len(self.regions) - 1

    @property
    def current(self) -> Region:
        return self.regions[-1]

    def fresh(self, stem: str) -> str:
        """A name that the function does not use yet."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def pure(self, type_: str, instruction: str, operands: Sequence[Value]) -> Value:
        """An instruction without effects or traps; hoisted and shared."""
        depth = 0
        for operand in operands:
            if operand.depth > depth:
                depth = operand.depth
        region = self.regions[depth]
        value = region.known.get(instruction)
        if value is None:
            self._counter += 1
            name = f"%v{self._counter}"
            value = region.known[instruction] = Value(type_, name, depth)
            region.lines.append(f"  {name} = {instruction}")
        return value

    def here(self, type_: str, instruction: str) -> Value:
        """An instruction that must stay where it is, e.g. a load."""
        self._counter += 1
        name = f"%v{self._counter}"
        self.regions[-1].lines.append(f"  {name} = {instruction}")
        return Value(type_, name, self.depth)

    def shared(self, type_: str, instruction: str) -> Value:
        """An instruction that stays where it is and serves the code that follows it.

        In a long stretch of code it is written again: a value that lives through all of it would
        only be spilled, while a load can be an operand of the instruction that needs it.
        """
        for region in reversed(self.regions):
            found = region.loaded.get(instruction)
            if found is not None:
                value, line = found
                if len(region.lines) - line < SHARING_REACH:
                    return value
                break
        value = self.here(type_, instruction)
        current = self.regions[-1]
        current.loaded[instruction] = (value, len(current.lines))
        return value

    def line(self, instruction: str) -> None:
        """An instruction without a result."""
        self.regions[-1].lines.append(f"  {instruction}")

    def claim(self, fact: str) -> bool:
        """True the first time; False where a check of the same fact was passed on the way here."""
        if any(fact in region.known for region in self.regions):
            return False
        self.regions[-1].known[fact] = Value("", "")
        return True

    def open_region(self, label: str) -> None:
        """Start a nested region; its text is placed when it is closed."""
        self.epoch += 1
        self.regions.append(Region(label))

    def close_region(self) -> Region:
        """End the innermost region and hand it over."""
        return self.regions.pop()

    def place(self, region: Region, label: str) -> None:
        """Append a closed region as a basic block (or several) called `label`."""
        self.epoch += 1
        current = self.regions[-1]
        current.lines.append(f"{label}:")
        current.lines.extend(region.lines)
        current.label = region.label

    def start_block(self, label: str) -> None:
        """Continue the current region in a new basic block."""
        current = self.regions[-1]
        current.lines.append(f"{label}:")
        current.label = label

    def alloca(self, instruction: str) -> Value:
        """Stack memory for the whole run of the function."""
        self._counter += 1
        name = f"%stack{self._counter}"
        self.allocas.append(f"  {name} = {instruction}")
        return Value("ptr", name, 0)

    def body(self) -> str:
        """The text between the braces."""
        lines = filter(None, self.regions[0].lines)  # a store that was taken back left a gap
        return "\n".join(["entry:", *self.allocas, *lines])

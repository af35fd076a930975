"""Replays a trace step by step: the program after each step, its loops, and open decisions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tilewright.errors import TilewrightError
from tilewright.ir import IRModule
from tilewright.ir.highlight import to_classes
from tilewright.schedule import Instruction, PrimitiveError, Schedule, Trace
from tilewright.schedule.trace.text import without_probabilities
from tilewright.serve.choices import StepChoice, choice_of
from tilewright.serve.loop_tree import Tree, loop_trees
from tilewright.support.decoding import decoding
from tilewright.support.text import printable

Decided = int | list[int]
_MOST_STEPS = 500
_MOST_TEXT = 4 << 20  # characters of all programs; those after it are not shown


class ProgramChange(msgspec.Struct):
    """Lines of the program before a step that others take the place of, and the loops after it."""

    edits: list[tuple[int, int, list[str]]]  # from line, to line, coloured lines
    loops: list[Tree]


class ReplayedStep(msgspec.Struct):
    """One step of a trace."""

    text: str  # as Python
    change: ProgramChange | None = None  # None: the program stays as it is
    choice: StepChoice | None = None  # of a step that takes a decision
    is_postproc: bool = False


class Replayed(msgspec.Struct):
    """A trace from the first step to the last, or to the one that could not be carried out."""

    begin: list[str]  # coloured lines
    loops: list[Tree]
    steps: list[ReplayedStep]
    failed: str = ""  # the step after the last one, which could not be carried out
    error: str = ""  # why


@dataclass
class Stepper:
    """Replays a trace on a program and looks at it before each step."""

    mod: IRModule
    decided: Mapping[int, Decided] = field(default_factory=dict)  # instead of those of the trace

    def __post_init__(self) -> None:
        self._sch = Schedule(self.mod, seed=1)
        self._lines = self.mod.script().splitlines()
        self._seen = self.mod
        self._length = 0
        self._number = 0  # of the step that comes next
        self._choices: dict[int, StepChoice] = {}
        self._changes: list[ProgramChange | None] = []

    def run(self, trace: Trace) -> Replayed:
        """All steps that can be carried out."""
        begin, loops = _coloured(self._lines), loop_trees(self.mod)
        short = Trace(trace.insts[:_MOST_STEPS], trace.decisions)
        failed = error = ""
        try:
            with decoding("the trace cannot be replayed", TilewrightError):
                short.apply_to_schedule(self._sch, False, self._before_step)
            self._look()
        except TilewrightError as failure:
            failed = self._text_of_failed(short)
            error = in_one_line(failure)
        return Replayed(begin, loops, self._steps(), failed, error)

    @property
    def schedule(self) -> Schedule:
        """The schedule as it is after the last step."""
        return self._sch

    def _before_step(
        self,
        inst: Instruction,
        inputs: Sequence[object],
        attrs: Sequence[object],
        decision: Decided | None,
    ) -> Decided | None:
        self._look()
        place = self._number
        self._number += 1
        choice = choice_of(self._sch, inst, inputs, attrs)
        if choice is None:
            return decision
        self._choices[place] = choice
        return self.decided.get(place, decision)

    def _look(self) -> None:
        """Note what the last step has changed, if there was one."""
        if not self._number:
            return
        if self._sch.mod is self._seen or self._length > _MOST_TEXT:
            self._changes.append(None)
            return
        self._seen = self._sch.mod
        lines = self._seen.script().splitlines()
        self._length += sum(map(len, lines))
        edits = _edits(self._lines, lines)
        self._lines = lines
        self._changes.append(ProgramChange(edits, loop_trees(self._seen)) if edits else None)

    def _text_of_failed(self, trace: Trace) -> str:
        decisions = dict(trace.decisions)
        for place, decision in self.decided.items():
            if place < len(trace.insts):
                decisions[trace.insts[place]] = decision
        lines = _lines(trace.insts, decisions)
        return lines[len(self._changes)] if len(self._changes) < len(lines) else ""

    def _steps(self) -> list[ReplayedStep]:
        """The steps that were carried out, with the decisions that were taken in the end."""
        done = self._sch.trace
        assert done is not None
        texts = _lines(done.insts, done.decisions)
        steps = []
        for place, (change, inst) in enumerate(zip(self._changes, done.insts, strict=True)):
            choice = self._choices.get(place)
            if choice is not None:
                choice = msgspec.structs.replace(choice, value=done.decisions.get(inst))
            steps.append(ReplayedStep(texts[place], change, choice, inst.step.is_postproc))
        return steps


def _lines(insts: Sequence[Instruction], decisions: Mapping[Instruction, object]) -> list[str]:
    return [without_probabilities(line) for line in Trace(insts, decisions).as_python()]


def in_one_line(error: Exception) -> str:
    """The message of an error without the excerpt of the program."""
    text = error.headline() if isinstance(error, PrimitiveError) else str(error)
    return printable(text.removeprefix("ScheduleError: "))


def _edits(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, list[str]]]:
    found = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        (start, end, _coloured(after[first:last]))
        for kind, start, end, first, last in found
        if kind != "equal"
    ]


def _coloured(lines: Sequence[str]) -> list[str]:
    return [to_classes(line) for line in lines]

"""Traces: the steps of a schedule and the decisions taken in them.

A trace prints as Python that can be executed, goes to JSON and back in TVM's format, and replays on
any schedule; a decision provider may take other decisions on the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError
from tilewright.schedule.state import AnyRV, BlockRV, LoopRV
from tilewright.schedule.state.handles import new_expr_rv
from tilewright.schedule.trace.instruction import Instruction, Primitive, get_primitive
from tilewright.schedule.trace.text import input_from_json, input_to_json, name_rv, rvs_in
from tilewright.support.decoding import decoding
from tilewright.support.import_hooks import printed_package

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule

DecisionProvider = Callable[[Instruction, Sequence[Any], Sequence[Any], Any], Any]
SIGNATURE = "def apply_trace(sch: tir.Schedule) -> None:"


class Trace:
    """Instructions in order, with the decisions of those that sampled."""

    def __init__(
        self, insts: Iterable[Instruction] = (), decisions: Mapping[Instruction, Any] | None = None
    ) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add a step."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Take the last step away."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def get_decision(self, inst: Instruction) -> Any:
        """The decision taken in a step, or None."""
        return self.decisions.get(inst)

    def has_steps(self) -> bool:
        """True when something comes before the post-processing."""
        return bool(self.insts) and not self.insts[0].step.is_postproc

    def copy(self) -> Trace:
        """A trace of its own with the same steps."""
        return Trace(self.insts, self.decisions)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """The same steps with one decision changed."""
        insts = list(self._main_part(remove_postproc))
        return Trace(insts, {**self.decisions, inst: decision})

    def _main_part(self, remove_postproc: bool) -> Iterator[Instruction]:
        for inst in self.insts:
            if remove_postproc and inst.step.is_postproc:
                return
            yield inst

    def fixed_steps(self) -> tuple[Instruction, ...]:
        """The steps before the first one that takes a decision."""
        return tuple(itertools.takewhile(_is_fixed, self.insts))

    def apply_to_schedule(
        self,
        sch: Schedule,
        remove_postproc: bool,
        decision_provider: DecisionProvider | None = None,
        *,
        is_final: bool = False,
        done: Mapping[Instruction, object] | None = None,
    ) -> None:
        """Run the steps on another schedule, which records them again.

        `is_final`: no block will be moved afterwards, so that the questions which only moves ask
        need no answer after the last one. Searches replay often and save half of their time.
        `done`: the results of first steps that the schedule has behind it, see `fixed_steps`.
        """
        known: dict[object, object] = {}
        for inst, made in (done or {}).items():
            known.update(learned(inst, made))
        steps = list(self._main_part(remove_postproc))[len(done or {}) :]
        moves = [number for number, inst in enumerate(steps) if inst.step.moves_blocks]
        last_move = moves[-1] if is_final and moves else len(steps)
        for number, inst in enumerate(steps):
            if number > last_move:
                sch.state.settles_flow = False
            step = inst.step.with_handles(known)
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                decision = decision_provider(inst, step.inputs, step.attrs, decision)
            made = sch.run(step, decision)
            known.update(learned(inst, made))

    def simplified(self, remove_postproc: bool) -> Trace:
        """Without steps that have no effect and whose results nobody uses."""
        used: set[object] = set()
        kept: list[Instruction] = []
        for inst in reversed(list(self._main_part(remove_postproc))):
            if inst.step.is_pure and not any(output in used for output in inst.outputs):
                continue
            kept.append(inst)
            for value in inst.inputs:
                used.update(rvs_in(value))
        kept.reverse()
        return Trace(kept, {i: self.decisions[i] for i in kept if i in self.decisions})

    # --- texts ----------------------------------------------------------------------------------

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One line of Python a step."""
        names: dict[object, str] = {}
        steps = self._main_part(remove_postproc)
        return [inst.as_python(names, self.decisions.get(inst)) for inst in steps]

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """`[[instruction, ...], [[position, decision], ...]]`, as TVM writes it."""
        names: dict[object, str] = {}
        insts: list[Any] = []
        decisions: list[Any] = []
        for position, inst in enumerate(self._main_part(remove_postproc)):
            inputs = [input_to_json(value, names) for value in inst.inputs]
            outputs = [name_rv(output, names) for output in inst.outputs]
            insts.append([inst.step.kind, inputs, inst.step.attrs_to_json(), outputs])
            if (decision := self.decisions.get(inst)) is not None:
                decisions.append([position, decision])
        return [insts, decisions]

    @staticmethod
    def from_json(json_obj: object) -> Trace:
        """The trace that `as_json` wrote, without a program: nothing is carried out."""
        with decoding("the trace cannot be read", ScheduleError):
            insts, decisions = _checked_json(json_obj)
            known: dict[str, object] = {"None": None}
            trace = Trace()
            for position, inst in enumerate(insts):
                trace.append(_read_instruction(position, inst, known), decisions.get(position))
            return trace

    @staticmethod
    def apply_json_to_schedule(json_obj: object, sch: Schedule) -> None:
        """Run a trace in JSON form on a schedule."""
        insts, decisions = _checked_json(json_obj)
        known: dict[str, object] = {"None": None}
        with sch.all_or_nothing():
            for position, inst in enumerate(insts):
                _apply_json_instruction(sch, position, inst, decisions.get(position), known)

    def __str__(self) -> str:
        body = self.as_python() or ["pass"]
        header = f"# from {printed_package()} import tir"
        return "\n".join([header, SIGNATURE, *(f"  {line}" for line in body)])

    __repr__ = __str__

    def show(self) -> None:
        """Print the trace."""
        print(self)


def _is_fixed(inst: Instruction) -> bool:
    return inst.primitive.decide is Primitive.decide and not inst.step.is_postproc


def _apply_json_instruction(
    sch: Schedule, position: int, inst: Sequence[Any], decision: object, known: dict[str, object]
) -> None:
    kind, inputs, attrs, outputs = inst
    try:
        made = sch.run(_read_step(kind, inputs, attrs, known), decision)
    except ScheduleError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # What a caller of the method could not pass may well stand in a file.
        raise ScheduleError(
            f"instruction {position} of the trace cannot be carried out: {kind} with the inputs "
            f"{list(inputs)} and the attributes {list(attrs)}"
        ) from error
    results = results_of(made)
    if len(results) != len(outputs):
        raise ScheduleError(
            f"instruction {position} of the trace ({kind}) gave {len(results)} results, the trace "
            f"names {len(outputs)}: it was recorded on another program"
        )
    known.update(zip(outputs, results, strict=True))


def _read_instruction(position: int, inst: Sequence[Any], known: dict[str, object]) -> Instruction:
    kind, inputs, attrs, names = inst
    step = _read_step(kind, inputs, attrs, known)
    outputs: list[AnyRV] = []
    for name in names:
        if not isinstance(name, str) or name[:1] not in _RV_OF_PREFIX:
            raise ScheduleError(
                f"instruction {position} of the trace ({kind}) has a result called {name!r}; "
                "names start with b (block), l (loop) or v (number)"
            )
        outputs.append(_RV_OF_PREFIX[name[0]]())
        known[name] = outputs[-1]
    return Instruction.of(step, outputs)


def _read_step(
    kind: str, inputs: Sequence[object], attrs: Sequence[object], known: Mapping[str, object]
) -> Primitive[object]:
    primitive = get_primitive(kind)
    values = [input_from_json(value, known) for value in inputs]
    return primitive.from_row(values, primitive.attrs_from_json(attrs))


_RV_OF_PREFIX: dict[str, Callable[[], AnyRV]] = {"b": BlockRV, "l": LoopRV, "v": new_expr_rv}


def results_of(made: object) -> list[Any]:
    """The results of a step as a list."""
    if made is None:
        return []
    return list(made) if isinstance(made, list) else [made]


def learned(inst: Instruction, made: object) -> dict[object, object]:
    """What the results of a step in a trace are in another schedule."""
    results = results_of(made)
    if len(results) != len(inst.outputs):
        raise ScheduleError(
            f"{inst.step.method} gave {len(results)} results where the trace has "
            f"{len(inst.outputs)}: it was recorded on another program"
        )
    return dict(zip(inst.outputs, results, strict=True))


def _checked_json(json_obj: object) -> tuple[list[Any], dict[int, Any]]:
    if not isinstance(json_obj, (list, tuple)) or len(json_obj) != 2:
        raise ScheduleError("a trace in JSON is a pair [instructions, decisions]")
    insts, decisions = json_obj
    if not isinstance(insts, (list, tuple)) or not isinstance(decisions, (list, tuple)):
        raise ScheduleError("a trace in JSON is a pair of lists [instructions, decisions]")
    for position, inst in enumerate(insts):
        shape_ok = isinstance(inst, (list, tuple)) and len(inst) == 4
        if (
            not shape_ok
            or not isinstance(inst[0], str)
            or not all(isinstance(part, (list, tuple)) for part in inst[1:])
        ):
            raise ScheduleError(
                f"instruction {position} of the trace is not [kind, inputs, attrs, outputs]: "
                f"{inst!r}"
            )
        kind, inputs, attrs, _ = inst
        if not get_primitive(kind).takes(len(inputs), len(attrs)):
            raise ScheduleError(
                f"instruction {position} of the trace: {kind} does not take {len(inputs)} inputs "
                f"and {len(attrs)} attributes"
            )
    chosen: dict[int, Any] = {}
    for entry in decisions:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or type(entry[0]) is not int:
            raise ScheduleError(
                f"a decision is [position of the instruction, value], got {entry!r}"
            )
        if not 0 <= entry[0] < len(insts):
            raise ScheduleError(f"the decision {entry!r} names an instruction that is not there")
        chosen[entry[0]] = entry[1]
    return list(insts), chosen

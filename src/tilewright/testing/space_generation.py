"""Helpers for tests of schedule rules: generate sketches, and compare them with expected ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir import IRModule, PrimFunc, structural_equal
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.space.base import ScheduleRule, SpaceGenerator
from tilewright.space.defaults import create_schedule_rules
from tilewright.space.generators import PostOrderApply
from tilewright.support.member_failures import MemberFailures
from tilewright.target import Target
from tilewright.testing.schedule_checks import verify_trace_roundtrip

SYMBOL = "global_symbol"
# The kind of a sampling instruction ("SamplePerfectTile", ...) and what it is to decide.
Decision = tuple[str, Any]


@dataclass
class SpaceTask:
    """As much of a tuning task as members of a space look at."""

    mod: IRModule | None = None
    target: Target | None = None
    num_threads: int = 1
    rand_state: int = 42
    task_name: str = "test"
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("tilewright.test"))
    space_generator: SpaceGenerator | None = None
    search_strategy: Any = None
    failures: MemberFailures = field(default_factory=lambda: MemberFailures(keep_going=True))


def get_rules(kind: str, types: type | tuple[type, ...] = ScheduleRule) -> list[ScheduleRule]:
    """Those of the default rules of a kind of target that are of these types."""
    return [rule for rule in create_schedule_rules(kind) if isinstance(rule, types)]


def generate_design_space(
    kind: str,
    mod: IRModule | PrimFunc,
    target: Target,
    types: type | tuple[type, ...] = ScheduleRule,
    sch_rules: Sequence[ScheduleRule] | None = None,
    *,
    seed: int = 42,
) -> list[Schedule]:
    """The sketches that the given rules, or the default ones of these types, make of a module."""
    module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
    rules = get_rules(kind, types) if sch_rules is None else sch_rules
    generator = PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={})
    generator._initialize_with_tune_context(SpaceTask(module, target, rand_state=seed))
    return generator.generate_design_space(module)


# --- sketches with other decisions --------------------------------------------------------------


def sampling_steps(trace: Trace) -> list[Instruction]:
    """The steps of a trace that take decisions."""
    return [inst for inst in trace.insts if inst.primitive.kind.startswith("Sample")]


def decisions_of(sketch: Schedule) -> list[Decision]:
    """What a sketch has decided, in order."""
    trace = _trace(sketch)
    return [(inst.primitive.kind, trace.get_decision(inst)) for inst in sampling_steps(trace)]


def with_decisions(
    mod: IRModule | PrimFunc,
    sketch: Schedule,
    decisions: Sequence[Decision],
    *,
    debug_mask: str | int = "all",
) -> Schedule | None:
    """The sketch replayed with other decisions; None if it takes others than these."""
    trace = _trace(sketch).copy()
    steps = sampling_steps(trace)
    if [inst.primitive.kind for inst in steps] != [kind for kind, _ in decisions]:
        return None
    trace.decisions.update(zip(steps, (value for _, value in decisions), strict=True))
    sch = Schedule(mod, debug_mask=debug_mask)
    trace.apply_to_schedule(sch, remove_postproc=True)
    return sch


def _trace(sketch: Schedule) -> Trace:
    assert sketch.trace is not None, "the sketch records no trace"
    return sketch.trace


def structural_equal_no_gs(mod1: IRModule, mod2: IRModule) -> bool:
    """Whether two modules are equal, whatever symbols their functions are exported under."""
    return structural_equal(_without_symbols(mod1), _without_symbols(mod2))


def _without_symbols(mod: IRModule) -> IRModule:
    functions = {name: func.without_attr(SYMBOL) for name, func in mod.functions.items()}
    return IRModule(functions, mod.attrs)


def check_sketches(
    mod: IRModule | PrimFunc,
    sketches: Sequence[Schedule],
    expected_mods: Sequence[IRModule | PrimFunc],
    expected_decisions: Sequence[Sequence[Decision]],
    *,
    debug_mask: str | int = "all",
) -> None:
    """Each expected module must be one of the sketches, with the decisions that belong to it."""
    assert len(expected_mods) == len(expected_decisions), "one list of decisions for each module"
    assert len(sketches) == len(expected_mods), (
        f"{len(expected_mods)} sketches were expected, {len(sketches)} were made"
    )
    left = list(sketches)
    for number, (wanted, decisions) in enumerate(
        zip(expected_mods, expected_decisions, strict=True)
    ):
        module = IRModule({"main": wanted}) if isinstance(wanted, PrimFunc) else wanted
        for sketch in left:
            made = with_decisions(mod, sketch, decisions, debug_mask=debug_mask)
            if made is not None and structural_equal_no_gs(made.mod, module):
                verify_trace_roundtrip(made, mod, debug_mask=debug_mask, text_format="json")
                left.remove(sketch)
                break
        else:
            raise AssertionError(f"no sketch is the expected module {number}:\n{module.script()}")


def print_sketches(sketches: Sequence[Schedule]) -> None:
    """Print modules and decisions in the form in which tests expect them."""
    for number, sketch in enumerate(sketches):
        print(f"# --- sketch {number}")
        print(sketch.mod.script())
        for kind, decision in decisions_of(sketch):
            print(f"    ({kind!r}, {decision!r}),")

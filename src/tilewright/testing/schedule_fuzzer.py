"""Random programs under random primitives: whatever a schedule allows must compute the same.

A case is a seed. It makes a program, applies primitives to it (what they refuse with a
`ScheduleError` is skipped), replays the trace from JSON and from Python, builds the result and
compares it with the interpretation of the program as it was. A failure is cut down to the fewest
steps that still fail and printed as Python:

    python -m tilewright.testing.schedule_fuzzer --cases 1000
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.driver import build
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, verify_well_formed
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.schedule.instruction import Outputs, Primitive
from tilewright.schedule.state import VERIFY_SREF_TREE
from tilewright.testing import oracle
from tilewright.testing.schedule_checks import (
    assert_same_arrays,
    random_arguments,
    verify_trace_roundtrip,
)
from tilewright.testing.schedule_fuzz_steps import Draw, NothingToDo, available_steps
from tilewright.testing.schedule_fuzz_workloads import random_program

MAX_STEPS = 12
# Flags are not verified: computed anew they may know less than what a primitive is sure to keep.
DEBUG_MASK = VERIFY_SREF_TREE


@dataclass(frozen=True)
class Failure:
    """What went wrong: the stage, and the kind of exception; two failures agree if both do."""

    stage: str  # "primitive", "well-formed", "replay", "build", "run" or "result"
    exception: str
    text: str = field(compare=False)

    @staticmethod
    def of(stage: str, error: BaseException) -> Failure:
        """The failure that an exception means."""
        return Failure(stage, type(error).__name__, "".join(traceback.format_exception(error)))


@dataclass(frozen=True)
class Report:
    """A failing case, cut down."""

    seed: int | str
    failure: Failure
    program: PrimFunc
    trace: Trace

    def __str__(self) -> str:
        return (
            f"case {self.seed!r} fails at stage {self.failure.stage!r}\n\n{self.program}\n\n"
            f"{self.trace}\n\n{self.failure.text}"
        )


class RecordingSchedule(Schedule):
    """A schedule that remembers the step it is taking, should it not come back from it."""

    attempted: tuple[Primitive, tuple[Any, ...], tuple[Any, ...], Any] | None = None

    def run(
        self,
        primitive: Primitive,
        inputs: Sequence[Any],
        attrs: Sequence[Any],
        decision: Any = None,
    ) -> Outputs:
        self.attempted = (primitive, tuple(inputs), tuple(attrs), decision)
        made = super().run(primitive, inputs, attrs, decision)
        self.attempted = None
        return made


def run_case(seed: int | str, counts: Counter[str] | None = None) -> Report | None:
    """Try one case; None when all is well."""
    program = random_program(f"program {seed}")
    rng = random.Random(f"steps {seed}")
    sch = RecordingSchedule(program, seed=rng.randint(1, 2**31 - 2), debug_mask=DEBUG_MASK)
    failure = _apply_random_steps(rng, sch, counts)
    assert sch.trace is not None
    trace = sch.trace
    if failure is not None and sch.attempted is not None:
        primitive, inputs, attrs, decision = sch.attempted
        trace = trace.copy()
        trace.append(Instruction(primitive, inputs, attrs, ()), decision)
    elif failure is None:
        failure = check_result(program, sch)
    if failure is None:
        return None
    return Report(seed, failure, program, shrink(program, trace, failure))


def _apply_random_steps(
    rng: random.Random, sch: Schedule, counts: Counter[str] | None
) -> Failure | None:
    steps = available_steps()
    weights = [weight for _, _, weight in steps]
    draw = Draw(rng, sch)
    for _ in range(rng.randint(1, MAX_STEPS)):
        name, step, _ = rng.choices(steps, weights)[0]
        try:
            step(draw)
        except (ScheduleError, NothingToDo):
            continue
        except Exception as error:  # the very thing that this program looks for
            return Failure.of("primitive", error)
        if counts is not None:
            counts[name] += 1
    return None


def check_result(program: PrimFunc, sch: Schedule) -> Failure | None:
    """The scheduled program is well-formed, can be replayed and computes what it should."""
    stage = "well-formed"
    try:
        verify_well_formed(sch.mod)
        stage = "replay"
        verify_trace_roundtrip(sch, program, debug_mask=DEBUG_MASK)
        stage = "build"
        module = build(sch.mod)
        stage = "run"
        expected = random_arguments(program, seed=1)
        actual = [value.copy() for value in expected]
        oracle.run(program, *expected)
        with np.errstate(all="ignore"):
            module(*actual)
        stage = "result"
        assert_same_arrays(program, expected, actual)
    except Exception as error:  # all of them are failures
        return Failure.of(stage, error)
    return None


# --- cutting failures down ------------------------------------------------------------------------


def shrink(program: PrimFunc, trace: Trace, failure: Failure) -> Trace:
    """The trace with as few steps as still fail alike."""
    smallest = trace
    progress = True
    while progress:
        progress = False
        for position in reversed(range(len(smallest.insts))):
            if position >= len(smallest.insts):
                continue
            candidate = _without(smallest, position)
            if _fails(program, candidate) == failure:
                smallest, progress = candidate, True
    return smallest


def _without(trace: Trace, position: int) -> Trace:
    """The trace without one step and without those that need its results."""
    gone: set[Any] = set(trace.insts[position].outputs)
    kept = []
    for index, inst in enumerate(trace.insts):
        if index == position or _uses(inst.inputs, gone):
            gone.update(inst.outputs)
        else:
            kept.append(inst)
    return Trace(kept, {inst: trace.decisions[inst] for inst in kept if inst in trace.decisions})


def _uses(value: Any, gone: set[Any]) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_uses(item, gone) for item in value)
    try:
        return value in gone
    except TypeError:
        return False


def _fails(program: PrimFunc, trace: Trace) -> Failure | None:
    sch = Schedule(program, seed=1, debug_mask=DEBUG_MASK)
    try:
        trace.apply_to_schedule(sch, remove_postproc=False)
    except ScheduleError:
        return None
    except Exception as error:  # as above
        return Failure.of("primitive", error)
    return check_result(program, sch)


# --- from the command line ------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Try many cases; the number of failures decides the exit status."""
    parser = argparse.ArgumentParser(description="Fuzz schedules.")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    options = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    failures = 0
    start = time.perf_counter()
    for seed in range(options.start, options.start + options.cases):
        report = run_case(seed, counts)
        if report is not None:
            failures += 1
            print(report, flush=True)
            if not options.keep_going:
                break
    seconds = time.perf_counter() - start
    print(f"{options.cases} cases, {failures} failures, {seconds:.0f} s")
    print(", ".join(f"{name} {count}" for name, count in counts.most_common()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

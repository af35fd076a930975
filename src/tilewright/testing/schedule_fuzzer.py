"""Random programs under random primitives: whatever a schedule allows must compute the same.

A case is a seed. It makes a program, applies primitives to it (what they refuse with a
`ScheduleError` is skipped), replays the trace from JSON and from Python, builds the result and
compares it with the interpretation of the program as it was. The threads of a GPU become loops for
that, those over blocks of threads from the last to the first. A failure is cut down to the fewest
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.driver import build
from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, ExprRV, Instruction, LoopRV, Schedule, Trace
from tilewright.schedule.state.state import VERIFY_PROGRAM, VERIFY_SREF_TREE
from tilewright.schedule.trace.instruction import Made, Primitive
from tilewright.testing import oracle
from tilewright.testing.schedule_checks import (
    assert_same_arrays,
    random_arguments,
    verify_trace_roundtrip,
)
from tilewright.testing.schedule_fuzz_steps import Draw, NothingToDo, available_steps
from tilewright.testing.schedule_fuzz_workloads import random_program

MAX_STEPS = 12
LIKINGS = (0.2, 1.0, 1.0, 5.0)
# Flags are not verified: computed anew they may know less than what a primitive is sure to keep.
DEBUG_MASK = VERIFY_SREF_TREE | VERIFY_PROGRAM


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
    program: ir.PrimFunc
    trace: Trace

    def __str__(self) -> str:
        return (
            f"case {self.seed!r} fails at stage {self.failure.stage!r}\n\n{self.program}\n\n"
            f"{self.trace}\n\n{self.failure.text}"
        )


class RecordingSchedule(Schedule):
    """A schedule that remembers the step it is taking, should it not come back from it."""

    attempted: tuple[Primitive[Any], Any] | None = None

    def run(self, step: Primitive[Made], decision: Any = None) -> Made:
        self.attempted = (step, decision)
        made = super().run(step, decision)
        self.attempted = None
        return made


def run_case(seed: int | str, counts: Counter[str] | None = None) -> Report | None:
    """Try one case; None when all is well."""
    program, sch, failure = apply_random_steps(seed, counts)
    if failure is None:
        failure = check_result(program, sch)
    if failure is None:
        return None
    return Report(seed, failure, program, shrink(program, _with_attempt(sch), failure))


def apply_random_steps(
    seed: int | str, counts: Counter[str] | None
) -> tuple[ir.PrimFunc, RecordingSchedule, Failure | None]:
    """The program of a case, scheduled; a failure if a primitive broke down."""
    program = random_program(f"program {seed}")
    rng = random.Random(f"steps {seed}")
    sch = RecordingSchedule(program, seed=rng.randint(1, 2**31 - 2), debug_mask=DEBUG_MASK)
    return program, sch, _take_steps(rng, sch, counts)


def _take_steps(rng: random.Random, sch: Schedule, counts: Counter[str] | None) -> Failure | None:
    steps = available_steps()
    # Each case likes other primitives: some faults need several of one or two kinds in a row.
    weights = [weight * rng.choice(LIKINGS) for _, _, weight in steps]
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


def check_result(program: ir.PrimFunc, sch: Schedule) -> Failure | None:
    """The scheduled program is well-formed, can be replayed and computes what it should."""
    stage = "well-formed"
    try:
        ir.verify_well_formed(sch.mod)
        stage = "replay"
        verify_trace_roundtrip(sch, program, debug_mask=DEBUG_MASK)
        stage = "build"
        module = build(_threads_as_loops(sch.mod))
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


def _threads_as_loops(module: ir.IRModule) -> ir.IRModule:
    """Threads one after the other; their blocks, which may run in any order, the last one first."""
    main = module["main"]
    return module.with_function("main", ir.rewrite(main, {ir.For: _in_turn}))


def _in_turn(loop: ir.For) -> ir.For:
    if loop.thread_binding is None:
        return loop
    body = loop.body
    if loop.thread_binding.thread_tag.startswith("blockIdx"):
        last_first = 2 * loop.min + loop.extent - 1 - loop.loop_var
        body = ir.substitute(body, {loop.loop_var: last_first})
    return ir.replace(loop, body=body, kind=ir.ForKind.SERIAL, thread_binding=None)


# --- cutting failures down ------------------------------------------------------------------------


def shrink(program: ir.PrimFunc, trace: Trace, failure: Failure) -> Trace:
    """The trace with as few steps as still fail alike."""
    smallest = trace
    progress = True
    while progress:
        progress = False
        for position in reversed(range(len(smallest.insts))):
            if position >= len(smallest.insts):
                continue
            candidate = _Replay(program, smallest).without(position)
            if candidate is not None and _fails(program, candidate) == failure:
                smallest, progress = candidate, True
    return smallest


class _Replay:
    """Runs parts of a trace: results are told apart by the names of their blocks and loops.

    Without a split, `get_loops` gives fewer loops than the trace says; those that are still there
    are what later steps go on with, and steps that need the others are left out too.
    """

    def __init__(self, program: ir.PrimFunc, trace: Trace) -> None:
        self._program = program
        self._trace = trace
        self._names: dict[Any, str] = {}
        self._run(leave_out=-1)

    def without(self, position: int) -> Trace | None:
        """The trace that is left without one step; None if nothing else changes with it."""
        shorter = self._run(position)
        return shorter if len(shorter.insts) < len(self._trace.insts) else None

    def _run(self, leave_out: int) -> Trace:
        sch = RecordingSchedule(self._program, seed=1)
        known: dict[Any, Any] = {}
        for position, inst in enumerate(self._trace.insts):
            if position == leave_out or not all(value in known for value in _handles(inst.inputs)):
                continue
            step = inst.step.with_handles(known)
            try:
                made = sch.run(step, self._trace.decisions.get(inst))
            except ScheduleError:
                continue
            except Exception:  # the failing step itself; it stays the last one
                return _with_attempt(sch)
            results = made if isinstance(made, list) else [] if made is None else [made]
            self._match(sch, inst, results, known)
        assert sch.trace is not None
        return sch.trace

    def _match(
        self, sch: Schedule, inst: Instruction, results: Sequence[Any], known: dict[Any, Any]
    ) -> None:
        if len(results) == len(inst.outputs):
            known.update(zip(inst.outputs, results, strict=True))
            for old, new in zip(inst.outputs, results, strict=True):
                self._names.setdefault(old, _name(sch, new))
            return
        by_name = {_name(sch, result): result for result in results}
        for output in inst.outputs:
            if self._names.get(output) in by_name:
                known[output] = by_name[self._names[output]]


def _name(sch: Schedule, handle: Any) -> str:
    return sch.get_sref(handle).name if isinstance(handle, (BlockRV, LoopRV)) else "number"


def _handles(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _handles(item)
    elif isinstance(value, (BlockRV, LoopRV, ExprRV)):
        yield value


def _with_attempt(sch: RecordingSchedule) -> Trace:
    """The trace, ending with the step that did not come back."""
    assert sch.trace is not None
    trace = sch.trace.copy()
    if sch.attempted is not None:
        step, decision = sch.attempted
        trace.append(Instruction.of(step, ()), decision)
    return trace


def _fails(program: ir.PrimFunc, trace: Trace) -> Failure | None:
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

"""How fast traces replay: the recorded CPU matmul beside TVM, each primitive, growing programs.

python benchmarks/schedule.py [--quick] [--json FILE]
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import HEADER, TVM_PYTHON, Report, Rival, Row, finish, interleaved, parse_arguments

from tilewright import te
from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.trace.instruction import Made, Primitive

HERE = Path(__file__).resolve().parent
TRACE = HERE / "programs" / "matmul_trace.json"
SIZE = 128
# New decisions, as a search takes them: the position of an instruction and what it decides.
DECISIONS: list[list[list[Any]]] = [
    [[4, [2, 4, 8, 2]], [6, [2, 2, 8, 4]], [8, [32, 4]], [15, 2]],
    [[4, [1, 8, 4, 4]], [6, [4, 4, 1, 8]], [8, [16, 8]], [15, 2]],
    [[4, [8, 2, 2, 4]], [6, [1, 8, 4, 4]], [8, [128, 1]], [15, 2]],
    [[4, [4, 16, 2, 1]], [6, [2, 8, 2, 4]], [8, [64, 2]], [15, 2]],
    [[4, [32, 1, 1, 4]], [6, [8, 1, 8, 2]], [8, [8, 16]], [15, 2]],
]
BLOCKS = (1, 2, 4, 8, 16)


def matmul(suffix: str) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """The program that the trace was recorded on."""
    a = te.placeholder((SIZE, SIZE), name=f"A{suffix}")
    b = te.placeholder((SIZE, SIZE), name=f"B{suffix}")
    k = te.reduce_axis((0, SIZE), name="k")
    name = f"update{suffix}"
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name)
    assert isinstance(c, te.Tensor)
    return a, b, c


def matmuls(count: int) -> IRModule:
    """`count` matmuls that have nothing to do with each other."""
    tensors = [matmul("" if number == 0 else f"_{number}") for number in range(count)]
    inputs = [tensor for a, b, _ in tensors for tensor in (a, b)]
    return IRModule({"main": te.create_prim_func([*inputs, *(c for _, _, c in tensors)])})


def recorded_trace(module: IRModule) -> Trace:
    """The recorded trace."""
    sch = Schedule(module)
    Trace.apply_json_to_schedule(json.loads(TRACE.read_text()), sch)
    assert sch.trace is not None
    return sch.trace


def trace_for_each(module: IRModule, names: Sequence[str]) -> Trace:
    """The recorded trace, without the post-processing of a whole function, for each block."""
    insts, decisions = json.loads(TRACE.read_text())
    insts = insts[: [inst[0] for inst in insts].index("EnterPostproc")]
    sch = Schedule(module)
    for name in names:
        renamed = [_on_block(inst, name) for inst in insts]
        Trace.apply_json_to_schedule([renamed, decisions], sch)
    assert sch.trace is not None
    return sch.trace


def _on_block(inst: list[Any], name: str) -> list[Any]:
    kind, inputs, attrs, outputs = inst
    attrs = [value.replace("update", name) if isinstance(value, str) else value for value in attrs]
    return [kind, inputs, attrs, outputs]


def with_decisions(trace: Trace, decisions: Sequence[Sequence[Any]]) -> Trace:
    """The trace with other decisions."""
    changed = {trace.insts[position]: decision for position, decision in decisions}
    return Trace(trace.insts, {**trace.decisions, **changed})


def replay(module: IRModule, trace: Trace) -> float:
    """Seconds of one replay on a new schedule."""
    start = time.perf_counter()
    trace.apply_to_schedule(Schedule(module, seed=1), remove_postproc=False)
    return time.perf_counter() - start


def replay_row(report: Report, rounds: int) -> None:
    """The recorded trace with new decisions, in ms."""
    module = matmuls(1)
    trace = recorded_trace(module)
    variants = [with_decisions(trace, decisions) for decisions in DECISIONS]
    turns = [0, 0]

    def ours() -> float:
        turns[0] += 1
        return replay(module, variants[turns[0] % len(variants)]) * 1e3

    candidates: list[Callable[[], float]] = [ours]
    rival = None
    if TVM_PYTHON.exists():
        script = HERE / "rivals" / "tvm_replay.py"
        rival = Rival(TVM_PYTHON, script, str(TRACE), json.dumps(DECISIONS))
        ask = rival.ask

        def theirs() -> float:
            turns[1] += 1
            return float(ask(str(turns[1]))) * 1e3

        candidates.append(theirs)
    else:
        report.skip("replay_matmul", "TVM is missing: `make bench-env` installs it")
    best = interleaved(candidates, rounds)
    if rival is not None:
        rival.close()
    note = f"{len(trace.insts)} instructions, goal 3 ms"
    rival_time = best[1] if len(best) > 1 else None
    report.add(Row("replay_matmul", best[0], rival_time, "Trace.apply_to_schedule", "ms", note))


class TimedSchedule(Schedule):
    """A schedule that notes how long each primitive takes."""

    times: dict[str, list[float]]

    def run(self, step: Primitive[Made], decision: Any = None) -> Made:
        start = time.perf_counter()
        made = super().run(step, decision)
        self.times[step.kind].append(time.perf_counter() - start)
        return made


def primitive_rows(report: Report, rounds: int) -> None:
    """The median cost of each primitive in the replay, in us."""
    module = matmuls(1)
    trace = recorded_trace(module)
    times: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        sch = TimedSchedule(module, seed=1)
        sch.times = times
        variant = with_decisions(trace, DECISIONS[turn % len(DECISIONS)])
        variant.apply_to_schedule(sch, remove_postproc=False)
    shares = {kind: statistics.median(seconds) * len(seconds) for kind, seconds in times.items()}
    for kind in sorted(shares, key=lambda kind: -shares[kind]):
        median = statistics.median(times[kind]) * 1e6
        note = f"{len(times[kind]) // rounds} in the trace"
        report.add(Row(f"replay_{kind}", median, None, "", "us", note))


def scaling_rows(report: Report, rounds: int) -> None:
    """1 to 16 matmuls, each scheduled by the trace: the cost of one must stay the same.

    All sizes take turns, so that a busy moment of the machine hits all of them.
    """
    modules = [matmuls(count) for count in BLOCKS]
    names = ["update", *(f"update_{number}" for number in range(1, max(BLOCKS)))]
    traces = [
        trace_for_each(module, names[:count]) for module, count in zip(modules, BLOCKS, strict=True)
    ]
    best = interleaved(
        [
            lambda module=module, trace=trace: replay(module, trace) * 1e3
            for module, trace in zip(modules, traces, strict=True)
        ],
        rounds // 2,
    )
    for count, trace, ms in zip(BLOCKS, traces, best, strict=True):
        note = f"{ms / count:.2f} ms a block, {ms * 1e3 / len(trace.insts):.0f} us a step"
        report.add(Row(f"replay_{count}_blocks", ms, None, "", "ms", note))


ROWS: dict[str, Callable[[Report, int], None]] = {
    "replay_matmul": replay_row,
    "primitives": primitive_rows,
    "blocks": scaling_rows,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the rows that were asked for."""
    options = parse_arguments(__doc__ or "", argv)
    rounds = 30 if options.quick else 200
    report = Report("schedule")
    print(HEADER)
    gc.disable()  # as `timeit` does; a search collects between batches
    for name, measure in ROWS.items():
        if not options.only or name in options.only:
            measure(report, rounds)
            gc.collect()
    finish(report, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

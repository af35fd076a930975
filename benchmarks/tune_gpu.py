"""Kernels for a GPU against cuBLAS and cuDNN through PyTorch, under replay of CUDA graphs.

    python benchmarks/tune_gpu.py [--trials N] [--json FILE] [--only KIND ...]

For each case two rows: `gpu_gemm_f16_512x512x512` after a search of N trials, and
`first_gpu_gemm_f16_512x512x512` without any search. `ratio` is our time over the best library's;
the note gives the speed over the library's and the time that the search took. Inputs rotate, so
that they are not in the nearest cache; ours and theirs take turns. Kinds: f16, bf16, f32, tf32,
fp8, int8, conv, fused, rows, elements. With fewer than 1 trial only the rows without a search are
made. Two more kinds are about time: `start` until a new process has its first kernel, `search` of
200 trials (and of 32 for other kernels), with the share of their candidates that are right.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gpu.cases import Case, all_cases
from gpu.tuning_time import first_kernels, searches
from harness import HEADER, RESULTS, Report, Row

import tilewright as tw
from tilewright import meta_schedule as ms

KINDS = ("f16", "bf16", "f32", "tf32", "fp8", "int8", "conv", "fused", "rows", "elements")
TIMES = {"start": first_kernels, "search": searches}
ROUNDS = 9
TIMED_US = 1200.0  # of one replay


def graph_of(call: Callable[..., Any], sets: Sequence[Sequence[Any]], count: int) -> Any:
    """`count` calls in a row, with inputs that take turns."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for number in range(3):
            call(*sets[number % len(sets)])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for number in range(count):
            call(*sets[number % len(sets)])
    return graph


def microseconds(graph: Any, count: int) -> float:
    """Of one call; the second of two replays counts, the first hides the cost of starting."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    time.sleep(0.01)
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / count * 1e3


def error_of(case: Case, run: Callable[..., Any], arrays: Sequence[Any], wanted: Any) -> float:
    """The largest difference to the exact result, relative to its largest element."""
    output = arrays[-1]
    output.fill_(float("nan") if output.is_floating_point() and output.itemsize > 1 else 0)
    run(*arrays)
    torch.cuda.synchronize()
    return float((output.double() - wanted).abs().max() / wanted.abs().max())


def measure(case: Case, report: Report, trials: int) -> None:
    """The rows of one case."""
    target = tw.Target("cuda")
    sets = [case.inputs() for _ in range(8 if case.bytes < 2e7 else 3)]
    wanted = case.exact(*sets[0])
    program = case.program()
    start = time.perf_counter()
    versions = {"first": tw.build(ms.default_schedule(program, target).mod, target)}
    seconds = {"first": time.perf_counter() - start}
    if trials > 0:
        start = time.perf_counter()
        database = ms.database.MemoryDatabase()
        ms.tune_tir(program, target, max_trials_global=trials, database=database, console=False)
        with database:
            versions["tuned"] = tw.build(program, target)
        seconds["tuned"] = time.perf_counter() - start
    for name, module in versions.items():
        error = error_of(case, module, sets[0], wanted)
        if not error < case.tolerance:
            report.skip(f"{name}_{case.name}", f"WRONG, error {error:.2e}")
            return
    calls = {"library": case.rival, **case.rivals, **versions}
    rough = microseconds(graph_of(case.rival, sets, 5), 5)
    count = max(1, min(40, int(TIMED_US / rough)))
    graphs = {name: graph_of(call, sets, count) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(microseconds(graph, count))
    middle = {name: statistics.median(values) for name, values in times.items()}
    best = min(("library", *case.rivals), key=middle.__getitem__)
    for name in versions:
        speed, rate = middle[best] / middle[name], case.flop / middle[name] / 1e6
        note = f"speed {speed:.3f}, {rate:.0f} TFLOP/s, made in {seconds[name]:.1f} s"
        row = case.name if name == "tuned" else f"first_{case.name}"
        report.add(Row(row, middle[name], middle[best], best, "us", note))


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--json", type=Path, default=RESULTS / "tune_gpu.json")
    parser.add_argument("--only", nargs="*", default=[*KINDS, *TIMES], choices=[*KINDS, *TIMES])
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    described = "name,driver_version,clocks.sm,clocks.max.sm,power.limit"
    query = ["nvidia-smi", f"--query-gpu={described}", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    report = Report(f"kernels for a GPU: {device}")
    print(report.title, HEADER, sep="\n", flush=True)
    for kind in options.only:
        if kind in TIMES:
            TIMES[kind](report)
            continue
        for case in all_cases(kind):
            try:
                measure(case, report, options.trials)
            except (tw.TilewrightError, RuntimeError) as error:
                report.skip(case.name, str(error).splitlines()[0][:160])
    report.save(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The foundation against its rivals: kernels, build time, the cost of a parallel region, import.

    python benchmarks/foundation.py [--quick] [--json FILE] [--only ROW ...]

Needs the environment of `make bench-env` for the rivals; rows without a rival are still measured.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from harness import HEADER, TVM_PYTHON, Report, Rival, Row, finish, interleaved, parse_arguments
from parallel_region import Meter

from tilewright.driver import build
from tilewright.ir import PrimFunc
from tilewright.runtime import threads
from tilewright.target import Target
from tilewright.testing import handwritten

HERE = Path(__file__).resolve().parent
THREADS = 2


def torch_or_none() -> ModuleType | None:
    """PyTorch, set to the same number of threads, if it is installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    torch.set_num_threads(THREADS)
    return torch


def best_of(call: Callable[[], object], number: int) -> Callable[[], float]:
    """Microseconds of one call, averaged over `number`."""

    def measure() -> float:
        call()  # wakes the threads
        start = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - start) / number * 1e6

    return measure


def sgemm_row(report: Report, size: int, func: PrimFunc, rounds: int, number: int) -> None:
    """Our kernel beside PyTorch's (MKL), both writing into an existing matrix."""
    name = f"sgemm_{size}"
    a, b = (np.random.rand(size, size).astype("float32") for _ in range(2))
    c = np.zeros((size, size), "float32")
    module = build(func)
    module(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    timer = module.time_evaluator("main", number=number)
    candidates = [lambda: timer(a, b, c).mean * 1e6]
    torch = torch_or_none()
    if torch is not None:
        x, y, z = (torch.from_numpy(array) for array in (a, b, c.copy()))
        candidates.append(best_of(lambda: torch.mm(x, y, out=z), number))
    best = interleaved(candidates, rounds)
    rival = best[1] if len(best) > 1 else None
    note = f"{2 * size**3 / best[0] / 1e3:.0f} GFLOP/s"
    if rival is not None:
        note += f" against {2 * size**3 / rival / 1e3:.0f}"
    report.add(Row(name, best[0], rival, "torch.mm", "us", note))


def exp_row(report: Report, rounds: int) -> None:
    """Our vector exponential beside PyTorch's, with its worst error."""
    size = 1 << 20
    x = np.random.uniform(-20, 20, size).astype("float32")
    y = np.zeros_like(x)
    module = build(handwritten.exp(size))
    module(x, y)
    exact = np.exp(x.astype("float64"))
    ulps = np.abs(y - exact) / np.spacing(exact.astype("float32"))
    timer = module.time_evaluator("main", number=10)
    candidates = [lambda: timer(x, y).mean * 1e6]
    torch = torch_or_none()
    if torch is not None:
        source, target = torch.from_numpy(x), torch.from_numpy(y.copy())
        candidates.append(best_of(lambda: torch.exp(source, out=target), 10))
    best = interleaved(candidates, rounds)
    rival = best[1] if len(best) > 1 else None
    report.add(Row("exp_1m", best[0], rival, "torch.exp", "us", f"at most {ulps.max():.2f} ulp"))


def build_row(report: Report, rounds: int) -> None:
    """Lowering, LLVM and loading of a tuned matmul beside TVM's build of the same program."""
    program = HERE / "programs" / "gmm_128.py"
    spec = importlib.util.spec_from_file_location("gmm_128", program)
    assert spec is not None
    assert spec.loader is not None
    loaded: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    build(loaded.Module)
    candidates: list[Callable[[], float]] = [best_of(lambda: build(loaded.Module), 1)]
    rival = None
    if TVM_PYTHON.exists():
        target = Target("llvm")
        options = {"kind": "llvm", "mcpu": target.mcpu, "num-cores": target.num_cores}
        rival = Rival(
            TVM_PYTHON, HERE / "rivals" / "tvm_build.py", str(program), json.dumps(options)
        )
        ask = rival.ask
        candidates.append(lambda: ask("build") * 1e6)
    else:
        report.skip("build_gmm", "TVM is missing: `make bench-env` installs it")
    best = interleaved(candidates, rounds)
    if rival is not None:
        rival.close()
    theirs = best[1] / 1e3 if len(best) > 1 else None
    report.add(Row("build_gmm", best[0] / 1e3, theirs, "tvm.compile", "ms"))


def parallel_region_rows(report: Report) -> None:
    """An empty region on two spinning threads, and the processor time of a sleeping pool."""
    threads.set_num_threads(THREADS)
    meter = Meter()
    empty = meter.best(THREADS, "empty", 0, 10_000)
    report.add(Row("parallel_region", empty / 1e3, 1.0, "budget", "us", "empty, 2 threads"))
    alone = meter.best(1, "pauses", 100, 1000)
    together = meter.best(THREADS, "pauses", 100, 1000)
    note = f"what a region costs when both threads work {alone / 2e3:.1f} us"
    report.add(Row("region_overhead", (together - alone / 2) / 1e3, 1.0, "budget", "us", note))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(1.0)
    burnt = (time.process_time() - before) * 1e3
    report.add(Row("pool_asleep", burnt, 10.0, "budget", "ms", "processor time in 1 s of sleep"))


_IMPORT = "import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"


def import_row(report: Report, rounds: int) -> None:
    """`import tilewright` in a fresh process beside `import tvm`."""

    def measure(python: str, name: str) -> Callable[[], float]:
        command = [python, "-c", _IMPORT.format(name=name)]
        # As for a user: modules are compiled to bytecode once, not at every start.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return lambda: float(subprocess.check_output(command, env=env)) * 1e3

    everything = "tilewright as tw; tw.build, tw.te, tw.lower, tw.tir, tw.script"
    used = min(measure(sys.executable, everything)() for _ in range(rounds))
    report.add(Row("import_all", used, None, "", "ms", "with build, te, lower, tir, script"))
    candidates = [measure(sys.executable, "tilewright")]
    if TVM_PYTHON.exists():
        candidates.append(measure(str(TVM_PYTHON), "tvm"))
    best = interleaved(candidates, rounds)
    theirs = best[1] if len(best) > 1 else None
    report.add(Row("import", best[0], theirs, "import tvm", "ms"))


def main() -> None:
    """Measure, show, and write the result."""
    options = parse_arguments(__doc__.splitlines()[0])
    rounds = 10 if options.quick else 30
    report = Report("foundation")
    rows: dict[str, Callable[[], None]] = {
        "sgemm_1024": lambda: sgemm_row(
            report, 1024, handwritten.packed_matmul(1024, 1024, 1024), rounds, 3
        ),
        "sgemm_128": lambda: sgemm_row(
            report, 128, handwritten.direct_matmul(128, 128, 128), rounds, 300
        ),
        "exp_1m": lambda: exp_row(report, rounds),
        "build_gmm": lambda: build_row(report, max(3, rounds // 3)),
        "parallel_region": lambda: parallel_region_rows(report),
        "import": lambda: import_row(report, max(3, rounds // 3)),
    }
    print(HEADER)
    for name, measure in rows.items():
        if not options.only or name in options.only:
            measure()
    finish(report, options)


if __name__ == "__main__":
    main()

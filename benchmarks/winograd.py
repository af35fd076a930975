"""Winograd convolutions beside our direct ones: bias and ReLU in the kernel, weights bound.

    python benchmarks/winograd.py [--quick] [--json FILE] [--only ROW ...]

Each row is a convolution of 3 x 3 with as many filters as channels, on one thread or on two; `ours`
is the faster of F(2) and F(4), `rival` the direct one, all tuned with the same number of trials
(with `--quick` none: schedules by calculation) and timed in turn. The note has the error against 64
bits as a share of the largest result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish, interleaved, parse_arguments

from tilewright import ir, te, topi
from tilewright.driver import build
from tilewright.ir.annotation_keys import LAYOUT_FREE_BUFFERS
from tilewright.model.alternatives import DIRECT, TILES
from tilewright.model.rounding import rounding_errors
from tilewright.runtime import threads
from tilewright.schedule import Schedule
from tilewright.space.layout_free import with_bound_weights
from tilewright.target import Target
from tilewright.tune.api import tune_tir
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule

ROWS = {"winograd_56_64": (56, 64), "winograd_28_128": (28, 128), "winograd_14_256": (14, 256)}
GOALS = {"winograd_56_64": 0.6, "winograd_28_128": 0.6, "winograd_14_256": 0.75}
TRIALS = 48
SHORT_RUN = 0.002  # seconds; on a busy machine, some short runs are left alone


def convolution(side: int, channels: int, tile: int) -> ir.IRModule:
    """A convolution with bias and ReLU whose weights are bound."""
    data = te.placeholder((1, side, side, channels), name="data")
    kernel = te.placeholder((3, 3, channels, channels), name="kernel")
    bias = te.placeholder((1, 1, 1, channels), name="bias")
    made = (
        topi.nn.winograd_conv2d(data, kernel, 1, tile)
        if tile
        else topi.nn.conv2d_nhwc(data, kernel, 1, 1)
    )
    func = te.create_prim_func([data, kernel, bias, topi.nn.relu(topi.add(made, bias))])
    return with_bound_weights(normalize_mod(func.with_attr(LAYOUT_FREE_BUFFERS, [1])))


def scheduled(module: ir.IRModule, target: Target, trials: int) -> ir.IRModule:
    """The best that a search finds; by calculation if it has no trials."""
    if not trials:
        return default_schedule(module, target).mod
    database = tune_tir(module, target, max_trials_global=trials, console=False)
    found: Schedule | None = database.schedule_for(normalize_mod(module["main"]), target, "main")
    assert found is not None
    return found.mod


def timer(module: ir.IRModule, target: Target, arrays: dict[str, Any]) -> Callable[[], float]:
    """Milliseconds of a short run."""
    bound = build(module, target).bind(kernel=arrays["kernel"], bias=arrays["bias"])
    data, result = arrays["data"], np.zeros_like(arrays["data"])
    bound(data, result)
    wanted = expected(arrays)
    assert abs(result - wanted).max() <= 1e-5 * abs(wanted).max()
    once = bound.time_evaluator(number=1)(data, result).mean
    evaluate = bound.time_evaluator(number=max(1, int(SHORT_RUN / once)), repeat=3)
    return lambda: float(min(evaluate(data, result).results)) * 1e3


def expected(arrays: dict[str, Any]) -> Any:
    """The convolution in 64 bits."""
    side = arrays["data"].shape[1]
    padded = np.pad(arrays["data"].astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    kernel = arrays["kernel"].astype(np.float64)
    total = sum(
        padded[:, i : i + side, j : j + side] @ kernel[i, j] for i in range(3) for j in range(3)
    )
    return np.maximum(total + arrays["bias"], 0)


def measure(report: Report, name: str, count: int, trials: int, rounds: int) -> None:
    """One row for a number of threads."""
    side, channels = ROWS[name]
    rng = np.random.default_rng(0)
    arrays = {
        "data": np.maximum(rng.standard_normal((1, side, side, channels)), 0).astype(np.float32),
        "kernel": (rng.standard_normal((3, 3, channels, channels)) / 24).astype(np.float32),
        "bias": rng.standard_normal((1, 1, 1, channels)).astype(np.float32),
    }
    target = Target(f"llvm -num-cores={count}")
    with threads.use_threads(count):
        timers = [
            timer(scheduled(convolution(side, channels, tile), target, trials), target, arrays)
            for tile in (DIRECT, *TILES)
        ]
        direct, *others = interleaved(timers, rounds)
    best = min(others)
    tile = TILES[others.index(best)]
    flop = 18 * side**2 * channels**2
    error = rounding_errors(arrays["kernel"], tile)[0]
    note = (
        f"F({tile}), {flop / direct / 1e6:.0f} GFLOP/s direct, {flop / best / 1e6:.0f} effective, "
        f"error {error:.1e}, goal {GOALS[name]}"
    )
    report.add(Row(f"{name}_{count}t", best, direct, "direct", "ms", note))


def main() -> None:
    """Measure, show, and write the result."""
    options = parse_arguments(__doc__.splitlines()[0])
    report = Report("winograd")
    print(HEADER)
    trials, rounds = (0, 10) if options.quick else (TRIALS, 25)
    for name in ROWS:
        for count in (1, 2):
            if not options.only or name in options.only:
                measure(report, name, count, trials, rounds)
    finish(report, options)


if __name__ == "__main__":
    main()

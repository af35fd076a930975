"""Layouts of shared memory for `mma.sync`: float16 products with plain, padded and permuted rows.

    python benchmarks/gpu/shared_layouts.py [--json FILE]

For each size and layout a row `mma_f16_1024_permuted`: the best of some tilings by hand
(`tilewright.testing.warp_matmul`), which are what GPUs before Hopper run, against cuBLAS.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import HEADER, RESULTS, Report, Row
from tune_gpu import ROUNDS, TIMED_US, graph_of, microseconds

import tilewright as tw
from tilewright.testing.warp_matmul import WarpTiling, warp_matmul

SIZES = (1024, 2048, 4096)
LAYOUTS = ("plain", "padded", "permuted")
# Rows, columns and depth of a block's tile, rows and columns of a warp's, stages.
TILES = ((128, 128, 64, 64, 64, 3), (128, 128, 32, 64, 64, 4), (64, 64, 64, 32, 32, 3))
MOST_ERROR = 1e-4


def measure(size: int, report: Report) -> None:
    """The rows of one size."""
    shape = {"size": (size, size), "device": "cuda"}
    sets = [
        (
            torch.randn(**shape, dtype=torch.float16),
            torch.randn(**shape, dtype=torch.float16),
            torch.empty(**shape),
        )
        for _ in range(3)
    ]
    halves = torch.empty(**shape, dtype=torch.float16)
    calls: dict[Any, Any] = {"library": lambda a, b, _: torch.matmul(a, b, out=halves)}
    for layout in LAYOUTS:
        for tile in TILES:
            func = warp_matmul(size, size, size, WarpTiling(*tile, layout))
            calls[layout, tile] = checked(tw.build(func, target="cuda"), sets[0])
    count = max(1, min(40, int(TIMED_US / microseconds(graph_of(calls["library"], sets, 5), 5))))
    graphs = {name: graph_of(call, sets, count) for name, call in calls.items()}
    times: dict[Any, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(microseconds(graph, count))
    middle = {name: statistics.median(values) for name, values in times.items()}
    for layout in LAYOUTS:
        tile = min(TILES, key=lambda each: middle[layout, each])
        ours, rival = middle[layout, tile], middle["library"]
        note = f"speed {rival / ours:.3f}, {2 * size**3 / ours / 1e6:.0f} TFLOP/s, tile {tile}"
        report.add(Row(f"mma_f16_{size}_{layout}", ours, rival, "library", "us", note))


def checked(module: Any, arrays: tuple[Any, Any, Any]) -> Any:
    """A module whose result is right."""
    a, b, c = arrays
    c.fill_(float("nan"))
    module(*arrays)
    wanted = a.double() @ b.double()
    error = float((c.double() - wanted).abs().max() / wanted.abs().max())
    assert error < MOST_ERROR, error
    return module


def main() -> int:
    """Run all sizes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=RESULTS / "shared_layouts.json")
    options = parser.parse_args()
    report = Report(f"layouts of shared memory: {torch.cuda.get_device_name()}")
    print(report.title, HEADER, sep="\n", flush=True)
    for size in SIZES:
        measure(size, report)
    report.save(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

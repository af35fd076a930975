"""Convolutions with channels last against channels in blocks of 16, by the processor's time.

    python benchmarks/blocked_layouts.py [--json FILE]

Layers of ResNet-50 on one thread, with bias and ReLU, packed weights and the schedules that are
calculated, as in a model that was not tuned. The last layer has channels that are no power of two,
which says whether rows that share the sets of a cache cost anything.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from processor_time import arguments_of, processor_secs

from tilewright.driver import build
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.measure.build_task import as_called
from tilewright.model import extract_tasks
from tilewright.runtime.threads import set_num_threads
from tilewright.target import Target
from tilewright.tune.fallback import default_schedule

BLOCK = 16
# Name: size of the image, channels in and out, window.
LAYERS = {
    "56x56 64-64 3x3": (56, 64, 64, 3),
    "14x14 256-256 3x3": (14, 256, 256, 3),
    "56x56 256-64 1x1": (56, 256, 64, 1),
    "28x28 512-128 1x1": (28, 512, 128, 1),
    "14x14 256-1024 1x1": (14, 256, 1024, 1),
    "7x7 2048-512 1x1": (7, 2048, 512, 1),
    "7x7 2064-512 1x1": (7, 2064, 512, 1),
}


def layer(size: int, ins: int, outs: int, window: int, *, blocked: bool) -> Graph:
    """A convolution with bias and ReLU."""
    net = GraphBuilder()
    pad = [window // 2] * 4
    if blocked:
        shape: tuple[int, ...] = (1, ins // BLOCK, size, size, BLOCK)
        weights: tuple[int, ...] = (outs // BLOCK, ins // BLOCK, window, window, BLOCK, BLOCK)
        bias: tuple[int, ...] = (1, outs // BLOCK, 1, 1, BLOCK)
        layout = f"NCHW{BLOCK}c"
    else:
        shape, weights, bias = (1, size, size, ins), (window, window, ins, outs), (outs,)
        layout = "NHWC"
    x = net.input("x", TensorType(shape, "float32"))
    w = net.constant(np.zeros(weights, np.float32))
    y = net.call("nn.conv2d", x, w, strides=[1, 1], padding=pad, data_layout=layout)
    y = net.call("add", y, net.constant(np.zeros(bias, np.float32)))
    return net.graph([net.call("nn.relu", y)])


def seconds(graph: Graph, target: Target) -> float:
    """One run of the kernel, without packing of its weights."""
    task = max(extract_tasks(graph, target), key=lambda one: one.flop)
    mod = as_called(default_schedule(task.dispatched[0], target).mod)
    kernel, arrays = build(mod, target), arguments_of(mod)
    return processor_secs(lambda: kernel(*arrays))


def main() -> None:
    """A row for each layer: GFLOP/s of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    set_num_threads(1)
    target, rows = Target("llvm -num-cores=1"), []
    print(f"{'layer':20} {'NHWC':>8} {'NCHW16c':>8}   GFLOP/s, time of NCHW16c over NHWC")
    for name, (size, ins, outs, window) in LAYERS.items():
        last, blocked = (
            seconds(layer(size, ins, outs, window, blocked=each), target) for each in (False, True)
        )
        gflop = 2e-9 * size**2 * ins * outs * window**2
        row: dict[str, Any] = {"layer": name, "nhwc": gflop / last, "nchw16c": gflop / blocked}
        rows.append(row)
        shown = f"{row['nhwc']:8.1f} {row['nchw16c']:8.1f}   {blocked / last:.2f}"
        print(f"{name:20} {shown}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""Quantized models against onnxruntime, OpenVINO, and our own models in f32: batch 1.

    python benchmarks/models_int8.py [--budget SECONDS] [--threads N] [--only MODEL ...]

Networks of `models/zoo.py`, quantized by onnxruntime's quantizer (`models/quantized.py`: QDQ with
uint8 data and int8 weights for each channel). Rows `int8_NAME`: latency, one for each rival, one
for the `best` of them and one for `f32`, the same network in our hands before it was quantized.
All of them run in turns. The note says how many steps outputs are apart from onnxruntime's. Rows
`ready_int8_NAME`: seconds until our model is compiled, tuning left out, against the one in f32.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish
from tuning import in_a_row, medians_in_turns, show_mean

sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))

import contestants
import quantized
import zoo

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0")
RIVALS = ("onnxruntime", "openvino")
ONE_STEP = 1.001


def steps_apart(ours: Any, theirs: Any) -> float:
    """The largest difference, in steps of the outputs."""
    step = float(np.diff(np.unique(theirs)).min())
    return float(np.abs(ours - theirs).max()) / step


def measure_network(report: Report, name: str, options: argparse.Namespace, folder: Path) -> None:
    """Everybody on one network, in turns."""
    plain, file = zoo.export(name, folder), folder / f"{name}_qdq.onnx"
    quantized.quantize(plain, file, quantized.SCHEMES["qdq"])
    arrays = [tensor.numpy() for tensor in zoo.network(name)[1]]
    case = contestants.Case(name, file, arrays, options.threads)
    calls = {"ours": contestants.ours(case, options.budget)}
    f32 = contestants.Case(name, plain, arrays, options.threads)
    calls["f32"] = contestants.ours(f32, options.budget)
    for rival in RIVALS:
        if contestants.is_installed(rival):
            calls[rival] = contestants.RIVALS[rival][1](case)
        else:
            report.skip(f"int8_{name} against {rival}", "it is not installed")
    apart = steps_apart(calls["ours"]()[0], calls["onnxruntime"]()[0])
    if apart > ONE_STEP:
        report.skip(f"int8_{name}", f"its outputs are {apart:.1f} steps from onnxruntime's")
        return
    times = medians_in_turns({who: in_a_row(call) for who, call in calls.items()})
    add_rows(report, f"int8_{name}", times, f"{apart:.0f} steps apart")
    own, plain_secs = (seconds_until_ready(each) for each in (case, f32))
    report.add(Row(f"ready_int8_{name}", own, plain_secs, "f32", "s"))


def seconds_until_ready(case: contestants.Case) -> float:
    """Seconds of import and compilation."""
    return case.seconds["imported"] + case.seconds["compiled"]


def add_rows(report: Report, row: str, times: Mapping[str, float], note: str) -> None:
    """One row for each rival, one for the best, one for f32."""
    own = times["ours"] * 1e3
    rivals = {name: times[name] * 1e3 for name in RIVALS if name in times}
    for name, time in rivals.items():
        report.add(Row(row, own, time, name, "ms", note))
    best = min(rivals, key=lambda name: rivals[name])
    report.add(Row(row, own, rivals[best], "best", "ms", best))
    report.add(Row(row, own, times["f32"] * 1e3, "f32", "ms"))


def main() -> None:
    """Measure, show, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="MODEL", choices=NETWORKS)
    options = parser.parse_args()
    report = Report("models_int8")
    print(HEADER)
    for name in options.only or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            measure_network(report, name, options, Path(folder))
        if options.json is not None:
            report.save(options.json)
    for rival in ("best", "f32", *RIVALS):
        show_mean(report, "latency", rival, "int8_")
    finish(report, options)


if __name__ == "__main__":
    main()

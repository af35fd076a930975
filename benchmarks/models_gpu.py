"""Whole models on a GPU: ours, PyTorch eager, and `torch.compile` in several modes.

    python benchmarks/models_gpu.py [--models resnet50,bert_base] [--dtypes float16,float32]
        [--batch 1] [--rivals eager,default,reduce-overhead,max-autotune] [--prepare SECONDS]
        [--profile 8] [--json FILE]

A process a model and element type prepares all its versions, so that many cores compile at once;
after half of `--prepare` seconds no further rival is begun. When all are ready they are timed, one
process after the other and the versions of a model in turns: the time between two events
around a row of calls, the least of several rows. Results are compared with the model in float32.
`--json benchmarks/results/models_gpu.json` adds them to the file.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "models"))

import torch
import zoo
from harness import Report, Row

from tilewright.frontend.torch import import_module
from tilewright.model import compile_model

RESULTS = "benchmarks/results/models_gpu.json"
ROWS, CALLS = 7, 30
OURS, EAGER = "tilewright", "eager"
Run = Callable[[], Any]

_known = cache(zoo.network)


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A network of its own, which may be changed, and inputs."""
    module, given = _known(name)
    return copy.deepcopy(module), given


def inputs_of(given: tuple[torch.Tensor, ...], batch: int, dtype: Any) -> tuple[Any, ...]:
    """Inputs for a batch."""
    torch.manual_seed(1)
    made = []
    for x in given:
        shape = (batch, *x.shape[1:])
        made.append(
            torch.randn(shape).to(dtype)
            if x.is_floating_point()
            else torch.randint(0, 30000, shape)
        )
    return tuple(made)


def milliseconds(run: Run, calls: int = CALLS) -> float:
    """Of one call, in a row of several."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for _ in range(calls):
        run()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / calls


# --- versions -----------------------------------------------------------------------------------


@dataclass
class Contest:
    """All versions of one model, and what is known of them."""

    name: str
    dtype: str
    batch: int
    runs: dict[str, Run] = field(default_factory=dict)
    ready_secs: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    compiled: Any = None
    on_gpu: list[Any] = field(default_factory=list)

    @property
    def element(self) -> Any:
        return getattr(torch, self.dtype)

    def add(self, label: str, make: Callable[[], Run]) -> None:
        """Prepare a version, by some first calls."""
        begin = time.perf_counter()
        try:
            run = make()
            for _ in range(4):
                run()
            torch.cuda.synchronize()
        except Exception as error:  # of any library
            self.notes[label] = f"{type(error).__name__}: {str(error)[:300]}"
            return
        self.runs[label] = run
        self.ready_secs[label] = time.perf_counter() - begin

    def begin(self) -> Callable[[], Run]:
        """Compile our model, by processes of its own; what is returned waits for it."""
        module, given = network(self.name)
        inputs = inputs_of(given, self.batch, self.element)
        graph = import_module(module.to(self.element), inputs)

        def compile_behind() -> Any:
            os.nice(10)  # this thread and its processes: rivals prepare in one thread each
            return compile_model(graph, "cuda")

        pending = ThreadPoolExecutor(1).submit(compile_behind)
        self.on_gpu = [x.cuda() for x in inputs]

        def finish() -> Run:
            self.compiled = pending.result()
            return lambda: self.compiled(*self.on_gpu)

        return finish

    def rival(self, mode: str) -> Run:
        """The model in PyTorch; images with channels last, which is faster there."""
        torch._dynamo.reset()
        module, given = network(self.name)
        module = module.to(self.element).cuda()
        inputs = [x.cuda() for x in inputs_of(given, self.batch, self.element)]
        if inputs[0].ndim == 4:
            module = module.to(memory_format=torch.channels_last)
            inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        run = module if mode == EAGER else torch.compile(module, mode=mode)
        return lambda: run(*inputs)

    @cached_property
    def reference(self) -> list[torch.Tensor]:
        """Results in float32."""
        module, given = network(self.name)
        inputs = [
            x.cuda().to(torch.float32 if x.is_floating_point() else x.dtype)
            for x in inputs_of(given, self.batch, self.element)
        ]
        made = module.float().cuda()(*inputs)
        return [x.float() for x in (made if isinstance(made, tuple) else (made,))]

    def result(self, slowest: int) -> dict[str, Any]:
        """Errors and times of all versions; the GPU has nothing else to do meanwhile."""
        errors = {label: difference(run(), self.reference) for label, run in self.runs.items()}
        times: dict[str, float] = defaultdict(lambda: float("inf"))
        for _ in range(ROWS):
            for label, run in self.runs.items():
                times[label] = min(times[label], milliseconds(run))
        ours = times.get(OURS)
        others = {k: v for k, v in times.items() if k not in (OURS, EAGER)}
        return {
            "model": self.name,
            "dtype": self.dtype,
            "batch": self.batch,
            "milliseconds": {k: round(v, 4) for k, v in times.items()},
            "speed": {k: round(v / ours, 3) for k, v in others.items()} if ours else {},
            "error": {k: float(f"{v:.2e}") for k, v in errors.items()},
            "ready_secs": {k: round(v, 1) for k, v in self.ready_secs.items()},
            "notes": self.notes,
            "slowest_kernels": self.slowest(slowest) if self.compiled is not None else [],
        }

    def slowest(self, count: int) -> list[str]:
        """The kernels that take most of the time."""
        total: dict[str, list[float]] = defaultdict(list)
        for call, step in zip(
            self.compiled.calls, self.compiled.profile(*self.on_gpu), strict=True
        ):
            shapes = " ".join(str(v.type).replace("float", "f") for v in call.values)
            total[f"{step.name} {shapes}"].append(step.seconds * 1e6)
        whole = sum(map(sum, total.values()))
        rows = sorted(total.items(), key=lambda item: -sum(item[1]))[:count]
        head = f"{whole:.1f} us in {len(self.compiled.calls)} kernels"
        return [
            head,
            *(f"{sum(t):.1f} us = {len(t)} x {min(t):.2f} {name[:170]}" for name, t in rows),
        ]


def difference(made: Any, wanted: list[torch.Tensor]) -> float:
    """The largest error relative to the largest result."""
    outputs = made if isinstance(made, tuple) else (made,)
    pairs = zip(outputs, wanted, strict=True)
    return max(
        float((torch.from_dlpack(a).float() - b).abs().max() / b.abs().max()) for a, b in pairs
    )


# --- processes ----------------------------------------------------------------------------------


def prepare_and_time(options: Any) -> None:
    """The work of one process."""
    torch.set_grad_enabled(False)
    torch.backends.cudnn.allow_tf32 = False  # float32 is float32, for everybody
    name, dtype = options.only.split("/")
    contest, end, folder = Contest(name, dtype, options.batch), options.end, Path(options.folder)
    begin = time.time()
    finish = contest.begin()
    assert contest.reference
    for number, mode in enumerate(filter(None, options.rivals.split(","))):
        if number and time.time() > begin + (end - begin) / 2:
            contest.notes[mode] = "no time was left to compile it"
            continue
        contest.add(mode, lambda mode=mode: contest.rival(mode))
    contest.add(OURS, finish)
    (folder / f"{name}_{dtype}.ready").touch()
    while time.time() < end and len(list(folder.glob("*.ready"))) < options.processes:
        time.sleep(0.2)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = contest.result(options.profile)
    (folder / f"{name}_{dtype}.json").write_text(json.dumps(made))


def in_processes(options: Any) -> list[dict[str, Any]]:
    """One process for each model and element type; what they found."""
    pairs = [(m, d) for d in options.dtypes.split(",") for m in options.models.split(",")]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        own = ["--folder", folder, "--end", str(time.time() + options.prepare)]
        own += ["--processes", str(len(pairs)), "--batch", str(options.batch)]
        own += ["--rivals", options.rivals, "--profile", str(options.profile)]
        running = [
            subprocess.Popen([sys.executable, __file__, "--only", f"{m}/{d}", *own])
            for m, d in pairs
        ]
        for (name, dtype), process in zip(pairs, running, strict=True):
            process.wait()
            path = Path(folder) / f"{name}_{dtype}.json"
            if path.exists():
                found.append(json.loads(path.read_text()))
                report(found[-1])
            else:
                print(f"{name} {dtype}: exit status {process.returncode}", flush=True)
    return found


def report(made: dict[str, Any]) -> None:
    """Print what one process found."""
    head = f"{made['model']} {made['dtype']} b{made['batch']}"
    for label, took in made["milliseconds"].items():
        error, ready = made["error"][label], made["ready_secs"][label]
        speed = f", ours {made['speed'][label]:.2f}" if label in made["speed"] else ""
        print(f"{head} {label}: {took:.4f} ms{speed} (error {error:.1e}, ready in {ready:.0f} s)")
    for label, note in made["notes"].items():
        print(f"{head} {label}: {note}")
    for line in made["slowest_kernels"]:
        print("   ", line)
    sys.stdout.flush()


def save(found: list[dict[str, Any]], path: Path) -> None:
    """Write rows; those that an earlier run wrote for other models and rivals stay."""
    report = Report(f"models on a GPU: {torch.cuda.get_device_name(0)}, batch 1, without a search")
    rows = {(row.name, row.rival_name): row for made in found for row in rows_of(made)}
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    for row in known:
        del row["ratio"]
        rows.setdefault((row["name"], row["rival_name"]), Row(**row))
    report.rows = [rows[key] for key in sorted(rows)]
    report.save(path)


def rows_of(made: dict[str, Any]) -> Iterator[Row]:
    """A row for each rival of a model."""
    name = f"model_gpu_{made['model']}_{made['dtype']}_b{made['batch']}"
    times, errors = made["milliseconds"], made["error"]
    for rival, took in times.items():
        if rival != OURS and OURS in times:
            note = f"speed {took / times[OURS]:.2f}, errors {errors[OURS]:.1e}, {errors[rival]:.1e}"
            yield Row(name, times[OURS], took, rival, "ms", note)


def main() -> None:
    """Run all processes, or the work of one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(zoo.NETWORKS))
    parser.add_argument("--dtypes", default="float16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rivals", default="eager,reduce-overhead,default")
    parser.add_argument("--prepare", type=float, default=600)
    parser.add_argument("--profile", type=int, default=8)
    parser.add_argument("--json", type=Path, help=f"rows are added to it, such as {RESULTS}")
    for name in ("--only", "--folder", "--end", "--processes"):
        parser.add_argument(
            name,
            type=float if name == "--end" else int if name == "--processes" else str,
            help=argparse.SUPPRESS,
        )
    options = parser.parse_args()
    if options.only:
        prepare_and_time(options)
        return
    found = in_processes(options)
    if options.json is not None and found:
        save(found, options.json)


if __name__ == "__main__":
    main()

"""Whole models on a GPU: ours, PyTorch eager, and `torch.compile` in several modes.

    python benchmarks/models_gpu.py [--models resnet50,bert_base] [--dtypes float16,float32]
        [--batch 1] [--rivals eager,default,reduce-overhead,max-autotune] [--prepare SECONDS]
        [--profile 8] [--json FILE]

A process for each version of each model prepares it, so that many cores compile at once; those
that are not ready after `--prepare` seconds are left out. When all are ready they are timed in
turns, one row of calls at a time: the time between two events around the row, the least of several
rows. Results are compared with the model in float32. `--json benchmarks/results/models_gpu.json`
adds rows to the file.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "models"))

import torch
import zoo
from harness import HEADER, Report, Row

from tilewright.frontend.torch import import_module
from tilewright.model import compile_model

ROWS, CALLS = 7, 30
TIMING_SECS = 25.0  # after the time to prepare
LOCK = Path(tempfile.gettempdir()) / "tilewright_models_gpu.lock"  # who times has the GPU alone
OURS, EAGER = "tilewright", "eager"
Run = Callable[[], Any]
Found = dict[tuple[str, str], dict[str, dict[str, Any]]]  # by model and type, then by version


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
class Version:
    """One way to run a model."""

    name: str
    dtype: str
    batch: int
    label: str  # OURS, EAGER or a mode of `torch.compile`
    compiled: Any = None

    @property
    def element(self) -> Any:
        return getattr(torch, self.dtype)

    def inputs(self, given: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        """The same for all versions, on the CPU."""
        return inputs_of(given, self.batch, self.element)

    def prepare(self) -> Run:
        """A function that runs the model, after some first calls."""
        run = self._ours() if self.label == OURS else self._rival()
        for _ in range(4):
            run()
        torch.cuda.synchronize()
        return run

    def _ours(self) -> Run:
        module, given = zoo.network(self.name)
        inputs = self.inputs(given)
        self.compiled = compile_model(import_module(module.to(self.element), inputs), "cuda")
        self.on_gpu = [x.cuda() for x in inputs]
        return lambda: self.compiled(*self.on_gpu)

    def _rival(self) -> Run:
        """The model in PyTorch; images with channels last, which is faster there."""
        module, given = zoo.network(self.name)
        module = module.to(self.element).cuda()
        inputs = [x.cuda() for x in self.inputs(given)]
        if inputs[0].ndim == 4:
            module = module.to(memory_format=torch.channels_last)
            inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        run = module if self.label == EAGER else torch.compile(module, mode=self.label)
        return lambda: run(*inputs)

    def error(self, made: Any) -> float:
        """The largest difference from the model in float32, relative to the largest result."""
        module, given = zoo.network(self.name)
        inputs = [x.float() if x.is_floating_point() else x for x in self.inputs(given)]
        wanted = module.cuda()(*(x.cuda() for x in inputs))
        pairs = zip(_outputs(made), _outputs(wanted), strict=True)
        return max(
            float((torch.from_dlpack(a).float() - b).abs().max() / b.abs().max()) for a, b in pairs
        )

    def slowest(self, count: int) -> list[str]:
        """The kernels that take most of the time."""
        if self.compiled is None:
            return []
        total: dict[str, list[float]] = defaultdict(list)
        profile = self.compiled.profile(*self.on_gpu, repeats=2)
        for call, step in zip(self.compiled.calls, profile, strict=True):
            shapes = " ".join(str(v.type).replace("float", "f") for v in call.values)
            total[f"{step.name} {shapes}"].append(step.seconds * 1e6)
        rows = sorted(total.items(), key=lambda item: -sum(item[1]))[:count]
        head = f"{sum(map(sum, total.values())):.1f} us in {len(profile)} kernels"
        return [
            head,
            *(f"{sum(t):.1f} us = {len(t)} x {min(t):.2f} {name[:170]}" for name, t in rows),
        ]


def _outputs(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


# --- processes ----------------------------------------------------------------------------------


def prepare_and_time(options: Any) -> None:
    """The work of one process."""
    torch.set_grad_enabled(False)
    torch.backends.cudnn.allow_tf32 = False  # float32 is float32, for everybody
    name, dtype, label = options.only.split("/")
    version, folder = Version(name, dtype, options.batch, label), Path(options.folder)
    begin, own = time.perf_counter(), folder / options.only.replace("/", "_")
    run = version.prepare()
    ready, error = time.perf_counter() - begin, version.error(run())
    own.with_suffix(".ready").touch()
    while time.time() < options.end and len(list(folder.glob("*.ready"))) < options.processes:
        time.sleep(0.2)
    best = float("inf")
    with LOCK.open("w") as lock:
        for _ in range(ROWS):
            fcntl.flock(lock, fcntl.LOCK_EX)
            best = min(best, milliseconds(run))
            fcntl.flock(lock, fcntl.LOCK_UN)
            time.sleep(0.01)  # for others to have their turn
        fcntl.flock(lock, fcntl.LOCK_EX)
        slowest = version.slowest(options.profile)
    made = {"ms": best, "error": error, "ready_secs": ready, "slowest": slowest}
    own.with_suffix(".json").write_text(json.dumps(made))


def in_processes(options: Any) -> Found:
    """One process for each version of each model; what they found."""
    labels = [OURS, *filter(None, options.rivals.split(","))]
    models, dtypes = options.models.split(","), options.dtypes.split(",")
    versions = [f"{m}/{d}/{label}" for d in dtypes for m in models for label in labels]
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        end = time.time() + options.prepare
        own = ["--folder", folder, "--end", str(end), "--processes", str(len(versions))]
        own += ["--batch", str(options.batch), "--profile", str(options.profile)]
        running = {
            version: subprocess.Popen([sys.executable, __file__, "--only", version, *own])
            for version in versions
        }
        for version, process in running.items():
            try:
                process.wait(max(0.1, end + TIMING_SECS - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
            path = Path(folder) / f"{version.replace('/', '_')}.json"
            if path.exists():
                name, dtype, label = version.split("/")
                found.setdefault((name, dtype), {})[label] = json.loads(path.read_text())
            else:
                print(f"{version}: no result, exit status {process.poll()}", flush=True)
    return found


def rows_of(found: Found, batch: int) -> Iterator[Row]:
    """A row for each rival of a model, and what is slow in ours."""
    for (name, dtype), versions in found.items():
        ours = versions.pop(OURS, None)
        if ours is None:
            continue
        for line in ours["slowest"]:
            print("   ", line)
        errors = f"errors {ours['error']:.1e}"
        row = f"model_gpu_{name}_{dtype}_b{batch}"
        if not versions:
            yield Row(row, ours["ms"], None, "-", "ms", errors)
        for label, rival in versions.items():
            speed = f"speed {rival['ms'] / ours['ms']:.2f}, {errors} and {rival['error']:.1e}"
            yield Row(row, ours["ms"], rival["ms"], label, "ms", speed)


def main() -> None:
    """Run all processes, or the work of one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(zoo.NETWORKS))
    parser.add_argument("--dtypes", default="float16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rivals", default="eager,default,reduce-overhead")
    parser.add_argument("--prepare", type=float, default=900)
    parser.add_argument("--profile", type=int, default=8)
    parser.add_argument("--json", type=Path, help="rows are added to this file")
    for name, kind in (("only", str), ("folder", str), ("end", float), ("processes", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        prepare_and_time(options)
        return
    report = Report(f"models on a GPU, without a search: {torch.cuda.get_device_name(0)}")
    print(report.title, HEADER, sep="\n", flush=True)
    for row in rows_of(in_processes(options), options.batch):
        report.add(row)
    if options.json is not None:
        report.keep_others(options.json)
        report.save(options.json)


if __name__ == "__main__":
    main()

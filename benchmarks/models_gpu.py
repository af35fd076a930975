"""Whole models on a GPU: ours, PyTorch eager, and `torch.compile` in several modes.

python benchmarks/models_gpu.py [--models resnet50,bert_base] [--batches 1,32] [--dtype float16]
    [--rivals eager,reduce-overhead,max-autotune-no-cudagraphs] [--profile 12] [--tune TRIALS]

Times are those between events on the GPU around a row of calls, the least of several rows; all rows
of a model run in turns. Results are compared with those of the model in float32.
"""

from __future__ import annotations

import argparse
import copy
import functools
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "models"))

import torch
import zoo

from tilewright.frontend.torch import import_module
from tilewright.model import compile_model

ROWS, CALLS = 7, 30
Run = Callable[[], Any]


_known = functools.cache(zoo.network)


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A network of its own, which may be changed, and inputs."""
    module, given = _known(name)
    return copy.deepcopy(module), given


def milliseconds(run: Run, calls: int = CALLS) -> float:
    """Of one call, in a row of several."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for _ in range(calls):
        run()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / calls


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


def ours(name: str, batch: int, dtype: Any) -> tuple[Run, Any]:
    """Our model, and what compiled it."""
    module, given = network(name)
    inputs = inputs_of(given, batch, dtype)
    begin = time.perf_counter()
    graph = import_module(module.to(dtype), inputs)
    imported = time.perf_counter()
    compiled = compile_model(graph, "cuda")
    print(
        f"{name} b{batch}: imported in {imported - begin:.1f} s, {len(compiled.calls)} kernels, "
        f"{len({id(call.kernel) for call in compiled.calls})} different, compiled in "
        f"{time.perf_counter() - imported:.1f} s",
        flush=True,
    )
    on_gpu = [x.cuda() for x in inputs]
    return lambda: compiled(*on_gpu), compiled


def rival(name: str, batch: int, dtype: Any, mode: str) -> Run:
    """The model in PyTorch; images with channels last, which is faster there."""
    module, given = network(name)
    module = module.to(dtype).cuda()
    inputs = [x.cuda() for x in inputs_of(given, batch, dtype)]
    if inputs[0].ndim == 4:
        module = module.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
    run = module if mode == "eager" else torch.compile(module, mode=mode)
    return lambda: run(*inputs)


def reference(name: str, batch: int) -> list[torch.Tensor]:
    """Results in float32."""
    module, given = network(name)
    inputs = [x.cuda() for x in inputs_of(given, batch, torch.float32)]
    made = module.cuda()(*inputs)
    return [x.float() for x in (made if isinstance(made, tuple) else (made,))]


def difference(made: Any, wanted: list[torch.Tensor]) -> float:
    """The largest error relative to the largest result."""
    outputs = made if isinstance(made, tuple) else (made,)
    pairs = zip(outputs, wanted, strict=True)
    worst = [
        float((torch.from_dlpack(a).float() - b).abs().max() / b.abs().max()) for a, b in pairs
    ]
    return max(worst)


def profiled(compiled: Any, inputs: Any, count: int) -> None:
    """Print the kernels that take most of the time."""
    total: dict[str, list[float]] = defaultdict(list)
    for call, step in zip(compiled.calls, compiled.profile(*inputs), strict=True):
        shapes = " ".join(str(v.type).replace("float", "f") for v in call.values)
        total[f"{step.name} {shapes}"].append(step.seconds * 1e6)
    print(f"  sum of kernels {sum(map(sum, total.values())):.1f} us")
    for name, times in sorted(total.items(), key=lambda item: -sum(item[1]))[:count]:
        print(f"  {sum(times):7.1f} us = {len(times):2} x {min(times):6.2f}  {name[:170]}")


def main() -> None:
    """Print a line for each model, batch and rival."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet50,bert_base")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--rivals", default="eager,reduce-overhead,max-autotune-no-cudagraphs")
    parser.add_argument("--profile", type=int, default=12)
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    torch.set_grad_enabled(False)
    for name in options.models.split(","):
        for batch in map(int, options.batches.split(",")):
            compare(name, batch, dtype, options)


def compare(name: str, batch: int, dtype: Any, options: Any) -> None:
    """All ways to run one model."""
    run, compiled = ours(name, batch, dtype)
    runs: dict[str, Run] = {"tilewright": run}
    for mode in filter(None, options.rivals.split(",")):
        runs[mode] = rival(name, batch, dtype, mode)
    wanted = reference(name, batch)
    for label, each in runs.items():
        begin = time.perf_counter()
        for _ in range(3):
            made = each()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        print(f"  {label}: first calls {seconds:.1f} s, error {difference(made, wanted):.2e}")
    best = {label: min(milliseconds(each) for _ in range(ROWS)) for label, each in runs.items()}
    for label, took in best.items():
        print(f"{name} {options.dtype} b{batch} {label}: {took:.4f} ms", flush=True)
    others = [took for label, took in best.items() if label not in ("tilewright", "eager")]
    if others:
        print(f"{name} {options.dtype} b{batch} speed {min(others) / best['tilewright']:.2f}")
    if options.profile:
        _, given = network(name)
        inputs = [x.cuda() for x in inputs_of(given, batch, dtype)]
        profiled(compiled, inputs, options.profile)


if __name__ == "__main__":
    main()

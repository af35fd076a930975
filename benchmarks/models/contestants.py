"""Whole models in our hands and in those of the rivals: each makes a call out of a network.

    python benchmarks/models/contestants.py NAME MODEL FILE INPUTS THREADS

prints the bytes that one of them takes to infer, in a process that does nothing else.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Arrays: TypeAlias = "list[np.ndarray[Any, Any]]"
Call: TypeAlias = Callable[[], Arrays]


@dataclass(frozen=True)
class Case:
    """A network: what it is called, its file, what it is run on, and by how many threads."""

    name: str
    file: Path
    arrays: Sequence[Any]
    threads: int
    seconds: dict[str, float] = field(default_factory=dict)  # what getting ready took, by step


# --- ours ---------------------------------------------------------------------------------------


def ours(case: Case, budget: float = 0.0) -> Call:
    """Imported from ONNX, tuned for so many seconds, compiled."""
    from tilewright.frontend.onnx import import_onnx
    from tilewright.model import compile_model, tune_model
    from tilewright.runtime.threads import set_num_threads

    set_num_threads(case.threads)
    start = time.perf_counter()
    graph = import_onnx(str(case.file))
    imported = time.perf_counter()
    database = None
    if budget:
        database = tune_model(graph, database="memory", budget_secs=budget, console=False, seed=1)
    tuned = time.perf_counter()
    executable = compile_model(graph, database=database)
    case.seconds.update(
        imported=imported - start, tuned=tuned - imported, compiled=time.perf_counter() - tuned
    )
    return lambda: list(executable(*case.arrays))


# --- rivals -------------------------------------------------------------------------------------


def onnxruntime(case: Case) -> Call:
    """With all of its optimizations, which is its default."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = case.threads
    session = ort.InferenceSession(str(case.file), options, providers=["CPUExecutionProvider"])
    feed = {i.name: a for i, a in zip(session.get_inputs(), case.arrays, strict=True)}
    return lambda: list(session.run(None, feed))


def openvino(case: Case) -> Call:
    """For latency, in float32."""
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": case.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = ov.Core().compile_model(str(case.file), "CPU", settings)
    request = compiled.create_infer_request()

    def call() -> Arrays:
        found = request.infer(list(case.arrays), share_inputs=True, share_outputs=True)
        return list(found.values())

    return call


def pytorch(case: Case) -> Call:
    """Eager."""
    return _of_torch(case, lambda module: module)


def pytorch_compiled(case: Case) -> Call:
    """`torch.compile` with weights that are constants."""

    def compiled(module: Any) -> Any:
        import torch
        import torch._inductor.config

        torch._inductor.config.freezing = True
        torch._dynamo.reset()
        return torch.compile(module)

    return _of_torch(case, compiled)


def _of_torch(case: Case, prepared: Callable[[Any], Any]) -> Call:
    import torch
    import zoo

    torch.set_num_threads(case.threads)
    module, _ = zoo.network(case.name)
    inputs = [torch.from_numpy(array) for array in case.arrays]
    run = prepared(module)

    def call() -> Arrays:
        with torch.no_grad():
            made = run(*inputs)
        return [one.numpy() for one in (made if isinstance(made, (tuple, list)) else [made])]

    return call


# The first one's memory is what ours is compared with.
RIVALS: Mapping[str, tuple[str, Callable[[Case], Call]]] = {
    "onnxruntime": ("onnxruntime", onnxruntime),
    "openvino": ("openvino", openvino),
    "pytorch": ("torch", pytorch),
    "pytorch_compiled": ("torch", pytorch_compiled),
}


def is_installed(name: str) -> bool:
    """True if a rival's package can be imported."""
    return importlib.util.find_spec(RIVALS[name][0]) is not None


# --- memory -------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_bytes() -> int:
    """The most that it held since the last `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(found) * 1024


def forget_peak() -> None:
    """Let the peak begin at what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def memory_of(name: str, case: Case) -> int:
    """The peak while a model runs, less what was held before it was loaded."""
    package, make = ("tilewright.model", ours) if name == "ours" else RIVALS[name]
    importlib.import_module(package)
    before = resident_bytes()
    call = make(case)
    call()
    gc.collect()
    forget_peak()
    for _ in range(3):
        call()
    return peak_bytes() - before


def main() -> None:
    """Print the memory of one contestant."""
    name, model, file, inputs, threads = sys.argv[1:]
    with np.load(inputs) as found:
        case = Case(model, Path(file), [found[key] for key in found.files], int(threads))
    print(memory_of(name, case))


if __name__ == "__main__":
    main()

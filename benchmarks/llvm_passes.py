"""Which LLVM passes pay for already-vectorised kernels: compile time against kernel time.

    python benchmarks/llvm_passes.py [--quick] [--json FILE]

Prints the table of docs/design/0002-llvm-pass-pipeline.md: for each pipeline and kernel, the
milliseconds to parse, optimise and emit, and the microseconds of one run on one core. All variants
are measured in turn, several rounds, and the best time of each counts.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from llvm_kernels import Kernel, all_kernels

from tilewright.codegen.host import loading
from tilewright.codegen.llvm import compiler
from tilewright.codegen.llvm.optimizer import OptimizerPipeline

KernelFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Variant:
    """One way to compile all kernels."""

    label: str
    steps: tuple[str, ...]
    codegen_level: int = 2
    cpu: str = ""
    vector_width: int | None = None


EARLIER_LIST = ("sroa", "instcombine", "simplifycfg", "loop-rotate", "newgvn")
VARIANTS = [
    Variant("no passes", ()),
    Variant("sroa", ("sroa",)),
    Variant(" ".join(EARLIER_LIST), EARLIER_LIST),
    Variant(
        "sroa newgvn instcombine simplifycfg loop-rotate", ("sroa", "newgvn", *EARLIER_LIST[1:4])
    ),
    Variant("simplify<O1>", ("simplify<O1>",)),
    Variant("always-inline simplify<O1> (the default)", ("always-inline", "simplify<O1>")),
    Variant("simplify<O2>", ("simplify<O2>",)),
    Variant("default<O1,novec>", ("default<O1,novec>",)),
    Variant("default<O2,novec>", ("default<O2,novec>",)),
    Variant("default<O3>, codegen O3", ("default<O3>",), 3),
    Variant("simplify<O1>, codegen O0 (fast-isel)", ("simplify<O1>",), 0),
    Variant("simplify<O1>, codegen O1", ("simplify<O1>",), 1),
    Variant("simplify<O1>, codegen O3", ("simplify<O1>",), 3),
    Variant("simplify<O1>, prefer-vector-width 256", ("simplify<O1>",), vector_width=256),
    Variant("simplify<O1>, prefer-vector-width 512", ("simplify<O1>",), vector_width=512),
    Variant("simplify<O1>, tuned for the host's name", ("simplify<O1>",), cpu="host"),
    Variant("default<O3>, tuned for the host's name", ("default<O3>",), 3, cpu="host"),
    Variant("simplify<O1>, tuned for x86-64-v4", ("simplify<O1>",), cpu="x86-64-v4"),
]


def aligned_floats(seed: int) -> np.ndarray:
    """Random floats that start on a cache line."""
    raw = np.zeros(ELEMENTS * 4 + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    floats = raw[start : start + ELEMENTS * 4].view(np.float32)
    floats[:] = np.random.default_rng(seed).random(ELEMENTS) - 0.5
    return floats


@dataclass
class Cell:
    """One kernel compiled one way, with the best times seen so far."""

    variant: Variant
    kernel: Kernel
    compile_ms: float = float("inf")
    run_us: float = float("inf")

    def measure(self, pointers: list[int]) -> None:
        """Compile once more and run a few times."""
        start = time.perf_counter()
        compiled = compiler.compile_ir(self.kernel.source, machine_of(self.variant), self.pipeline)
        self.compile_ms = min(self.compile_ms, (time.perf_counter() - start) * 1e3)
        library = loading.load_objects([compiled])
        function = KernelFunction(library["kernel"])
        for _ in range(6):
            start = time.perf_counter()
            function(*pointers)
            self.run_us = min(self.run_us, (time.perf_counter() - start) * 1e6)

    @property
    def pipeline(self) -> OptimizerPipeline:
        """The passes of this cell."""
        return OptimizerPipeline(self.variant.label, self.variant.steps, self.variant.codegen_level)


def machine_of(variant: Variant) -> compiler.MachineOptions:
    """The host, possibly tuned for another processor."""
    machine = compiler.host_machine()
    host_name = compiler.llvm().get_host_cpu_name()
    cpu = {"": machine.cpu, "host": host_name}.get(variant.cpu, variant.cpu)
    return replace(machine, cpu=cpu)


def measure(rounds: int) -> list[Cell]:
    """Measure all cells in turn, so that a busy moment of the machine hits all alike."""
    buffers = [aligned_floats(seed) for seed in range(3)]
    pointers = [buffer.ctypes.data for buffer in buffers]
    cells = [
        Cell(variant, kernel)
        for variant in VARIANTS
        for kernel in all_kernels(variant.vector_width)
    ]
    for _ in range(rounds):
        for cell in cells:
            cell.measure(pointers)
    return cells


def print_table(cells: list[Cell]) -> None:
    """One line a pipeline, one column a kernel: compile ms / run µs."""
    kernels = list(dict.fromkeys(cell.kernel.name for cell in cells))
    print("| pipeline | " + " | ".join(kernels) + " |")
    print("|---" * (len(kernels) + 1) + "|")
    for variant in VARIANTS:
        line = [f"{c.compile_ms:.1f} / {c.run_us:.1f}" for c in cells if c.variant == variant]
        print(f"| {variant.label} | " + " | ".join(line) + " |")


def as_row(cell: Cell) -> dict[str, object]:
    """One cell for the file."""
    return {
        "pipeline": cell.variant.label,
        "kernel": cell.kernel.name,
        "compile_ms": cell.compile_ms,
        "run_us": cell.run_us,
        "flops": cell.kernel.flops,
    }


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    cells = measure(rounds=3 if options.quick else 8)
    print_table(cells)
    if options.json is not None:
        options.json.write_text(json.dumps([as_row(cell) for cell in cells], indent=1))


if __name__ == "__main__":
    main()

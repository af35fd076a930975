# Script is Python to read, not to type-check: its annotations are calls.
# mypy: disable-error-code="valid-type, no-untyped-def"
"""How many 8-bit operations a second this machine can do: `vpdpbusd` on registers and nothing else.

    python benchmarks/vnni_peak.py

The loop keeps more independent sums than the instruction has cycles of latency, so that its
throughput is what is measured. The assembly is checked: the loop touches no memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from harness import HEADER, Report, Row, interleaved
from tuning import Measure, in_rows

from tilewright.driver import build
from tilewright.ir import PrimFunc
from tilewright.script import tir as T
from tilewright.target import Target

INSTRUCTION = "vpdpbusd"
SUMS = 24  # of 32 registers; the instruction takes 4 to 5 cycles and starts up to twice in one
REPEATS = 100_000  # a call takes the better part of a millisecond, launching some microseconds
OPERATIONS = 8  # of a lane: four products and four sums


@dataclass(frozen=True)
class Form:
    """The instruction in one register width."""

    features: frozenset[str]
    intrinsic: str
    lanes: int
    sums: int


FORMS = (
    Form(frozenset({"avx512vnni"}), "llvm.x86.avx512.vpdpbusd.512", 16, SUMS),
    Form(frozenset({"avxvnni"}), "llvm.x86.avx512.vpdpbusd.256", 8, 12),  # of 16 registers
)


def form_of(target: Target) -> Form | None:
    """The widest form that a CPU has."""
    return next((form for form in FORMS if form.features <= target.features), None)


def program(form: Form, threads: int) -> PrimFunc:
    """Each thread adds dot products of the same two registers to all its sums, again and again."""
    lanes, sums = form.lanes, form.sums
    vector = f"int32x{lanes}"
    intrinsic = form.intrinsic

    @T.prim_func
    def main(
        operands: T.Buffer((2, lanes), "int32"), results: T.Buffer((threads, sums, lanes), "int32")
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for thread in T.parallel(threads):
            with T.block("sums"):
                own = T.axis.spatial(threads, thread)
                total = T.alloc_buffer((sums, lanes), "int32", scope="local")
                for i in T.unroll(sums):
                    total[i, T.ramp(0, 1, lanes)] = T.broadcast(i, lanes)
                for _ in T.serial(REPEATS):
                    for i in T.unroll(sums):
                        total[i, T.ramp(0, 1, lanes)] = T.call_llvm_pure_intrin(
                            T.llvm_lookup_intrinsic_id(intrinsic),
                            T.uint32(3),
                            total.vload([i, 0], dtype=vector),
                            operands.vload([0, 0], dtype=vector),
                            operands.vload([1, 0], dtype=vector),
                            dtype=vector,
                        )
                for i in T.unroll(sums):
                    results[own, i, T.ramp(0, 1, lanes)] = total.vload([i, 0], dtype=vector)

    return main


def inner_loop(assembly: str) -> list[str]:
    """The instructions from a label to a jump with the most dot products among them."""
    label_or_jump = r"^(?:[^\s#][^\n]*:|\s+j[a-z]+\s)[^\n]*\n"
    pieces = re.split(label_or_jump, assembly, flags=re.MULTILINE)
    longest = max(pieces, key=lambda piece: piece.count(INSTRUCTION))
    lines = (line.partition("#")[0].strip() for line in longest.splitlines())
    return [line for line in lines if line and not line.startswith(".")]


def check_registers_only(assembly: str, sums: int) -> None:
    """The figure is a peak only if the loop neither loads nor spills."""
    loop = inner_loop(assembly)
    dots = [line for line in loop if line.startswith(INSTRUCTION)]
    memory = [line for line in loop if "(" in line or "[" in line]
    if len(dots) < sums or memory:
        raise RuntimeError(
            f"the loop is not {sums} {INSTRUCTION} on registers:\n" + "\n".join(loop)
        )


class Peak:
    """The loop on some threads."""

    def __init__(self, form: Form, threads: int) -> None:
        self.threads = threads
        self.bits = 32 * form.lanes
        self.operations = threads * REPEATS * form.sums * form.lanes * OPERATIONS
        module = build(program(form, threads), target=Target(f"llvm -num-cores={threads}"))
        check_registers_only(module.get_source("asm"), form.sums)
        operands = np.full((2, form.lanes), 0x01010101, "int32")
        results = np.zeros((threads, form.sums, form.lanes), "int32")
        module(operands, results)
        first = np.arange(form.sums)[:, None]
        np.testing.assert_array_equal(results, np.broadcast_to(first + 4 * REPEATS, results.shape))
        self._seconds = in_rows(module["main"], [operands, results])

    def measure(self, operations: int) -> Measure:
        """Seconds of so many operations."""
        return lambda: self._seconds() * operations / self.operations


def peaks_of(target: Target) -> list[Peak]:
    """On one thread and on all; nothing where there is no such instruction."""
    form = form_of(target)
    return [] if form is None else [Peak(form, n) for n in sorted({1, target.num_cores})]


def show_peaks(report: Report, peaks: Sequence[Peak]) -> None:
    """Measure, and add a row for each: the time of 10^9 operations."""
    if not peaks:
        report.skip("vnni_peak", f"{Target('llvm').cpu.name} has no {INSTRUCTION}")
    seconds = interleaved([peak.measure(10**9) for peak in peaks], rounds=15)
    for peak, each in zip(peaks, seconds, strict=True):
        threads = "1 thread" if peak.threads == 1 else f"{peak.threads} threads"
        note = f"{1 / each:.0f} GOP/s on {threads}, {peak.bits}-bit registers"
        report.add(Row(f"vnni_peak_{peak.threads}", each * 1e6, None, "none", "us", note))


def main() -> None:
    """Measure and show."""
    print(HEADER)
    show_peaks(Report("vnni_peak"), peaks_of(Target("llvm")))


if __name__ == "__main__":
    main()

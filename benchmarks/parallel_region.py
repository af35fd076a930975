"""What a parallel region costs: launching, waking sleeping workers, and sleeping itself.

    python benchmarks/parallel_region.py [--json FILE]

Everything is timed from native code, so that Python's own calls do not show.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from pathlib import Path

from tilewright.codegen.host import loading
from tilewright.codegen.llvm import compiler
from tilewright.runtime import threads

# pauses: spin for as many processor pauses an item as the context says. launches: nanoseconds
# that `times` regions of `extent` items take.
SOURCE = """
declare i32 @tw_parallel_launch(ptr, ptr, i64)
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}

define i32 @empty(ptr %context, i64 %begin, i64 %end) {
  ret i32 0
}

define i32 @pauses(ptr %context, i64 %begin, i64 %end) {
entry:
  %each = ptrtoint ptr %context to i64
  %items = sub i64 %end, %begin
  %total = mul i64 %each, %items
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void asm sideeffect "pause", "~{memory}"()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %total
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i64 @launches(ptr %task, ptr %context, i64 %extent, i64 %times) {
entry:
  %start = call i64 @now()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %status = call i32 @tw_parallel_launch(ptr %task, ptr %context, i64 %extent)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  %end = call i64 @now()
  %elapsed = sub i64 %end, %start
  ret i64 %elapsed
}
"""

Launches = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class Meter:
    """Times regions on a given number of threads."""

    def __init__(self) -> None:
        self.library = loading.load_objects([compiler.compile_ir(SOURCE)], threads.symbols())
        self.launches = Launches(self.library["launches"])

    def best(self, count: int, task: str, pauses: int, times: int) -> float:
        """Nanoseconds a region of two items, the best of five series."""
        threads.set_num_threads(count)
        address = self.library[task]
        self.launches(address, pauses, 2, 100)
        return min(float(self.launches(address, pauses, 2, times)) / times for _ in range(5))

    def after_sleep(self, pauses: int) -> float:
        """Median nanoseconds of a region whose worker sleeps."""
        threads.set_num_threads(2)
        samples = []
        for _ in range(31):
            time.sleep(0.003)
            samples.append(self.launches(self.library["pauses"], pauses, 2, 1))
        return float(sorted(samples)[len(samples) // 2])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    meter = Meter()
    figures = {"empty region, 2 threads, spinning (ns)": meter.best(2, "empty", 0, 10_000)}
    for pauses in (10, 100, 1000):
        serial = meter.best(1, "pauses", pauses, 1000)
        parallel = meter.best(2, "pauses", pauses, 1000)
        name = f"overhead when both threads work {serial / 2000:.1f} us each (ns)"
        figures[name] = parallel - serial / 2
        figures[f"same, worker asleep before: whole region of {serial / 2000:.1f} us each (ns)"] = (
            meter.after_sleep(pauses)
        )
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(1.0)
    figures["processor time burnt in one second of sleep (ms)"] = (
        time.process_time() - before
    ) * 1e3
    for name, value in figures.items():
        print(f"{name:70s} {value:12.1f}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

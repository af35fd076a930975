"""TVM's side of `replay_matmul`: replays the same trace and says how long it took.

Runs in TVM's own environment. For every line on standard input, the number of a set of decisions,
it answers one line of JSON: the seconds of one replay.
"""

import json
import sys
import time
from pathlib import Path

import tvm
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

SIZE = 128


def matmul() -> tvm.IRModule:
    """The program that the trace was recorded on."""
    a = te.placeholder((SIZE, SIZE), name="A")
    b = te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="update")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


def load_trace(module: tvm.IRModule, path: str) -> Trace:
    """The trace under the names of TVM 0.25, which also has one more flag for splits."""
    insts, decisions = json.loads(Path(path).read_text())
    for inst in insts:
        inst[0] = {"GetBlock": "GetSBlock"}.get(inst[0], inst[0])
        if inst[0] == "Split":
            inst[2] = [1, 0]
    sch = Schedule(module)
    Trace.apply_json_to_schedule([insts, decisions], sch)
    return sch.trace


def main() -> None:
    """Answer until the input ends."""
    module = matmul()
    trace = load_trace(module, sys.argv[1])
    variants = []
    for decisions in json.loads(sys.argv[2]):
        variant = trace
        for position, decision in decisions:
            inst = variant.insts[position]
            variant = variant.with_decision(inst, decision, remove_postproc=False)
        variants.append(variant)
    for line in sys.stdin:
        variant = variants[int(line) % len(variants)]
        start = time.perf_counter()
        sch = Schedule(module)
        variant.apply_to_schedule(sch, remove_postproc=False)
        print(json.dumps(time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()

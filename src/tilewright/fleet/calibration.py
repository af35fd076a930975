"""The calibration kernel: the same small program on every device, to tell those that are off.

It computes long enough to notice a slow clock, and touches few bytes. The shortest of many runs
counts: what else a machine is doing makes runs longer, never shorter.
"""

from __future__ import annotations

import functools

import numpy as np

from tilewright.driver import build
from tilewright.ir import IRModule, as_module
from tilewright.runtime import ndarray
from tilewright.runtime.module import CompiledFunction
from tilewright.script import from_source
from tilewright.target import Target

_RUNS = 40
_ELEMENTS = 1 << 16
_STEPS = 64
_CPU = f"""
@T.prim_func
def main(a: T.Buffer(({_ELEMENTS},), "float32"), b: T.Buffer(({_ELEMENTS},), "float32")):
    for i in range({_ELEMENTS}):
        with T.block("init"):
            vi = T.axis.spatial({_ELEMENTS}, i)
            b[vi] = T.float32(0)
        for k in range({_STEPS}):
            with T.block("step"):
                vi, vk = T.axis.remap("SR", [i, k])
                b[vi] = b[vi] * a[vi] + T.float32(1)
"""
_GPU = f"""
@T.prim_func
def main(a: T.Buffer(({_ELEMENTS},), "float32"), b: T.Buffer(({_ELEMENTS},), "float32")):
    for i in T.thread_binding({_ELEMENTS} // 256, thread="blockIdx.x"):
        for j in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("init"):
                vi = T.axis.spatial({_ELEMENTS}, i * 256 + j)
                b[vi] = T.float32(0)
            for k in range({_STEPS}):
                with T.block("step"):
                    vi = T.axis.spatial({_ELEMENTS}, i * 256 + j)
                    vk = T.axis.reduce({_STEPS}, k)
                    b[vi] = b[vi] * a[vi] + T.float32(1)
"""


def calibration_program(kind: str) -> IRModule:
    """The program for devices that a kind of target stands for."""
    return as_module(from_source(_GPU if kind == "cuda" else _CPU))


@functools.cache
def _kernel(kind: str) -> tuple[CompiledFunction, list[object]]:
    module = build(calibration_program(kind), Target(kind))
    values = np.full(_ELEMENTS, 0.5, np.float32)
    return module["main"], [ndarray.array(values, module.device) for _ in range(2)]


def calibration_secs(kind: str) -> float:
    """The seconds of one run on the first device of that kind."""
    function, arguments = _kernel(kind)
    return min(function.run_in_a_row(arguments) for _ in range(_RUNS))

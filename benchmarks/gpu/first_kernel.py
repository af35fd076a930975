"""How long a new process takes to its first kernel, without a search: `first_kernel.py KIND`.

Prints the seconds of each part as JSON: importing, the schedule, the code, and the first run, which
also starts the driver.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

_START = time.perf_counter()

import tilewright as tw  # noqa: E402
from tilewright import meta_schedule as ms, te, topi  # noqa: E402
from tilewright.ir import PrimFunc  # noqa: E402
from tilewright.records import args_info_of  # noqa: E402


def _gemm() -> PrimFunc:
    a, b = (te.placeholder((1024, 1024), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 1024), name="k")

    def element(i: Any, j: Any) -> Any:
        return te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)

    return _as_half([a, b], te.compute((1024, 1024), element, name="C"))


def _conv() -> PrimFunc:
    x = te.placeholder((16, 56, 56, 64), "float16", name="X")
    w = te.placeholder((3, 3, 64, 64), "float16", name="W")
    return _as_half([x, w], topi.nn.conv2d_nhwc(x, w, 1, 1, 1, out_dtype="float32"))


def _as_half(inputs: list[Any], sums: Any) -> PrimFunc:
    result = te.compute(sums.shape, lambda *at: sums[at].astype("float16"), name="result")
    return te.create_prim_func([*inputs, result])


def _softmax() -> PrimFunc:
    a = te.placeholder((1024, 1024), "float32", name="A")
    return te.create_prim_func([a, topi.nn.softmax(a, axis=-1)])


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "gemm_f16_1024x1024x1024": _gemm,
    "conv_f16_b16_56_64_64_k3s1": _conv,
    "softmax_f32_1024x1024": _softmax,
}


def main(kind: str) -> None:
    """Make one kernel, and run it once."""
    moments = [_START, time.perf_counter()]
    func, target = PROGRAMS[kind](), tw.Target("cuda")
    mod = ms.default_schedule(func, target).mod
    moments.append(time.perf_counter())
    module = tw.build(mod, target)
    moments.append(time.perf_counter())
    infos = args_info_of(tw.ir.as_module(func))
    module(*(tw.nd.zeros(info.shape, info.dtype, tw.cuda()) for info in infos))
    tw.cuda().sync()
    moments.append(time.perf_counter())
    parts = zip(("import", "schedule", "build", "run"), moments, moments[1:], strict=False)
    print(json.dumps({name: after - before for name, before, after in parts}))


if __name__ == "__main__":
    main(sys.argv[1])

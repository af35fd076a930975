"""Schedules without a search beside plain loops, over kernels of all kinds and many shapes.

    python benchmarks/never_slower.py [--threads N] [--json FILE] [--only ROW ...]

`ours` is the schedule without a search, the rival the program as it is written; both run in turns.
A schedule without a search should never be slower than plain loops beyond noise: the rows where it
is come last, once more. What takes less than a call costs (0.2 us of difference) does not count.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish, interleaved

ROUNDS = 5
ROW_SECONDS = 2e-3
NOISE = 1.15
CALL_SECONDS = 2e-7

Tensors = Sequence[Any]
Kernel = tuple[str, Tensors]


def _tensor(*shape: int, dtype: str = "float32", name: str = "A") -> Any:
    from tilewright import te

    return te.placeholder(shape, dtype, name=name)


def _elementwise() -> Iterator[Kernel]:
    from tilewright import topi

    for shape in ((7,), (1000,), (64, 64), (1024, 1024), (3, 5, 7)):
        a, b = _tensor(*shape), _tensor(*shape, name="B")
        yield f"relu{shape}", [a, topi.nn.relu(a)]
        yield f"exp{shape}", [a, topi.exp(a)]
        yield f"add{shape}", [a, b, topi.add(a, b)]


def _rows() -> Iterator[Kernel]:
    from tilewright import topi

    for shape in ((4, 10), (128, 1000), (1000, 17), (1024, 1024)):
        a, g, b = _tensor(*shape), _tensor(shape[1], name="g"), _tensor(shape[1], name="b")
        for axis in (0, 1, None):
            for reduce in (topi.sum, topi.max, topi.argmax):
                yield f"{reduce.__name__}{shape} axis {axis}", [a, reduce(a, axis=axis)]
        yield f"softmax{shape}", [a, topi.nn.softmax(a)]
        yield f"transpose{shape}", [a, topi.transpose(a)]
        yield f"cumsum{shape}", [a, topi.cumsum(a, axis=1)]
        yield f"sort{shape}", [a, topi.sort(a, axis=1)]
        yield f"layer_norm{shape}", [a, g, b, topi.nn.layer_norm(a, g, b, [1])]


def _products() -> Iterator[Kernel]:
    from tilewright import topi

    sizes = (
        (1, 1, 1), (3, 5, 7), (16, 16, 16), (1, 1000, 64), (100, 100, 100), (5, 300, 2000),
        (333, 333, 333),
    )  # fmt: skip
    for m, n, k in sizes:
        a, b = _tensor(m, k), _tensor(k, n, name="B")
        yield f"matmul{m, n, k}", [a, b, topi.matmul(a, b)]
        for dtype in ("float32", "float16", "int8"):
            a, b = _tensor(m, k, dtype=dtype), _tensor(n, k, dtype=dtype, name="B")
            yield f"dense{m, n, k} {dtype}", [a, b, topi.nn.dense(a, b)]
    a, b = _tensor(8, 32, 16), _tensor(8, 16, 24, name="B")
    yield "batch_matmul", [a, b, topi.einsum("bik,bkj->bij", a, b)]
    q, k, v = (_tensor(1, 4, 64, 32, name=name) for name in "QKV")
    yield "attention", [q, k, v, topi.nn.attention(q, k, v)]


def _convolutions() -> Iterator[Kernel]:
    from tilewright import topi

    for c, h, o, size in ((3, 8, 4, 3), (16, 14, 16, 3), (64, 28, 64, 3), (64, 28, 64, 1)):
        shape = f"{c, h, o, size}"
        a, w = _tensor(1, c, h, h), _tensor(o, c, size, size, name="W")
        yield f"conv2d_nchw{shape}", [a, w, topi.nn.conv2d_nchw(a, w, 1, size // 2, 1)]
        w = _tensor(c, 1, size, size, name="W")
        depthwise = topi.nn.depthwise_conv2d_nchw(a, w, 1, size // 2, 1)
        yield f"depthwise{shape}", [a, w, depthwise]
        a, w = _tensor(1, h, h, c), _tensor(size, size, c, o, name="W")
        yield f"conv2d_nhwc{shape}", [a, w, topi.nn.conv2d_nhwc(a, w, 1, size // 2, 1)]


def _others() -> Iterator[Kernel]:
    from tilewright import topi

    a = _tensor(1, 64, 56, 56)
    yield "max_pool", [a, topi.nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")]
    yield "avg_pool", [a, topi.nn.pool2d(a, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "avg")]
    yield "global_pool", [a, topi.nn.global_pool(a, "avg")]
    a, b = _tensor(64, 64), _tensor(64, 64, name="B")
    yield "concatenate", [a, b, topi.concatenate([a, b], axis=1)]
    a, i = _tensor(1000, 64), _tensor(100, dtype="int32", name="I")
    yield "take", [a, i, topi.take(a, i, axis=0)]
    a = _tensor(1, 16, 32, 32)
    yield "resize", [a, topi.image.resize2d(a, None, (64, 64), "NCHW", "linear")]
    a = _tensor(64, 64, dtype="bool")
    yield "any", [a, topi.any(a, axis=1)]
    a, g, b = _tensor(2, 32, 16, 16), _tensor(32, name="g"), _tensor(32, name="b")
    yield "group_norm", [a, g, b, topi.nn.group_norm(a, g, b, 4, 1, [2, 3])]


FAMILIES = (_elementwise, _rows, _products, _convolutions, _others)


def _arrays(func: Any) -> list[Any]:
    from tilewright.ir import as_module
    from tilewright.ir.numpy_bridge import to_numpy
    from tilewright.records import args_info_of

    random = np.random.default_rng(0)
    made = []
    for info in args_info_of(as_module(func)):
        kind = to_numpy(info.dtype)
        values = np.asarray(random.random(info.shape)) * (50 if kind.kind in "iu" else 1)
        made.append(np.asarray(values).astype(kind))
    return made


def _timer(func: Any, arrays: Sequence[Any]) -> Callable[[], float]:
    import tilewright as tw

    module = tw.build(func)
    entry = module[module.entry_name]
    once = max(1e-8, entry.time_evaluator(number=1)(*arrays).mean)
    timer = entry.time_evaluator(number=max(1, int(ROW_SECONDS / once)))
    return lambda: float(timer(*arrays).mean)


def measure(report: Report, name: str, tensors: Tensors) -> None:
    """Time both versions of a kernel in turns."""
    from tilewright import te
    from tilewright.tune import default_schedule

    func = te.create_prim_func(list(tensors))
    arrays = _arrays(func)
    versions = [_timer(default_schedule(func).mod, arrays), _timer(func, arrays)]
    ours, plain = interleaved(versions, ROUNDS)
    report.add(Row(name, ours * 1e6, plain * 1e6, "plain", "us"))


def is_slower(row: Row) -> bool:
    """True where the schedule loses by more than noise and the cost of a call."""
    assert row.ratio is not None
    assert row.rival is not None
    return row.ratio > NOISE and (row.ours - row.rival) * 1e-6 > CALL_SECONDS


def main() -> None:
    """Measure, show, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="run only rows with such names")
    options = parser.parse_args()
    os.environ["TILEWRIGHT_NUM_THREADS"] = str(options.threads)
    logging.disable(logging.WARNING)
    report = Report(f"no search against plain loops, on {options.threads} thread(s)")
    print(HEADER)
    for family in FAMILIES:
        for name, tensors in family():
            if not options.only or any(part in name for part in options.only):
                measure(report, name, tensors)
    slower = [row for row in report.rows if is_slower(row)]
    print(f"{len(report.rows)} kernels, slower than plain loops: {len(slower)}")
    for row in slower:
        print(f"  {row.name}: {row.ratio:.2f}")
    finish(report, options)


if __name__ == "__main__":
    main()

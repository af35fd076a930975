"""Programs on which an auto-scheduler falls off a cliff, beside PyTorch and beside plain loops.

    python benchmarks/cliffs.py [--quick] [--trials N] [--threads N] [--json FILE] [--only ROW ...]

For each program `cliff_NAME`, a row a rival: `pytorch`, `plain` (the program as it is written) and
`zero_search` (our schedule without a search); ours is the tuned program, called as a user calls it:
what it packs is part of the time. Programs with symbolic shapes are not tuned: there ours is the
schedule without a search. All versions of a program run in turns.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish
from tuning import Measure, in_a_row, in_rows, medians_in_turns

sys.path.insert(0, str(Path(__file__).resolve().parent / "programs"))

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Cliff:
    """A program, its arguments (the outputs last), and the same in PyTorch."""

    make: Callable[[], Any]
    arrays: Callable[[np.random.Generator], list[Any]]
    torch: Callable[[Any, Arrays], Any] | None = None
    symbolic: bool = False
    tolerance: float = 1e-3


def _floats(*shapes: Sequence[int], dtype: str = "float32") -> Callable[..., list[Any]]:
    """Random inputs, and the output with zeros."""

    def arrays(random: np.random.Generator) -> list[Any]:
        from tilewright.ir.numpy_bridge import to_numpy

        *inputs, output = shapes
        kind = to_numpy(dtype)
        return [
            *(random.random(shape, "float32").astype(kind) for shape in inputs),
            np.zeros(output, kind),
        ]

    return arrays


def _embedding(random: np.random.Generator) -> list[Any]:
    table = random.random((30000, 256), "float32")
    return [table, random.integers(0, 30000, 512), np.zeros((512, 256), "float32")]


def _butterfly(random: np.random.Generator) -> list[Any]:
    angle = np.arange(32768) * (-np.pi / 32768)
    signal = [random.random(65536, "float32") for _ in range(2)]
    turn = [np.cos(angle).astype("float32"), np.sin(angle).astype("float32")]
    return [*signal, *turn, np.zeros(65536, "float32"), np.zeros(65536, "float32")]


def _argmin(random: np.random.Generator) -> list[Any]:
    return [random.random((1024, 1024), "float32"), np.zeros(1024, "int32")]


def _masks(random: np.random.Generator) -> list[Any]:
    masks = [random.random((1024, 1024)) < 0.01 for _ in range(2)]
    return [*masks, np.zeros(1024, "bool")]


def _csr(random: np.random.Generator) -> list[Any]:
    ends = np.sort(random.integers(0, 65537, 4095)).astype("int32")
    indptr = np.concatenate([[0], ends, [65536]]).astype("int32")
    columns = random.integers(0, 4096, 65536).astype("int32")
    values, x = random.random(65536, "float32"), random.random(4096, "float32")
    return [indptr, columns, values, x, np.zeros(4096, "float32")]


def _torch_jacobi(torch: Any, state: Any) -> Any:
    for _ in range(4):
        after = state.clone()
        around = state[:-2, 1:-1] + state[2:, 1:-1] + state[1:-1, :-2] + state[1:-1, 2:]
        after[1:-1, 1:-1] = around * 0.25
        state = after
    return state


def _torch_blur(torch: Any, a: Any) -> Any:
    across = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) * (1 / 3)
    return (across[:-2] + across[1:-1] + across[2:]) * (1 / 3)


def _torch_spmv(torch: Any, arrays: Arrays) -> Any:
    indptr, columns, values, x = map(torch.from_numpy, arrays[:4])
    matrix = torch.sparse_csr_tensor(indptr, columns, values, (4096, 4096))
    return lambda: matrix @ x


def _torch_tensors(function: Callable[..., Any]) -> Callable[[Any, Arrays], Any]:
    def call(torch: Any, arrays: Arrays) -> Any:
        tensors = [_tensor(torch, array) for array in arrays[:-1]]
        return lambda: function(torch, *tensors)

    return call


def _tensor(torch: Any, array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype("float32")).to(torch.bfloat16)
    return torch.from_numpy(array)


def _cliffs() -> dict[str, Cliff]:
    import cliff_programs as p

    matmul = _torch_tensors(lambda torch, a, b: torch.mm(a, b))
    dense = _torch_tensors(lambda torch, a, w: torch.nn.functional.linear(a, w))
    row_sum = _torch_tensors(lambda torch, a: a.sum(1))
    softmax = _torch_tensors(lambda torch, a: torch.softmax(a, -1))
    sums = {
        f"row_sum_{name}": Cliff(
            lambda dtype=dtype: p.row_sum(1024, 1024, dtype),
            _floats((1024, 1024), (1024,), dtype=dtype),
            row_sum,
            tolerance=tolerance,
        )
        for name, dtype, tolerance in (
            ("f16", "float16", 2e-3), ("bf16", "bfloat16", 1e-2), ("f32", "float32", 1e-4),
        )
    }  # fmt: skip
    return {
        "jacobi": Cliff(p.jacobi, _floats((512, 512), (512, 512)), _torch_tensors(_torch_jacobi)),
        "blur": Cliff(p.blur, _floats((1026, 1026), (1024, 1024)), _torch_tensors(_torch_blur)),
        "embedding": Cliff(
            lambda: p.embedding,
            _embedding,
            _torch_tensors(lambda torch, table, i: torch.nn.functional.embedding(i, table)),
        ),
        "butterfly": Cliff(lambda: p.butterfly, _butterfly),
        "argmin_axis0": Cliff(
            p.argmin_columns, _argmin, _torch_tensors(lambda torch, a: a.argmin(0))
        ),
        "gemv_f32": Cliff(
            lambda: p.gemv(512, 1000, "float32"),
            _floats((1, 512), (512, 1000), (1, 1000)),
            matmul,
        ),
        "gemv_f16": Cliff(
            lambda: p.gemv(1024, 1024, "float16"),
            _floats((1, 1024), (1024, 1024), (1, 1024), dtype="float16"),
            matmul,
            tolerance=1e-2,
        ),
        "dense_row_f16": Cliff(
            lambda: p.dense_row(1024, 1024, "float16"),
            _floats((1, 1024), (1024, 1024), (1, 1024), dtype="float16"),
            dense,
            tolerance=1e-2,
        ),
        **sums,
        "row_sum_f16_tir": Cliff(
            lambda: p.row_sum_in_place,
            _floats((1024, 1024), (1024,), dtype="float16"),
            row_sum,
            tolerance=2e-3,
        ),
        "conv_transpose": Cliff(
            p.conv_transpose,
            _floats((1, 64, 28, 28), (64, 64, 4, 4), (1, 64, 56, 56)),
            _torch_tensors(
                lambda torch, a, w: torch.nn.functional.conv_transpose2d(a, w, stride=2, padding=1)
            ),
        ),
        "attention": Cliff(
            p.attention,
            _floats(*[(8, 256, 64)] * 4),
            _torch_tensors(
                lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v)
            ),
        ),
        "cumsum": Cliff(
            lambda: p.cumsum,
            _floats((1024, 256), (1024, 256)),
            _torch_tensors(lambda torch, a: a.cumsum(1)),
        ),
        "any_both": Cliff(
            p.any_both, _masks, _torch_tensors(lambda torch, a, b: (a & b).any(1))
        ),
        "spmv": Cliff(lambda: p.spmv, _csr, _torch_spmv),
        "symbolic_matmul": Cliff(
            p.symbolic_matmul, _floats((512, 512), (512, 512), (512, 512)), matmul, symbolic=True
        ),
        "symbolic_product": Cliff(
            p.symbolic_product, _floats((333, 517), (517, 401), (333, 401)), matmul, symbolic=True
        ),
        "symbolic_gelu": Cliff(
            p.symbolic_gelu,
            _floats((1024, 1024), (1024, 1024)),
            _torch_tensors(lambda torch, a: torch.nn.functional.gelu(a)),
            symbolic=True,
        ),
        "symbolic_softmax": Cliff(
            p.symbolic_softmax, _floats((1000, 1000), (1000, 1000)), softmax, symbolic=True
        ),
    }  # fmt: skip


def _versions(cliff: Cliff, trials: int, arrays: Arrays, wanted: Any) -> dict[str, Measure]:
    """Our versions; the tuned one must compute what PyTorch, or else the plain program, does."""
    import tilewright as tw
    from tilewright import meta_schedule as ms
    from tilewright.tune.fallback import default_schedule

    func = cliff.make()
    modules = {"plain": tw.build(func), "zero_search": tw.build(default_schedule(func).mod)}
    if not cliff.symbolic:
        options: Mapping[str, Any] = {"seed": 1, "console": False, "database": "memory"}
        with ms.tune_tir(func, "llvm", None, trials, **options):
            modules["ours"] = tw.build(func)
    for name, module in modules.items():
        arrays[-1][...] = 0
        module(*arrays)
        found = np.asarray(arrays[-1]).astype("float64")
        wanted = found if wanted is None else wanted
        if name != "plain" and not np.allclose(found, wanted, cliff.tolerance, cliff.tolerance):
            print(f"WRONG: {name} differs by {np.abs(found - wanted).max()}")
    return {name: in_rows(_entry(module), arrays) for name, module in modules.items()}


def _entry(module: Any) -> Any:
    return module[module.info.functions[0].name]


def _torch_call(
    report: Report, name: str, cliff: Cliff, arrays: Arrays, threads: int
) -> Callable[[], Any] | None:
    try:
        import torch
    except ImportError:
        report.skip(f"cliff_{name} against pytorch", "`make bench-env` installs it")
        return None
    torch.set_num_threads(threads)
    assert cliff.torch is not None
    call: Callable[[], Any] = cliff.torch(torch, arrays)
    return call


def measure(report: Report, name: str, cliff: Cliff, trials: int, threads: int) -> None:
    """Tune a program and time all versions in turns."""
    arrays = cliff.arrays(np.random.default_rng(0))
    call = None if cliff.torch is None else _torch_call(report, name, cliff, arrays, threads)
    wanted = None if call is None else np.asarray(call().double(), "float64")
    kernels = _versions(cliff, trials, arrays, wanted)
    ours = "zero_search" if cliff.symbolic else "ours"
    if call is not None:
        kernels["pytorch"] = in_a_row(call)
    times = {version: secs * 1e6 for version, secs in medians_in_turns(kernels).items()}
    for rival in ("pytorch", "plain", "zero_search"):
        if rival in times and rival != ours:
            report.add(Row(f"cliff_{name}", times[ours], times[rival], rival, "us"))


def main() -> None:
    """Measure, show, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="16 trials a program")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="of ours and of PyTorch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="run only these rows")
    options = parser.parse_args()
    os.environ["TILEWRIGHT_NUM_THREADS"] = str(options.threads)
    report = Report(f"cliffs on {options.threads} thread(s)")
    print(HEADER)
    for name, cliff in _cliffs().items():
        if not options.only or name in options.only or f"cliff_{name}" in options.only:
            measure(report, name, cliff, 16 if options.quick else options.trials, options.threads)
    finish(report, options)


if __name__ == "__main__":
    main()

"""Tuned products and convolutions of bytes against PyTorch's, TVM's, f32 ones, and the VNNI peak.

    python benchmarks/tune_int8.py [--quick] [--trials N] [--no-tvm] [--json FILE] [--only ROW ...]

    int8_gemm_MxNxK       s8 * s8 -> s32; packing is part of everybody's time but TVM's
    int8_linear_MxNxK     u8 * constant s8, requantized to u8; weights are packed ahead
    int8_conv_HxWxC_KxK   the same for convolutions of ResNet, NHWC
    amx_int8_gemm_MxNxK, amx_bf16_gemm_MxNxK    where the CPU has AMX

`--only` takes patterns such as 'int8_conv_*'. Each row comes once for each rival: pytorch (the best
of its paths, the note has all), tvm, f32 (our own tuned kernel of that shape in float32), vnni_peak
(the time that the operations take at the peak of the machine). All kernels of a row are timed in
turns in one run. TVM computes u8 * s8 -> s32 from packed weights in all rows.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import ml_dtypes
import numpy as np
from harness import HEADER, Report, Row, finish
from tuning import (
    RIVALS,
    Measure,
    TvmTuner,
    add_rows,
    in_a_row,
    medians_in_turns,
    show_mean,
    tune,
    tuning_arguments,
    tvm_tuner,
)
from vnni_peak import Peak, peaks_of, show_peaks

from tilewright import nd, te, topi
from tilewright.ir import PrimFunc, as_module
from tilewright.records import TensorInfo, args_info_of
from tilewright.target import Target
from tilewright.testing.int8_workloads import (
    CONV_SHAPES,
    GEMM_SHAPES,
    ConvShape,
    GemmShape,
    int8_conv,
    int8_gemm,
)

QUICK = ("int8_gemm_512x512x512", "int8_linear_32x1008x2048", "int8_conv_56x56x64_1x1")
ZERO_POINT = 128  # of requantized results
Calls = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Case:
    """A function to tune, and what its rivals need to know."""

    row: str
    func: PrimFunc
    operations: int
    torch_calls: Callable[[Any, Sequence[Any]], Calls]  # of PyTorch's module and the inputs
    tolerance: float = 0  # between our results and PyTorch's
    constants: tuple[int, ...] = ()  # positions of arguments that are packed ahead
    f32: PrimFunc | None = None
    tvm: tuple[str, list[int]] | None = None
    has_peak: bool = False


def gemm_case(shape: GemmShape) -> Case:
    """As `torch._int_mm` has it: signed bytes, nothing is a constant."""
    return Case(
        shape.row,
        shape.create("s8s8"),
        shape.operations,
        lambda torch, inputs: torch.gemm(*inputs),
        f32=shape.create("f32"),
        tvm=("gemm", [shape.M, shape.N, shape.K]),
        has_peak=True,
    )


def linear_case(shape: GemmShape) -> Case:
    """A layer of a quantized network."""
    scale = scale_of(shape.K)
    sums = int8_gemm(shape.M, shape.N, shape.K, "u8s8", layout_free=True)
    return Case(
        shape.row.replace("gemm", "linear"),
        requantized(sums, scale),
        shape.operations,
        lambda torch, inputs: torch.linear(*inputs, scale, ZERO_POINT),
        tolerance=1,
        constants=(1,),
        tvm=("gemm", [shape.M, shape.N, shape.K]),
        has_peak=True,
    )


def conv_case(shape: ConvShape) -> Case:
    """A convolution of a quantized network."""
    size, kernel, stride, padding = shape.size, shape.kernel_size, shape.stride, shape.padding
    scale = scale_of(shape.CI * kernel**2)
    sums = int8_conv(shape.batch, size, size, shape.CI, shape.CO, kernel, stride, padding)
    return Case(
        shape.row,
        requantized(sums, scale),
        shape.operations,
        lambda torch, inputs: torch.conv(*inputs, stride, padding, scale, ZERO_POINT),
        tolerance=1,
        constants=(1,),
        f32=shape.create("f32"),
        tvm=("conv", [size, shape.CI, shape.CO, kernel, stride, padding]),
    )


def amx_int8_case(shape: GemmShape) -> Case:
    """The products of `gemm_case` where tiles can do them."""
    return Case(
        f"amx_{shape.row}",
        shape.create("s8s8"),
        shape.operations,
        lambda torch, inputs: torch.gemm(*inputs),
    )


def amx_bf16_case(shape: GemmShape) -> Case:
    """Products of bfloat16; our results are f32, PyTorch rounds them."""
    return Case(
        f"amx_{shape.row}".replace("int8", "bf16"),
        shape.create("bf16"),
        shape.operations,
        lambda torch, inputs: torch.bf16_gemm(*inputs),
        tolerance=math.sqrt(shape.K) / 16,  # the last bit of bfloat16 near the largest results
    )


@dataclass(frozen=True)
class Group:
    """Rows of one kind, and the features of a CPU without which there is nothing to measure."""

    make: Callable[[Any], Case]
    shapes: Sequence[Any]
    features: frozenset[str] = frozenset()


GROUPS = {
    "int8_gemm": Group(gemm_case, GEMM_SHAPES),
    "int8_linear": Group(linear_case, GEMM_SHAPES),
    "int8_conv": Group(conv_case, CONV_SHAPES),
    "amx_int8_gemm": Group(amx_int8_case, GEMM_SHAPES, frozenset({"amx-int8"})),
    "amx_bf16_gemm": Group(amx_bf16_case, GEMM_SHAPES, frozenset({"amx-bf16"})),
}


def scale_of(depth: int) -> float:
    """Spreads sums of so many products of random bytes over the values of a byte."""
    return 0.006 / math.sqrt(depth)


def requantized(tensors: Sequence[te.Tensor], scale: float) -> PrimFunc:
    """The function that ends in unsigned bytes."""
    *inputs, sums = tensors
    multiplier, shift = topi.fixed_point_scales(scale)
    result = topi.requantize(sums, multiplier, shift, ZERO_POINT, "uint8")
    return te.create_prim_func([*inputs, result])


def random_array(info: TensorInfo, random: np.random.Generator) -> Any:
    """All bytes alike; other numbers around 0."""
    if info.dtype in ("int8", "uint8"):
        limits = np.iinfo(info.dtype)
        return random.integers(limits.min, limits.max + 1, info.shape, dtype=info.dtype)
    dtype = ml_dtypes.bfloat16 if info.dtype == "bfloat16" else info.dtype
    return random.standard_normal(info.shape).astype(dtype)


def arrays_for(func: PrimFunc) -> list[Any]:
    """Arrays that start a cache line, as PyTorch's do; NumPy's start 16 bytes behind one."""
    random = np.random.default_rng(0)
    infos = args_info_of(as_module(func))
    return [np.asarray(nd.array(random_array(info, random))) for info in infos]


class Torch:
    """PyTorch, if it is installed."""

    def __init__(self) -> None:
        self._calls = None
        if importlib.util.find_spec("torch") is None:
            print("PyTorch is missing: `make bench-env` installs it")
            return
        sys.path.insert(0, str(RIVALS))
        self._calls = importlib.import_module("torch_int8")
        print(f"PyTorch: {self._calls.prepare(Target('llvm').num_cores)}")

    def kernels(self, report: Report, case: Case, arrays: Sequence[Any]) -> dict[str, Measure]:
        """Those of its kernels that compute what ours left in the last array."""
        if self._calls is None:
            return {}
        *inputs, ours = arrays
        kernels = {}
        for name, call in case.torch_calls(self._calls, inputs).items():
            theirs = self._calls.as_array(call()).astype("float64")
            difference = float(np.abs(theirs - ours.astype("float64")).max())
            if difference > case.tolerance:
                reason = f"its results differ from ours by up to {difference:g}"
                report.skip(f"{case.row} against {name}", reason)
            else:
                kernels[name] = in_a_row(call)
        return kernels


@dataclass(frozen=True)
class Rivals:
    """Everybody who takes part."""

    torch: Torch
    tvm: TvmTuner | None
    peak: Peak | None


def measure_case(report: Report, case: Case, trials: int, rivals: Rivals) -> None:
    """Tune with everybody, then time all kernels in turns."""
    ours = tune(case.func, trials, case.row)
    arrays = arrays_for(case.func)
    kernels = {"ours": ours.measure(arrays, case.constants)}
    theirs = None
    if rivals.tvm is not None and case.tvm is not None:
        theirs = rivals.tvm.tune(report, case.row, *case.tvm, trials)
    if theirs is not None:
        kernels["tvm"] = theirs.measure
    if case.f32 is not None:
        plain = tune(case.f32, trials, f"{case.row} in f32")
        kernels["f32"] = plain.measure(arrays_for(case.f32), case.constants)
    if case.has_peak and rivals.peak is not None:
        kernels["vnni_peak"] = rivals.peak.measure(case.operations)
    torch_kernels = rivals.torch.kernels(report, case, arrays)
    kernels |= torch_kernels
    times = medians_in_turns(kernels)
    add_rows(report, case.row, ours, theirs, times, torch_kernels)
    best = times["ours"] * 1e6
    for rival in [name for name in ("f32", "vnni_peak") if name in times]:
        note = f"{case.operations / best / 1e3:.0f} GOP/s"
        if rival == "vnni_peak":
            note += f", {times[rival] / times['ours']:.0%} of the peak"
        report.add(Row(case.row, best, times[rival] * 1e6, rival, "us", note))


def chosen_cases(report: Report, only: Sequence[str]) -> Iterator[Case]:
    """The cases whose rows match, shapes that are tuned alike by TVM behind each other."""
    here = Target("llvm")
    for name, group in GROUPS.items():
        lacking = sorted(group.features - here.features)
        if lacking:
            report.skip(f"{name}_*", f"{here.cpu.name} lacks {', '.join(lacking)} here")
    able = [group for group in GROUPS.values() if group.features <= here.features]
    pairs = [(group.make, shape) for group in able for shape in group.shapes]
    pairs.sort(key=lambda pair: GEMM_SHAPES.index(pair[1]) if pair[1] in GEMM_SHAPES else 99)
    for make, shape in pairs:
        case = make(shape)
        if not only or any(fnmatch(case.row, pattern) for pattern in only):
            yield case


def summarize(report: Report) -> None:
    """Geometric means and the worst rows."""
    for group in GROUPS:
        for rival in ("pytorch", "tvm", "f32", "vnni_peak"):
            show_mean(report, group, rival, f"{group}_")
    show_mean(report, "tuning time", "tvm", "tune_wall")


def main() -> None:
    """Measure, show, and write the result."""
    quick = f"{len(QUICK)} rows, without TVM"
    options = tuning_arguments(__doc__.splitlines()[0], quick)
    report = Report("tune_int8")
    peaks = peaks_of(Target("llvm"))
    show_peaks(report, peaks)
    tvm = None if options.quick or options.no_tvm else tvm_tuner("tvm_tune_int8.py")
    rivals = Rivals(Torch(), tvm, peaks[-1] if peaks else None)
    print(HEADER)
    for case in chosen_cases(report, options.only or (QUICK if options.quick else ())):
        measure_case(report, case, options.trials, rivals)
        if options.json is not None:
            report.save(options.json)  # long runs are not lost
    if tvm is not None:
        tvm.close()
    summarize(report)
    finish(report, options)


if __name__ == "__main__":
    main()

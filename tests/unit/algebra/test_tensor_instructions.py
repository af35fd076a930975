"""Sketches around tensor instructions: exact, and faults in what they need are noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401  (registers tensor instructions)
from tilewright import te
from tilewright.algebra import (
    access_view,
    block_history,
    blocks,
    gpu_kernels,
    gpu_memory,
    gpu_vectors,
    layout_products,
    nest_view,
    packed_layouts,
    postprocs,
)
from tilewright.algebra.packed_layouts import PackedLayout
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.algebra_exactness import EXACTNESS_TARGETS, SketchExactness, exactness_of
from tilewright.testing.int8_workloads import create_int8_workload
from tilewright.testing.te_workload import create_te_workload, matmul

OWN, TVM = "tilewright", "post-order-apply"
Fault = Callable[[pytest.MonkeyPatch], None]


def half() -> PrimFunc:
    return te.create_prim_func(matmul(32, 32, 32, "float16", "float32"))


def transposed() -> PrimFunc:
    """A product whose left operand is fetched across its rows."""
    a, b = (te.placeholder((32, 32), name=name, dtype="int8") for name in "AB")
    turned = te.compute((32, 32), lambda i, k: a[k, i], name="T")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute(
        (32, 32),
        lambda i, j: te.sum(turned[i, k].astype("int16") * b[k, j].astype("int16"), axis=[k]),
        name="C",
    )
    return te.create_prim_func([a, b, c])


def bytes_of(form: str, layout_free: bool = False) -> Callable[[], PrimFunc]:
    sizes = {"M": 64, "N": 64, "K": 64}
    return lambda: create_int8_workload("int8_gemm", **sizes, form=form, layout_free=layout_free)


def convolution_of(**sizes: int) -> Callable[[], PrimFunc]:
    return lambda: create_int8_workload("int8_conv", **sizes, kernel_size=3, padding=1)


def ragged_gemm() -> PrimFunc:
    """A product whose weights may be stored in any order, and which no tile divides."""
    return create_int8_workload("int8_gemm", M=50, N=50, K=49, form="f32", layout_free=True)


WORKLOADS: Mapping[str, Callable[[], PrimFunc]] = {
    "conv": convolution_of(N=1, H=14, W=14, CI=16, CO=64), "ragged f32": ragged_gemm,
    "ragged conv": convolution_of(N=1, H=9, W=7, CI=20, CO=40),
    "f16": half, "transposed": transposed,
    "free f32": bytes_of("f32", True), "free u8s8": bytes_of("u8s8", True),
    "u8s8": bytes_of("u8s8"), "s8s8": bytes_of("s8s8"),
}  # fmt: skip


def compared(name: str, label: str, space: str, sketch: int, count: int) -> SketchExactness:
    target = Target(EXACTNESS_TARGETS[label].target)
    (found,) = exactness_of(WORKLOADS[name](), target, space, count, only=sketch)
    return found


@pytest.mark.parametrize(
    ("name", "label", "space", "sketch"),
    [
        ("u8s8", "vnni", TVM, 0),  # in loops, since operands lie in another order
        ("u8s8", "vnni", OWN, 0),  # packed before
        ("s8s8", "vnni", OWN, 4),  # a shifted operand, packed beside
        ("free f32", "cpu", TVM, 0),  # weights in the order of loops
        ("free u8s8", "vnni", TVM, 0),  # and in that of an instruction
        ("conv", "vnni", OWN, 6),  # weights in the order of loops that others are cut off beside
        ("conv", "vnni", OWN, 11),  # or fused with one that is cut off: in no order
        ("ragged conv", "vnni", OWN, 4),  # weights that are read by a loop that is cut off
        ("ragged f32", "cpu", OWN, 0),  # a loop that is moved and split is cut off once
        ("u8s8", "amx", OWN, 0),
        ("u8s8", "amx", OWN, 1),
        ("f16", "tensorcore", TVM, 0),
        ("f16", "tensorcore", OWN, 0),  # `mma`, pipelined
    ],
)
def test_exact(name: str, label: str, space: str, sketch: int) -> None:
    found = compared(name, label, space, sketch, 4)
    assert found.is_covered, found.reasons
    assert found.is_exact, found
    assert 0 < found.vectors <= 2 * found.legal


def _patched(module: object, name: str, wrong: Callable[..., Any]) -> Fault:
    def fault(patch: pytest.MonkeyPatch) -> None:
        right = getattr(module, name)
        patch.setattr(module, name, lambda *given, **named: wrong(right, *given, **named))

    fault.__name__ = f"{module.__name__.split('.')[-1]}.{name.strip('_')}"  # type: ignore[attr-defined]
    return fault


FAULTS: list[tuple[Fault, tuple[str, str, str, int]]] = [
    # Units are counted as elements.
    (
        _patched(blocks, "_divided", lambda f, s, t, inner, width: f(s, t, inner, 1)),
        ("u8s8", "vnni", OWN, 0),
    ),
    # A unit is one element wide.
    (
        _patched(access_view, "_bytes", lambda f, spans, width, unit: f(spans, width, 0)),
        ("u8s8", "amx", OWN, 0),
    ),
    (_patched(nest_view, "tensor_operations", lambda f, sizes: 1.0), ("u8s8", "amx", OWN, 0)),
    (_patched(postprocs, "_vectorize_only_loop", lambda f, stage: None), ("u8s8", "vnni", TVM, 0)),
    # Packed rows end nowhere.
    (
        _patched(PackedLayout, "_last", lambda f, self: [0] * len(self.dims)),
        ("free f32", "cpu", TVM, 0),
    ),
    # Units in a packed buffer are elements.
    (
        _patched(PackedLayout, "within", lambda f, *given: replace(f(*given), below=1)),
        ("free u8s8", "vnni", TVM, 0),
    ),
    # A predicate on a part of a fused loop leaves the other parts in order.
    (_patched(packed_layouts, "_tears", lambda f, *given: 0), ("conv", "vnni", OWN, 11)),
    # Loops that are cut off get to their ends.
    (
        _patched(packed_layouts, "_held_extent", lambda f, digit, _: digit.extent),
        ("ragged conv", "vnni", OWN, 4),
    ),
    # A condition that is there twice counts twice.
    (_patched(nest_view, "_says_same", lambda f, *given: 0), ("ragged f32", "cpu", OWN, 0)),
    # Blocks are what they are in the end.
    (
        _patched(block_history.StageVersions, "show", lambda f, self, step: f(self, None)),
        ("f16", "tensorcore", OWN, 0),
    ),
    # Layouts do not depend on tiles.
    (
        _patched(layout_products.SampledFactors, "_chosen", lambda f, *given: 1),
        ("f16", "tensorcore", TVM, 0),
    ),
    # Rows are not padded.
    (
        _patched(gpu_memory, "_aligned_size", lambda f, box, alignment: f(box, {})),
        ("f16", "tensorcore", TVM, 0),
    ),
    # All buffers live at the same time.
    (
        _patched(gpu_memory, "_peak", lambda f, sizes: f([(range(9), size) for _, size in sizes])),
        ("f16", "tensorcore", TVM, 0),
    ),
    # A pipeline fills nothing ahead.
    (
        _patched(gpu_memory._Kernel, "_versions", lambda f, self, use, around: 1),
        ("f16", "tensorcore", OWN, 0),
    ),
    # Warps have one thread.
    (
        _patched(gpu_kernels, "_fetch", lambda f, *given: f(*given[:3], 1)),
        ("f16", "tensorcore", TVM, 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "place"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_a_fault_is_noticed(
    fault: Fault, place: tuple[str, str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    found = compared(*place, 4)
    assert not found.is_covered or not found.is_exact


def test_loops_of_varying_length_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a transposed convolution, an odd number of rows may need one more row or not."""
    place = (create_te_workload("T2D", 0), Target("llvm -mcpu=cascadelake -num-cores 4"), TVM, 8)
    (found,) = exactness_of(*place, only=0)
    assert found.is_exact
    assert 0 < found.legal < found.vectors
    monkeypatch.setattr(
        postprocs, "_REWRITES", {**postprocs._REWRITES, "DisallowDynamicLoop": _pass}
    )
    (found,) = exactness_of(*place, only=0)
    assert found.illegal_accepted


def _pass(tree: object, context: object) -> None:
    """Check nothing."""


def test_vectors_that_are_too_wide_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bytes a thread fit; with gaps between them they need eight indices, which do not."""
    place = ("transposed", "cuda", TVM, 0)
    assert compared(*place, 24).is_exact
    monkeypatch.setattr(gpu_vectors, "_has_gaps", lambda stage, loop, indices: 0)
    assert compared(*place, 24).illegal_accepted

"""Steps and post-processors that do nothing are noticed, each of them that the algebra knows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tilewright import te
from tilewright.algebra import access_view, lift, moving, postprocs, reach, steps
from tilewright.algebra.loop_tree import LoopNode
from tilewright.arith import Analyzer
from tilewright.ir import ExprLike, PrimExpr, PrimFunc, convert
from tilewright.space.postprocs import verify_tile_kernels
from tilewright.target import Target
from tilewright.testing.algebra_exactness import (
    EXACTNESS_TARGETS,
    EXACTNESS_WORKLOADS,
    SketchExactness,
    compared_sketches,
    sketch_exactness,
)
from tilewright.testing.int8_workloads import create_int8_workload
from tilewright.testing.space_algebra import ReplayedSketch
from tilewright.testing.te_workload import matmul

OWN, TVM = "tilewright", "post-order-apply"
Place = tuple[str, str, str, int]  # workload, target, space, sketch
Fault = Callable[[pytest.MonkeyPatch], None]

SMALL: Mapping[str, Callable[[], PrimFunc]] = {
    "half": lambda: te.create_prim_func(matmul(32, 32, 32, "float16", "float32")),
    "single": lambda: te.create_prim_func(matmul(64, 64, 64)),
    "free": lambda: create_int8_workload(
        "int8_gemm", M=64, N=64, K=64, form="f32", layout_free=True
    ),
    "bytes": lambda: create_int8_workload("int8_gemm", M=64, N=64, K=64, form="u8s8"),
    **EXACTNESS_WORKLOADS,
}


@functools.cache
def sketches(name: str, label: str, space: str) -> list[ReplayedSketch]:
    return compared_sketches(SMALL[name](), Target(EXACTNESS_TARGETS[label].target), space)


def compared(place: Place, count: int = 8) -> SketchExactness:
    name, label, space, number = place
    target = Target(EXACTNESS_TARGETS[label].target)
    return sketch_exactness(sketches(name, label, space)[number], target, count)


def _nothing(tree: object, *given: object) -> list[Any]:
    """A step without effect."""
    return []


# For each step a sketch that has it after a decision.
STEPS: Mapping[str, Place] = {
    "Reorder": ("single", "cpu", TVM, 0),
    "Parallel": ("single", "cpu", OWN, 0),
    "Vectorize": ("single", "cpu", OWN, 0),
    "Unroll": ("single", "cpu", OWN, 0),
    "Annotate": ("single", "cpu", TVM, 0),
    "ReverseComputeAt": ("single", "cpu", TVM, 0),
    "ComputeAt": ("single", "cuda", TVM, 0),
    "Bind": ("single", "cuda", TVM, 0),
    "Blockize": ("half", "tensorcore", TVM, 0),
    "Tensorize": ("bytes", "vnni", OWN, 0),
}
# Steps that give something which others need: without it nothing is interpreted at all.
GIVING = {"Split", "Fuse", "GetLoops", "DecomposeReduction", "GetChildBlocks"}
# After the first decision no rule has it.
BEFORE_DECISIONS = {"Unannotate"}

POSTPROCS: Mapping[str, Place] = {
    # Elsewhere blocks that are not taken apart have the same nests.
    "RewriteReductionBlock": ("half", "tensorcore", TVM, 0),
    "RewriteParallelVectorizeUnroll": ("single", "cpu", TVM, 0),
    "RewriteLayout": ("free", "cpu", TVM, 0),
    "RewriteTensorize": ("half", "tensorcore", TVM, 0),
    "RewriteCooperativeFetch": ("single", "cuda", TVM, 0),
    "VerifyGPUCode": ("GMM", "cuda", TVM, 0),
    "DisallowDynamicLoop": ("T2D", "cpu", TVM, 0),
    "VerifyTileKernels": ("GMM_f16", "hopper", OWN, 0),
}
# It only says that a sketch is not covered.
ONLY_REFUSING = {"RewriteUnboundBlock"}


def test_all_of_them_are_tried() -> None:
    assert {*STEPS, *GIVING, *BEFORE_DECISIONS} == set(steps._transfers)
    assert {*POSTPROCS, *ONLY_REFUSING} == set(postprocs._REWRITES)


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_that_does_nothing_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(steps._transfers, kind, _nothing)
    found = compared(STEPS[kind])
    assert not found.is_covered or not found.is_exact


@pytest.mark.parametrize("name", POSTPROCS)
def test_a_post_processor_that_does_nothing_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "VerifyTileKernels":  # it refuses nothing that rules make
        monkeypatch.setattr(verify_tile_kernels, "SHARED_BYTES", 100_000)
    monkeypatch.setitem(postprocs._REWRITES, name, _nothing)
    found = compared(POSTPROCS[name])
    assert not found.is_covered or not found.is_exact


def _split_backwards(patch: pytest.MonkeyPatch) -> None:
    def wrong(tree: Any, loop: LoopNode, factors: Any) -> list[LoopNode]:
        return right(tree, loop, factors[::-1])[::-1]

    right = steps.split
    patch.setattr(steps, "split", wrong)


def _fused_in_another_order(patch: pytest.MonkeyPatch) -> None:
    def wrong(tree: Any, loops: Any) -> LoopNode:
        made = right(tree, loops)
        made.digits.reverse()
        return made

    right = steps.fuse
    patch.setattr(steps, "fuse", wrong)


def _every_step_is_regular(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access_view, "_stays_between", lambda grid, reach, others: 1)


def _no_step_is_regular(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access_view, "_stays_between", lambda grid, reach, others: 0)


def _digits_are_never_joined(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(access_view, "_joined_stride", lambda flat, digit, derived: (0, 0))


def _whole_rounds_are_not_held_back(patch: pytest.MonkeyPatch) -> None:
    right = reach._held

    def wrong(predicate: Any, terms: Any) -> Any:
        return None if any(stride == 256 for stride in terms.values()) else right(predicate, terms)

    patch.setattr(reach, "_held", wrong)


class _AsWritten(Analyzer):
    def simplify(self, expr: ExprLike, steps: int = 2) -> PrimExpr:
        return convert(expr)


def _predicates_are_as_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lift, "Analyzer", _AsWritten)


def _iterators_end_later(patch: pytest.MonkeyPatch) -> None:
    right = moving._own_extent
    patch.setattr(moving, "_own_extent", lambda iter_var: right(iter_var) + 1)


@pytest.mark.parametrize(
    ("fault", "place", "count"),
    [
        (_split_backwards, ("single", "cpu", TVM, 0), 8),
        (_fused_in_another_order, ("C2D", "cpu", OWN, 0), 8),
        (_every_step_is_regular, ("C2D_WIN_NCHW", "cpu", TVM, 0), 24),
        (_no_step_is_regular, ("C2D_WIN_NHWC", "cpu", TVM, 0), 60),
        (_digits_are_never_joined, ("CBR", "cpu", OWN, 0), 8),
        (_whole_rounds_are_not_held_back, ("NRM", "cuda", OWN, 0), 40),
        (_predicates_are_as_written, ("DIL", "hopper", OWN, 7), 8),
        (_iterators_end_later, ("C1D", "cpu", OWN, 0), 16),
    ],
)
def test_a_fault_is_noticed(
    fault: Fault, place: Place, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compared(place, count).is_exact
    fault(monkeypatch)
    found = compared(place, count)
    assert not found.is_exact

# mypy: disable-error-code="valid-type, no-untyped-def"
"""Inlining, partial sums, compute locations, annotations: what each rule does and leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te
from tilewright.errors import RegistryError, TuneError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.rules import (
    AddRFactor,
    AutoInline,
    InlineConstantScalars,
    ParallelizeVectorizeUnroll,
    RandomComputeLocation,
)
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import (
    SpaceTask,
    decisions_of,
    generate_design_space,
    with_decisions,
)

LLVM_32 = Target("llvm -num-cores=32")
CPU: dict[str, Any] = {
    "into_producer": False,
    "into_consumer": True,
    "inline_const_tensor": True,
    "disallow_if_then_else": True,
    "require_injective": True,
    "require_ordered": True,
    "disallow_op": ["tir.exp"],
}
GPU: dict[str, Any] = {
    **dict.fromkeys(CPU, False),
    "into_producer": True,
    "into_consumer": True,
    "disallow_op": None,
}


def blocks(sch: Schedule) -> list[str]:
    return [sch.get_sref(b).name for b in sch.get_child_blocks(sch.get_block("root"))]


def sketches(func: PrimFunc, *rules: Any, target: Target = LLVM_32) -> list[Schedule]:
    return generate_design_space("llvm", as_module(func), target, sch_rules=rules)


def workload(name: str) -> PrimFunc:
    return te_workload.create_te_workload(name, 0)


# --- AutoInline ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "left"),
    [
        # batch normalisation moves behind the convolution, its padding (a condition) does not
        ("CBR", CPU, ["PaddedInput", "Conv2dOutput", "compute"]),
        ("CBR", GPU, ["Conv2dOutput", "bias_add"]),
        # `exp` is too much to compute twice
        (
            "SFM",
            CPU,
            ["T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum", "T_softmax_norm"],
        ),
        ("SFM", GPU, ["T_softmax_maxelem", "T_softmax_expsum", "T_softmax_norm"]),
        # transposed reads are not in order
        ("TBG", CPU, ["query_T", "value_T", "C"]),
        ("TBG", GPU, ["C"]),
    ],
)
def test_what_is_inlined(name: str, options: dict[str, Any], left: list[str]) -> None:
    (made,) = sketches(workload(name), AutoInline(**options))
    assert blocks(made) == left


def chain(annotations: dict[str, Any]) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.exp(A[7 - vi])
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] + T.float32(1)

    sch = Schedule(main)
    for key, value in annotations.items():
        sch.annotate(sch.get_block("B"), key, value)
    return sch.mod["main"]


def test_without_reductions_everything_is_inlined() -> None:
    (made,) = sketches(chain({}), AutoInline(**CPU))
    assert blocks(made) == ["C"]


def stencil(neighbours: int) -> PrimFunc:
    """Sums of two elements, of which each result adds up some that lie side by side."""
    a = te.placeholder((64,), name="A")
    b = te.compute((63,), lambda i: a[i] * a[i + 1] + a[i], name="B")
    c = te.compute(
        (64 - neighbours,), lambda i: sum((b[i + n] for n in range(1, neighbours)), b[i]), name="C"
    )
    return te.create_prim_func([a, c])


@pytest.mark.parametrize(
    ("neighbours", "left"),
    [
        (1, [["C"]]),
        (2, [["C"]]),  # two operations more: less than a store and a load
        (5, [["B", "C"], ["C"]]),  # the search decides
        (12, [["B", "C"]]),
    ],
)
def test_what_is_computed_again_is_counted(neighbours: int, left: list[list[str]]) -> None:
    made = sketches(stencil(neighbours), AutoInline(**CPU, count_recomputation=True))
    assert sorted(map(blocks, made)) == left
    (always,) = sketches(stencil(neighbours), AutoInline(**CPU))
    assert blocks(always) == ["C"]


def test_a_single_number_is_not_counted() -> None:
    """No loop changes it: it is computed once, wherever it is written."""
    a, s = te.placeholder((64, 64), "float32", "A"), te.placeholder((), "float32", "S")
    b = te.compute((), lambda: s() * 2.0 + 1.0, "B")
    c = te.compute((64, 64), lambda i, j: a(i, j) * b(), "C")
    func = te.create_prim_func([a, s, c])
    (made,) = sketches(func, AutoInline(**CPU, count_recomputation=True))
    assert blocks(made) == ["C"]


def test_a_block_can_refuse() -> None:
    (made,) = sketches(chain({"meta_schedule.inline_rule": "disable"}), AutoInline(**CPU))
    assert blocks(made) == ["B", "C"]


def test_into_producer() -> None:
    (made,) = sketches(chain({}), AutoInline(**{**GPU, "into_consumer": False}))
    assert blocks(made) == ["B"]
    tensorized = chain({"meta_schedule.auto_tensorize": "some_intrinsic"})
    (kept,) = sketches(tensorized, AutoInline(**{**GPU, "into_consumer": False}))
    assert blocks(kept) == ["B", "C"]


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(RegistryError, match=r"tir\.expp"):
        AutoInline(**{**CPU, "disallow_op": ["tir.expp"]})


# --- InlineConstantScalars ----------------------------------------------------------------------


def with_constant() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((), "float32")
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            B[()] = T.float32(3)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] * B[()]

    return main


def test_constants() -> None:
    (made,) = sketches(with_constant(), InlineConstantScalars())
    assert blocks(made) == ["C"]
    (same,) = sketches(workload("SFM"), InlineConstantScalars())
    assert len(blocks(same)) == 4


# --- AddRFactor ---------------------------------------------------------------------------------


def argmax() -> PrimFunc:
    @T.prim_func
    def main(
        idx: T.Buffer((16, 128), "int32"),
        val: T.Buffer((16, 128), "float32"),
        argmax_v0: T.Buffer((16,), "int32"),
        argmax_v1: T.Buffer((16,), "float32"),
    ):
        for i0, i1 in T.grid(16, 128):
            with T.block("argmax"):
                i, k = T.axis.remap("SR", [i0, i1])
                with T.init():
                    argmax_v0[i] = -1
                    argmax_v1[i] = T.min_value("float32")
                v_argmax_v0: T.int32 = T.Select(argmax_v1[i] >= val[i, k], argmax_v0[i], idx[i, k])
                v_argmax_v1: T.float32 = T.Select(
                    argmax_v1[i] >= val[i, k], argmax_v1[i], val[i, k]
                )
                argmax_v0[i] = v_argmax_v0
                argmax_v1[i] = v_argmax_v1

    return main


@pytest.mark.parametrize(
    ("func", "block", "tile"),
    [
        (te.create_prim_func(list(te_workload.matmul(4, 4, 512))), "C", [4, 128]),
        (argmax(), "argmax", [8, 16]),
    ],
)
def test_partial_reductions(func: PrimFunc, block: str, tile: list[int]) -> None:
    made = sketches(func, AddRFactor(16, 64))
    assert len(made) == 3
    assert [len(decisions_of(sch)) for sch in made] == [0, 1, 1]  # as it is, inner, outer
    for sketch in made[1:]:
        sch = with_decisions(as_module(func), sketch, [("SamplePerfectTile", tile)])
        assert sch is not None
        assert blocks(sch) == [f"{block}_rf", block]
        annotations = sch.get_sref(sch.get_block(block)).block.annotations
        assert annotations["meta_schedule.random_compute_producer"] == 1


@pytest.mark.parametrize(
    "func",
    [
        te.create_prim_func(list(te_workload.matmul(512, 512, 512))),  # enough in parallel
        te.create_prim_func(list(te_workload.matmul(64, 64, 4096))),  # more than 32 * 16 results
        chain({}),  # nothing to reduce
    ],
)
def test_no_partial_reductions(func: PrimFunc) -> None:
    (made,) = sketches(func, AddRFactor(16, 64))
    assert not any(name.endswith("_rf") for name in blocks(made))


# --- RandomComputeLocation ----------------------------------------------------------------------


def test_stages_with_consumers_are_placed() -> None:
    (made,) = sketches(workload("SFM"), RandomComputeLocation())
    assert [kind for kind, _ in decisions_of(made)] == ["SampleComputeLocation"] * 3


def test_partial_sums_are_placed_with_their_sum() -> None:
    func = workload("NRM")
    made = sketches(func, AddRFactor(16, 64), RandomComputeLocation())
    kinds = [[kind for kind, _ in decisions_of(sch)] for sch in made]
    assert ["SamplePerfectTile", "SampleComputeLocation", "SampleComputeLocation"] in kinds
    for sch in made:
        assert "random_compute_producer" not in sch.mod.script()


def test_blocks_under_shared_loops_stay() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] + T.float32(1)

    (made,) = sketches(main, RandomComputeLocation())
    assert decisions_of(made) == []


# --- ParallelizeVectorizeUnroll -----------------------------------------------------------------


def root_annotations(sch: Schedule) -> dict[str, Any]:
    return dict(sch.get_sref(sch.get_block("root")).block.annotations)


def test_annotations() -> None:
    func = workload("GMM")
    (made,) = sketches(func, ParallelizeVectorizeUnroll(16, 64, [0, 16, 64, 512], True))
    found = root_annotations(made)
    assert found.pop("meta_schedule.unroll_explicit") in (0, 16, 64, 512)
    assert found == {"meta_schedule.parallel": 512, "meta_schedule.vectorize": 64}
    (implicit,) = sketches(func, ParallelizeVectorizeUnroll(-1, -1, [7], False))
    assert root_annotations(implicit) == {"meta_schedule.unroll_implicit": 7}


def test_copies_are_not_unrolled() -> None:
    (made,) = sketches(chain({}), ParallelizeVectorizeUnroll(16, 8, [0, 16], True))
    expected = {"meta_schedule.parallel": 512, "meta_schedule.vectorize": 8}
    assert root_annotations(made) == expected


@pytest.mark.parametrize("rule", [ParallelizeVectorizeUnroll(), AddRFactor()])
def test_a_target_is_needed_to_count_cores(rule: Any) -> None:
    with pytest.raises(TuneError) as caught:
        rule._initialize_with_tune_context(SpaceTask(IRModule({})))
    assert str(caught.value) == "this schedule rule needs a target; give one to the TuneContext"

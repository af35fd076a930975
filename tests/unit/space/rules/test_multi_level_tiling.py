# mypy: disable-error-code="valid-type, no-untyped-def"
"""`MultiLevelTiling` and the rules that build on it: blocks, options, sketches."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright import te
from tilewright.errors import RegistryError, TuneError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.conditions import needs_multi_level_tiling
from tilewright.space.rules import (
    MultiLevelTiling,
    MultiLevelTilingWideVector,
    MultiLevelTilingWithIntrin,
    ReuseType,
)
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import (
    SpaceTask,
    check_sketches,
    decisions_of,
    generate_design_space,
    with_decisions,
)

LLVM = Target("llvm -num-cores=4")
WRITE = {"req": "may", "levels": [1, 2], "scope": "global"}


def matmul(n: int = 512) -> IRModule:
    return as_module(te.create_prim_func(list(te_workload.matmul(n, n, n))))


def sketches(module: IRModule, rule: Any, target: Target = LLVM) -> list[Schedule]:
    return generate_design_space("llvm", module, target, sch_rules=[rule])


def lines(sch: Schedule) -> list[str]:
    assert sch.trace is not None
    return sch.trace.as_python()


# --- sketches -----------------------------------------------------------------------------------


def test_matrix_product_with_known_decisions() -> None:
    module = matmul()
    made = sketches(module, MultiLevelTiling("SSRSRS", None, 64, None, None, WRITE))
    decisions = [
        ("SamplePerfectTile", [1, 8, 2, 32]),
        ("SamplePerfectTile", [8, 1, 8, 8]),
        ("SamplePerfectTile", [16, 32]),
    ]
    expected = [with_decisions(module, sketch, decisions) for sketch in made]
    assert all(sch is not None for sch in expected)
    check_sketches(module, made, [sch.mod for sch in expected if sch], [decisions] * 3)
    caches = [[line for line in lines(sch) if "reverse_compute_at" in line] for sch in made]
    assert [len(found) for found in caches] == [1, 1, 0]  # level 2, level 1, no cache


def quotient_of_products() -> IRModule:
    """Two products, and a block that reads both."""
    a, b, c = (te.placeholder((64, 64), name=name) for name in "ABC")
    k, j = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, 64), "j")
    first = te.compute((64, 64), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="first")
    second = te.compute((64, 64), lambda m, n: te.sum(a[m, j] * c[j, n], axis=j), name="second")
    result = te.compute((64, 64), lambda m, n: first[m, n] / second[m, n], name="result")
    return as_module(te.create_prim_func([a, b, c, result]))


def test_a_consumer_of_two_products_is_the_copy_of_neither(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = sketches(quotient_of_products(), MultiLevelTiling("SSRSRS", None, 64, None, None, WRITE))
    assert "failed at block" not in caplog.text
    # Each product is tiled without a copy, and with one at either level.
    assert len(made) == 9
    for sch in made:
        names = [sch.get_sref(block).name for block in sch.get_child_blocks(sch.get_block("root"))]
        assert {"first", "second", "result"} <= set(names)


def test_an_elementwise_consumer_is_the_cache() -> None:
    module = as_module(te.create_prim_func(list(te_workload.matmul_relu(64, 64, 64))))
    made = sketches(module, MultiLevelTiling("SSRSRS", None, 64, None, None, WRITE))
    assert len(made) == 3
    assert not any("cache_write" in line for sch in made for line in lines(sch))
    assert sum("reverse_compute_at" in line for sch in made for line in lines(sch)) == 2


def test_a_block_may_name_its_cache_levels() -> None:
    module = matmul(64)
    sch = Schedule(module, seed=1)
    block = sch.get_block("C")
    sch.annotate(block, "meta_schedule.write_cache_level", [3])
    rule = MultiLevelTiling("SSRSRS", None, 64, None, None, WRITE)
    (made,) = rule.apply(sch, block)
    assert lines(made)[-1].startswith("sch.reverse_compute_at(block=")
    assert not any("get_consumers" in line for line in lines(made))


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [("float32", [1, 2, 3, 4]), ("float16", [1, 2, 4, 8]), ("int8", [1, 2, 3, 4, 8, 16])],
)
def test_vector_loads_fit_the_type(dtype: str, lengths: list[int]) -> None:
    module = as_module(te.create_prim_func(list(te_workload.matmul(32, 32, 32, dtype, dtype))))
    rule = MultiLevelTiling(
        "SSSRRSRS",
        ["blockIdx.x", "vthread.x", "threadIdx.x"],
        64,
        [1, 2, 3, 4, 8, 16],
        {"req": "must", "levels": [4], "scope": "shared"},
        {"req": "must", "levels": [3], "scope": "local"},
    )
    (made,) = sketches(module, rule, Target("nvidia/geforce-rtx-2080"))
    fetches = [line for line in lines(made) if "sample_categorical" in line]
    assert len(fetches) == 2
    assert all(f"candidates={lengths}" in line for line in fetches)
    assert any('"meta_schedule.thread_extent_low_inclusive", ann_val=32' in x for x in lines(made))
    assert any(
        '"meta_schedule.thread_extent_high_inclusive", ann_val=1024' in x for x in lines(made)
    )


def test_few_results_need_no_full_warp() -> None:
    module = as_module(te.create_prim_func(list(te_workload.matmul(8, 8, 64))))
    rule = MultiLevelTiling("SSR", ["blockIdx.x", "threadIdx.x"])
    (made,) = sketches(module, rule, Target("nvidia/geforce-rtx-2080"))
    assert any('"meta_schedule.thread_extent_low_inclusive", ann_val=1' in x for x in lines(made))


def test_ampere_offers_pipelines() -> None:
    rule = MultiLevelTiling(
        "SSSRRSRS",
        ["blockIdx.x", "vthread.x", "threadIdx.x"],
        64,
        [1],
        {"req": "must", "levels": [4], "scope": "shared"},
        {"req": "must", "levels": [3], "scope": "local"},
    )
    made = sketches(matmul(64), rule, Target("nvidia/geforce-rtx-3070"))
    stages = [[x for x in lines(sch) if '"software_pipeline_stage"' in x] for sch in made]
    assert [len(found) for found in stages] == [1, 1, 0]
    assert "ann_val=[0, 0, 3]" in stages[0][0]
    assert "ann_val=[0, 0, 2]" in stages[1][0]


# --- which blocks -------------------------------------------------------------------------------


def transposed_sum() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
        for i, k in T.grid(16, 16):
            with T.block("rows"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return main


def outer_product() -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            with T.block("outer"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi] * A[vj]

    return main


@pytest.mark.parametrize(
    ("func", "block", "expected"),
    [
        (te.create_prim_func(list(te_workload.matmul(16, 16, 16))), "C", True),
        (transposed_sum(), "rows", False),  # no element serves two results
        (outer_product(), "outer", False),  # no reduction
        (outer_product(), "root", False),
    ],
)
def test_blocks_that_reuse_data(func: PrimFunc, block: str, expected: bool) -> None:
    sch = Schedule(func)
    assert needs_multi_level_tiling(sch.get_sref(sch.get_block(block))) is expected


def test_a_tiled_block_is_left_alone() -> None:
    module = matmul(64)
    rule = MultiLevelTiling("SSRSRS", None, 64)
    (once,) = sketches(module, rule)
    assert once.trace is not None
    length = len(once.trace.insts)
    (again,) = rule.apply(once, once.get_block("C"))
    assert again is once
    assert len(once.trace.insts) == length + 1  # the handle


def test_a_filter_enables_other_blocks() -> None:
    module = as_module(transposed_sum())
    plain = MultiLevelTiling("SRS")
    wanted = MultiLevelTiling("SRS", filter_fn=lambda sch, block: block.name == "rows")
    assert decisions_of(sketches(module, plain)[0]) == []
    assert [kind for kind, _ in decisions_of(sketches(module, wanted)[0])] == ["SamplePerfectTile"]


# --- intrinsics and wide vectors ----------------------------------------------------------------


def test_blocks_without_the_instruction_stay() -> None:
    rule = MultiLevelTilingWithIntrin("dot_16x4_vnni", "SSRSRS", None, 64)
    (made,) = sketches(matmul(64), rule)
    assert decisions_of(made) == []


def test_an_unknown_instruction_is_refused() -> None:
    with pytest.raises(RegistryError, match="no tensor intrinsic is called 'dot_17x4'"):
        MultiLevelTilingWithIntrin("dot_17x4", "SSRSRS")


def test_wide_vectors() -> None:
    rule = MultiLevelTilingWideVector("SRSRS", 1024, 64)
    (made,) = sketches(matmul(64), rule)
    text = "\n".join(lines(made))
    assert "factors=[None, 32]" in text  # 1024 bits of float32
    (narrow,) = sketches(matmul(16), rule)
    assert "factors=[1, 1, 16]" in "\n".join(lines(narrow))


# --- options that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"structure": "SSXRS"},
            "MultiLevelTiling: a structure is made of S (spatial) and R (reduction), for example "
            "'SSRSRS', got 'SSXRS'",
        ),
        (
            {"structure": "SR", "tile_binds": ["blockIdx.x", "threadIdx.x", "threadIdx.y"]},
            "MultiLevelTiling: 3 tiles are to be bound, the structure 'SR' has 2",
        ),
        (
            {"structure": "SR", "reuse_read": {"req": "may", "levels": [1], "scope": "shared"}},
            "MultiLevelTiling: reuse_read is 'no' or 'must', 'may' is not possible",
        ),
        (
            {"structure": "SR", "reuse_write": ReuseType("must", [0, 3], "local")},
            "MultiLevelTiling: reuse_write has the levels [0, 3], the structure 'SR' has the "
            "levels 1 to 2",
        ),
    ],
)
def test_refused_options(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TuneError) as caught:
        MultiLevelTiling(**arguments)
    assert str(caught.value) == message


def test_reuse_type() -> None:
    reuse = ReuseType("must", [1, 2], "local")
    assert reuse.as_dict() == {"req": "must", "levels": [1, 2], "scope": "local"}
    with pytest.raises(TuneError, match="req is 'no', 'may' or 'must', got 'never'"):
        ReuseType("never")  # type: ignore[arg-type]


def test_the_context_is_optional() -> None:
    rule = MultiLevelTiling("SSRSRS")
    rule._initialize_with_tune_context(SpaceTask())
    assert (rule.max_threads_per_block, rule.async_stages) == (None, ())

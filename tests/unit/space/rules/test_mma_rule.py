"""`MultiLevelTilingTensorCore` with `ldmatrix` and `mma`: registers, layouts, copies ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import ir, te
from tilewright.errors import TuneError
from tilewright.schedule import Schedule, Trace
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.defaults import MMA_GROUPS, SCHEDULE_RULES, WMMA_GROUPS
from tilewright.space.generators.default_space import DefaultSpace
from tilewright.target import Target
from tilewright.testing.gpu_lowering import candidates, lower_for_gpu, random_arrays
from tilewright.testing.simt import BankConflicts, run
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import matmul

AMPERE = Target("nvidia/nvidia-a100")


def module(dtype: str = "float16", out_dtype: str = "float32", k: int = 64) -> ir.IRModule:
    return ir.IRModule({"main": te.create_prim_func(matmul(32, 32, k, dtype, out_dtype))})


def mma_rule(**changes: Any) -> ScheduleRule:
    (spec,) = (s for s in SCHEDULE_RULES["cuda-mma"] if s.name == "MultiLevelTilingTensorCore")
    return schedule_rules.create(spec.name, **{**spec.options, **changes})


def some(mod: ir.IRModule, rule: ScheduleRule, count: int = 1) -> list[Schedule]:
    return list(candidates(mod, AMPERE, "cuda-mma", range(40), count, sch_rules=[rule]))


def check(mod: ir.IRModule, draft: Schedule) -> BankConflicts:
    """Results are NumPy's; gives what banks were asked for."""
    arrays, conflicts = random_arrays(mod["main"], are_whole=True), BankConflicts()
    run(lower_for_gpu(draft.mod, str(AMPERE)), arrays, conflicts=conflicts)
    a, b, c = arrays
    assert np.array_equal(c, (a.astype("float32") @ b.astype("float32")).astype(c.dtype))
    return conflicts


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
def test_results_without_bank_conflicts(out_dtype: str) -> None:
    mod = module(out_dtype=out_dtype)
    groups = [group for group in MMA_GROUPS if group["compute"] == f"mma_f16f16f{out_dtype[-2:]}"]
    drafts = some(mod, mma_rule(intrin_groups=groups))
    assert len(drafts) == 3  # two, three and four steps of the sum in shared memory
    for draft in drafts:
        assert "permuted_layout" in str(draft.mod)
        assert "buffer_dim_align" not in str(draft.mod)
        assert check(mod, draft).ways["ldmatrix"] == 1


def test_padding_instead() -> None:
    mod = module()
    drafts = some(mod, mma_rule(intrin_groups=MMA_GROUPS[:1], permuted_layout=False))
    for draft in drafts:
        assert "permuted_layout" not in str(draft.mod)
        assert "buffer_dim_align" in str(draft.mod)
        check(mod, draft)
    assert drafts


def test_right_operands_that_lie_turned() -> None:
    a, b = (te.placeholder((32, 64), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 64), name="k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(a[i, k].astype("float32") * b[j, k].astype("float32"), axis=k)

    func = te.create_prim_func([a, b, te.compute((32, 32), product, name="C")])
    mod = ir.IRModule({"main": func})
    (draft,) = some(mod, mma_rule(intrin_groups=MMA_GROUPS[1:2], use_software_pipeline=False))
    arrays, conflicts = random_arrays(func, are_whole=True), BankConflicts()
    lowered = lower_for_gpu(draft.mod, str(AMPERE))
    assert 'T.ptx_ldmatrix("float16", T.bool(True)' not in str(lowered)
    run(lowered, arrays, conflicts=conflicts)
    assert np.array_equal(arrays[2], arrays[0].astype("float32") @ arrays[1].astype("float32").T)
    assert conflicts.ways["ldmatrix"] == 1


def test_traces_replay() -> None:
    mod = module()
    draft = some(mod, mma_rule())[0]
    assert draft.trace is not None
    again = Schedule(mod)
    Trace.apply_json_to_schedule(draft.trace.as_json(), again)
    assert ir.structural_equal(again.mod, draft.mod)


@pytest.mark.parametrize(
    ("dtypes", "instruction"),
    [(("float16", "float32"), "mma_f16f16f32"), (("int8", "int32"), "wmma_sync_16x16x16_s8s8s32")],
)
def test_what_a_search_starts_from(dtypes: tuple[str, str], instruction: str) -> None:
    mod = module(*dtypes)
    space = DefaultSpace()
    space._initialize_with_tune_context(SpaceTask(mod, AMPERE, rand_state=1))
    sketches = space.generate_design_space(mod)
    assert sketches
    assert all(f'"{instruction}' in str(sketch.mod) for sketch in sketches)


def test_wmma_has_no_permuted_layout() -> None:
    """Its loads take rows of plain order."""
    mod = module()
    drafts = some(mod, mma_rule(intrin_groups=WMMA_GROUPS[:1], use_software_pipeline=False))
    assert drafts
    assert all("permuted_layout" not in str(draft.mod) for draft in drafts)


def test_tiles_of_another_depth() -> None:
    group = {**MMA_GROUPS[0], "compute": "mma_i8i8i32"}
    sch = Schedule(module("int8", "int32"))
    with pytest.raises(TuneError) as error:
        mma_rule(intrin_groups=[group]).apply(sch, sch.get_block("C"))
    assert str(error.value) == (
        "MultiLevelTilingTensorCore: of the mma instructions those of tiles of 16x16x16 are for "
        "it, f16f16f32, f16f16f16, not 'mma_i8i8i32'"
    )

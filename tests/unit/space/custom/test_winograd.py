"""The custom rules for Winograd convolutions: results stay, other blocks are refused."""

from __future__ import annotations

import contextlib

import pytest

from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, as_module
from tilewright.schedule import Schedule
from tilewright.space.rules import ApplyCustomRule
from tilewright.space.tvm.winograd import data_pack, inverse_nhwc
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip
from tilewright.testing.space_generation import generate_design_space

CPU = Target("llvm -num-cores=4")
CUDA = Target("nvidia/geforce-rtx-2080")


def small(layout: str, height: int = 6, channels: int = 2) -> IRModule:
    make = getattr(te_workload, f"conv2d_winograd_{layout}")
    return as_module(te.create_prim_func(list(make(1, height, 6, channels, 3, 4, tile_size=2))))


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(("height", "channels"), [(6, 2), (10, 5)], ids=["even", "uneven"])
def test_results_stay(layout: str, target: Target, height: int, channels: int) -> None:
    """Threads may be more than there are elements to transform."""
    module = small(layout, height, channels)
    (made,) = generate_design_space("llvm", module, target, sch_rules=[ApplyCustomRule()])
    assert "T.unroll(" in made.mod.script()
    verify_trace_roundtrip(made, module)
    assert_same_result(module, made.mod)


@pytest.mark.parametrize(("target", "level"), [(CPU, 2), (CUDA, 3), (None, 2)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_gpus_cache_results_one_level_further_in(
    layout: str, target: Target | None, level: int
) -> None:
    with target or contextlib.nullcontext():
        func = te_workload.create_te_workload(f"C2D_WIN_{layout}", 0)
    assert f'"meta_schedule.write_cache_level": [{level}]' in func.script()


def test_other_blocks_are_refused() -> None:
    sch = Schedule(te_workload.create_te_workload("TBG", 0))
    with pytest.raises(ScheduleError) as caught:
        inverse_nhwc(sch, sch.get_block("C"))
    assert str(caught.value) == (
        "block 'C' is not a Winograd transform: it reads 2 operands and 0 constant matrices, not "
        "one of each"
    )


def test_a_transform_reads_one_image() -> None:
    module = small("nhwc")
    sch = Schedule(module)
    sch.compute_inline("data_pad")
    with pytest.raises(ScheduleError) as caught:
        data_pack(sch, sch.get_block("data_pack"))
    assert str(caught.value) == (
        "block 'input_tile' of a Winograd convolution has 0 producers, expected one"
    )

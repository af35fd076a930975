"""The wider space of CPUs: what searches go on with, and that all of it computes the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.driver import build
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.nest.block_nest import BlockNest
from tilewright.records import args_info_of
from tilewright.schedule import Schedule
from tilewright.space.base import NotApplied
from tilewright.space.defaults import create_postprocs
from tilewright.space.generators import DefaultSpace, ScheduleFn
from tilewright.space.layout_free import with_bound_weights
from tilewright.space.rules import SeparatePhases
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import (
    SpaceTask,
    decisions_of,
    sampling_steps,
    with_decisions,
)

HOST = Target("llvm")
AVX512 = Target("llvm -mcpu=skylake-avx512 -num-cores=2")


def spaces(func: PrimFunc, target: Target = AVX512) -> tuple[list[Schedule], list[Schedule]]:
    """The sketches of a program, and the wider ones."""
    space, mod = DefaultSpace(), as_module(func)
    space._initialize_with_tune_context(SpaceTask(mod, target))
    return space.generate_design_space(mod), space.generate_wider_space(mod)


def transposed(
    epilogue: bool = False, size: int = 4, filters: int = 40, window: int = 4
) -> PrimFunc:
    *inputs, made = te_workload.conv2d_transpose_nhwc(1, size, size, 8, filters, window, 2, 1)
    if epilogue:
        made = topi.nn.relu(made)
    return te.create_prim_func([*inputs, made])


def plain(func: PrimFunc) -> list[np.ndarray]:
    """Arguments, and the result of the program as it is."""
    numbers = np.random.default_rng(0)
    shapes = [info.shape for info in args_info_of(as_module(func))]
    arrays = [numbers.random(shape, dtype=np.float32) - np.float32(0.3) for shape in shapes]
    build(func, HOST)(*arrays)
    return arrays


def drawn(mod: IRModule, sketch: Schedule, draw: random.Random) -> Schedule:
    """A candidate with decisions by chance."""
    assert sketch.trace is not None
    steps = sampling_steps(sketch.trace)
    chosen = [(step.primitive.kind, draw.randrange(len(step.attrs[0]))) for step in steps]
    made = with_decisions(mod, sketch, chosen, debug_mask=0)
    assert made is not None
    assert all(each.apply(made) for each in create_postprocs("wider-kernels"))
    return made


PROGRAMS = {
    "transposed": transposed(),
    "transposed, relu": transposed(epilogue=True),
    "transposed, odd": transposed(size=5, filters=24, window=3),
    "product": te.create_prim_func(list(te_workload.matmul(37, 70, 19))),
    "convolution": te.create_prim_func(list(te_workload.conv2d_nhwc(1, 9, 9, 5, 50, 3, 1, 1))),
    "strided": te.create_prim_func(list(te_workload.conv2d_nhwc(1, 13, 13, 5, 40, 5, 2, 2))),
    "depthwise": te.create_prim_func(
        list(te_workload.depthwise_conv2d_nhwc(1, 10, 10, 40, 3, 1, 1))
    ),
    "groups": te.create_prim_func(list(te_workload.conv2d_nhwc(1, 6, 6, 8, 64, 3, 1, 1, 1, 4))),
    "softmax": te.create_prim_func(list(te_workload.softmax_mn(12, 67))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_candidates_by_chance_compute_the_same(name: str) -> None:
    func, draw = PROGRAMS[name], random.Random(name)
    *inputs, expected = plain(func)
    _, wide = spaces(func, HOST)
    assert wide
    seen: set[str] = set()
    for sketch in draw.sample(wide, min(12, len(wide))):
        for _ in range(2):
            candidate = drawn(as_module(func), sketch, draw)
            if (text := candidate.mod.script()) in seen:
                continue
            seen.add(text)
            found = np.full_like(expected, np.nan)
            build(candidate.mod, HOST)["main"](*inputs, found)
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_wider_sketches_leave_more_to_the_search() -> None:
    def candidates(sketches: list[Schedule]) -> int:
        traces = [sketch.trace for sketch in sketches if sketch.trace is not None]
        choices = [[len(step.attrs[0]) for step in sampling_steps(trace)] for trace in traces]
        return sum(int(np.prod(counts)) for counts in choices)

    narrow, wide = spaces(te_workload.create_te_workload("GMM", 0))
    assert candidates(wide) > 8 * candidates(narrow)
    assert {len(decisions_of(sketch)) for sketch in wide} == {3}


def test_rows_may_be_outside_of_columns() -> None:
    _, wide = spaces(te.create_prim_func(list(te_workload.matmul(64, 64, 64))))
    texts = [sketch.mod.script() for sketch in wide]
    parallel = [text.count("T.parallel(") for text in texts]
    assert set(parallel) == {1}
    inside = [text for text in texts if "j_0_fused in T.parallel" not in text]
    assert 0 < len(inside) < len(texts)


def test_generators_of_others_have_no_wider_space() -> None:
    func = te.create_prim_func(list(te_workload.matmul(8, 8, 8)))
    assert ScheduleFn(lambda sch: None).generate_wider_space(as_module(func)) == []


def test_gpus_and_programs_without_kernels_have_none() -> None:
    _, wide = spaces(
        te.create_prim_func(list(te_workload.matmul(64, 64, 64))), Target("nvidia/nvidia-h100")
    )
    assert wide == []


def test_padding_may_be_left_out() -> None:
    narrow, wide = spaces(PROGRAMS["strided"])
    for sketches, is_inlined in ((narrow, False), (wide, True)):
        texts = [sketch.mod.script() for sketch in sketches]
        assert any("PadInput" not in text for text in texts) is is_inlined


# --- phases -------------------------------------------------------------------------------------


def separated(func: PrimFunc, block: str) -> list[Schedule]:
    sch = Schedule(as_module(func))
    rule = SeparatePhases()
    rule._initialize_with_tune_context(SpaceTask(sch.mod, AVX512))
    return rule.apply(sch, sch.get_block(block))


def test_results_of_one_phase_are_neighbours() -> None:
    (made,) = separated(transposed(), "conv2d_transpose_nhwc")
    block = made.get_sref(made.get_block("conv2d_transpose_nhwc")).block
    extents = BlockNest(block).extents
    # Phases of rows and columns, those of the window; image, rows, columns, filters; the window.
    assert extents == [2, 2, 2, 2, 1, 4, 4, 40, 2, 2, 8]
    text = made.mod.script()
    assert "(v0 + v2) % 2 == 0 and (v1 + v3) % 2 == 0" in text


def test_phases_are_written_out_around_their_tiles() -> None:
    _, wide = spaces(transposed())
    texts = [sketch.mod.script() for sketch in wide]
    assert all("T.unroll(2)" in text and "% 2 == 0" in text for text in texts)


def test_an_epilogue_stays_with_its_tile() -> None:
    _, wide = spaces(transposed(epilogue=True))
    for sketch in wide:
        buffers = [line for line in sketch.mod.script().splitlines() if "alloc_buffer" in line]
        made = [line for line in buffers if "conv2d_transpose_nhwc" in line]
        assert len(made) == 1
        assert 'scope="local"' in made[0]


@pytest.mark.parametrize(
    ("func", "block", "reason"),
    [
        (
            PROGRAMS["softmax"],
            "T_softmax_norm",
            "it is not a sum of products that runs along the last axis of its result",
        ),
        (PROGRAMS["product"], "C", "none of its terms are zero at a period"),
    ],
)
def test_other_blocks_are_left_alone(func: PrimFunc, block: str, reason: str) -> None:
    made = separated(func, block)
    assert isinstance(made, NotApplied)
    assert made.reason == reason


# --- tiles of convolutions ----------------------------------------------------------------------


def winograd_sketches(func: PrimFunc, target: Target = AVX512) -> list[Schedule]:
    _, wide = spaces(func, target)
    return [sketch for sketch in wide if "winograd_products" in sketch.mod.script()]


def test_convolutions_may_be_computed_in_tiles() -> None:
    tensors = list(te_workload.conv2d_nhwc(1, 8, 8, 16, 32, 3, 1, 1))
    func = te.create_prim_func(tensors)
    sketches = winograd_sketches(func, HOST)
    assert sketches
    *inputs, expected = plain(func)
    draw = random.Random(1)
    for sketch in sketches:
        found = np.full_like(expected, np.nan)
        build(drawn(as_module(func), sketch, draw).mod, HOST)["main"](*inputs, found)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "shape", [(1, 7, 7, 16, 32, 3, 1, 1), (1, 8, 8, 4, 32, 3, 1, 1), (1, 8, 8, 16, 32, 3, 2, 1)]
)
def test_where_tiles_would_not_pay_or_fit_they_are_not_tried(shape: Any) -> None:
    assert not winograd_sketches(te.create_prim_func(list(te_workload.conv2d_nhwc(*shape))))


def test_bound_weights_are_left_to_models() -> None:
    func = te.create_prim_func(list(te_workload.conv2d_nhwc(1, 8, 8, 16, 32, 3, 1, 1)))
    bound = with_bound_weights(as_module(func.with_attr("layout_free_buffers", [1])))
    assert winograd_sketches(func)
    assert not winograd_sketches(bound["main"])


def test_rows_outside_of_columns_keep_all_cores_busy() -> None:
    _, wide = spaces(te.create_prim_func(list(te_workload.matmul(64, 64, 64))))
    inside = [each for each in wide if "j_0_fused in T.parallel" not in each.mod.script()]
    for sketch in inside:
        assert sketch.trace is not None
        blocks = sampling_steps(sketch.trace)[1].attrs[0]
        assert min(map(int, blocks)) == 2

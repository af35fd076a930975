# mypy: disable-error-code="valid-type, no-untyped-def"
"""Products of every form and size through `vpdpbusd`: padded, packed, trimmed, and exact."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.ir import PrimFunc, floordiv, floormod
from tilewright.schedule import Schedule
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing.contraction_forms import FORMS
from tilewright.testing.schedule_checks import verify_trace_roundtrip

VNNI = "dot_16x4_vnni"
Array: TypeAlias = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    "avx512vnni" not in Target("llvm").features, reason="the processor has no AVX-512 VNNI"
)


def product(m: int, n: int, k: int) -> PrimFunc:
    @T.prim_func
    def main(
        A: T.Buffer((m, k), "uint8"), B: T.Buffer((k, n), "int8"), C: T.Buffer((m, n), "int32")
    ):
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])

    return main


def arguments(func: PrimFunc) -> list[Array]:
    """All values of the types, the extreme ones more often."""
    random = np.random.default_rng(0)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape, dtype = [int(str(extent)) for extent in buffer.shape], str(buffer.dtype)
        limits = np.iinfo(dtype)
        values = random.integers(limits.min, limits.max, shape, dtype)
        extremes = random.choice([limits.min, limits.max], shape).astype(dtype)
        arrays.append(np.where(random.random(shape) < 0.2, extremes, values))
    return arrays


def results(*programs: Any) -> list[Array]:
    """What each program writes, given the same."""
    made = []
    for program in programs:
        arrays = arguments(programs[0])
        tw.build(program, "llvm")(*arrays)
        made.append(arrays[-1])
    return made


SIZES = [
    (50, 37, 61),
    (1, 1, 1),
    (1, 30, 64),
    (3, 16, 4),
    (7, 17, 5),
    (16, 15, 3),
    (33, 100, 40),
    (2, 64, 63),
]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_tiles_with_padding(size: tuple[int, int, int]) -> None:
    func = product(*size)
    sch = Schedule(func)
    block = sch.get_block("C")
    for number in (0, 1):
        sch.cache_read(block, number, "global")
    sch.cache_write(block, 0, "global")
    tile = tile_with_tensor_intrin(sch, block, VNNI, allow_padding=True)
    assert tile is not None
    sch.transform_layout(
        block,
        ("read", 1),
        lambda k, j: (floordiv(j, 16), floordiv(k, 4), floormod(j, 16), floormod(k, 4)),
    )
    outer = sch.blockize(tile)
    sch.decompose_reduction(outer, sch.get_loops(outer)[0])
    sch.tensorize(outer, VNNI)
    verify_trace_roundtrip(sch, func)
    assert "vpdpbusd" in tw.build(sch.mod, "llvm").get_source("asm")
    expected, found = results(func, sch.mod)
    np.testing.assert_array_equal(found, expected)


def sketches(func: PrimFunc) -> list[Schedule]:
    """What the rule makes of a program, post-processed; only what uses the instruction."""
    rule = ms.schedule_rule.MultiLevelTilingWithIntrin(
        VNNI,
        "SSRSRS",
        max_innermost_factor=64,
        reuse_write={"req": "may", "levels": [1, 2], "scope": "global"},
        adapt_operands=True,
    )
    space = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs="vnni", mutator_probs={})
    context = ms.TuneContext(func, target="llvm", space_generator=space, rand_state=1)
    finished = []
    for sch in context.generate_design_space():
        sch.enter_postproc()
        assert all(postproc.apply(sch) for postproc in space.postprocs)
        if "vpdpbusd" in sch.mod.script():
            finished.append(sch)
    return finished


# The first has loops that rules leave alone; of the second the types are the wrong way round.
NOT_TENSORIZED = {"other_loop_order", "factors_swapped", "depthwise"}


@pytest.mark.parametrize("form", [form for form in FORMS if form not in NOT_TENSORIZED])
def test_every_form(form: str) -> None:
    func = FORMS[form]("uint8", "int8", "int32")
    made = sketches(func)
    assert len(made) == 3
    expected, *found = results(func, *(sch.mod for sch in made))
    for result in found:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("form", sorted(NOT_TENSORIZED))
def test_what_is_left_alone(form: str) -> None:
    assert sketches(FORMS[form]("uint8", "int8", "int32")) == []


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_sizes(size: tuple[int, int, int]) -> None:
    func = product(*size)
    made = sketches(func)
    _, n, k = size
    work = (-n % 16 + n) * (-k % 4 + k) / (n * k)
    assert len(made) == (3 if work <= 2 else 0)
    expected, *found = results(func, *(sch.mod for sch in made))
    for result in found:
        np.testing.assert_array_equal(result, expected)

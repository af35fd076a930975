"""The rule for VTA, its checks, and tuning on the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.vta.backend import SimulatedFunction
from tilewright.cost_model.vta_prior import estimate_on_vta
from tilewright.errors import CodegenError
from tilewright.ir import PrimFunc
from tilewright.meta_schedule import tune_tir
from tilewright.meta_schedule.database import MemoryDatabase
from tilewright.schedule import Schedule
from tilewright.space.base import NotApplied
from tilewright.space.vta.scratchpad_tiling import ScratchpadTiling
from tilewright.space.vta.tile_use import tile_use
from tilewright.testing.vta_layers import RESNET18, conv2d_in_numpy, gemm_in_numpy
from tilewright.testing.vta_schedules import (
    CONV_TILES,
    GEMM_TILES,
    schedule_conv2d,
    schedule_gemm,
)
from tilewright.tune.fallback import default_schedule
from tilewright.vta.configuration import Configuration
from tilewright.workloads.vta import BLOCK, QuantizedConv2d, gemm

AT_MOST = 1.3  # cycles of tuned schedules, by those of hand-written ones


def cycles(sch: Schedule) -> int:
    found = tw.build(sch.mod, "vta")["main"]._run
    assert isinstance(found, SimulatedFunction)
    return found.report.cycles


def drawn(program: PrimFunc, seed: int) -> Schedule:
    sch = Schedule(program, seed=seed)
    (made,) = ScratchpadTiling().apply(sch, sch.get_block("C"))
    return made


def check_results(sch: Schedule, program: PrimFunc) -> None:
    """Compare with the program as it was written, on the CPU."""
    shapes = [[int(str(e)) for e in buffer.shape] for buffer in program.buffer_map.values()]
    rng = np.random.default_rng(0)
    *inputs, out = (rng.integers(-128, 128, shape, np.int8) for shape in shapes)
    expected = np.zeros_like(out)
    tw.build(sch.mod, "vta")(*inputs, out)
    tw.build(program, "llvm")(*inputs, expected)
    np.testing.assert_array_equal(out, expected)


PROGRAMS = {
    "gemm": gemm(64, 64, 64),
    "wide gemm": gemm(256, 512, 1024),
    "conv2d": QuantizedConv2d(14, 32, 32).program,
    "wide conv2d": QuantizedConv2d(56, 64, 128, 3, 2).program,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_check_agrees_with_the_code_generator(name: str) -> None:
    configuration, legal = Configuration(), 0
    for seed in range(5):
        sch = drawn(PROGRAMS[name], seed)
        use = tile_use(sch.mod["main"])
        assert use is not None
        reason = use.why_illegal(configuration)
        if reason:
            with pytest.raises(CodegenError):
                tw.build(sch.mod, "vta")
        elif use.operations < 1 << 15:
            check_results(sch, PROGRAMS[name])
            legal += 1
    assert legal or "wide" in name


def test_reasons() -> None:
    use = tile_use(schedule_gemm(gemm(256, 64, 512), (256, 4, 32)).mod["main"])
    assert use is not None
    assert use.why_illegal(Configuration()) == (
        "a tile takes 131072 bytes of the INP scratchpad, which has 32768"
    )
    use = tile_use(schedule_gemm(gemm(2, 16, 64), (2, 1, 4)).mod["main"])
    assert use is not None
    assert use.why_illegal(Configuration()) == (
        "a tile of 2 results is added to again too soon, the pipeline takes 3 operations"
    )
    assert tile_use(gemm(16, 16, 16)) is None


def test_the_estimate_ranks_as_the_simulator() -> None:
    tiles = [(16, 1, 1), (64, 1, 4), (64, 4, 1), (64, 4, 4), (16, 4, 2)]
    schedules = [schedule_gemm(gemm(64, 64, 64), tile) for tile in tiles]
    measured = [cycles(sch) for sch in schedules]
    guessed = [estimate_on_vta(sch.mod["main"], tw.Target("vta")) for sch in schedules]
    assert np.argmin(guessed) == np.argmin(measured)
    assert np.corrcoef(np.log(guessed), np.log(measured))[0, 1] > 0.9


def test_blocks_that_the_rule_leaves_alone() -> None:
    te = tw.te
    a = te.placeholder((32, 32), "float32", "A")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((32,), lambda i: te.sum(a[i, k], axis=k), "C")
    sch = Schedule(te.create_prim_func([a, c]))
    made = ScratchpadTiling().apply(sch, sch.get_block("C"))
    assert isinstance(made, NotApplied)
    assert made.reason == "it is no sum of products of int8"
    sch = Schedule(gemm(16, 16, 16))
    made = ScratchpadTiling().apply(sch, sch.get_block("O"))
    assert isinstance(made, NotApplied)
    assert made.reason == "it is not a reduction"


@pytest.mark.parametrize("shape", [(64, 64, 64), (256, 256, 256)])
def test_products_without_a_search(shape: tuple[int, int, int]) -> None:
    by_hand = cycles(schedule_gemm(gemm(*shape), GEMM_TILES[shape]))
    assert cycles(default_schedule(gemm(*shape), tw.Target("vta"))) <= AT_MOST * by_hand


@pytest.mark.parametrize("layer", ["C8", "C10"])
def test_convolutions_without_a_search(layer: str) -> None:
    program = RESNET18[layer].program
    by_hand = cycles(schedule_conv2d(program, CONV_TILES[layer]))
    assert cycles(default_schedule(program, tw.Target("vta"))) <= AT_MOST * by_hand


def tuned(program: PrimFunc, trials: int, folder: Path) -> MemoryDatabase:
    """A short search, in which every trial ran and was right."""
    database = MemoryDatabase()
    tune_tir(
        program,
        "vta",
        str(folder),
        max_trials_global=trials,
        num_trials_per_iter=trials,
        database=database,
        seed=1,
    )
    records = database.get_all_tuning_records()
    assert len(records) == trials
    assert all(record.run_secs for record in records)
    return database


def best_cycles(database: MemoryDatabase) -> float:
    times = [record.run_secs for record in database.get_all_tuning_records()]
    return min(min(each) for each in times if each) * 1e8


@pytest.mark.slow
def test_tuning_on_the_simulator(tmp_path: Path) -> None:
    program = gemm(64, 64, 64)
    database = tuned(program, 4, tmp_path)
    by_hand = cycles(schedule_gemm(program, GEMM_TILES[64, 64, 64]))
    assert best_cycles(database) <= AT_MOST * by_hand
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-128, 128, shape, np.int8) for shape in ((64, 4, 16), (4, 4, 16, 16)))
    out = np.zeros((64, 4, 16), np.int8)
    with database:
        tw.build(program, "vta")(a, w, out)
    np.testing.assert_array_equal(out, gemm_in_numpy(a, w))


@pytest.mark.slow
@pytest.mark.parametrize("layer", RESNET18)
def test_convolutions_of_resnet_are_tuned(layer: str, tmp_path: Path) -> None:
    of = RESNET18[layer]
    database = tuned(of.program, 4, tmp_path)
    by_hand = cycles(schedule_conv2d(of.program, CONV_TILES[layer]))
    assert best_cycles(database) <= AT_MOST * by_hand
    blocks, filters = of.channels // BLOCK, of.filters // BLOCK
    data = (blocks, of.size, of.size, BLOCK)
    kernel = (filters, blocks, of.kernel, of.kernel, BLOCK, BLOCK)
    rng = np.random.default_rng(0)
    d, w = (rng.integers(-128, 128, shape, np.int8) for shape in (data, kernel))
    out = np.zeros((filters, of.out_size, of.out_size, BLOCK), np.int8)
    with database:
        tw.build(of.program, "vta")(d, w, out)
    np.testing.assert_array_equal(out, conv2d_in_numpy(of, d, w))

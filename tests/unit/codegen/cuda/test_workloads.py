"""The thirteen workloads for a GPU without a search: they compile here, and are right on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.codegen.cuda import compiler
from tilewright.driver import build
from tilewright.errors import CodegenError
from tilewright.runtime import cuda, ndarray as nd
from tilewright.schedule import Trace
from tilewright.search.replayer import Replayer, SearchStatistics
from tilewright.target import Target
from tilewright.testing.gpu_lowering import random_arrays
from tilewright.testing.te_workload import CONFIGS, create_te_workload
from tilewright.tune.context import TuneContext
from tilewright.tune.fallback import default_schedule

H200 = Target("nvidia/nvidia-h200")
NAMES = [
    "C1D", "C2D", "C3D", "GMM", "GRP", "DIL", "DEP", "T2D", "CAP", "NRM", "SFM", "CBR", "TBG",
]  # fmt: skip
SEEDS = 40  # to try for a candidate of a sketch that all post-processors accept


@pytest.fixture(autouse=True)
def nvrtc() -> None:
    try:
        compiler.compiler_version()
    except CodegenError as error:
        pytest.skip(str(error))


def test_the_list_is_whole() -> None:
    assert set(NAMES) <= set(CONFIGS)


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_without_a_search_compiles(name: str) -> None:
    module = build(default_schedule(create_te_workload(name, 0), H200).mod, H200)
    assert module.resources


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_sketches_compile(name: str) -> None:
    context = TuneContext(create_te_workload(name, 0), target=H200, space_generator="tilewright")
    sketches = context.generate_design_space()
    assert context.mod is not None
    assert context.space_generator is not None
    replayer = Replayer(
        context.mod, (), context.space_generator.postprocs, SearchStatistics(), context.logger
    )
    built = 0
    for sketch in sketches:
        assert sketch.trace is not None
        drafts = (replayer.replay(Trace(sketch.trace.insts), seed + 1) for seed in range(SEEDS))
        draft = next((each for each in drafts if each is not None), None)
        if draft is not None:
            assert build(draft.candidate.sch.mod, H200).resources
            built += 1
    assert built


@pytest.mark.cuda
@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_without_a_search_is_right(name: str) -> None:
    func = create_te_workload(name, 0)
    arrays = random_arrays(func)
    given = [nd.array(array, cuda()) for array in arrays]
    build(default_schedule(func, "cuda").mod, "cuda")(*given)
    build(default_schedule(func, "llvm").mod, "llvm")(*arrays)
    largest = np.abs(arrays[-1]).max()
    np.testing.assert_allclose(given[-1].numpy(), arrays[-1], rtol=1e-4, atol=1e-5 * largest)

"""Kernels have the threads that TVM gives them, and no more barriers and memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright.intrin  # noqa: F401
from tilewright import ir, te
from tilewright.lowering import PassContext
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing.gpu_lowering import candidates, count_barriers, lower_for_gpu
from tilewright.testing.gpu_programs import AT_THE_LIMITS
from tilewright.testing.known_gpu_sketches import SINGLE
from tilewright.testing.te_workload import create_te_workload, matmul_relu
from tilewright.testing.tvm_process import TvmProcess

HERE = Path(__file__).parent
TARGET = "nvidia/geforce-rtx-2080"  # without asynchronous copies

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def tvm(tvm_python: Path) -> Iterator[TvmProcess]:
    with TvmProcess(tvm_python, HERE / "gpu_lowering_tvm_side.py") as process:
        yield process


def drafts(func: ir.PrimFunc, seeds: range) -> list[ir.IRModule]:
    module = ir.IRModule({"main": func})
    return [each.mod for each in candidates(module, Target(TARGET), "cuda", seeds, 2)]


def tensor_core_drafts(name: str) -> list[ir.IRModule]:
    case = SINGLE[name]
    rules = [schedule_rules.create(rule, **options) for rule, options in case.rules]
    module, target = ir.IRModule({"main": case.make()}), Target(case.target)
    made = candidates(module, target, "cuda-tensorcore", range(8), 2, sch_rules=rules)
    return [each.mod for each in made]


PROGRAMS = {
    "matmul": lambda: drafts(te.create_prim_func(matmul_relu(64, 64, 64)), range(8)),
    "softmax": lambda: drafts(create_te_workload("SFM", 0), range(4)),
    "norm": lambda: drafts(create_te_workload("NRM", 0), range(4)),
    "batched": lambda: drafts(create_te_workload("TBG", 0), range(4)),
    "transposed": lambda: drafts(create_te_workload("T2D", 0), range(4)),
    "tensor_cores": lambda: tensor_core_drafts("tensor_cores"),
    "limits": lambda: [
        ir.IRModule({"main": make()})
        for name, (make, fits) in AT_THE_LIMITS.items()
        if fits and "wanted" not in name and "guarded" not in name
    ],
}


def launches(text: str) -> list[tuple[str, int]]:
    """The threads of all kernels; dimensions of extent 1 do not count."""
    found = re.findall(r'launch_thread\("?(\w+Idx[._]\w)[^,]*, (\d+)\)', text)
    return sorted((tag.replace("_", "."), int(extent)) for tag, extent in found if extent != "1")


def their_shared_bytes(text: str) -> int:
    """Of `T.alloc_shared((128,), "float16")` or with a scope in words."""
    total = 0
    for shape, dtype in re.findall(r'alloc_shared\(\(([\d, ]+)\)(?:, "(\w+)")?\)', text):
        elements = math.prod(int(extent) for extent in shape.split(",") if extent.strip())
        total += elements * ir.DType(dtype or "float32").itemsize
    for shape, dtype in re.findall(
        r'alloc_buffer\(\(([\d, ]+)\)(?:, "(\w+)")?[^)]*scope="shared[^"]*"\)', text
    ):
        elements = math.prod(int(extent) for extent in shape.split(",") if extent.strip())
        total += elements * ir.DType(dtype or "float32").itemsize
    return total


def shared_bytes(module: ir.IRModule) -> int:
    return sum(
        node.extents[0].value * node.dtype.itemsize
        for func in module.functions.values()
        for node in ir.nodes_of(func.body, ir.Allocate)
        if node.buffer_var.type_annotation is not None
        and node.buffer_var.type_annotation.storage_scope.startswith("shared")
        and isinstance(node.extents[0], ir.IntImm)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(name: str, tvm: TvmProcess) -> None:
    programs = PROGRAMS[name]()
    assert programs
    for program in programs:
        theirs = tvm.ask_without_error(program=program.script(), target=TARGET)["script"]
        mine = lower_for_gpu(program, TARGET)
        kept = [] if "shared.dyn" in str(program) else ["MergeSharedMemoryAllocations"]
        with PassContext(disabled_pass=kept):
            apart = lower_for_gpu(program, TARGET)  # as TVM leaves buffers in scope "shared"
        assert launches(str(mine)) == launches(theirs)
        assert count_barriers(apart) <= theirs.count("tvm_storage_sync"), theirs
        assert shared_bytes(mine) <= their_shared_bytes(theirs) + slack(mine)


def slack(module: ir.IRModule) -> int:
    """Bytes that only align buffers, and what several warps exchange their results in."""
    text = str(module)
    return 128 * text.count('"shared') + 128 * text.count("red_buf")

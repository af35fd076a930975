# mypy: disable-error-code="valid-type, no-untyped-def"
"""Two candidates that TVM recorded on a GPU are in our space, and finished by the same steps.

The records (`tests/golden/schedule/records`) hold a product of int8 matrices with `dp4a`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.defaults import create_postprocs, create_schedule_rules
from tilewright.target import Target
from tilewright.testing.known_gpu_sketches import CUDA_TILES
from tilewright.testing.space_generation import (
    SpaceTask,
    generate_design_space,
    sampling_steps,
    with_decisions,
)

RECORDS = Path(__file__).parent.parent / "schedule" / "records"
TARGET = Target("nvidia/geforce-rtx-3070")


@T.prim_func
def dense(
    X: T.Buffer((1024, 1024), "int8"),
    W: T.Buffer((1024, 1024), "int8"),
    compute: T.Buffer((1024, 1024), "int32"),
) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
    for i, j, k in T.grid(1024, 1024, 1024):
        with T.block("compute"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                compute[vi, vj] = 0
            compute[vi, vj] = compute[vi, vj] + T.Cast("int32", X[vi, vk]) * T.Cast(
                "int32", W[vj, vk]
            )


def rules() -> list[ScheduleRule]:
    """The rules of GPUs with those of `dp4a` in front, narrow loads only, as TVM was asked to."""
    tiles = {**CUDA_TILES, "vector_load_lens": [1, 2, 3, 4]}
    dp4a = schedule_rules.create("MultiLevelTilingWithIntrin", intrin_name="dp4a", **tiles)
    return [dp4a, *create_schedule_rules("cuda")]


def sketch_of(module: IRModule) -> Schedule:
    """The one sketch without a pipeline."""
    sketches = generate_design_space("cuda", module, TARGET, sch_rules=rules())
    (plain,) = [sketch for sketch in sketches if "software_pipeline" not in str(sketch.trace)]
    return plain


@pytest.mark.parametrize("record", ["dense_dp4a_1", "dense_dp4a_2"])
def test_recorded_candidate(record: str) -> None:
    insts, decisions = json.loads((RECORDS / f"{record}.json").read_text(encoding="utf-8"))
    module = IRModule({"main": dense})
    sketch = sketch_of(module)
    assert sketch.trace is not None
    # A search leaves out steps whose results nobody uses.
    sketch.trace = sketch.trace.simplified(remove_postproc=True)
    kinds = [inst.primitive.kind for inst in sampling_steps(sketch.trace)]
    values: list[Any] = [value for _, value in decisions]
    sch = with_decisions(module, sketch, list(zip(kinds, values, strict=True)), debug_mask="none")
    assert sch is not None
    sch.enter_postproc()
    for step in create_postprocs("cuda-tensorcore"):
        step._initialize_with_tune_context(SpaceTask(module, TARGET))
        assert step.apply(sch), type(step).__name__
    assert sch.trace is not None
    assert sch.trace.as_json() == [insts, decisions]

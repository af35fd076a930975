"""The whole pipeline: every stage computes what the program computed before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.driver import lower
from tilewright.lowering import PassContext
from tilewright.lowering.verify_lowered import verify_lowered

CONTEXTS = {
    "default": PassContext(),
    "expanded": PassContext(config={"tir.UnrollLoop": {"expand": True}}),
    "plain": PassContext(
        config={
            "tir.disable_vectorize": True,
            "tir.disable_storage_rewrite": True,
            "tir.disable_loop_partition": True,
        }
    ),
}


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_stage_computes_the_same(program: Any, context: str) -> None:
    expected = program.results(program.func)
    with CONTEXTS[context]:
        stages = lower(program.func, stages=True)
    verify_lowered(stages.module)
    last = None
    for stage in stages:
        if stage.module is last:
            continue
        last = stage.module
        for got, want in zip(program.results(stage.module), expected, strict=True):
            # The oracle rounds a bfloat16 after every operation, lowered code where it is stored.
            relative, absolute = (1e-2, 1e-3) if got.dtype.kind == "V" else (1e-5, 1e-7)
            np.testing.assert_allclose(
                got.astype("float64"), want.astype("float64"), relative, absolute, True, stage.name
            )

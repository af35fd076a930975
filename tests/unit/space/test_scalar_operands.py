"""Tile kernels take operands that are single numbers along."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.graph import GraphBuilder, TensorType
from tilewright.model.kernels import groups_of, program_of
from tilewright.target import Target
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_product_times_a_number(shape: tuple[int, ...]) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((64, 64), "float16"))
    weight = builder.constant(np.ones((128, 64), "float16"))
    factor = builder.input("factor", TensorType(shape, "float16"))
    y = builder.call("multiply", builder.call("nn.dense", x, weight), factor)
    graph = builder.graph([y])
    (group,) = groups_of(graph)
    func = program_of(group, graph)
    made = default_schedule(normalize_mod(func), Target("nvidia/nvidia-h200")).mod
    assert "wgmma.accumulator" in str(made)

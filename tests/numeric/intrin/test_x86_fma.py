"""Outer products in float32: the numbers, the instructions, and tiles built around them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright import te
from tilewright.driver import build, compile_only
from tilewright.intrin.agreement import disagreement
from tilewright.intrin.stand_alone import stand_alone
from tilewright.ir import as_module
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.space.rules import TensorTiling
from tilewright.target import Target
from tilewright.testing.space_generation import Task
from tilewright.workloads.int8 import int8_gemm

NAMES = ("outer_16x2_f32", "outer_16x2_f32_local")
AVX512 = "llvm -mcpu=skylake-avx512 -num-cores=2"


@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_instructions(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    assert disagreement(intrin, build) is None
    assembly = compile_only(stand_alone(intrin.impl), Target(AVX512)).get_source("asm")
    assert len(re.findall(r"vfmadd\w+ps.*%zmm", assembly)) == 2


def test_tiles_around_them() -> None:
    module = as_module(te.create_prim_func(list(int8_gemm(20, 32, 24, form="f32"))))
    rule = TensorTiling([NAMES[1]])
    rule._initialize_with_tune_context(Task(module, Target(AVX512)))
    sch = Schedule(module, seed=1)
    (sketch, *_, _) = rule.apply(sch, sch.get_block("C"))
    rng = np.random.default_rng(1)
    a, b = (rng.random(shape, np.float32) for shape in ((20, 24), (24, 32)))
    result = np.zeros((20, 32), np.float32)
    build(sketch.mod, "llvm")(a, b, result)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)

"""Products in tile registers on a machine that has them; skipped everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.intrin import amx
from tilewright.runtime import load_module
from tilewright.target import Target
from tilewright.testing.amx_matmul import AmxMatmul

pytestmark = pytest.mark.skipif(
    not {"amx-int8", "amx-bf16"} <= Target("llvm").features,
    reason="needs a CPU with AMX and a system that hands out tiles",
)


def check(problem: AmxMatmul, module: Any, extremes: bool = False) -> None:
    arguments = problem.arguments(extremes)
    module(*arguments)
    problem.check(*arguments)


@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("size", amx.SIZES)
@pytest.mark.parametrize("product", amx.PRODUCTS, ids=lambda product: product.name)
def test_products(product: amx.Product, size: int, extremes: bool) -> None:
    problem = AmxMatmul(3 * size, 5 * size, 3 * product.depth, product, size)
    check(problem, tw.build(problem.schedule().mod), extremes)


def test_many_tiles_on_all_threads() -> None:
    problem = AmxMatmul(512, 512, 256, amx.PRODUCTS[0], row_blocks=4)
    check(problem, tw.build(problem.schedule().mod))


def test_a_single_tile_outside_parallel_loops() -> None:
    problem = AmxMatmul(32, 32, 64, amx.PRODUCTS[0])
    check(problem, tw.build(problem.schedule().mod))


def test_an_exported_library(tmp_path: Path) -> None:
    problem = AmxMatmul(64, 64, 128, amx.PRODUCTS[0])
    path = tmp_path / "product.so"
    tw.build(problem.schedule().mod).export_library(path)
    check(problem, load_module(path))

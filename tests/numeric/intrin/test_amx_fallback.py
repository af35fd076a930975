"""Programs in tile registers on machines without them: the descriptions run, in plain memory."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.driver import lower
from tilewright.intrin import amx
from tilewright.target import Target
from tilewright.testing.amx_matmul import AmxMatmul

NO_TILES = "-mattr=-amx-tile" if "amx-tile" in Target("llvm").features else "-num-cores=2"
PRODUCTS = {product.name: product for product in amx.PRODUCTS}


@pytest.mark.parametrize(("size", "extremes"), [(32, False), (16, True)])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_the_same_numbers_without_tiles(kind: str, size: int, extremes: bool) -> None:
    product = PRODUCTS[kind]
    problem = AmxMatmul(2 * size, 2 * size, 2 * product.depth, product, size)
    module = tw.build(problem.schedule().mod, f"llvm {NO_TILES}")
    arguments = problem.arguments(extremes)
    module(*arguments)
    problem.check(*arguments)
    assert "tile" not in module.get_source("asm")


def test_accumulators_are_memory_then() -> None:
    problem = AmxMatmul(64, 64, 64, PRODUCTS["s8s8"])
    lowered = str(lower(problem.schedule().mod, Target("llvm -mcpu=cascadelake")))
    assert 'T.allocate([1024], "int32", "local")' in lowered
    assert "amx.tmm" not in lowered
    assert "tw_request_tiles" not in lowered


def test_a_target_with_tiles_but_without_this_product_falls_back_as_a_whole() -> None:
    problem = AmxMatmul(32, 32, 64, PRODUCTS["u8s8"])
    target = Target("llvm -mcpu=sapphirerapids -mattr=-amx-int8")
    lowered = str(lower(problem.schedule().mod, target))
    assert "llvm.x86" not in lowered

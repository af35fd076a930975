"""Products in tile registers: what the instructions compute, and what a program becomes.

No test needs a machine with tiles: programs run on a simulator of them, and assembly is looked at.
`tests/numeric/intrin/test_amx.py` runs them for real where that is possible.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright.intrin as tilewright_intrin
from tilewright.driver import compile_only, lower
from tilewright.intrin import amx
from tilewright.ir.tensor_intrin import TensorIntrin, features_of_intrin
from tilewright.space.tensor.instruction import TensorTile
from tilewright.testing.amx_matmul import AmxMatmul
from tilewright.testing.tile_simulator import run_in_tiles

PRODUCTS = {product.name: product for product in amx.PRODUCTS}
TARGET = "llvm -mcpu=sapphirerapids -mtriple=x86_64-unknown-linux-gnu"
MNEMONICS = {name: p.llvm.removeprefix("llvm.x86.") for name, p in PRODUCTS.items()}
ALL_INTRINSICS = [
    *(amx.dot_name(size, product) for size in amx.SIZES for product in amx.PRODUCTS),
    *(amx.fill_name(size, dtype) for size in amx.SIZES for dtype in ("int32", "float32")),
    *(
        amx.store_name(size, dtype, scope)
        for size in amx.SIZES
        for dtype in ("int32", "float32")
        for scope in ("global", "local")
    ),
]


def test_the_package_makes_them_known() -> None:
    assert tilewright_intrin.amx is amx
    assert amx.dot_name(32, PRODUCTS["s8s8"]) == "amx_dot_32x32x64_s8s8"
    assert amx.dot_name(16, PRODUCTS["bf16"]) == "amx_dot_16x16x32_bf16"
    assert amx.fill_name(32, "int32") == "amx_fill_32x32_int32"
    assert amx.store_name(16, "float32", "local") == "amx_store_16x16_float32_local"


@pytest.mark.parametrize("name", ALL_INTRINSICS)
def test_descriptions_and_implementations_agree_in_their_buffers(name: str) -> None:
    intrin = TensorIntrin.get(name)  # raises where they do not
    assert intrin is not None
    wanted = {"amx-tile", "amx-bf16" if "bf16" in name or "float32" in name else "amx-int8"}
    assert intrin.features == features_of_intrin(name) == wanted


@pytest.mark.parametrize("size", amx.SIZES)
@pytest.mark.parametrize("kind", PRODUCTS)
def test_the_unit_of_work_is_read_off_the_description(kind: str, size: int) -> None:
    product = PRODUCTS[kind]
    intrin = TensorIntrin.get(amx.dot_name(size, product))
    assert intrin is not None
    tile = TensorTile.of(intrin)
    assert tile is not None
    assert (tile.rows, tile.lanes, tile.depth) == (size, size, product.depth)
    assert str(tile.left.buffer.dtype) == product.left
    assert str(tile.right.buffer.dtype) == product.right
    assert tile.out.buffer.scope == "amx.tmm"


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("extremes", [False, True])
@pytest.mark.parametrize("size", amx.SIZES)
@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_product_in_simulated_tiles(kind: str, size: int, extremes: bool) -> None:
    product = PRODUCTS[kind]
    problem = AmxMatmul(2 * size, 3 * size, 2 * product.depth, product, size)
    arguments = problem.arguments(extremes)
    simulator = run_in_tiles(lower(problem.schedule().mod, TARGET), *arguments)
    problem.check(*arguments)
    tiles, per_tile = 6, (size // 16) ** 2
    assert simulator.issued.count(MNEMONICS[kind]) == tiles * per_tile * 2
    assert simulator.issued.count("tilezero") == tiles * per_tile
    assert simulator.issued.count("tilestored") == tiles * per_tile


def test_rows_of_the_results_may_be_cut_into_blocks() -> None:
    problem = AmxMatmul(128, 64, 64, PRODUCTS["s8s8"], row_blocks=2)
    arguments = problem.arguments()
    run_in_tiles(lower(problem.schedule().mod, TARGET), *arguments)
    problem.check(*arguments)


# --- code ---------------------------------------------------------------------------------------


def assembly(problem: AmxMatmul) -> str:
    return compile_only(problem.schedule().mod, TARGET).get_source("asm")


def loops(text: str) -> dict[str, str]:
    """The innermost loops of an assembly text: label -> code up to the jump back to it."""
    found = {}
    for match in re.finditer(r"^(\.L\w+):\n((?:(?!^\.L\w+:).)*?\n)\tj\w+\t\1$", text, re.M | re.S):
        found[match[1]] = match[2]
    return found


@pytest.mark.parametrize(
    ("kind", "size", "loads", "products"),
    [*((kind, 32, 4, 4) for kind in PRODUCTS), ("s8s8", 16, 2, 1), ("bf16", 16, 2, 1)],
)
def test_the_inner_loop_is_loads_and_products_of_tiles(
    kind: str, size: int, loads: int, products: int
) -> None:
    problem = AmxMatmul(4 * size, 4 * size, 8 * PRODUCTS[kind].depth, PRODUCTS[kind], size)
    text = assembly(problem)
    (inner,) = (code for code in loops(text).values() if "tdp" in code)
    assert inner.count("tileloadd\t") == loads
    assert inner.count(f"{MNEMONICS[kind]}\t") == products
    assert not re.search(r"\(%r[sb]p", inner), "spilled"
    assert not {"tilestored", "tilezero", "ldtilecfg", "mm0,"} & set(re.findall(r"\w+", inner))
    assert text.count("tilestored\t") == text.count("tilezero\t") == products


def test_tiles_are_configured_once_for_all_iterations_of_a_thread() -> None:
    text = assembly(AmxMatmul(128, 128, 256, PRODUCTS["s8s8"]))
    assert text.count("ldtilecfg\t") == 1
    assert text.count("tilerelease") == 1
    order = [text.index(word) for word in ("ldtilecfg", "tilezero", "tilestored", "tilerelease")]
    assert order == sorted(order)
    start = text.index("main.parallel1.body:")
    assert ".LBB" not in text[start : order[0]], "it is in front of the loop"


def test_the_configuration_is_all_tiles_in_full_size() -> None:
    module = compile_only(AmxMatmul(32, 32, 64, PRODUCTS["s8s8"]).schedule().mod, TARGET)
    source = module.get_source("generated-ll")
    (constant,) = re.findall(r'constant \[64 x i8\] c"(.*?)", align 64', source)
    data = bytes.fromhex(constant.replace("\\", ""))
    assert data[:16] == bytes([1] + [0] * 15)  # palette, start row, reserved
    assert np.frombuffer(data[16:48], "<u2").tolist() == [64] * 8 + [0] * 8
    assert list(data[48:]) == [16] * 8 + [0] * 8


def test_accumulators_take_no_memory() -> None:
    lowered = str(lower(AmxMatmul(64, 64, 128, PRODUCTS["s8s8"]).schedule().mod, TARGET))
    assert "amx" not in lowered.replace("AMX", "").replace("-mattr=-amx-tile", "").replace(
        "without amx-tile", ""
    )
    assert lowered.count("T.allocate") == 1  # the packed operand


def test_operands_are_only_read() -> None:
    module = compile_only(AmxMatmul(32, 32, 64, PRODUCTS["s8s8"]).schedule().mod, TARGET)
    (function,) = module.info.functions
    assert [argument.access for argument in function.signature] == ["r", "r", "rw"]

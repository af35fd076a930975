"""The request for tile registers: what the system is asked, and what a refusal looks like."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.host import native
from tilewright.driver import compile_only
from tilewright.errors import TilewrightError
from tilewright.intrin import amx
from tilewright.lowering.tile_registers import REFUSED, REQUEST_SYMBOL
from tilewright.native.platform import platform_of
from tilewright.native.tile_permission_ir import tile_permission_ir
from tilewright.script import from_source
from tilewright.target.amx import system_allows_tiles
from tilewright.testing.amx_matmul import AmxMatmul

ASKING = f"""
from tilewright.script import tir as T

@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    assert T.call_extern("int32", "{REQUEST_SYMBOL}") == 0, "{REFUSED}"
    for i in range(4):
        A[i] = i
"""


def test_the_answer_is_what_the_system_says_it_supports() -> None:
    request = ctypes.CFUNCTYPE(ctypes.c_int32)(native.symbols()[REQUEST_SYMBOL])
    assert (request() == 0) == system_allows_tiles()
    assert request() == request()


def test_a_refusal_is_an_error_that_says_what_to_do() -> None:
    module, data = tw.build(from_source(ASKING)), np.zeros(4, "int32")
    if system_allows_tiles():
        module(data)
        assert data.tolist() == [0, 1, 2, 3]
        return
    with pytest.raises(TilewrightError, match="does not let this process use AMX tiles") as caught:
        module(data)
    assert "-mattr=-amx-tile" in str(caught.value)
    assert data.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("triple", "asks"),
    [
        ("x86_64-unknown-linux-gnu", True),
        ("aarch64-unknown-linux-gnu", False),
        ("x86_64-apple-darwin", False),
        ("x86_64-pc-windows-msvc", False),
    ],
)
def test_only_linux_on_x86_can_be_asked(triple: str, asks: bool) -> None:
    text = tile_permission_ir(platform_of(triple))
    assert ("@syscall(i64 158, i64 4131, i64 18)" in text) is asks
    assert "define i32 @tw_request_tiles()" in text


def test_an_exported_library_asks_by_itself(tmp_path: Path) -> None:
    problem = AmxMatmul(32, 32, 64, amx.PRODUCTS[0])
    module = compile_only(problem.schedule().mod, "llvm -mcpu=sapphirerapids")
    assert module.artifact is not None
    assert REQUEST_SYMBOL in module.artifact.undefined
    path = tmp_path / "product.so"
    module.export_library(path)
    # A name that is left for others to define stands in the file.
    assert REQUEST_SYMBOL.encode() not in path.read_bytes()


def test_code_in_tiles_is_not_run_where_there_are_none() -> None:
    if system_allows_tiles():
        pytest.skip("this machine has tiles")
    problem = AmxMatmul(32, 32, 64, amx.PRODUCTS[0])
    target = f"llvm -mcpu={tw.target.Target('llvm').mcpu} -mattr=+amx-tile,+amx-int8"
    module = tw.build(problem.schedule().mod, target)
    arguments = [np.zeros(shape, "int8") for shape in ((32, 64), (64, 32))]
    with pytest.raises(TilewrightError, match="amx-int8, amx-tile, which this machine's"):
        module(*arguments, np.zeros((32, 32), "int32"))

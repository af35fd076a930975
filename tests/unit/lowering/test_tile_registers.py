"""Buffers in tile registers: what they may not do, and what a function around them becomes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright.driver import compile_only, lower
from tilewright.errors import LowerError
from tilewright.intrin import amx
from tilewright.ir import PrimFunc
from tilewright.lowering.tile_registers import REFUSED
from tilewright.schedule import Schedule
from tilewright.testing.amx_matmul import AmxMatmul

Parse = Callable[[str], PrimFunc]
TARGET = "llvm -mcpu=sapphirerapids -mtriple=x86_64-unknown-linux-gnu"
PRODUCT = next(product for product in amx.PRODUCTS if product.name == "s8s8")


def fill_and_store(part: str, tile: str, between: str = "pass") -> str:
    """Blocks that zero a tile and store it into a part of D."""
    view = f'T.match_buffer({tile}[0:16, 0:16], (16, 16), "int32", scope="amx.tmm")'
    return f"""
    with T.block("fill_{part}"):
        T.reads()
        T.writes({tile}[0:16, 0:16])
        V = {view}
        T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(0))
    {between}
    with T.block("store_{part}"):
        T.reads({tile}[0:16, 0:16])
        T.writes(D[{part}, 0:16, 0:16])
        W = {view}
        T.call_llvm_intrin(
            "void", "llvm.x86.tilestored64", T.int8(0), T.address_of(D[{part}, 0, 0]), T.int64(64)
        )
"""


def function(body: str, tiles: str = "C") -> str:
    allocations = "\n".join(
        f'    {tile} = T.alloc_buffer((16, 16), "int32", scope="amx.tmm")' for tile in tiles.split()
    )
    head = '@T.prim_func\ndef main(D: T.Buffer((2, 16, 16), "int32")):'
    return f"{head}\n{allocations}\n{body}"


# --- what a function becomes --------------------------------------------------------------------


def test_registers_need_no_memory_and_the_system_is_asked_first(parse: Parse) -> None:
    lowered = str(lower(parse(function(fill_and_store("0", "C"))), TARGET))
    assert "allocate" not in lowered
    asked = lowered.index('assert T.call_extern("int32", "tw_request_tiles") == 0')
    assert asked < lowered.index("tilezero") < lowered.index("tilestored64")
    assert REFUSED in lowered


def test_a_function_that_uses_no_instruction_asks_nothing(parse: Parse) -> None:
    body = """
    for i, j in T.grid(16, 16):
        C[i, j] = i + j
    for i, j in T.grid(16, 16):
        D[0, i, j] = C[i, j]
"""
    lowered = str(lower(parse(function(body)), TARGET))
    assert 'T.allocate([256], "int32", "local")' in lowered
    assert "assert" not in lowered


def generated(parse: Parse, source: str) -> str:
    return compile_only(parse(source), TARGET).get_source("generated-ll")


def test_serial_code_is_configured_after_the_system_agreed(parse: Parse) -> None:
    text = generated(parse, function(fill_and_store("0", "C")))
    (main,) = re.findall(r"define i32 @main\(.*?\n}", text, re.DOTALL)
    words = re.findall(
        r"@tw_request_tiles|ldtilecfg|tilezero|tilestored64|tilerelease|ret i32", main
    )
    assert words == [
        "@tw_request_tiles", "ret i32",  # refused
        "ldtilecfg", "tilezero", "tilestored64", "tilerelease", "ret i32",
    ]  # fmt: skip


def test_tiles_are_configured_again_behind_a_call(parse: Parse) -> None:
    call = 'T.evaluate(T.call_extern("int32", "other"))'
    body = fill_and_store("0", "C") + f"    {call}\n" + fill_and_store("1", "C2")
    text = generated(parse, function(body, "C C2"))
    words = re.findall(r"call .* @(other|llvm\.x86\.(?:ld|til)\w+)", text)
    assert [word.removeprefix("llvm.x86.") for word in words] == [
        "ldtilecfg", "tilezero", "tilestored64", "other",
        "ldtilecfg", "tilezero", "tilestored64", "tilerelease",
    ]  # fmt: skip


def test_a_configuration_of_ones_own_is_left_alone(parse: Parse) -> None:
    text = generated(
        parse,
        """
@T.prim_func
def main(config: T.Buffer((64,), "uint8"), D: T.Buffer((16, 16), "int32")):
    T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.address_of(config[0]))
    T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(3))
    T.call_llvm_intrin(
        "void", "llvm.x86.tilestored64", T.int8(3), T.address_of(D[0, 0]), T.int64(64)
    )
""",
    )
    assert text.count("call void @llvm.x86.ldtilecfg(") == 1
    assert "tilerelease" not in text
    assert "call i32 @tw_request_tiles()" in text


# --- what it may not do -------------------------------------------------------------------------


def refusal(parse: Parse, source: str) -> str:
    with pytest.raises(LowerError) as caught:
        lower(parse(source), TARGET)
    return str(caught.value)


def test_elements_of_registers_cannot_be_accessed(parse: Parse) -> None:
    body = (
        fill_and_store("0", "C")
        + """
    for i, j in T.grid(16, 16):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[1, vi, vj] = C[vi, vj]
"""
    )
    assert refusal(parse, function(body)) == (
        "function 'main': block 'add' accesses elements of C, which block 'store_0' "
        "keeps in tile registers; tensorize it as well (amx_fill_... sets results to zero, "
        "amx_store_... copies them to memory)"
    )


def test_only_one_buffer_is_in_registers_at_a_time(parse: Parse) -> None:
    between = f"pass\n{fill_and_store('1', 'C2')}"
    source = function(fill_and_store("0", "C", between), "C C2")
    assert refusal(parse, source) == (
        "function 'main': buffers C and C2 are in use at the same time, but there are "
        "tile registers for only one of them; store the results of one before the other is filled"
    )


def test_no_call_preserves_registers(parse: Parse) -> None:
    call = 'T.evaluate(T.call_extern("int32", "other"))'
    assert refusal(parse, function(fill_and_store("0", "C", call))) == (
        'function \'main\': `T.call_extern("int32", "other")` runs while buffer C is '
        "in tile registers, which no call preserves; move it before the first or after the last "
        "use"
    )


def test_a_parallel_loop_preserves_no_registers(parse: Parse) -> None:
    loop = "for i in T.parallel(16):\n        D[1, i, 0] = 3"
    text = refusal(parse, function(fill_and_store("0", "C", loop)))
    assert "the parallel loop 'i' runs while buffer C is in tile registers" in text


def test_a_call_in_a_loop_counts_for_all_of_the_loop(parse: Parse) -> None:
    """The call comes behind the last use in the program, but before it in the next iteration."""
    source = """
@T.prim_func
def main(D: T.Buffer((2, 16, 16), "int32")):
    C = T.alloc_buffer((16, 16), "int32", scope="amx.tmm")
    with T.block("fill"):
        T.reads()
        T.writes(C[0:16, 0:16])
        V = T.match_buffer(C[0:16, 0:16], (16, 16), "int32", scope="amx.tmm")
        T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(0))
    for k in range(2):
        with T.block("dot"):
            T.reads(C[0:16, 0:16])
            T.writes(C[0:16, 0:16])
            W = T.match_buffer(C[0:16, 0:16], (16, 16), "int32", scope="amx.tmm")
            T.call_llvm_intrin("void", "llvm.x86.tdpbssd", T.int8(0), T.int8(4), T.int8(6))
        T.evaluate(T.call_extern("int32", "other"))
"""
    assert "runs while buffer C is in tile registers" in refusal(parse, source)


def test_registers_hold_what_one_instruction_takes() -> None:
    sch = Schedule(AmxMatmul(64, 64, 64, PRODUCT).function())
    block = sch.get_block("C")
    sch.cache_write(block, 0, amx.TILE_SCOPE)
    init = sch.decompose_reduction(block, sch.get_loops(block)[0])
    rows, columns = sch.get_loops(init)
    above, row = sch.split(rows, [None, 32])
    beside, column = sch.split(columns, [None, 32])
    sch.reorder(above, beside, row, column)
    sch.tensorize(row, amx.fill_name(32, "int32"))
    with pytest.raises(LowerError) as caught:
        lower(sch.mod, TARGET)
    assert str(caught.value) == (
        "function 'main': buffer C_amx.tmm holds 64x64 results at a time, block "
        "'C_init_o' works on 32x32; tile registers hold what one instruction takes: store the "
        "results inside the loops over tiles (reverse_compute_at), or use larger instructions"
    )


def test_a_parameter_cannot_be_in_registers(parse: Parse) -> None:
    source = """
@T.prim_func
def main(c: T.handle):
    C = T.match_buffer(c, (16, 16), "int32", scope="amx.tmm")
    T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(0))
"""
    assert refusal(parse, source) == (
        "function 'main': parameter C is in scope 'amx.tmm', which no caller can pass; "
        "use scope 'global'"
    )

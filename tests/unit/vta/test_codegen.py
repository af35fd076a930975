"""Scheduled programs as instructions of VTA: results equal to NumPy's, bit for bit."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.codegen.registry import find_backend
from tilewright.codegen.vta.backend import SimulatedFunction
from tilewright.codegen.vta.program import from_assembly, from_bytes
from tilewright.errors import ArgumentError, CodegenError, TargetError
from tilewright.ir import PrimFunc
from tilewright.testing.vta_layers import conv2d_in_numpy, gemm_in_numpy
from tilewright.testing.vta_schedules import schedule_conv2d, schedule_gemm
from tilewright.vta.isa import Alu, Gemm, LoadRows, MemoryKind, StoreRows
from tilewright.workloads.vta import QuantizedConv2d, gemm


def numbers(*shape: int, seed: int = 0) -> npt.NDArray[Any]:
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def function(module: tw.Module) -> SimulatedFunction:
    found = module["main"]._run
    assert isinstance(found, SimulatedFunction)
    return found


GEMMS = [
    ((16, 16, 16), (16, 1, 1)),
    ((64, 64, 64), (16, 2, 2)),
    ((48, 96, 32), (16, 3, 1)),
    ((3, 32, 64), (3, 1, 4)),
    ((1, 16, 64), (1, 1, 1)),
    ((20, 48, 80), (5, 3, 5)),
]


@pytest.mark.parametrize(("shape", "tile"), GEMMS)
def test_products(shape: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    m, n, k = shape
    module = tw.build(schedule_gemm(gemm(m, n, k), tile).mod, "vta")
    a, w = numbers(m, k // 16, 16), numbers(n // 16, k // 16, 16, 16, seed=1)
    out = np.zeros((m, n // 16, 16), np.int8)
    module(a, w, out)
    np.testing.assert_array_equal(out, gemm_in_numpy(a, w))
    report = function(module).report
    assert report.gemm_operations >= m * n * k // 256
    assert report.cycles >= report.bound


CONVOLUTIONS = [
    (QuantizedConv2d(14, 32, 32), (2, 7, 7, 2)),
    (QuantizedConv2d(14, 32, 32), (1, 14, 14, 1)),
    (QuantizedConv2d(14, 16, 32, 3, 2), (2, 7, 7, 1)),
    (QuantizedConv2d(8, 32, 16, 1, 2, 0), (1, 2, 4, 2)),
    (QuantizedConv2d(9, 16, 16, 5, 1, 2), (1, 3, 3, 1)),
    (QuantizedConv2d(6, 16, 16, 3, 1, 0), (1, 4, 2, 1)),
]


@pytest.mark.parametrize(("layer", "tile"), CONVOLUTIONS)
def test_convolutions(layer: QuantizedConv2d, tile: tuple[int, ...]) -> None:
    module = tw.build(schedule_conv2d(layer.program, tile).mod, "vta")
    d = numbers(layer.channels // 16, layer.size, layer.size, 16)
    w = numbers(
        layer.filters // 16, layer.channels // 16, layer.kernel, layer.kernel, 16, 16, seed=1
    )
    out = np.zeros((layer.filters // 16, layer.out_size, layer.out_size, 16), np.int8)
    module(d, w, out)
    np.testing.assert_array_equal(out, conv2d_in_numpy(layer, d, w))


def test_micro_operations_make_room_for_others() -> None:
    program = schedule_gemm(gemm(48, 96, 64), (16, 2, 4)).mod
    a, w = numbers(48, 4, 16), numbers(6, 4, 16, 16, seed=1)
    loads = []
    for target in ("vta", "vta -uop-buffer-bytes=16"):
        module, out = tw.build(program, target), np.zeros((48, 6, 16), np.int8)
        module(a, w, out)
        np.testing.assert_array_equal(out, gemm_in_numpy(a, w))
        instructions = function(module).program.instructions
        kinds = [each.memory for each in instructions if type(each) is LoadRows]
        loads.append(kinds.count(MemoryKind.UOP))
    assert loads[0] < loads[1]
    assert refusal(program, "vta -uop-buffer-bytes=4") == (
        "vta: a nest of operations does not fit the micro-operation buffer, which has 4 bytes; "
        "make its tiles smaller"
    )


def test_time_is_that_of_the_simulated_clock() -> None:
    module = tw.build(schedule_gemm(gemm(16, 16, 16), (16, 1, 1)).mod, "vta -clock-mhz=200")
    a, w, out = numbers(16, 1, 16), numbers(1, 1, 16, 16), np.zeros((16, 1, 16), np.int8)
    seconds = module.time_evaluator("main", number=3, repeat=2)(a, w, out).results
    expected = function(module).report.cycles * 5e-9
    assert seconds == pytest.approx((expected, expected))


def test_two_tiles_of_each_hide_loads() -> None:
    program = schedule_gemm(gemm(64, 64, 256), (64, 4, 4)).mod
    roomy, tight = (
        function(tw.build(program, target)).report
        for target in ("vta", "vta -inp-buffer-bytes=4096 -wgt-buffer-bytes=4096")
    )
    assert roomy.busy["load"] == tight.busy["load"]
    assert roomy.cycles < 0.8 * tight.cycles


def test_text_and_bytes_are_the_same_program() -> None:
    module = tw.build(schedule_gemm(gemm(16, 32, 16), (16, 1, 1)).mod, "vta")
    assert module.artifact is not None
    (written,) = from_assembly(module.get_source())
    (encoded,) = from_bytes(module.artifact.data)
    assert written == encoded == function(module).program
    assert module.get_source().splitlines()[-1].startswith("finish")


def test_what_kernels_take() -> None:
    module = tw.build(schedule_gemm(gemm(16, 16, 16), (16, 1, 1)).mod, "vta")
    assert module.artifact is not None
    taken = find_backend("vta").resources(module.artifact)["main"]
    assert taken["cycles"] == function(module).report.cycles
    assert taken["gemm_operations"] == 16 + 16  # the start of sums counts
    assert taken["inp_bytes"] == 256


def rows_of(parameters: Sequence[tuple[str, str]], steps: Mapping[str, str]) -> PrimFunc:
    """A function on 8 rows of 16: a block a step; `a`, `b` and `d` are rows of the accumulator."""
    wanted = ", ".join(f'{name}: T.Buffer((8, 16), "{dtype}")' for name, dtype in parameters)
    lines = [f'{n} = T.alloc_buffer((8, 16), "int32", scope="local.acc_buffer")' for n in "abd"]
    for name, statement in steps.items():
        lines += [
            "for i, j in T.grid(8, 16):",
            f'    with T.block("{name}"):',
            '        vi, vj = T.axis.remap("SS", [i, j])',
            f"        {statement}",
        ]
    body = "\n".join(f"        {line}" for line in lines)
    head = "from tilewright.script import tir as T\n\n@T.prim_func\n"
    made = tw.script.from_source(f'{head}def main({wanted}):\n    with T.block("root"):\n{body}\n')
    assert isinstance(made, PrimFunc)
    return made


rows = rows_of(
    [("A", "int8"), ("B", "int32"), ("C", "int8")],
    {
        "a": 'a[vi, vj] = T.Cast("int32", A[vi, vj])',
        "b": "b[vi, vj] = B[vi, vj]",
        "d": "d[vi, vj] = a[vi, vj] + b[vi, vj]",
        "c": 'C[vi, vj] = T.Cast("int8", T.max((d[vi, vj] * 3 - 2) + b[vi, vj], a[vi, vj]))',
    },
)


@pytest.mark.parametrize("tensorized", [False, True])
def test_rows_of_the_accumulator(tensorized: bool) -> None:
    sch = tw.tir.Schedule(rows)
    if tensorized:
        sch.tensorize(sch.get_loops(sch.get_block("d"))[-1], "vta_add_1x16")
    module = tw.build(sch.mod, "vta")
    a, b = numbers(8, 16), numbers(8, 16, seed=1).astype(np.int32) * 5
    out = np.zeros((8, 16), np.int8)
    module(a, b, out)
    wide = a.astype(np.int32)
    expected = np.maximum((wide + b) * 3 - 2 + b, wide).astype(np.int8)
    np.testing.assert_array_equal(out, expected)
    loaded = {
        each.memory for each in function(module).program.instructions if type(each) is LoadRows
    }
    assert loaded == {MemoryKind.UOP, MemoryKind.ACC, MemoryKind.ACC8}


def _element(tensor: Any, i: Any, j: Any) -> Any:
    return tensor[i, j]


@pytest.mark.parametrize("operation", ["add", "max", "min", "shr"])
def test_instructions_do_what_they_say(operation: str) -> None:
    values = {"add": np.add, "max": np.maximum, "min": np.minimum, "shr": np.right_shift}
    combined: dict[str, Any] = {
        "add": lambda x, y: x + y,
        "max": tw.te.max,
        "min": tw.te.min,
        "shr": lambda x, y: x >> y,
    }
    te = tw.te
    a, b = (te.placeholder((4, 16), "int32", name) for name in "AB")
    copies = [te.compute((4, 16), functools.partial(_element, x), f"{x.name}c") for x in (a, b)]
    both = te.compute(
        (4, 16), lambda i, j: combined[operation](copies[0][i, j], copies[1][i, j]), "both"
    )
    out = te.compute((4, 16), lambda i, j: both[i, j].astype("int8"), "out")
    sch = tw.tir.Schedule(te.create_prim_func([a, b, out]))
    for name in ("Ac", "Bc", "both"):
        sch.set_scope(sch.get_block(name), 0, "local.acc_buffer")
    sch.tensorize(sch.get_loops(sch.get_block("both"))[-1], f"vta_{operation}_1x16")
    x = np.arange(-32, 32, dtype=np.int32).reshape(4, 16)
    y = np.abs(np.arange(64, dtype=np.int32).reshape(4, 16) * 7 % 5)
    result = np.zeros((4, 16), np.int8)
    module = tw.build(sch.mod, "vta")
    module(x, y, result)
    np.testing.assert_array_equal(result, values[operation](x, y).astype(np.int8))
    assert any(type(each) is Alu for each in function(module).program.instructions)


def test_a_tensor_in_main_memory_passes_from_stores_to_loads() -> None:
    te = tw.te
    a = te.placeholder((4, 16), "int8", "A")
    wide = te.compute((4, 16), lambda i, j: a[i, j].astype("int32"), "wide")
    half = te.compute((4, 16), lambda i, j: (wide[i, j] + 1).astype("int8"), "half")
    again = te.compute((4, 16), lambda i, j: half[i, j].astype("int32"), "again")
    out = te.compute((4, 16), lambda i, j: (again[i, j] * 2).astype("int8"), "out")
    sch = tw.tir.Schedule(te.create_prim_func([a, out]))
    for name in ("wide", "again"):
        sch.set_scope(sch.get_block(name), 0, "local.acc_buffer")
    values, result = numbers(4, 16), np.zeros((4, 16), np.int8)
    tw.build(sch.mod, "vta")(values, result)
    np.testing.assert_array_equal(result, ((values + 1).astype(np.int8) * 2).astype(np.int8))


def test_results_of_four_bytes_are_stored_in_planes() -> None:
    values = np.random.default_rng(0).integers(-(2**31), 2**31, (4, 16)).astype(np.int32)
    out = np.zeros((4, 16), np.int32)
    module = tw.build(plus_one("int32"), "vta")
    module(values, out)
    np.testing.assert_array_equal(out, values + np.int32(1))
    stores = [each for each in function(module).program.instructions if type(each) is StoreRows]
    assert [each.dram_base - stores[0].dram_base for each in stores] == [0, 4, 8, 12]


# --- what is refused ----------------------------------------------------------------------------


def refusal(program: Any, target: str = "vta") -> str:
    with pytest.raises((CodegenError, TargetError)) as raised:
        tw.build(program, target)
    return str(raised.value)


def test_scratchpads_that_overflow() -> None:
    message = refusal(schedule_gemm(gemm(256, 256, 512), (256, 4, 32)).mod)
    assert message == (
        "vta: the INP scratchpad has 32768 bytes, but the program needs 131072 (A_local.inp_buffer "
        "131072); make its tiles smaller"
    )


def test_sums_that_follow_too_soon() -> None:
    message = refusal(schedule_gemm(gemm(2, 16, 64), (2, 1, 4)).mod)
    assert message == (
        "vta: row 0 of the accumulator is added to again after 2 operations, the pipeline takes 3; "
        "move a loop over results inside the loops over what is summed"
    )


def test_programs_that_are_not_scheduled() -> None:
    assert refusal(gemm(16, 16, 16)) == (
        "vta: C is not computed in a scratchpad; tune the program, or schedule it as docs/vta.md "
        "says"
    )


def plus_one(dtype: str) -> tw.IRModule:
    te = tw.te
    a = te.placeholder((4, 16), "int32", "A")
    copy = te.compute((4, 16), lambda i, j: a[i, j], "copy")
    out = te.compute((4, 16), lambda i, j: (copy[i, j] + 1).astype(dtype), "out")
    sch = tw.tir.Schedule(te.create_prim_func([a, out]))
    sch.set_scope(sch.get_block("copy"), 0, "local.acc_buffer")
    return sch.mod


def test_results_that_are_not_bytes() -> None:
    assert refusal(plus_one("int16")) == (
        "vta: out is int16, but results are stored as int8, or as int32 where they are not read "
        "again; cast them"
    )


def rows_changed_by(change: str) -> PrimFunc:
    """A function that sets rows `a`, changes them and stores them."""
    steps = {
        "a": "a[vi, vj] = A[vi, vj]",
        "b": "b[vi, vj] = A[vi, vj]",
        "change": change,
        "c": 'C[vi, vj] = T.Cast("int8", a[vi, vj])',
    }
    return rows_of([("A", "int32"), ("C", "int8")], steps)


def test_rows_are_changed_in_place() -> None:
    values, out = numbers(8, 16).astype(np.int32), np.zeros((8, 16), np.int8)
    module = tw.build(rows_changed_by("a[vi, vj] = a[vi, vj] * 3 + b[vi, vj]"), "vta")
    module(values, out)
    np.testing.assert_array_equal(out, (values * 4).astype(np.int8))
    assert function(module).report.alu_operations == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "a[vi, vj] = b[vi, vj] * 2 + a[vi, vj]",
            "vta: a is changed in place, and its old values are used again in ",
        ),
        (
            "a[vi, vj] = a[7 - vi, vj] + b[vi, vj]",
            "vta: rows of a are changed in place, but ",
        ),
        (
            "C[vi, vj] = T.Cast('int8', T.max(a[vi, vj] >> 2, a[vi, vj]) + b[vi, vj])",
            "vta: a is changed in place, and its old values are used again in ",
        ),
        (
            "C[vi, vj] = T.Cast('int8', a[vi, vj] * 2 + b[vi, vj])",
            "vta: a is stored after its rows were changed in place for another store",
        ),
    ],
)
def test_old_values_of_rows_are_gone(change: str, message: str) -> None:
    assert refusal(rows_changed_by(change)).startswith(message)


def test_operations_that_there_are_not() -> None:
    te = tw.te
    a = te.placeholder((4, 16), "int32", "A")
    copy = te.compute((4, 16), lambda i, j: a[i, j], "copy")
    out = te.compute((4, 16), lambda i, j: (copy[i, j] // 3).astype("int8"), "out")
    sch = tw.tir.Schedule(te.create_prim_func([a, out]))
    sch.set_scope(sch.get_block("copy"), 0, "local.acc_buffer")
    message = refusal(sch.mod)
    assert message.startswith("vta: the vector unit cannot compute ")
    assert message.endswith(
        "; it adds, multiplies, shifts right, and takes minima and maxima of rows of the "
        "accumulator and numbers"
    )


def test_elements_that_are_not_whole() -> None:
    te = tw.te
    a = te.placeholder((4, 8), "int32", "A")
    copy = te.compute((4, 8), lambda i, j: a[i, 7 - j], "copy")
    out = te.compute((4, 8), lambda i, j: copy[i, j].astype("int8"), "out")
    sch = tw.tir.Schedule(te.create_prim_func([a, out]))
    sch.set_scope(sch.get_block("copy"), 0, "local.acc_buffer")
    assert refusal(sch.mod) == (
        "vta: the nest that writes copy_local.acc_buffer does not consist of whole elements of 16 "
        "numbers"
    )


def test_other_matrix_instructions() -> None:
    program = schedule_gemm(gemm(16, 16, 16), (16, 1, 1)).mod
    assert refusal(program, "vta -block-out=32") == (
        "vta: programs are compiled for matrix instructions of 1x16x16 (batch, block-in, "
        "block-out), the target has 1x16x32"
    )


def test_shapes_that_do_not_fill_blocks() -> None:
    with pytest.raises(
        ArgumentError,
        match=r"^gemm for vta: n must be a multiple of 16, got 20; pad it with zeros to 32$",
    ):
        gemm(16, 20, 16)
    with pytest.raises(ArgumentError, match=r"^conv2d for vta: channels must be a multiple of 16"):
        _ = QuantizedConv2d(14, 3, 16).program
    with pytest.raises(ArgumentError, match=r"^gemm for vta: m must be positive, got 0$"):
        gemm(0, 16, 16)


def test_sums_are_one_instruction_a_step() -> None:
    module = tw.build(schedule_gemm(gemm(64, 64, 64), (16, 2, 2)).mod, "vta")
    gemms = [each for each in function(module).program.instructions if type(each) is Gemm]
    assert sum(not each.reset for each in gemms) == 4 * 2 * 2
    assert sum(each.operations for each in gemms if not each.reset) == 64**3 // 256

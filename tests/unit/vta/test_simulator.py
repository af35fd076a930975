"""The simulator on programs that were written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.errors import DeviceError, TargetError
from tilewright.vta.configuration import Configuration
from tilewright.vta.cycles import duration, simulate_cycles
from tilewright.vta.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    LoadRows,
    MemoryKind,
    StoreRows,
    Uop,
    encode_uop,
)
from tilewright.vta.machine import Simulator

CONFIGURATION = Configuration()
A, W, O, UOPS = 0, 256, 512, 768  # addresses of operands, results, micro-operations


def gemm_16() -> list[Instruction]:
    """A product of two 16x16 matrices, with the tokens that it needs."""
    return [
        LoadRows(memory=MemoryKind.UOP, dram_base=UOPS // 4),
        Gemm(reset=1, iter_in=16, dst_in=1),
        LoadRows(memory=MemoryKind.INP, dram_base=A // 16, x_size=16, x_stride=16),
        LoadRows(memory=MemoryKind.WGT, dram_base=W // 256, push_next=1),
        Gemm(iter_in=16, dst_in=1, src_in=1, pop_prev=1),
        Alu(iter_in=16, dst_in=1, alu_op=AluOp.SHR, use_imm=1, imm=8),
        Alu(iter_in=16, dst_in=1, alu_op=AluOp.MAX, use_imm=1, imm=0),
        Alu(iter_in=16, dst_in=1, alu_op=AluOp.MIN, use_imm=1, imm=127, push_next=1),
        StoreRows(dram_base=O // 16, x_size=16, x_stride=16, pop_prev=1, push_prev=1),
        Finish(pop_next=1),
    ]


def memory_with(a: npt.NDArray[Any], w: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    memory = np.zeros(1024, np.uint8)
    memory[A : A + 256] = a.view(np.uint8).ravel()
    memory[W : W + 256] = w.view(np.uint8).ravel()
    memory[UOPS : UOPS + 4] = np.array([encode_uop(Uop(0, 0, 0))], "<u4").view(np.uint8)
    return memory


def test_a_product_by_hand() -> None:
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-128, 128, (16, 16), np.int8) for _ in range(2))
    memory = memory_with(a, w)
    report = simulate_cycles(gemm_16(), CONFIGURATION)
    machine = Simulator(CONFIGURATION, memory)
    machine.run(gemm_16()[number] for number in report.order)
    sums = a.astype(np.int32) @ w.T.astype(np.int32)
    expected = np.clip(sums >> 8, 0, 127).astype(np.int8)
    np.testing.assert_array_equal(memory[O : O + 256].view(np.int8).reshape(16, 16), expected)
    assert machine.finished


def test_a_missing_token_is_seen_in_the_order() -> None:
    program = gemm_16()
    program[3], program[4] = replace(program[3], push_next=0), replace(program[4], pop_prev=0)
    order = simulate_cycles(program, CONFIGURATION).order
    assert order.index(4) < order.index(3)
    order = simulate_cycles(gemm_16(), CONFIGURATION).order
    assert order.index(4) > order.index(3)


def test_cycles_of_instructions() -> None:
    assert duration(Gemm(iter_out=3, iter_in=5, uop_end=2), CONFIGURATION) == 30 + 10
    assert duration(Alu(iter_in=7, use_imm=1), CONFIGURATION) == 7 + 10
    assert duration(Alu(iter_in=7), CONFIGURATION) == 14 + 10
    load = LoadRows(memory=MemoryKind.INP, y_size=3, x_size=4, x_stride=9)
    assert duration(load, CONFIGURATION) == 3 * (20 + 8)
    assert duration(replace(load, y_pad_0=1, x_pad_1=1), CONFIGURATION) == 3 * 28 + 5 + 3


def test_modules_overlap_and_share_the_bus() -> None:
    load = LoadRows(memory=MemoryKind.INP, x_size=16, x_stride=16)  # 20 + 32 cycles
    gemm = Gemm(iter_in=500)
    together = simulate_cycles([load, gemm, load, Finish()], CONFIGURATION)
    assert together.cycles == 1 + 510 + 1  # decoded second; the end comes after the product
    assert together.busy == {"load": 104, "compute": 511}
    stores = simulate_cycles([load, StoreRows(x_size=16), Finish()], CONFIGURATION)
    assert stores.cycles == 104
    assert together.bound == max(500, 2 * 256 // 8)
    assert together.gemm_operations == 500


def test_waiting_is_counted() -> None:
    load = LoadRows(memory=MemoryKind.INP, x_size=16, x_stride=16, push_next=1)
    report = simulate_cycles([load, Gemm(pop_prev=1), Finish()], CONFIGURATION)
    assert report.waiting == {"compute for load": 52}
    assert str(report) == "64 cycles (at least 32); busy: load 52, compute 12"


def test_deadlocks_and_ends() -> None:
    with pytest.raises(
        DeviceError,
        match=r"^vta: deadlock: compute waits at instruction 0 for tokens that nobody pushes$",
    ):
        simulate_cycles([Gemm(pop_prev=1), Finish()], CONFIGURATION)
    with pytest.raises(DeviceError, match=r"^vta: a program ends with finish$"):
        simulate_cycles([Gemm()], CONFIGURATION)
    with pytest.raises(
        DeviceError,
        match=r"^vta: instruction 0 of the store module names a neighbour that this module",
    ):
        simulate_cycles([StoreRows(push_next=1), Finish()], CONFIGURATION)


def machine_with(values: npt.NDArray[Any]) -> Simulator:
    return Simulator(CONFIGURATION, values.view(np.uint8).ravel().copy())


def test_padding() -> None:
    machine = machine_with(np.arange(1, 97, dtype=np.int8))
    machine.inp[:] = 55
    pads = {"y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 1, "x_pad_1": 0}
    machine.step(
        LoadRows(memory=MemoryKind.INP, sram_base=3, y_size=2, x_size=2, x_stride=3, **pads)
    )
    expected = np.zeros((5, 3, 16), np.int8)
    rows = np.arange(1, 97, dtype=np.int8).reshape(2, 3, 16)
    expected[1:3, 1:] = rows[:, :2]
    np.testing.assert_array_equal(machine.inp[3:18, 0], expected.reshape(15, 16))
    assert (machine.inp[:3] == 55).all()
    assert (machine.inp[18:] == 55).all()


def test_bytes_are_widened_and_truncated() -> None:
    machine = machine_with(np.arange(-8, 8, dtype=np.int8))
    machine.step(LoadRows(memory=MemoryKind.ACC8))
    np.testing.assert_array_equal(machine.acc[0, 0], np.arange(-8, 8))
    machine.step(Alu(alu_op=AluOp.ADD, use_imm=1, imm=300))
    np.testing.assert_array_equal(machine.out[0, 0], np.arange(292, 308).astype(np.int8))


@pytest.mark.parametrize(
    ("op", "imm", "expected"),
    [
        (AluOp.MIN, 2, [-5, 2]),
        (AluOp.MAX, 2, [2, 7]),
        (AluOp.ADD, -3, [-8, 4]),
        (AluOp.MUL, -3, [15, -21]),
        (AluOp.SHR, 1, [-3, 3]),
        (AluOp.SHR, -2, [-20, 28]),
    ],
)
def test_operations_of_the_vector_unit(op: AluOp, imm: int, expected: list[int]) -> None:
    machine = machine_with(np.zeros(16, np.int8))
    machine.acc[0, 0, :2] = -5, 7
    machine.step(Alu(alu_op=op, use_imm=1, imm=imm))
    assert machine.acc[0, 0, :2].tolist() == expected
    machine.acc[0, 0, :2], machine.acc[1] = (-5, 7), imm
    machine.uops[0] = encode_uop(Uop(0, 1))
    machine.step(Alu(alu_op=op))
    assert machine.acc[0, 0, :2].tolist() == expected


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            LoadRows(memory=MemoryKind.INP, sram_base=2040, x_size=9),
            "a transfer ends at byte 32784 of the INP scratchpad, which has 32768",
        ),
        (
            LoadRows(memory=MemoryKind.WGT, dram_base=4),
            "a transfer reaches byte 1279 of main memory, which has 1024",
        ),
        (LoadRows(memory=MemoryKind.OUT), "OUT cannot be loaded"),
        (StoreRows(memory=MemoryKind.ACC), "only OUT is stored, not ACC"),
        (StoreRows(x_pad_0=1), "a store has no padding"),
        (
            Gemm(iter_in=2, dst_in=1, iter_out=2),
            "row 0 of the accumulator is added to again after 2 operations, the pipeline takes 3; "
            "move a loop over results inside the loops over what is summed",
        ),
        (
            Gemm(iter_in=2),
            "row 0 of the accumulator is added to again after 1 operation, the pipeline takes 3; "
            "move a loop over results inside the loops over what is summed",
        ),
        (
            Gemm(iter_in=3, dst_in=1, wgt_in=600),
            "an operation uses element 1200 of the WGT scratchpad, which has 1024",
        ),
        (
            Gemm(uop_begin=8190, uop_end=8193),
            "micro-operations up to 8193 are asked for, the buffer of 32768 bytes holds 8192",
        ),
        (Alu(iter_in=2), "an ALU instruction writes a row of the accumulator twice"),
    ],
)
def test_faults(instruction: Instruction, message: str) -> None:
    machine = Simulator(CONFIGURATION, np.zeros(1024, np.uint8))
    with pytest.raises(DeviceError) as raised:
        machine.step(instruction)
    assert str(raised.value) == f"vta: {message}"


def test_targets_that_cannot_be() -> None:
    with pytest.raises(TargetError, match=r"^vta: bus-bytes must be at least 1, got 0$"):
        Configuration.of({"bus-bytes": 0})
    with pytest.raises(
        TargetError,
        match=r"^vta: inp-buffer-bytes must hold 1 to 2048 elements of 16 bytes, got 65536 bytes$",
    ):
        Configuration.of({"inp-buffer-bytes": 65536})
    assert Configuration.of({"clock-mhz": 333, "libs": ()}).nanoseconds(333) == 1000

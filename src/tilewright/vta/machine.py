"""Computation on a simulated VTA: scratchpads and memory as arrays, instructions as steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import DeviceError
from tilewright.vta.configuration import UOP_BYTES, Configuration
from tilewright.vta.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    LoadRows,
    MemoryKind,
    StoreRows,
)

Array: TypeAlias = npt.NDArray[Any]
LEAST_DISTANCE = 3  # a row of results may be added to again by the third operation after
_CHUNK = 1 << 15  # operations at a time


class Simulator:
    """The state of one VTA; `memory` is its main memory, in bytes."""

    def __init__(self, configuration: Configuration, memory: npt.NDArray[np.uint8]) -> None:
        self.configuration, self.memory = configuration, memory
        c = configuration
        self.inp = np.zeros((c.depth(MemoryKind.INP), c.batch, c.block_in), np.int8)
        self.wgt = np.zeros((c.depth(MemoryKind.WGT), c.block_out, c.block_in), np.int8)
        self.acc = np.zeros((c.depth(MemoryKind.ACC), c.batch, c.block_out), np.int32)
        self.out = np.zeros(self.acc.shape, np.int8)
        self.uops = np.zeros(c.depth(MemoryKind.UOP), np.uint32)
        self.finished = False

    def run(self, instructions: Iterable[Instruction]) -> None:
        """Run instructions one after the other."""
        for instruction in instructions:
            self.step(instruction)

    def step(self, instruction: Instruction) -> None:
        """Run one instruction."""
        match instruction:
            case LoadRows():
                self._load(instruction)
            case StoreRows():
                self._store(instruction)
            case Gemm():
                self._gemm(instruction)
            case Alu():
                self._alu(instruction)
            case Finish():
                self.finished = True

    # --- transfers -------------------------------------------------------------------------

    def _load(self, load: LoadRows) -> None:
        memory = MemoryKind(load.memory)
        scratchpad = self._scratchpad(memory)
        self._check_room(load, memory)
        rows = self._rows(load, memory)
        values = self.memory[rows]  # y, x, bytes
        padded = np.zeros((load.elements // load.width, load.width, values.shape[-1]), np.uint8)
        at = slice(load.y_pad_0, load.y_pad_0 + load.y_size)
        padded[at, load.x_pad_0 : load.x_pad_0 + load.x_size] = values
        typed = padded.reshape(load.elements, -1)
        typed = typed.view(np.int8 if memory is MemoryKind.ACC8 else scratchpad.dtype)
        place = slice(load.sram_base, load.sram_base + load.elements)
        scratchpad[place] = typed.reshape(load.elements, *scratchpad.shape[1:])
        if scratchpad is self.acc:
            self.out[place] = self.acc[place].astype(np.int8)

    def _store(self, store: StoreRows) -> None:
        if store.memory != MemoryKind.OUT:
            raise DeviceError(f"vta: only OUT is stored, not {MemoryKind(store.memory).name}")
        if store.elements != store.x_size * store.y_size:
            raise DeviceError("vta: a store has no padding")
        self._check_room(store, MemoryKind.OUT)
        values = self.out[store.sram_base : store.sram_base + store.elements]
        rows = self._rows(store, MemoryKind.OUT)
        self.memory[rows] = values.reshape(store.elements, -1).view(np.uint8).reshape(rows.shape)

    def _scratchpad(self, memory: MemoryKind) -> Array:
        held: dict[MemoryKind, Array] = {
            MemoryKind.UOP: self.uops,
            MemoryKind.WGT: self.wgt,
            MemoryKind.INP: self.inp,
            MemoryKind.ACC: self.acc,
            MemoryKind.ACC8: self.acc,
        }
        if memory not in held:
            raise DeviceError(f"vta: {memory.name} cannot be loaded")
        return held[memory]

    def _check_room(self, transfer: LoadRows | StoreRows, memory: MemoryKind) -> None:
        depth, end = self.configuration.depth(memory), transfer.sram_base + transfer.elements
        if end > depth:
            size = self.configuration.element_bytes[memory]
            raise DeviceError(
                f"vta: a transfer ends at byte {end * size} of the {memory.name} scratchpad, which "
                f"has {depth * size}"
            )

    def _rows(self, transfer: LoadRows | StoreRows, memory: MemoryKind) -> npt.NDArray[np.int64]:
        """Addresses of all bytes of a transfer, as rows of elements."""
        size = self.configuration.element_bytes[memory]
        rows = np.arange(transfer.y_size)[:, None, None] * transfer.x_stride
        found = (transfer.dram_base + rows + np.arange(transfer.x_size)[:, None]) * size
        addresses: npt.NDArray[np.int64] = found + np.arange(size)
        if addresses.size and addresses[-1, -1, -1] >= len(self.memory):
            raise DeviceError(
                f"vta: a transfer reaches byte {addresses[-1, -1, -1]} of main memory, which has "
                f"{len(self.memory)}"
            )
        return addresses

    # --- operations ------------------------------------------------------------------------

    def _gemm(self, gemm: Gemm) -> None:
        dst, src, wgt = self.indices(gemm)
        if gemm.reset:
            self.acc[dst] = 0
        else:
            if fault := distance_fault(dst):
                raise DeviceError(f"vta: {fault}")
            for at in range(0, len(dst), _CHUNK):
                part = slice(at, at + _CHUNK)
                self._multiply(dst[part], src[part], wgt[part])
        self.out[dst] = self.acc[dst].astype(np.int8)

    def _multiply(self, dst: Array, src: Array, wgt: Array) -> None:
        # Sums of 16 products of bytes are exact in float32, which has fast products of matrices.
        left = self.inp[src].astype(np.float32)
        right = self.wgt[wgt].astype(np.float32).transpose(0, 2, 1)
        products = (left @ right).astype(np.int32)
        order = np.argsort(dst, kind="stable")
        rows, first = np.unique(dst[order], return_index=True)
        self.acc[rows] += np.add.reduceat(products[order], first, axis=0)

    def _alu(self, alu: Alu) -> None:
        dst, src, _ = self.indices(alu)
        if len(np.unique(dst)) != len(dst):
            raise DeviceError("vta: an ALU instruction writes a row of the accumulator twice")
        other = np.int32(alu.imm) if alu.use_imm else self.acc[src]
        self.acc[dst] = _alu_result(AluOp(alu.alu_op), self.acc[dst], other)
        self.out[dst] = self.acc[dst].astype(np.int8)

    def indices(self, of: Gemm | Alu) -> tuple[Array, Array, Array]:
        """Rows and blocks of all operations of an instruction, in their order."""
        words = self.uops[of.uop_begin : of.uop_end].astype(np.int64)
        if len(words) != of.uop_end - of.uop_begin:
            raise DeviceError(
                f"vta: micro-operations up to {of.uop_end} are asked for, the buffer of "
                f"{len(self.uops) * UOP_BYTES} bytes holds {len(self.uops)}"
            )
        outer = np.arange(of.iter_out)[:, None, None]
        inner = np.arange(of.iter_in)[:, None]
        wgt_out, wgt_in = (of.wgt_out, of.wgt_in) if isinstance(of, Gemm) else (0, 0)
        dst = (words & 2047) + outer * of.dst_out + inner * of.dst_in
        src = (words >> 11 & 2047) + outer * of.src_out + inner * of.src_in
        wgt = (words >> 22) + outer * wgt_out + inner * wgt_in
        self._check_indices(of, dst, src, wgt)
        return dst.ravel(), src.ravel(), wgt.ravel()

    def _check_indices(self, of: Gemm | Alu, dst: Array, src: Array, wgt: Array) -> None:
        operand = MemoryKind.INP if isinstance(of, Gemm) else MemoryKind.ACC
        used = [(MemoryKind.ACC, dst)]
        if not of.reset and not (isinstance(of, Alu) and of.use_imm):
            used.append((operand, src))
        if isinstance(of, Gemm) and not of.reset:
            used.append((MemoryKind.WGT, wgt))
        for memory, rows in used:
            depth = self.configuration.depth(memory)
            if rows.max() >= depth:
                raise DeviceError(
                    f"vta: an operation uses element {rows.max()} of the {memory.name} scratchpad, "
                    f"which has {depth}"
                )


def distance_fault(dst: Array) -> str:
    """Why sums are added to again before the pipeline has written them; empty if they are not."""
    for distance in range(1, min(LEAST_DISTANCE, len(dst))):
        again = np.flatnonzero(dst[distance:] == dst[:-distance])
        if again.size:
            return (
                f"row {dst[again[0]]} of the accumulator is added to again after {distance} "
                f"operation{'s' if distance > 1 else ''}, the pipeline takes {LEAST_DISTANCE}; "
                "move a loop over results inside the loops over what is summed"
            )
    return ""


def _alu_result(op: AluOp, left: Array, right: Any) -> Array:
    by = np.clip(right, -31, 31)
    results: dict[AluOp, Callable[[], Any]] = {
        AluOp.MIN: lambda: np.minimum(left, right),
        AluOp.MAX: lambda: np.maximum(left, right),
        AluOp.ADD: lambda: left + right,
        AluOp.MUL: lambda: left * right,
        AluOp.SHR: lambda: np.where(by >= 0, left >> np.maximum(by, 0), left << np.maximum(-by, 0)),
    }
    return np.asarray(results[op](), np.int32)

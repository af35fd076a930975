"""Names that schedules, instructions in programs and the code generator agree on."""

from __future__ import annotations

from tilewright.vta.isa import AluOp, MemoryKind

BLOCK = 16  # numbers in a row of operands and results, and along both sides of a block of weights
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
SCOPES = {INP: MemoryKind.INP, WGT: MemoryKind.WGT, ACC: MemoryKind.ACC}
GEMM = "vta_gemm_1x16x16"
ALU_OPERATIONS = (AluOp.ADD, AluOp.MAX, AluOp.MIN, AluOp.SHR)


def alu_name(operation: AluOp) -> str:
    """`vta_add_1x16` and so on."""
    return f"vta_{operation.name.lower()}_1x16"

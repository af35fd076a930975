"""The role of each argument of a function: read, made, or changed.

A function makes an array if it reads no element before it has written it, as a sum does that begins
with 0. What cannot be proven counts as changed, so that nobody leaves out contents that matter.
"""

from __future__ import annotations

from enum import Enum

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.lowering.carried_values import carries_values
from tilewright.lowering.convert_blocks_to_opaque import ConvertBlocksToOpaque
from tilewright.lowering.host_abi import Accesses
from tilewright.lowering.lower_init_block import LowerInitBlock


class Role(Enum):
    """What an argument is to its function."""

    INPUT = "input"  # never written; scalars are inputs, too
    OUTPUT = "output"  # what it contained before the call does not matter
    UPDATE = "update"  # read, and then written


def argument_roles(func: ir.PrimFunc) -> tuple[Role, ...]:
    """The role of each parameter."""
    body = _in_program_order(func)
    accesses = Accesses(body)

    def role_of(buffer: ir.Buffer | None) -> Role:
        if buffer is None or "w" not in accesses.of(buffer.data):
            return Role.INPUT
        return Role.UPDATE if _depends_on_contents(body, buffer) else Role.OUTPUT

    return tuple(map(role_of, func.buffer_params()))


def is_fully_written(func: ir.PrimFunc, buffer: ir.Buffer) -> bool:
    """True if a function provably writes every element of an output."""
    # Whoever reads all of it afterwards finds nothing that was there before.
    body = ir.seq((_in_program_order(func), _reading_all(buffer)))
    return not _depends_on_contents(body, buffer)


def _depends_on_contents(body: ir.Stmt, buffer: ir.Buffer) -> bool:
    return carries_values(body, buffer, Analyzer(), with_earlier_iterations=True)


def _in_program_order(func: ir.PrimFunc) -> ir.Stmt:
    """The body with an init where it happens, and indices that show the loops."""
    return ConvertBlocksToOpaque().run_function(LowerInitBlock().run_function(func)).body


def _reading_all(buffer: ir.Buffer) -> ir.Stmt:
    loops = [ir.Var(f"i{axis}", extent.dtype) for axis, extent in enumerate(buffer.shape)]
    stmt: ir.Stmt = ir.Evaluate(ir.BufferLoad(buffer, tuple(loops)))
    for var, extent in reversed(list(zip(loops, buffer.shape, strict=True))):
        stmt = ir.For(var, ir.const(0, extent.dtype), extent, ir.ForKind.SERIAL, stmt)
    return stmt

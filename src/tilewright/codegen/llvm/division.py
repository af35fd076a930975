"""Integer division, in all four kinds, without ever trapping.

A division by zero leaves the function with an error, as a failed assertion does; the lowest integer
divided by -1 wraps. The division itself is made safe for any operands, so it may be hoisted out of
the branch or loop that its check stays in.
"""

from __future__ import annotations

from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.values import ValueBuilder, constant_of, mask_type, zero_of
from tilewright.errors import CodegenError
from tilewright.ir import BinaryOp, Div, FloorDiv, FloorMod, Mod

_QUOTIENTS = (Div, FloorDiv)


class DivisionBuilder(ValueBuilder):
    """Emits integer divisions."""

    def divide(
        self, node: BinaryOp, a: Value, b: Value, *, a_natural: bool, b_natural: bool
    ) -> Value:
        """`node` on `a` and `b`; natural operands are unsigned or known not to be negative."""
        if not isinstance(node, (Div, Mod, FloorDiv, FloorMod)):
            raise CodegenError(f"{type(node).__name__} of integers is not supported in `{node}`")
        divisor = constant_of(b)
        if divisor is None:
            self._check_divisor(node, b)
            # 1 instead of 0: for where the division is hoisted to.
            is_zero = self.compare("icmp eq", b, zero_of(b.type))
            b = self.select(is_zero, self.splat_text("1", b.type), b)
        elif divisor == 0:  # perhaps it is never reached
            self.fail_if(Value("i1", "true"), f"division by zero in `{node}`")
            return zero_of(a.type)
        if a_natural and b_natural:
            return self.int_op("udiv" if isinstance(node, _QUOTIENTS) else "urem", a, b)
        if isinstance(node, (Div, Mod)):
            return self._truncated(node, a, b, divisor, b_natural)
        return self._floored(node, a, b, divisor, b_natural)

    def _check_divisor(self, node: BinaryOp, divisor: Value) -> None:
        if not self.emitter.claim(f"nonzero {divisor.text}"):
            return
        zero = self.compare("icmp eq", divisor, zero_of(divisor.type))
        if divisor.type.startswith("<"):
            bits = "i" + divisor.type[1:].split(" x ")[0]
            packed = self.convert("bitcast", zero, bits)
            zero = self.compare("icmp ne", packed, zero_of(bits))
        self.fail_if(zero, f"division by zero in `{node}`")

    def _truncated(
        self, node: BinaryOp, a: Value, b: Value, divisor: int | None, b_natural: bool
    ) -> Value:
        quotient = isinstance(node, _QUOTIENTS)
        opcode = "sdiv" if quotient else "srem"
        if b_natural or divisor not in (None, -1):
            return self.int_op(opcode, a, b)
        minus_one = self.splat_text("-1", b.type)
        flips = self.compare("icmp eq", b, minus_one)
        result = self.int_op(opcode, a, self.select(flips, self.splat_text("1", b.type), b))
        if not quotient:
            return result  # the remainder by 1 is that by -1
        return self.select(flips, self.int_op("sub", zero_of(a.type), a), result)

    def _floored(
        self, node: BinaryOp, a: Value, b: Value, divisor: int | None, b_natural: bool
    ) -> Value:
        quotient = isinstance(node, _QUOTIENTS)
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            if not quotient:
                return self.int_op("and", a, self.splat_text(str(divisor - 1), b.type))
            return self.int_op("ashr", a, self.splat_text(str(divisor.bit_length() - 1), b.type))
        zero = zero_of(a.type)
        remainder = self._truncated(Mod(node.a, node.b), a, b, divisor, b_natural)
        nonzero = self.compare("icmp ne", remainder, zero)
        differ = self.compare("icmp slt", self.int_op("xor", remainder, b), zero)
        adjust = self.emitter.pure(
            mask_type(a.type), f"and {nonzero}, {differ.text}", (nonzero, differ)
        )
        if not quotient:
            return self.select(adjust, self.int_op("add", remainder, b), remainder)
        towards_zero = self._truncated(Div(node.a, node.b), a, b, divisor, b_natural)
        return self.int_op("add", towards_zero, self.convert("sext", adjust, a.type))

"""Exact reduction of large angles modulo pi/2: the rarely taken path of sin, cos and tan.

x = M 2^E with an integer M. Of 2/pi only the bits whose product with M 2^E is neither a multiple
of 4 nor negligible matter: 192 bits, starting at bit E-1. Their product with M, modulo 2^192, is
x 2/pi modulo 4 in fixed point with 2 integer bits: the quadrant and the fraction fall out of it.
"""

from __future__ import annotations

from tilewright.codegen.llvm.vector_math.emitter import Emitter, FunctionBody, Helper
from tilewright.codegen.llvm.vector_math.formats import F64

SCALAR_NAME = "tw.reduce_large_angle.f64"
TABLE_NAME = "tw.two_over_pi"

# The first 1280 bits of 2/pi after the binary point, behind one word of zeros that stands for the
# integer bits (E can be as low as -36).
TWO_OVER_PI_WORDS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)


_TABLE = (
    f"@{TABLE_NAME} = private unnamed_addr constant [{len(TWO_OVER_PI_WORDS)} x i64] "
    f"[{', '.join(f'i64 {word}' for word in TWO_OVER_PI_WORDS)}]"
)
_LOAD_WORDS = "\n".join(
    f"  %p{index} = getelementptr i64, ptr @{TABLE_NAME}, i64 %i{index}\n"
    f"  %b{index} = load i64, ptr %p{index}"
    for index in range(4)
)


# The offset counts from 0, so bit E-1 behind 64 zeros is at E + 62; E is the exponent field minus
# 1075. i128 products are inline code on 64-bit machines; i128 to float would
# be a library call, hence the normalisation by hand: the leading 64 bits of |fraction| times a
# power of two.
_SCALAR = f"""\
define internal {{ double, i64 }} @{SCALAR_NAME}(double %x) noinline nounwind {{
entry:
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %field = and i64 %shifted, 2047
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %offset = sub i64 %field, 1013
  %i0 = lshr i64 %offset, 6
  %i1 = add i64 %i0, 1
  %i2 = add i64 %i0, 2
  %i3 = add i64 %i0, 3
{_LOAD_WORDS}
  %s = and i64 %offset, 63
  %w0 = call i64 @llvm.fshl.i64(i64 %b0, i64 %b1, i64 %s)
  %w1 = call i64 @llvm.fshl.i64(i64 %b1, i64 %b2, i64 %s)
  %w2 = call i64 @llvm.fshl.i64(i64 %b2, i64 %b3, i64 %s)
  %high = mul i64 %m, %w0
  %high.wide = zext i64 %high to i128
  %high.part = shl i128 %high.wide, 64
  %m.wide = zext i64 %m to i128
  %w1.wide = zext i64 %w1 to i128
  %w2.wide = zext i64 %w2 to i128
  %middle = mul i128 %m.wide, %w1.wide
  %low = mul i128 %m.wide, %w2.wide
  %low.part = lshr i128 %low, 64
  %partial = add i128 %high.part, %middle
  %product = add i128 %partial, %low.part
  %nearest = add i128 %product, {1 << 125}
  %k.wide = lshr i128 %nearest, 126
  %k.plus = trunc i128 %k.wide to i64
  %signed = shl i128 %product, 2
  %below = icmp slt i128 %signed, 0
  %opposite = sub i128 0, %signed
  %size = select i1 %below, i128 %opposite, i128 %signed
  %zeros.wide = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %leading = shl i128 %size, %zeros.wide
  %top.wide = lshr i128 %leading, 64
  %top = trunc i128 %top.wide to i64
  %top.real = uitofp i64 %top to double
  %zeros = trunc i128 %zeros.wide to i64
  %exponent = sub i64 959, %zeros
  %scale.bits = shl i64 %exponent, 52
  %scale = bitcast i64 %scale.bits to double
  %turns = fmul double %top.real, %scale
  %size.r = fmul double %turns, 0x3FF921FB54442D18
  %negative = icmp slt i64 %bits, 0
  %flip = xor i1 %below, %negative
  %minus.r = fneg double %size.r
  %r = select i1 %flip, double %minus.r, double %size.r
  %k.minus = sub i64 0, %k.plus
  %k = select i1 %negative, i64 %k.minus, i64 %k.plus
  %pair = insertvalue {{ double, i64 }} poison, double %r, 0
  %result = insertvalue {{ double, i64 }} %pair, i64 %k, 1
  ret {{ double, i64 }} %result
}}"""


def reduction_name(emitter: Emitter) -> str:
    """The helper that reduces the large lanes of a vector."""
    return f"tw.reduce_large_angles.{emitter.type_suffix}"


def reduction_result(emitter: Emitter) -> str:
    """The type of its result: remainders and quadrants."""
    return f"{{ {emitter.real_type}, {emitter.int_type} }}"


def helpers(emitter: Emitter, largest: float) -> tuple[Helper, ...]:
    """The helper for the vectors of an emitter, and what it calls."""
    scalar = Helper(
        SCALAR_NAME,
        f"{_TABLE}\n\n{_SCALAR}",
        frozenset(
            {
                "declare i64 @llvm.fshl.i64(i64, i64, i64)",
                "declare i128 @llvm.ctlz.i128(i128, i1)",
            }
        ),
    )
    vector = Helper(
        reduction_name(emitter),
        _vector_definition(emitter, largest),
        frozenset({"declare double @llvm.fabs.f64(double)"}),
    )
    return scalar, vector


def _lane(emitter: Emitter, lane: str) -> str:
    """That lane of `%x` in float64."""
    assign, element = emitter.body.assign, "%x"
    if emitter.lanes > 1:
        element = assign(f"extractelement {emitter.real_type} %x, i32 {lane}")
    return assign(f"fpext float {element} to double") if emitter.fmt.bits == 32 else element


def _reduce_lane(emitter: Emitter, lane: str, wide: str) -> tuple[str, str]:
    """`%r` and `%k` with the exact reduction of one number in one lane."""
    assign = emitter.body.assign
    pair = assign(f"call {{ double, i64 }} @{SCALAR_NAME}(double {wide})")
    r = assign(f"extractvalue {{ double, i64 }} {pair}, 0")
    k = assign(f"extractvalue {{ double, i64 }} {pair}, 1")
    if emitter.fmt.bits == 32:
        r = assign(f"fptrunc double {r} to float")
        k = assign(f"trunc i64 {k} to i32")
    if emitter.lanes == 1:
        return r, k
    scalar, integer = emitter.fmt.llvm, f"i{emitter.fmt.bits}"
    return (
        assign(f"insertelement {emitter.real_type} %r.now, {scalar} {r}, i32 {lane}"),
        assign(f"insertelement {emitter.int_type} %k.now, {integer} {k}, i32 {lane}"),
    )


def _is_large(body: FunctionBody, wide: str, largest: float) -> str:
    bound = Emitter(body, F64, 1).real(largest).text
    size = body.assign(f"call double @llvm.fabs.f64(double {wide})")
    above = body.assign(f"fcmp ogt double {size}, {bound}")
    finite = body.assign(f"fcmp olt double {size}, 0x7FF0000000000000")
    return body.assign(f"and i1 {above}, {finite}")


def _vector_definition(emitter: Emitter, largest: float) -> str:
    """A loop over the lanes that replaces r and k wherever `largest` < |x| < infinity."""
    inner = Emitter(FunctionBody(), emitter.fmt, emitter.lanes)
    body, real, integer = inner.body, inner.real_type, inner.int_type
    wide = _lane(inner, "%lane")
    redo = _is_large(body, wide, largest)
    body.statement(f"br i1 {redo}, label %reduce, label %latch")
    body.label("reduce")
    r, k = _reduce_lane(inner, "%lane", wide)
    work = "\n".join(body.lines)
    result = reduction_result(inner)
    return f"""\
define internal {result} @{reduction_name(inner)}({real} %x, {real} %r, {integer} %k) \
noinline nounwind {{
entry:
  br label %head
head:
  %lane = phi i32 [ 0, %entry ], [ %next, %latch ]
  %r.now = phi {real} [ %r, %entry ], [ %r.next, %latch ]
  %k.now = phi {integer} [ %k, %entry ], [ %k.next, %latch ]
{work}
  br label %latch
latch:
  %r.next = phi {real} [ %r.now, %head ], [ {r}, %reduce ]
  %k.next = phi {integer} [ %k.now, %head ], [ {k}, %reduce ]
  %next = add i32 %lane, 1
  %more = icmp ult i32 %next, {inner.lanes}
  br i1 %more, label %head, label %exit
exit:
  %with.r = insertvalue {result} poison, {real} %r.next, 0
  %both = insertvalue {result} %with.r, {integer} %k.next, 1
  ret {result} %both
}}"""

"""Dot products of ARM's vector units."""

from tilewright.intrin.arm_cpu import (
    ARM_DOT_4x4_i8_NEON_INTRIN as ARM_DOT_4x4_i8_NEON_INTRIN,
    ARM_DOT_4x4_i8_SDOT_INTRIN as ARM_DOT_4x4_i8_SDOT_INTRIN,
    ARM_DOT_4x4_u8_HDOT_INTRIN as ARM_DOT_4x4_u8_HDOT_INTRIN,
    ARM_DOT_4x4_u8_UDOT_INTRIN as ARM_DOT_4x4_u8_UDOT_INTRIN,
)
from tilewright.intrin.dot_product_common import DP4A_INTRIN as DP4A_INTRIN

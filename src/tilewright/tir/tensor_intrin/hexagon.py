"""Instructions of Hexagon's vector unit."""

from tilewright.intrin.hexagon import (
    VDMPY_i16i16i32_INTRIN as VDMPY_i16i16i32_INTRIN,
    VRMPY_u8i8i32_INTRIN as VRMPY_u8i8i32_INTRIN,
    VRMPY_u8i8i32_VTCM_INTRIN as VRMPY_u8i8i32_VTCM_INTRIN,
    VRMPY_u8u8i32_INTRIN as VRMPY_u8u8i32_INTRIN,
    VRMPY_u8u8i32_VTCM_INTRIN as VRMPY_u8u8i32_VTCM_INTRIN,
)

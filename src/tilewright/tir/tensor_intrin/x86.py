"""Dot products of x86's vector units."""

from tilewright.intrin.x86 import (
    AVX512_DOT_16x4_INTRIN as AVX512_DOT_16x4_INTRIN,
    VNNI_DOT_16x4_INTRIN as VNNI_DOT_16x4_INTRIN,
    dot_product_16x4_u8i8i32_avx512 as dot_product_16x4_u8i8i32_avx512,
    dot_product_16x4_u8i8i32_desc as dot_product_16x4_u8i8i32_desc,
    dot_product_16x4_u8i8i32_vnni as dot_product_16x4_u8i8i32_vnni,
)

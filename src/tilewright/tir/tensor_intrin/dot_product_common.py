"""Dot products of four pairs of bytes."""

from tilewright.intrin.dot_product_common import (
    DP4A_INTRIN as DP4A_INTRIN,
    dp4a_desc as dp4a_desc,
    dp4a_impl as dp4a_impl,
)

"""The tensor instructions under the names users of TVM know; each is registered already."""

from tilewright.tir.tensor_intrin import (
    arm_cpu as arm_cpu,
    cuda as cuda,
    dot_product_common as dot_product_common,
    hexagon as hexagon,
    rocm as rocm,
    x86 as x86,
)

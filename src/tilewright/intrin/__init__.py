"""The built-in tensor instructions; importing this package makes them known to `tensorize`."""

from tilewright.intrin import (
    amx as amx,
    arm_cpu as arm_cpu,
    cuda as cuda,
    cuda_mma as cuda_mma,
    cuda_wmma as cuda_wmma,
    dot_product_common as dot_product_common,
    hexagon as hexagon,
    rocm as rocm,
    vta as vta,
    x86 as x86,
    x86_pack as x86_pack,
)

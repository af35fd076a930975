"""Groups of tensor-core instructions that the default rules for CUDA choose from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _wmma_group(in_dtype: str, out_dtype: str, trans_b: bool) -> Mapping[str, str]:
    """The instructions that load, multiply and store 16x16x16 tiles of these types."""
    tile, trans = "16x16x16", "_trans" if trans_b else ""
    return MappingProxyType(
        {
            "init": f"wmma_fill_{tile}_{out_dtype}",
            "load_a": f"wmma_load_{tile}_{in_dtype}_a_shared_dyn",
            "load_b": f"wmma_load_{tile}_{in_dtype}_b{trans}_shared_dyn",
            "compute": f"wmma_sync_{tile}_{in_dtype}{in_dtype}{out_dtype}{trans}",
            "store": f"wmma_store_{tile}_{out_dtype}_shared_dyn",
        }
    )


WMMA_GROUPS = tuple(
    _wmma_group(in_dtype, out_dtype, trans_b)
    for in_dtype, out_dtype in (("f16", "f32"), ("f16", "f16"), ("s8", "s32"))
    for trans_b in (False, True)
)

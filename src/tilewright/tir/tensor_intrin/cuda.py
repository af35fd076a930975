"""Matrix instructions of NVIDIA GPUs, and what makes more of their kind, as TVM's users call it."""

from __future__ import annotations

from tilewright.intrin import cuda_mma, cuda_wmma
from tilewright.intrin.cuda import (
    DP4A_INTRIN as DP4A_INTRIN,
    LDMATRIX_16x16_A_DYN_INTRIN as LDMATRIX_16x16_A_DYN_INTRIN,
    LDMATRIX_16x16_A_INTRIN as LDMATRIX_16x16_A_INTRIN,
    LDMATRIX_16x16_B_DYN_INTRIN as LDMATRIX_16x16_B_DYN_INTRIN,
    LDMATRIX_16x16_B_INTRIN as LDMATRIX_16x16_B_INTRIN,
    LDMATRIX_16x16_B_TRANS_INTRIN as LDMATRIX_16x16_B_TRANS_INTRIN,
    LDMATRIX_16x32_A_INTRIN as LDMATRIX_16x32_A_INTRIN,
    LDMATRIX_16x32_B_TRANS_INTRIN as LDMATRIX_16x32_B_TRANS_INTRIN,
    LDMATRIX_32x16_B_INTRIN as LDMATRIX_32x16_B_INTRIN,
    MMA_f16f16f16_INTRIN as MMA_f16f16f16_INTRIN,
    MMA_f16f16f16_TRANS_INTRIN as MMA_f16f16f16_TRANS_INTRIN,
    MMA_f16f16f32_INTRIN as MMA_f16f16f32_INTRIN,
    MMA_f16f16f32_TRANS_INTRIN as MMA_f16f16f32_TRANS_INTRIN,
    MMA_fill_16x16_f16_INTRIN as MMA_fill_16x16_f16_INTRIN,
    MMA_fill_16x16_f32_INTRIN as MMA_fill_16x16_f32_INTRIN,
    MMA_fill_16x16_i32_INTRIN as MMA_fill_16x16_i32_INTRIN,
    MMA_i8i8i32_INTRIN as MMA_i8i8i32_INTRIN,
    MMA_i8i8i32_TRANS_INTRIN as MMA_i8i8i32_TRANS_INTRIN,
    MMA_store_16x16_f16_global_INTRIN as MMA_store_16x16_f16_global_INTRIN,
    MMA_store_16x16_f32_global_INTRIN as MMA_store_16x16_f32_global_INTRIN,
    MMA_store_16x16_i32_global_INTRIN as MMA_store_16x16_i32_global_INTRIN,
    WMMA_FILL_8x8x32_S32_INTRIN as WMMA_FILL_8x8x32_S32_INTRIN,
    WMMA_FILL_16x16x16_F16_INTRIN as WMMA_FILL_16x16x16_F16_INTRIN,
    WMMA_FILL_16x16x16_F32_INTRIN as WMMA_FILL_16x16x16_F32_INTRIN,
    WMMA_FILL_16x16x16_S32_INTRIN as WMMA_FILL_16x16x16_S32_INTRIN,
    WMMA_LOAD_8x8x32_S4_A_DYN_INTRIN as WMMA_LOAD_8x8x32_S4_A_DYN_INTRIN,
    WMMA_LOAD_8x8x32_S4_A_INTRIN as WMMA_LOAD_8x8x32_S4_A_INTRIN,
    WMMA_LOAD_8x8x32_S4_B_TRANS_DYN_INTRIN as WMMA_LOAD_8x8x32_S4_B_TRANS_DYN_INTRIN,
    WMMA_LOAD_8x8x32_S4_B_TRANS_INTRIN as WMMA_LOAD_8x8x32_S4_B_TRANS_INTRIN,
    WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN as WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN,
    WMMA_LOAD_16x16x16_F16_A_INTRIN as WMMA_LOAD_16x16x16_F16_A_INTRIN,
    WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN as WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN,
    WMMA_LOAD_16x16x16_F16_A_TRANS_INTRIN as WMMA_LOAD_16x16x16_F16_A_TRANS_INTRIN,
    WMMA_LOAD_16x16x16_F16_B_DYN_INTRIN as WMMA_LOAD_16x16x16_F16_B_DYN_INTRIN,
    WMMA_LOAD_16x16x16_F16_B_INTRIN as WMMA_LOAD_16x16x16_F16_B_INTRIN,
    WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN as WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN,
    WMMA_LOAD_16x16x16_F16_B_TRANS_INTRIN as WMMA_LOAD_16x16x16_F16_B_TRANS_INTRIN,
    WMMA_LOAD_16x16x16_S8_A_DYN_INTRIN as WMMA_LOAD_16x16x16_S8_A_DYN_INTRIN,
    WMMA_LOAD_16x16x16_S8_A_INTRIN as WMMA_LOAD_16x16x16_S8_A_INTRIN,
    WMMA_LOAD_16x16x16_S8_A_TRANS_DYN_INTRIN as WMMA_LOAD_16x16x16_S8_A_TRANS_DYN_INTRIN,
    WMMA_LOAD_16x16x16_S8_A_TRANS_INTRIN as WMMA_LOAD_16x16x16_S8_A_TRANS_INTRIN,
    WMMA_LOAD_16x16x16_S8_B_DYN_INTRIN as WMMA_LOAD_16x16x16_S8_B_DYN_INTRIN,
    WMMA_LOAD_16x16x16_S8_B_INTRIN as WMMA_LOAD_16x16x16_S8_B_INTRIN,
    WMMA_LOAD_16x16x16_S8_B_TRANS_DYN_INTRIN as WMMA_LOAD_16x16x16_S8_B_TRANS_DYN_INTRIN,
    WMMA_LOAD_16x16x16_S8_B_TRANS_INTRIN as WMMA_LOAD_16x16x16_S8_B_TRANS_INTRIN,
    WMMA_STORE_8x8x32_S32_GLOBAL_INTRIN as WMMA_STORE_8x8x32_S32_GLOBAL_INTRIN,
    WMMA_STORE_8x8x32_S32_SHARED_DYN_INTRIN as WMMA_STORE_8x8x32_S32_SHARED_DYN_INTRIN,
    WMMA_STORE_8x8x32_S32_SHARED_INTRIN as WMMA_STORE_8x8x32_S32_SHARED_INTRIN,
    WMMA_STORE_16x16x16_F16_GLOBAL_INTRIN as WMMA_STORE_16x16x16_F16_GLOBAL_INTRIN,
    WMMA_STORE_16x16x16_F16_SHARED_DYN_INTRIN as WMMA_STORE_16x16x16_F16_SHARED_DYN_INTRIN,
    WMMA_STORE_16x16x16_F16_SHARED_INTRIN as WMMA_STORE_16x16x16_F16_SHARED_INTRIN,
    WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN as WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN,
    WMMA_STORE_16x16x16_F32_SHARED_DYN_INTRIN as WMMA_STORE_16x16x16_F32_SHARED_DYN_INTRIN,
    WMMA_STORE_16x16x16_F32_SHARED_INTRIN as WMMA_STORE_16x16x16_F32_SHARED_INTRIN,
    WMMA_STORE_16x16x16_S32_GLOBAL_INTRIN as WMMA_STORE_16x16x16_S32_GLOBAL_INTRIN,
    WMMA_STORE_16x16x16_S32_SHARED_DYN_INTRIN as WMMA_STORE_16x16x16_S32_SHARED_DYN_INTRIN,
    WMMA_STORE_16x16x16_S32_SHARED_INTRIN as WMMA_STORE_16x16x16_S32_SHARED_INTRIN,
    WMMA_SYNC_8x8x32_s4s4s32_TRANS_INTRIN as WMMA_SYNC_8x8x32_s4s4s32_TRANS_INTRIN,
    WMMA_SYNC_16x16x16_f16f16f16_INTRIN as WMMA_SYNC_16x16x16_f16f16f16_INTRIN,
    WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN as WMMA_SYNC_16x16x16_f16f16f16_TRANS_INTRIN,
    WMMA_SYNC_16x16x16_f16f16f32_INTRIN as WMMA_SYNC_16x16x16_f16f16f32_INTRIN,
    WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN as WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN,
    WMMA_SYNC_16x16x16_s8s8s32_INTRIN as WMMA_SYNC_16x16x16_s8s8s32_INTRIN,
    WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN as WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN,
)
from tilewright.intrin.cuda_mma import (
    M_DIM as M_DIM,
    N_DIM as N_DIM,
    WARP_SIZE as WARP_SIZE,
    Pair,
    shared_16x16_to_ldmatrix_32x8_layout as shared_16x16_to_ldmatrix_32x8_layout,
    shared_16x32_to_ldmatrix_32x16_layout as shared_16x32_to_ldmatrix_32x16_layout,
    shared_32x16_to_ldmatrix_32x16_layout as shared_32x16_to_ldmatrix_32x16_layout,
)
from tilewright.intrin.cuda_wmma import Tile, get_wmma_intrin_group as get_wmma_intrin_group


def get_wmma_load_intrin(
    m_dim: int,
    n_dim: int,
    k_dim: int,
    dtype: str,
    shared_scope: str,
    is_b: bool,
    is_col_major: bool,
) -> Pair:
    """Copy a tile of the first or second operand from shared memory into a fragment."""
    tile = Tile(m_dim, n_dim, k_dim)
    return cuda_wmma.get_wmma_load_intrin(tile, dtype, shared_scope, is_b, is_col_major)


def get_wmma_fill_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """Set an accumulator to zero."""
    return cuda_wmma.get_wmma_fill_intrin(Tile(m_dim, n_dim, k_dim), dtype)


def get_wmma_store_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str) -> Pair:
    """Copy an accumulator into shared or global memory."""
    return cuda_wmma.get_wmma_store_intrin(Tile(m_dim, n_dim, k_dim), dtype, scope)


def get_wmma_sync_intrin(
    m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool
) -> Pair:
    """Multiply two fragments and add the product to a third."""
    tile = Tile(m_dim, n_dim, k_dim)
    return cuda_wmma.get_wmma_sync_intrin(tile, in_dtype, out_dtype, b_transposed)


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, is_b: bool, transposed: bool, shared_scope: str = "shared"
) -> Pair:
    """Spread a tile in shared memory over the registers of a warp."""
    tile = cuda_mma.operand_tile(k_dim, is_b, transposed)
    return cuda_mma.get_ldmatrix_intrin(tile, dtype, is_b, transposed, shared_scope)


def get_mma_intrin(k_dim: int, out_dtype: str, b_transposed: bool) -> Pair:
    """Multiply two operands of a warp and add the 16x16 product to a third."""
    in_dtype = "float16" if k_dim == 16 else "int8"
    return cuda_mma.get_mma_intrin(k_dim, in_dtype, out_dtype, b_transposed)


def get_mma_fill_intrin(dtype: str, local_size: int = 8) -> Pair:
    """Set an accumulator, of which a thread holds `local_size` elements, to zero."""
    cuda_mma.check_accumulator(local_size)
    return cuda_mma.get_mma_fill_intrin(dtype)


def get_mma_store_intrin(dtype: str, local_size: int = 8, scope: str = "global") -> Pair:
    """Write an accumulator, of which a thread holds `local_size` elements, to memory."""
    cuda_mma.check_accumulator(local_size)
    return cuda_mma.get_mma_store_intrin(dtype, scope)

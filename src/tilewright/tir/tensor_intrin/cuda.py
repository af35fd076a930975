"""Matrix instructions of NVIDIA GPUs, and what makes more of their kind, as TVM's users call it."""

from __future__ import annotations

from tilewright.intrin import cuda_mma, cuda_wmma
from tilewright.intrin.cuda import *  # noqa: F403 - it holds these names and nothing else
from tilewright.intrin.cuda_mma import M_DIM as M_DIM, N_DIM as N_DIM, WARP_SIZE as WARP_SIZE, Pair
from tilewright.intrin.cuda_wmma import Tile


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

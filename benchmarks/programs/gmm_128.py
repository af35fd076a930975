"""A 128x128x128 matmul as the tuner left it.

A recorded schedule of 36 instructions (tiles 2x4x8x2, 2x2x8x4 and 32x4) with the heaviest of its
unrolling choices, `pragma_auto_unroll_max_step` 512: 512 vector statements in the inner body.
"""

from tilewright.script import ir as I, tir as T


@I.ir_module
class Module:
    @T.prim_func
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        update: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        # with T.block("root"):
        update_global = T.alloc_buffer((128, 128))
        for i_0_j_0_i_1_j_1_fused in T.parallel(
            32, annotations={"pragma_auto_unroll_max_step": 512, "pragma_unroll_explicit": 1}
        ):
            for i_2_init, j_2_init, i_3_init in T.grid(8, 8, 2):
                for j_3_fused_init in T.vectorized(4):
                    with T.block("update_init"):
                        v_i = T.axis.spatial(
                            128,
                            i_0_j_0_i_1_j_1_fused // 16 * 64
                            + i_0_j_0_i_1_j_1_fused % 8 // 2 * 16
                            + i_2_init * 2
                            + i_3_init,
                        )
                        v_j = T.axis.spatial(
                            128,
                            i_0_j_0_i_1_j_1_fused % 16 // 8 * 64
                            + i_0_j_0_i_1_j_1_fused % 2 * 32
                            + j_2_init * 4
                            + j_3_fused_init,
                        )
                        T.reads()
                        T.writes(update_global[v_i, v_j])
                        T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                        update_global[v_i, v_j] = T.float32(0)
            for k_0, i_2, j_2, k_1, i_3 in T.grid(32, 8, 8, 4, 2):
                for j_3_fused in T.vectorized(4):
                    with T.block("update_update"):
                        v_i = T.axis.spatial(
                            128,
                            i_0_j_0_i_1_j_1_fused // 16 * 64
                            + i_0_j_0_i_1_j_1_fused % 8 // 2 * 16
                            + i_2 * 2
                            + i_3,
                        )
                        v_j = T.axis.spatial(
                            128,
                            i_0_j_0_i_1_j_1_fused % 16 // 8 * 64
                            + i_0_j_0_i_1_j_1_fused % 2 * 32
                            + j_2 * 4
                            + j_3_fused,
                        )
                        v_k = T.axis.reduce(128, k_0 * 4 + k_1)
                        T.reads(update_global[v_i, v_j], A[v_i, v_k], B[v_k, v_j])
                        T.writes(update_global[v_i, v_j])
                        T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                        update_global[v_i, v_j] = (
                            update_global[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
                        )
            for ax0 in range(16):
                for ax1_fused in T.vectorized(32):
                    with T.block("update_global"):
                        v0 = T.axis.spatial(
                            128,
                            i_0_j_0_i_1_j_1_fused // 16 * 64
                            + i_0_j_0_i_1_j_1_fused % 8 // 2 * 16
                            + ax0,
                        )
                        v1 = T.axis.spatial(
                            128,
                            i_0_j_0_i_1_j_1_fused % 16 // 8 * 64
                            + i_0_j_0_i_1_j_1_fused % 2 * 32
                            + ax1_fused,
                        )
                        T.reads(update_global[v0, v1])
                        T.writes(update[v0, v1])
                        update[v0, v1] = update_global[v0, v1]

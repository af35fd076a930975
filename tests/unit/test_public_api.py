"""Every name that the documentation promises is there, and its signature takes what it says."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import tilewright as tw

PROMISED: dict[str, str] = {
    "": "build compile lower load_module register_func get_global_func cpu Target IRModule "
    "PassContext TilewrightError nd.array",
    "ir": "register_op register_op_attr structural_equal assert_structural_equal structural_hash "
    "verify_well_formed save_json load_json",
    "tir": "PrimFunc Buffer BufferRegion Block BlockRealize For ForKind MatchBufferRegion Allocate "
    "AttrStmt LetStmt IfThenElse While AssertStmt SeqStmt Evaluate Ramp Broadcast Shuffle Select "
    "Cast Call Op decl_buffer ir_builder.create stmt_functor.post_order_visit "
    "stmt_functor.ir_transform stmt_functor.substitute exp log tanh erf sigmoid sqrt rsqrt pow "
    "call_extern call_llvm_intrin call_llvm_pure_intrin if_then_else Schedule",
    "tir.transform": "PassContext prim_func_pass get_pass LowerInitBlock PlanBufferAllocation "
    "ConvertBlocksToOpaque CompactBufferAllocation LowerMatchBuffer LowerOpaqueBlock LoopPartition "
    "VectorizeLoop UnrollLoop FlattenBuffer StorageRewrite Simplify RemoveNoOp NarrowDataType "
    "CommonSubexprElim LegalizeSmallFloats HostABI",
    "script": "tir.prim_func ir.ir_module from_source",
    "script.tir": "Buffer match_buffer alloc_buffer grid serial parallel vectorized unroll "
    "thread_binding block axis.remap axis.spatial axis.reduce axis.S axis.R axis.scan axis.opaque "
    "reads writes init where block_attr func_attr Let Ramp if_then_else Select macro",
    "te": "placeholder compute reduce_axis sum max min prod any all comm_reducer extern scan "
    "hybrid.script create_prim_func if_then_else var exp log tanh erf sigmoid sqrt rsqrt power",
    "topi": "add subtract multiply divide exp tanh sum max min prod mean argmax transpose "
    "concatenate reshape broadcast_to nn.softmax nn.layer_norm nn.pool2d nn.global_pool nn.dense "
    "nn.batch_matmul nn.pad nn.relu nn.conv1d_ncw nn.conv2d_nchw nn.conv2d_nhwc nn.conv2d_NCHWc "
    "nn.conv2d_im2col_nchw nn.conv2d_im2col_nhwc nn.conv3d_ncdhw nn.depthwise_conv2d_nchw "
    "nn.group_conv2d_nchw nn.conv2d_transpose_nchw nn.conv2d_winograd_nhwc",
    "arith": "Analyzer ConstIntBound ModularSet IntervalSet detect_iter_map normalize_to_iter_sum "
    "inverse_affine_iter_map subspace_divide iter_map_simplify estimate_region_lower_bound "
    "estimate_region_upper_bound estimate_region_strict_bound",
    "runtime": "Module NDArray PackedFunc load_module load_library num_threads set_num_threads "
    "use_threads list_global_func_names remove_global_func cpu device",
    "runtime.Module": "get_source export_library time_evaluator get_function __getitem__ __call__",
    "target": "Target list_kinds list_tags register_intrin_rule",
    "testing": "oracle.run te_workload.create_te_workload te_workload.batch_matmul_nkkm",
}


def lookup(path: str) -> Any:
    found: Any = tw
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("namespace", PROMISED)
def test_names(namespace: str) -> None:
    prefix = f"{namespace}." if namespace else ""
    missing = []
    for name in PROMISED[namespace].split():
        try:
            lookup(prefix + name)
        except AttributeError:
            missing.append(name)
    assert missing == []


def test_everything_listed_exists() -> None:
    for name in tw.__all__:
        assert getattr(tw, name) is not None
    assert set(dir(tw)) == set(tw.__all__)
    with pytest.raises(AttributeError, match="module 'tilewright' has no attribute 'biuld'"):
        tw.biuld


def test_the_thirteen_workloads() -> None:
    names = {"C1D", "C2D", "C3D", "DEP", "DIL", "GMM", "GRP", "T2D", "CAP", "NRM", "SFM", "CBR"}
    names.add("TBG")
    assert names <= set(tw.testing.te_workload.CONFIGS)
    assert tw.testing.te_workload.CONFIGS["GMM"][0] is tw.testing.te_workload.batch_matmul_nkkm


def test_timing_takes_what_is_promised() -> None:
    parameters = inspect.signature(tw.runtime.Module.time_evaluator).parameters
    wanted = ["number", "repeat", "min_repeat_ms", "cooldown_interval_ms", "flush"]
    assert set(wanted) <= set(parameters)


@pytest.mark.parametrize("fmt", ["ll", "asm", "c", "script"])
def test_every_source_format(fmt: str) -> None:
    text = "@T.prim_func\ndef twice(a: T.Buffer((8,))):\n    a[0] = a[0] * 2.0\n"
    assert "twice" in tw.build(tw.script.from_source(text)).get_source(fmt)


def test_targets_of_all_spellings() -> None:
    target = tw.Target
    assert target("llvm -num-cores=4").num_cores == 4
    assert target({"kind": "llvm", "num-cores": 4}).num_cores == 4
    assert target("nvidia/nvidia-a100").attrs["arch"] == "sm_80"
    assert target("llvm").cpu.caches.l2_bytes > 0


def test_a_pass_of_the_users_own() -> None:
    seen: list[str] = []

    @tw.tir.transform.prim_func_pass(opt_level=0)
    def look(func: Any, mod: Any, ctx: Any) -> Any:
        seen.append(func.name)
        return func

    text = "@T.prim_func\ndef once(a: T.Buffer((8,))):\n    a[0] = 1.0\n"
    with tw.PassContext(config={"tir.add_lower_pass": [(1, look)]}):
        tw.lower(tw.script.from_source(text))
    assert seen == ["once"]


# What `create_te_workload("GMM", 0)` of the original suite prints.
GMM = """\
@T.prim_func
def main(X: T.Buffer((1, 128, 128), "float32"), Y: T.Buffer((1, 128, 128), "float32"), \
Z: T.Buffer((1, 128, 128), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    # with T.block("root"):
    for b, i, j, k in T.grid(1, 128, 128, 128):
        with T.block("Z"):
            v_b, v_i, v_j, v_k = T.axis.remap("SSSR", [b, i, j, k])
            T.reads(X[v_b, v_i, v_k], Y[v_b, v_k, v_j])
            T.writes(Z[v_b, v_i, v_j])
            with T.init():
                Z[v_b, v_i, v_j] = T.float32(0)
            Z[v_b, v_i, v_j] = Z[v_b, v_i, v_j] + X[v_b, v_i, v_k] * Y[v_b, v_k, v_j]"""


def test_the_first_workload_prints_as_it_always_did() -> None:
    func = tw.testing.te_workload.create_te_workload("GMM", 0)
    assert str(func).endswith("\n\n" + GMM)

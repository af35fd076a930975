"""Names of TVM 0.14 that are not here, by path, each with the reason.

An import of such a path, or of anything below it, raises an ImportError that says the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

_NETWORKS = (
    "there is no Relay and no Relax; models come from ONNX and PyTorch, see ms.extract_tasks"
)

_GPU_PASSES = (
    "InferFragment InjectPTXAsyncCopy InjectSoftwarePipeline InjectVirtualThread LiftThreadBinding "
    "LowerCrossThreadReduction LowerDeviceStorageAccessInfo LowerThreadAllreduce LowerWarpMemory "
    "ManifestSharedMemoryLocalStage MergeDynamicSharedMemoryAllocations SplitHostDevice "
    "TextureFlatten ThreadSync TransformMmaBufferLayout UnifyThreadBinding VerifyMemory "
    "DefaultGPUSchedule InjectPTXLDG32 InjectPermutedLayout AnnotateDeviceRegions "
    "LowerDeviceKernelLaunch"
)
_OTHER_PASSES = (
    "BF16ComputeLegalize CoProcSync CombineContextCall ConvertForLoopsToSerial ConvertSSA "
    "DecorateDeviceScope HoistExpression InjectCopyIntrin InjectDoubleBuffer InjectPrefetch "
    "InjectRollingBuffer InstrumentBoundCheckers LiftAttrScope LowerAutoCopy LowerCustomDatatypes "
    "LowerTVMBuiltin MakePackedAPI MakeUnpackedAPI PointerValueTypeRewrite "
    "ReduceBranchingThroughOvercompute RemoveAssume RemoveStoreUndef RenormalizeSplitPattern "
    "RemoveWeightLayoutRewriteBlock SkipAssert StorageFlatten UnifiedStaticMemoryPlanner "
    "AnnotateEntryFunc BindTarget ForceNarrowIndexToInt32 InlinePrivateFunctions VerifySSA "
    "ExtractPrimFuncConstants FP8ComputeLegalize BF16StorageLegalize HoistedConditionals "
    "HoistedLetBindings InstrumentProfileIntrinsics BindParams"
)
_HEXAGON_PASSES = "LowerAsyncDMA LowerVtcmAlloc VerifyVTCMLimit"
_LAYOUTS = "BijectiveLayout Layout bijective_layout data_layout layout"
_NETWORK_MEMBERS = (
    "is_meta_schedule_enabled "
    "testing.conv2d_winograd_cpu testing.relay_workload "
    "testing.tlcbench testing.torchbench testing.validate_database testing.tune_relay"
)
_HANDLED_BY_PYTHON = "EnvFunc NodeKind SourceName Span make_node"
_PATHS = "ir.base.get_first_structural_mismatch runtime.ObjectPath runtime.object_path"
_OLD_NODES = "BufferRealize DataProducer Prefetch ProducerRealize ProducerStore"
_SOLVERS = (
    "PresburgerSet detect_clip_bound detect_common_subexpr detect_linear_equation "
    "solve_linear_equations solve_linear_inequalities"
)

_SCHEDULED = (
    "schedules of tensor expressions are superseded by tir.Schedule(te.create_prim_func(ops))"
)
_TE_SCHEDULES = "te.create_schedule te.Schedule te.schedule driver.build_module.schedule_to_module"
_TE_INTRINS = "decl_tensor_intrin tensor_intrin TensorComputeOp"
_HEXAGON_DMA = "DMA_READ_128_u8 DMA_READ_128_i8 SYNC_DMA_LOAD_INTRIN"
_NO_DMA = "there is no code for Hexagon's DMA engine"
_GPU_PIPELINE = "it is for GPUs; build runs such passes itself, see docs/passes.md"
_OPERATOR_SCHEDULES = "cuda x86 arm_cpu generic hexagon"


def _all(module: str, names: str, reason: str) -> dict[str, str]:
    return {f"{module}.{name}": reason for name in names.split()}


MISSING: Mapping[str, str] = {
    **_all("tvm.tir.transform", _GPU_PASSES, _GPU_PIPELINE),
    **_all("tvm.tir.transform", _OTHER_PASSES, "lowering takes other steps; see docs/passes.md"),
    **_all("tvm.tir.transform", _HEXAGON_PASSES, "there is no code for Hexagon"),
    **_all("tvm.tir", _LAYOUTS, "layouts are index maps: tir.IndexMap"),
    **_all("tvm.tir", "Load Store", "they are BufferLoad and BufferStore"),
    **_all("tvm.meta_schedule", _NETWORK_MEMBERS, _NETWORKS),
    **_all("tvm.ir", _HANDLED_BY_PYTHON, "nodes are Python classes, and keep no place in a file"),
    **_all("tvm", _PATHS, "assert_structural_equal shows where two programs differ"),
    **_all("tvm.tir", _OLD_NODES, "it belongs to schedules of tensor expressions"),
    **_all("tvm.arith", _SOLVERS, "the analyzer, iterator maps and regions are what is offered"),
    **_all("tvm", _TE_SCHEDULES, _SCHEDULED),
    **_all("tvm.te", _TE_INTRINS, "instructions are tir.TensorIntrin.register(name, desc, impl)"),
    **_all("tvm.tir.tensor_intrin.hexagon", _HEXAGON_DMA, _NO_DMA),
    **_all(
        "tvm.topi", _OPERATOR_SCHEDULES, "operators come without schedules; the tuner makes them"
    ),
    "tvm.target.codegen.target_has_features": "ask Target.features",
    "tvm.target.cuda": 'write Target("cuda -arch=sm_80")',
    "tvm.target.arm_cpu": 'write Target("llvm -mtriple=aarch64-linux-gnu")',
    "tvm.support": "tilewright doctor says what works here",
    "tvm.relay": _NETWORKS,
    "tvm.relax": _NETWORKS,
    "tvm.parser": "it reads Relay",
    "tvm.autotvm": "templates are superseded by tvm.meta_schedule, which is here",
    "tvm.auto_scheduler": "it is superseded by tvm.meta_schedule, which is here",
    "tvm.te.gradient": "there is no automatic differentiation",
    "tvm.rpc": "other machines are nodes of a Ray cluster: meta_schedule.runner.RPCRunner",
    "tvm.meta_schedule.testing.local_rpc": "tilewright rpc-tracker and rpc-server start servers",
    "tvm.meta_schedule.testing.distributed_measure_callback": "RPCRunner measures on all servers",
    "tvm.meta_schedule.schedule": (
        "it schedules layout changes of Relay's networks for GPUs, and there is no Relay"
    ),
    "tvm.meta_schedule.cost_model.metric": "it belongs to training XGBoost; ours trains itself",
    "tvm.meta_schedule.cost_model.xgb_model._get_custom_call_back": (
        "it belongs to training XGBoost; ours trains itself"
    ),
    "tvm.tir.analysis.get_vtcm_compaction_passes": "there is no code for Hexagon",
    "tvm.tir.analysis.apply_prim_func_arg_and_result_memory_constraints": _NETWORKS,
    "tvm.tir.analysis.get_prim_func_arg_and_result_memory_constraints": _NETWORKS,
    "tvm.tir.schedule.schedule._get_block_default_dtype": "index maps take the type of a block",
    "tvm.tir.schedule._type_checker": "arguments of primitives are checked by their registration",
    "tvm.tir._ffi_api": "there is no C++ below; call the functions of tvm.tir",
    "tvm.tir.schedule._ffi_api": "there is no C++ below; call the methods of Schedule",
    "tvm.meta_schedule.default_config": "ScheduleRule.create(kind) and its like make the defaults",
    "tvm.meta_schedule.testing.schedule_rule": "ScheduleRule.create(kind) makes the rules",
    "tvm.runtime.Scriptable": "every program has script() and show()",
    "tvm.testing.Feature": "requires_package and its like make requirements",
    "tvm.testing.check_numerical_grads": "there is no automatic differentiation",
    "tvm.script.tir.sum": "a reduction is a block with T.init; tir.sum is for tensor expressions",
    "tvm.script.tir.any": "write `or`, or T.Or",
    "tvm.script.tir.all": "write `and`, or T.And",
    "tvm.runtime.script_printer": "there is one way to print: script()",
    "tvm.micro": "microcontrollers are not supported",
    "tvm.contrib": "libraries that TVM calls are not bound here",
    "tvm.driver.tvmc": "the command line is `tilewright`",
    "tvm.script.ir_builder": "build programs with @T.prim_func, tir.ir_builder or te",
    "tvm.script.relax": _NETWORKS,
    "tvm.tir.usmp": "memory is planned by the pass StorageRewrite",
    "tvm.tir.contrib": "there is no support for Ethos-U",
    "tvm.topi.testing": "NumPy is the reference",
    "tvm.topi.sparse": "there are no sparse operators",
    "tvm._ffi.register_object": "nodes are Python classes: derive from them",
    "tvm._ffi.get_object_type_index": "nodes are Python classes",
    "tvm.runtime.vm": _NETWORKS,
    "tvm.runtime.profiling": "time functions with Module.time_evaluator",
    "tvm.runtime.disco": "there is one machine",
}


def reason_for(path: str) -> str:
    """Why a path of TVM is not here; empty where nobody decided so."""
    while path:
        if path in MISSING:
            return MISSING[path]
        path = path.rpartition(".")[0]
    return ""

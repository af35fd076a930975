"""TVM 0.14's modules: for each path the modules of ours whose names it offers, in this order.

A path that is missing here raises an ImportError; `differences.py` knows the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

_TIR = "tilewright.tir"
_SCHEDULE = "tilewright.tir.schedule"
_MS = "tilewright.meta_schedule"
_RUNTIME = "tilewright.runtime"
_TESTING = "tilewright.testing"
_TVM_TESTING = "tilewright.testing.tvm_testing"

# Below these, modules of ours have the same paths; the table holds what is called otherwise.
SAME_PATHS = ("tvm.meta_schedule.", "tvm.tir.")

# One file of TVM for one member each; all of a family are in one module of ours.
_MEMBERS: Mapping[str, str] = {
    "builder": "builder local_builder",
    "cost_model": "cost_model random_model xgb_model mlp_model metric",
    "database": "database json_database memory_database ordered_union_database "
    "schedule_fn_database union_database",
    "feature_extractor": "feature_extractor per_store_feature random_feature_extractor",
    "measure_callback": "measure_callback add_to_database remove_build_artifact update_cost_model",
    "mutator": "mutator mutate_compute_location mutate_parallel mutate_thread_binding "
    "mutate_tile_size mutate_unroll",
    "postproc": "postproc disallow_async_strided_mem_copy disallow_dynamic_loop "
    "rewrite_cooperative_fetch rewrite_layout rewrite_parallel_vectorize_unroll "
    "rewrite_reduction_block rewrite_tensorize rewrite_unbound_block verify_gpu_code "
    "verify_vtcm_limit",
    "runner": "runner local_runner rpc_runner config utils",
    "schedule_rule": "schedule_rule add_rfactor apply_custom_rule auto_bind auto_inline "
    "cross_thread_reduction multi_level_tiling parallel_vectorize_unroll random_compute_location",
    "search_strategy": "search_strategy evolutionary_search replay_func replay_trace",
    "space_generator": "space_generator post_order_apply schedule_fn space_generator_union",
    "task_scheduler": "task_scheduler gradient_based round_robin",
}


def _families() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for family, files in _MEMBERS.items():
        ours = (f"{_MS}.{family}",)
        table.update({f"tvm.meta_schedule.{family}.{name}": ours for name in files.split()})
    return table


MODULES: Mapping[str, tuple[str, ...]] = {
    "tvm": ("tilewright", _RUNTIME),
    "tvm._ffi": (_RUNTIME, "tilewright"),
    "tvm._ffi.base": ("tilewright",),
    "tvm._ffi.registry": (_RUNTIME,),
    "tvm._ffi.runtime_ctypes": (_RUNTIME,),
    "tvm.arith": ("tilewright.arith",),
    "tvm.arith.analyzer": ("tilewright.arith",),
    "tvm.arith.int_set": ("tilewright.arith",),
    "tvm.arith.iter_affine_map": ("tilewright.arith",),
    "tvm.contrib": (),
    "tvm.contrib.utils": ("tilewright.testing.temporary_folder",),
    "tvm.driver": ("tilewright.driver", "tilewright.lowering"),
    "tvm.driver.build_module": ("tilewright.driver", "tilewright.lowering"),
    "tvm.error": ("tilewright.errors",),
    "tvm.ir": ("tilewright.ir",),
    "tvm.ir.base": ("tilewright.ir",),
    "tvm.ir.container": (),
    "tvm.ir.expr": ("tilewright.ir",),
    "tvm.ir.module": ("tilewright.ir",),
    "tvm.ir.op": ("tilewright.ir",),
    "tvm.ir.instrument": ("tilewright.transform",),
    "tvm.ir.transform": ("tilewright.transform",),
    "tvm.ir.type": ("tilewright.ir",),
    "tvm.ir.utils": (f"{_MS}.utils",),
    "tvm.meta_schedule": (_MS,),
    "tvm.meta_schedule.testing": (_TESTING,),
    "tvm.meta_schedule.testing.space_generation": (f"{_TESTING}.space_generation",),
    "tvm.meta_schedule.testing.te_workload": (f"{_TESTING}.te_workload",),
    **_families(),
    "tvm.instrument": ("tilewright.transform",),
    "tvm.nd": ("tilewright.nd", _RUNTIME),
    "tvm.runtime": (_RUNTIME, "tilewright.nd", "tilewright.ir"),
    "tvm.runtime.device": (_RUNTIME,),
    "tvm.runtime.module": (_RUNTIME,),
    "tvm.runtime.ndarray": ("tilewright.nd", _RUNTIME),
    "tvm.runtime.object": ("tilewright.ir",),
    "tvm.runtime.packed_func": (_RUNTIME,),
    "tvm.script": ("tilewright.script",),
    "tvm.script.ir": ("tilewright.script.ir",),
    "tvm.script.parser": ("tilewright.script",),
    "tvm.script.parser.ir": ("tilewright.script.ir",),
    "tvm.script.parser.tir": ("tilewright.script.tir",),
    "tvm.script.tir": ("tilewright.script.tir",),
    "tvm.target": ("tilewright.target",),
    "tvm.target.codegen": ("tilewright.script.exprs",),
    "tvm.target.intrin": ("tilewright.target",),
    "tvm.target.tag": ("tilewright.target",),
    "tvm.target.target": ("tilewright.target",),
    "tvm.te": ("tilewright.te",),
    "tvm.te.hybrid": ("tilewright.te.hybrid",),
    "tvm.te.operation": ("tilewright.te",),
    "tvm.te.tensor": ("tilewright.te",),
    "tvm.testing": (_TVM_TESTING,),
    "tvm.testing.plugin": (),
    "tvm.testing.utils": (_TVM_TESTING,),
    "tvm.tir": (_TIR,),
    "tvm.tir.analysis.analysis": (f"{_TIR}.analysis",),
    "tvm.tir.block_scope": (_SCHEDULE,),
    "tvm.tir.buffer": (_TIR,),
    "tvm.tir.expr": (_TIR,),
    "tvm.tir.function": (_TIR,),
    "tvm.tir.generic": (_TIR,),
    "tvm.tir.op": (_TIR,),
    "tvm.tir.schedule.block_scope": (_SCHEDULE,),
    "tvm.tir.schedule.instruction": (_SCHEDULE,),
    "tvm.tir.schedule.schedule": (_SCHEDULE,),
    "tvm.tir.schedule.trace": (_SCHEDULE,),
    "tvm.tir.stmt": (_TIR,),
    "tvm.tir.transform.function_pass": (f"{_TIR}.transform",),
    "tvm.tir.transform.transform": (f"{_TIR}.transform",),
    "tvm.topi": ("tilewright.topi",),
    "tvm.topi.nn": ("tilewright.topi.nn",),
    "tvm.topi.utils": ("tilewright.topi.utils",),
    "tvm.topi.image": ("tilewright.topi.image",),
    "tvm.transform": ("tilewright.transform",),
}

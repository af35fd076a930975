"""TVM 0.14's modules: for each path the modules of ours whose names it offers, in this order.

A path that is missing here raises an ImportError; `differences.py` knows the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

_TIR = "tilewright.tir"
_SCHEDULE = "tilewright.tir.schedule"
_MS = "tilewright.meta_schedule"
_RUNTIME = "tilewright.runtime"
_TVM_TESTING = "tilewright.testing.tvm_testing"

# Below these, modules of ours have the same paths; the table holds what is called otherwise.
SAME_PATHS = ("tvm.meta_schedule.", "tvm.tir.")

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
    "tvm.meta_schedule.runner.rpc_runner": (f"{_MS}.runner",),
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

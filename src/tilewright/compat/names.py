"""TVM 0.14's modules, and names of it that are called otherwise, or live elsewhere, with us.

A path that is missing here raises an ImportError; `differences.py` knows the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

_ERRORS = (
    "tvm._ffi.base.TVMError tvm.error.InternalError tvm.error.OpAttributeUnImplemented "
    "tvm.error.OpError tvm.error.OpNotImplemented tvm.error.TVMError"
)
NAMES: Mapping[str, str] = {
    **dict.fromkeys(_ERRORS.split(), "tilewright.errors.TilewrightError"),
    "tvm.__version__": "tilewright.compat.TVM_VERSION",
    "tvm.DataType": "tilewright.ir.DType",
    "tvm.Object": "tilewright.ir.Node",
    "tvm.convert": "tilewright.ir.convert",
    "tvm.gpu": "tilewright.runtime.cuda",
    "tvm.hexagon": "tilewright.runtime.devices.hexagon",
    "tvm.metal": "tilewright.runtime.devices.metal",
    "tvm.opencl": "tilewright.runtime.devices.opencl",
    "tvm.rocm": "tilewright.runtime.devices.rocm",
    "tvm.vulkan": "tilewright.runtime.devices.vulkan",
    "tvm.arith.IntSet": "tilewright.arith.IntervalSet",
    "tvm.error.DiagnosticError": "tilewright.errors.ScriptError",
    "tvm.ir.Array": "builtins.tuple",
    "tvm.ir.Map": "builtins.dict",
    "tvm.ir.BaseFunc": "tilewright.ir.PrimFunc",
    "tvm.ir.PrimType": "tilewright.ir.DType",
    "tvm.ir.Range": "tilewright.tir.Range",
    "tvm.ir.container.Array": "builtins.tuple",
    "tvm.ir.container.Map": "builtins.dict",
    "tvm.ir.expr.Range": "tilewright.tir.Range",
    "tvm.ir.PointerType": "tilewright.tir.PointerType",
    "tvm.ir.type.PointerType": "tilewright.tir.PointerType",
    "tvm.ir.type.PrimType": "tilewright.ir.DType",
    "tvm.runtime.DataType": "tilewright.ir.DType",
    "tvm.runtime.Object": "tilewright.ir.Node",
    "tvm.runtime.String": "builtins.str",
    "tvm.runtime.enabled": "tilewright.testing.tvm_testing.device_enabled",
    "tvm.runtime.convert": "tilewright.ir.convert",
    "tvm.runtime.const": "tilewright.ir.const",
    "tvm.script.asscript": "tilewright.ir.script",
    "tvm.script.parse": "tilewright.script.from_source",
    "tvm.script.parser.parse": "tilewright.script.from_source",
    "tvm.target.create": "tilewright.target.Target",
    "tvm.script.tir.Ptr": "tilewright.script.tir.handle",
    "tvm.tir.expr.PrimExprWithOp": "tilewright.ir.PrimExpr",
    "tvm.tir.CallEffectKind": "tilewright.ir.CallEffect",
    "tvm.tir.transform.CommonSubexprElimTIR": "tilewright.tir.transform.CommonSubexprElim",
    "tvm.tir.transform.PlanAndUpdateBufferAllocationLocation": (
        "tilewright.tir.transform.PlanBufferAllocation"
    ),
    "tvm.target.codegen.llvm_version_major": "tilewright.testing.tvm_testing.llvm_version_major",
    "tvm.target.codegen.llvm_lookup_intrinsic_id": (
        "tilewright.script.exprs.llvm_lookup_intrinsic_id"
    ),
}

# Below these, modules of ours have the same paths; the table holds what is called otherwise.
SAME_PATHS = ("tvm.meta_schedule.", "tvm.tir.")

# Modules of ours, in this order, and the paths below `tvm` that offer their names; an empty one has
# nothing.
_PATHS: tuple[tuple[str, str], ...] = (
    ("tilewright tilewright.runtime", "tvm"),
    ("tilewright.runtime tilewright", "_ffi"),
    ("tilewright", "_ffi.base"),
    (
        "tilewright.runtime",
        "_ffi.registry _ffi.runtime_ctypes runtime.device runtime.module runtime.packed_func",
    ),
    ("tilewright.arith", "arith arith.analyzer arith.int_set arith.iter_affine_map"),
    ("", "contrib ir.container testing.plugin"),
    ("tilewright.testing.temporary_folder", "contrib.utils"),
    ("tilewright.driver tilewright.lowering", "driver driver.build_module"),
    ("tilewright.errors", "error"),
    ("tilewright.ir", "ir ir.base ir.expr ir.module ir.op ir.type runtime.object"),
    ("tilewright.transform", "ir.instrument ir.transform instrument transform"),
    ("tilewright.meta_schedule.utils", "ir.utils"),
    ("tilewright.meta_schedule", "meta_schedule"),
    ("tilewright.meta_schedule.runner", "meta_schedule.runner.rpc_runner"),
    ("tilewright.nd tilewright.runtime", "nd runtime.ndarray"),
    ("tilewright.runtime tilewright.nd tilewright.ir", "runtime"),
    ("tilewright.script", "script script.parser"),
    ("tilewright.script.ir", "script.ir script.parser.ir"),
    ("tilewright.script.tir", "script.parser.tir script.tir"),
    ("tilewright.target", "target target.intrin target.tag target.target"),
    ("tilewright.script.exprs", "target.codegen"),
    ("tilewright.te", "te te.operation te.tensor"),
    ("tilewright.te.hybrid", "te.hybrid"),
    ("tilewright.testing.tvm_testing", "testing testing.utils"),
    ("tilewright.tir", "tir tir.buffer tir.expr tir.function tir.generic tir.op tir.stmt"),
    ("tilewright.tir.analysis", "tir.analysis.analysis"),
    (
        "tilewright.tir.schedule",
        "tir.block_scope tir.schedule.block_scope tir.schedule.instruction "
        "tir.schedule.schedule tir.schedule.trace",
    ),
    ("tilewright.tir.transform", "tir.transform.function_pass tir.transform.transform"),
    ("tilewright.topi", "topi"),
    ("tilewright.topi.nn", "topi.nn"),
    ("tilewright.topi.utils", "topi.utils"),
    ("tilewright.topi.image", "topi.image"),
)

MODULES: Mapping[str, tuple[str, ...]] = {
    "tvm" if path == "tvm" else f"tvm.{path}": tuple(ours.split())
    for ours, paths in _PATHS
    for path in paths.split()
}

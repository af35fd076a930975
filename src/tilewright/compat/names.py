"""Names of TVM 0.14 that are called otherwise, or live elsewhere, with us."""

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

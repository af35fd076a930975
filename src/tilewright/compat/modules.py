"""TVM 0.14's modules: for each path the modules of ours whose names it offers, in this order.

A path that is missing here raises an ImportError; `differences.py` knows the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

# Below these, modules of ours have the same paths; the table holds what is called otherwise.
SAME_PATHS = ("tvm.meta_schedule.", "tvm.tir.")

# Modules of ours, and the paths below `tvm` at which their names are; an empty one has nothing.
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

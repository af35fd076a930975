"""TVM's side of the comparison of kernels; runs in TVM's own environment.

Each line on standard input is a JSON object with `program` (script under the names of TVM 0.14) and
`target`. The answer is one line: the text of what TVM lowers it to, or the error that it raised.
"""

import json
import sys
from typing import Any

import gpu_space_tvm_side  # type: ignore[import-not-found]
import tvm
from tvm.s_tir import transform as blocks
from tvm.tirx import transform as flat
from tvm_side import to_tvm  # type: ignore[import-not-found]

# TVM's own order, up to where kernels have all their threads, memory and barriers.
PASSES = (
    blocks.LowerCrossThreadReduction(),
    blocks.LowerInitBlock(),
    blocks.PlanAndUpdateBufferAllocationLocation(),
    blocks.ConvertBlocksToOpaque(),
    blocks.LiftThreadBinding(),
    blocks.ManifestSharedMemoryLocalStage(),
    blocks.CompactBufferAllocation(),
    blocks.UnifyThreadBinding(),
    blocks.LowerMatchBuffer(),
    flat.StmtSimplify(),
    blocks.InjectSoftwarePipeline(),
    blocks.LowerOpaqueBlock(),
    flat.FlattenBuffer(),
    flat.NarrowDataType(32),
    flat.VectorizeLoop(),
    blocks.InjectVirtualThread(),
    flat.StorageRewrite(),
    flat.StmtSimplify(),
    flat.RemoveNoOp(),
    blocks.MergeSharedMemoryAllocations(),
    blocks.ThreadSync("shared"),
    blocks.ThreadSync("shared.dyn"),
    blocks.LowerThreadAllreduce(),
)


def answer(request: dict[str, Any]) -> dict[str, str]:
    """The program after all passes."""
    program = gpu_space_tvm_side.renamed(request["program"], back=False)
    module = tvm.script.from_source(to_tvm(program))
    target = tvm.target.Target(request["target"], host="llvm")
    module = flat.BindTarget(target)(module)
    for step in PASSES:
        module = step(module)
    return {"script": module.script()}


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        try:
            made = answer(json.loads(line))
        except Exception as error:
            made = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(made), flush=True)


if __name__ == "__main__":
    main()

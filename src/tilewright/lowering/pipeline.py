"""The passes for CPUs, in lists that pipelines of other backends are made of, too; and the loop
that runs a pipeline. That for GPUs is in `codegen/cuda/pipeline.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import ArgumentError, LowerError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.ir.verify import verify_well_formed
from tilewright.lowering.base import Pass
from tilewright.lowering.blend_local_stores import BlendLocalStores
from tilewright.lowering.check_safety import CheckSafety
from tilewright.lowering.common_subexpr_elim import CommonSubexprElim
from tilewright.lowering.compact_buffer_allocation import CompactBufferAllocation
from tilewright.lowering.context import PassContext
from tilewright.lowering.convert_blocks_to_opaque import ConvertBlocksToOpaque
from tilewright.lowering.flatten_buffer import FlattenBuffer
from tilewright.lowering.hoist_if_then_else import HoistIfThenElse
from tilewright.lowering.host_abi import HostABI
from tilewright.lowering.intrinsic_fallback import IntrinsicFallback
from tilewright.lowering.invariant_divisors import InvariantDivisors
from tilewright.lowering.legalize_small_floats import LegalizeSmallFloats
from tilewright.lowering.legalize_vectors import LegalizeVectors
from tilewright.lowering.loop_partition import LoopPartition
from tilewright.lowering.lower_init_block import LowerInitBlock
from tilewright.lowering.lower_intrin import LowerIntrin
from tilewright.lowering.lower_match_buffer import LowerMatchBuffer
from tilewright.lowering.lower_opaque_block import LowerOpaqueBlock
from tilewright.lowering.narrow_data_type import NarrowDataType
from tilewright.lowering.plan_buffer_allocation import PlanBufferAllocation
from tilewright.lowering.remove_no_op import RemoveNoOp
from tilewright.lowering.rewrite_unsafe_select import RewriteUnsafeSelect
from tilewright.lowering.simplify import Simplify
from tilewright.lowering.skip_zero_terms import SkipZeroTerms
from tilewright.lowering.storage_rewrite import StorageRewrite
from tilewright.lowering.tile_registers import TileRegisters
from tilewright.lowering.unroll_loop import UnrollLoop
from tilewright.lowering.vector_reduction import VectorReduction
from tilewright.lowering.vectorize_loop import VectorizeLoop
from tilewright.lowering.verify_lowered import verify_lowered
from tilewright.lowering.widen_vector_loops import WidenVectorLoops
from tilewright.support.nesting import nested_deeply
from tilewright.target import Target

# More copies do not pay for the time that LLVM takes for them: docs/design/0033-copies-that-pay.md.
PLAIN_MAX_STEP = 32


def blocks_to_buffers(context: PassContext) -> list[Pass]:
    """Blocks lose their iterators; each buffer is allocated where it is used, and made small."""
    return [
        *context.user_passes(0),
        IntrinsicFallback(),
        LowerInitBlock(),
        ConvertBlocksToOpaque(),
        PlanBufferAllocation(),
        CheckSafety(),
        CompactBufferAllocation(),
    ]


def buffers_to_memory(context: PassContext) -> list[Pass]:
    """Blocks go; buffers become flat memory, and indices as narrow as they may be."""
    return [
        LowerMatchBuffer(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
        LegalizeSmallFloats(),
        NarrowDataType(),
        Simplify(),
        *context.user_passes(1),
    ]


def cpu_loops(context: PassContext) -> list[Pass]:
    """Loops as a CPU runs them: split at conditions, vectorised, unrolled."""
    vectorize = context.enables("vectorize")
    return [
        SkipZeroTerms(),
        InvariantDivisors(),
        VectorReduction(),
        context.configured(LoopPartition, enable=context.enables("loop_partition")),
        *([WidenVectorLoops()] if vectorize else []),
        VectorizeLoop(vectorize),
        StorageRewrite(context.enables("storage_rewrite")),
        Simplify(),
        BlendLocalStores(),
        # Last of the costly steps: it multiplies statements.
        context.configured(UnrollLoop, expand=False, plain_max_step=PLAIN_MAX_STEP),
        *context.user_passes(2),
    ]


def statements_to_calls(context: PassContext) -> list[Pass]:
    """What is left to do before a code generator takes over: the calling convention comes last."""
    return [
        RemoveNoOp(),
        RewriteUnsafeSelect(),
        HoistIfThenElse(),
        *context.user_passes(3),
        LegalizeVectors(),
        LowerIntrin(),
        CommonSubexprElim(context.enables("cse_tir")),
        HostABI(),
    ]


def cpu_passes(context: PassContext, *, tiles: bool) -> list[Pass]:
    """All passes; `context` gives their options and the user's own passes.

    `tiles`: buffers of AMX tiles become registers, while their blocks are known.
    """
    return [
        *blocks_to_buffers(context),
        *([TileRegisters()] if tiles else []),
        *buffers_to_memory(context),
        *cpu_loops(context),
        *statements_to_calls(context),
    ]


@dataclass(frozen=True)
class Stage:
    """A module as it was after one pass."""

    name: str
    module: IRModule

    def __str__(self) -> str:
        return f"# after {self.name}\n{self.module}"


@dataclass(frozen=True)
class Stages:
    """The module before the pipeline and after every pass; prints as all of them."""

    items: tuple[Stage, ...]

    @property
    def module(self) -> IRModule:
        """The lowered module."""
        return self.items[-1].module

    def after(self, name: str) -> IRModule:
        """The module after the (last) pass of that name."""
        for stage in reversed(self.items):
            if stage.name == name:
                return stage.module
        known = ", ".join(stage.name for stage in self.items)
        raise LowerError(f"no pass {name!r} was run; these were: {known}")

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.items)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


Watcher = Callable[[str, IRModule], object]


@nested_deeply(LowerError, "the program to lower")
def run_pipeline(
    program: PrimFunc | IRModule,
    target: Target | None,
    passes: Callable[[PassContext, Target | None], Sequence[Pass]],
    watch: Watcher | None = None,
) -> IRModule:
    """Run the passes of a backend; `watch` is told the name of each and the module after it."""
    if not isinstance(program, PrimFunc | IRModule):
        raise ArgumentError(
            f"lower() takes a PrimFunc or an IRModule, got {type(program).__name__}"
        )
    context = PassContext.current()
    module = as_module(program)
    verify_well_formed(module)
    for step in passes(context, target):
        module = context.run(step, module, target)
        if watch is not None:
            watch(step.name, module)
    if context.option("tir.add_lower_pass"):
        verify_lowered(module)
    return module

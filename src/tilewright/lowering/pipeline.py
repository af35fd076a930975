"""The order in which a TensorIR function becomes what code generators consume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, overload

from tilewright.errors import ArgumentError, LowerError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.ir.verify import verify_well_formed
from tilewright.lowering.base import FunctionPass, Pass
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
from tilewright.lowering.sequential import run_pass
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


def passes_of(context: PassContext) -> list[Pass]:
    """All passes in order; `context` gives their options and the user's own passes."""
    option = context.option

    def enabled(what: str) -> bool:
        return not option(f"tir.disable_{what}")

    def configured(pass_class: type[FunctionPass], **defaults: object) -> FunctionPass:
        return pass_class(**{**defaults, **option(f"tir.{pass_class.name}")})

    return [
        *context.user_passes(0),
        IntrinsicFallback(),
        LowerInitBlock(),
        ConvertBlocksToOpaque(),
        PlanBufferAllocation(),
        CheckSafety(),
        CompactBufferAllocation(),
        TileRegisters(),
        LowerMatchBuffer(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
        LegalizeSmallFloats(),
        NarrowDataType(),
        Simplify(),
        *context.user_passes(1),
        SkipZeroTerms(),
        VectorReduction(),
        configured(LoopPartition, enable=enabled("loop_partition")),
        *([WidenVectorLoops()] if enabled("vectorize") else []),
        VectorizeLoop(enabled("vectorize")),
        StorageRewrite(enabled("storage_rewrite")),
        Simplify(),
        BlendLocalStores(),
        configured(UnrollLoop, expand=False),  # last of the costly steps: it multiplies statements
        *context.user_passes(2),
        RemoveNoOp(),
        RewriteUnsafeSelect(),
        HoistIfThenElse(),
        *context.user_passes(3),
        LegalizeVectors(),
        LowerIntrin(),
        CommonSubexprElim(enabled("cse_tir")),
        HostABI(),
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
        raise LowerError(f"no pass {name!r} was run; there are {known}")

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.items))


Watcher = Callable[[str, IRModule], object]


@overload
def lower(
    program: PrimFunc | IRModule,
    target: Target | str | None = None,
    *,
    stages: Literal[False] | Watcher = False,
) -> IRModule: ...
@overload
def lower(
    program: PrimFunc | IRModule, target: Target | str | None = None, *, stages: Literal[True]
) -> Stages: ...


@nested_deeply(LowerError, "the program to lower")
def lower(
    program: PrimFunc | IRModule,
    target: Target | str | None = None,
    *,
    stages: bool | Watcher = False,
) -> IRModule | Stages:
    """Lower a function or module to the form that code generators consume.

    `stages=True` gives every intermediate module instead of the last one; a callable is called with
    the name of each pass and the module after it.
    """
    context = PassContext.current()
    if not isinstance(program, PrimFunc | IRModule):
        raise ArgumentError(
            f"lower() takes a PrimFunc or an IRModule, got {type(program).__name__}"
        )
    module = as_module(program)
    verify_well_formed(module)
    chosen = Target(target) if isinstance(target, str) else target or Target.current()
    kept = [Stage("input", module)]
    for step in passes_of(context):
        module = run_pass(step, module, chosen, context)
        if stages is True:
            kept.append(Stage(step.name, module))
        elif callable(stages):
            stages(step.name, module)
    if context.option("tir.add_lower_pass"):
        verify_lowered(module)
    return Stages(tuple(kept)) if stages is True else module

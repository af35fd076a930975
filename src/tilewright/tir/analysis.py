"""Questions about programs: regions, definitions, purity, bounds, what a GPU can run, memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright import ir
from tilewright.arith.block_access import block_access_regions
from tilewright.codegen.program_facts import constant_bytes
from tilewright.errors import IRError, LowerError, ScheduleError
from tilewright.ir import (
    expr_deep_equal as expr_deep_equal,
    verify_well_formed as verify_well_formed,
)
from tilewright.lowering.base import FunctionPass
from tilewright.lowering.check_safety import CheckSafety
from tilewright.lowering.plan_buffer_allocation import AccessScopes, Scope
from tilewright.schedule.analysis import estimate_tir_flops as estimate_tir_flops
from tilewright.space.gpu.lowered_kernels import KernelNeeds, is_launch, lowered_kernels
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

Regions = list[ir.BufferRegion]


def find_anchor_block(mod: ir.IRModule) -> ir.Block | None:
    """The reduction block with the most operations in its loop nest; None without reductions."""
    # Databases import all rules, which no other question needs.
    from tilewright.database.module_equality import find_anchor_block as find

    return find(mod)


def undefined_vars(node: ir.Node, defs: Sequence[ir.Var] | None = None) -> list[ir.Var]:
    """Variables and pointers of buffers that `node` uses, and neither it nor `defs` defines."""
    pointers: dict[ir.Var, None] = {}
    known = set(defs or ())

    def look(part: Any) -> None:
        match part:
            case ir.BufferLoad(buffer=buffer) | ir.BufferStore(buffer=buffer):
                pointers[buffer.data] = None
            case ir.Allocate(buffer_var=var) | ir.AllocateConst(buffer_var=var):
                known.add(var)
            case ir.Block():
                known.update(buffer.data for buffer in part.alloc_buffers)
                known.update(match.buffer.data for match in part.match_buffers)

    ir.post_order_visit(node, look)
    return [var for var in dict.fromkeys((*ir.free_vars(node), *pointers)) if var not in known]


def get_block_access_region(
    block: ir.Block, buffer_var_map: Mapping[ir.Var, ir.Buffer]
) -> list[Regions]:
    """What a block reads, what it writes, and what it reaches through pointers."""
    found = block_access_regions(block, buffer_var_map.values())
    opaque = [ir.BufferRegion.full(buffer_var_map[var]) for var in found.opaque]
    return [list(found.reads), list(found.writes), opaque]


def get_block_read_write_region(
    block: ir.Block, buffer_var_map: Mapping[ir.Var, ir.Buffer]
) -> list[Regions]:
    """What a block reads and writes; what it reaches through pointers is among both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    return [reads + opaque, writes + opaque]


def detect_buffer_access_lca(func: ir.PrimFunc) -> dict[ir.Buffer, Scope | None]:
    """For each buffer that is accessed, the innermost scope in which its values are complete.

    That lies around the loops over which a block reduces into the buffer, and around those of
    iterators of which nothing is known. None: there is no loop and no block around.
    """
    scopes = _CompleteScopes(func)
    scopes.visit(func.body)
    return {buffer: path[-1] if path else None for buffer, path in scopes.common.items()}


class _CompleteScopes(AccessScopes):
    """The same of all buffers of a function, and around the loops that complete their values."""

    def __init__(self, func: ir.PrimFunc) -> None:
        super().__init__()
        self.by_data = {buffer.data: [buffer] for buffer in func.buffer_map.values()}

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        self.generic_visit(node)
        block = node.block
        carried = {ir.IterType.COMM_REDUCE: block.writes}
        for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True):
            if iter_var.iter_type is not ir.IterType.DATA_PAR:
                regions = carried.get(iter_var.iter_type, (*block.reads, *block.writes))
                for region in regions:
                    self.access(region.buffer.data, self._around(set(ir.free_vars(value))))

    def _around(self, variables: set[ir.Var]) -> tuple[Scope, ...]:
        """The scopes around the outermost loop over one of the variables."""
        for depth, scope in enumerate(self.path):
            if isinstance(scope, ir.For) and scope.loop_var in variables:
                return self.path[:depth]
        return self.path


# --- definitions --------------------------------------------------------------------------------


def verify_ssa(func: ir.PrimFunc) -> bool:
    """True if each variable is defined once. Two definitions by `Let` may give the same value."""
    values: dict[ir.Var, ir.PrimExpr | None] = dict.fromkeys(func.params)
    for var, value in _definitions(func.body):
        if var in values:
            known = values[var]
            if known is None or value is None or not ir.structural_equal(known, value):
                return False
        values[var] = value
    return True


def _definitions(body: ir.Stmt) -> Iterator[tuple[ir.Var, ir.PrimExpr | None]]:
    for node in ir.walk(body):
        match node:
            case ir.Let(var=var, value=value):
                yield var, value
            case ir.For(loop_var=var) | ir.LetStmt(var=var):
                yield var, None
            case ir.Allocate(buffer_var=var) | ir.AllocateConst(buffer_var=var):
                yield var, None
            case ir.Block():
                yield from ((iter_var.var, None) for iter_var in node.iter_vars)


# --- purity -------------------------------------------------------------------------------------


def is_pure_function(func: ir.PrimFunc) -> bool:
    """True if the function writes to no buffer and calls nothing that has an effect."""
    return next(_effects(func.body), None) is None


def assert_pure_function(func: ir.PrimFunc) -> bool:
    """True for a pure function; of any other the first effect is the error."""
    effect = next(_effects(func.body), None)
    if effect is not None:
        raise AssertionError(f"function {func.name!r} is not pure, it has {effect}")
    return True


def _effects(stmt: ir.Stmt) -> Iterator[str]:
    for node in ir.walk(stmt):
        match node:
            case ir.BufferStore():
                yield f"a store to {node.buffer.name}"
            case ir.Call(op=ir.Op() as op) if op.effect > ir.CallEffect.READ_STATE:
                yield f"a call of {op.name}"
            case ir.Call(op=op) if not isinstance(op, ir.Op):
                yield f"a call of {op}"


# --- bounds -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OOBChecker(FunctionPass):
    """A pass that changes nothing, and refuses programs that are seen to leave a buffer."""

    name: ClassVar[str] = "OOBChecker"

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        try:
            return CheckSafety().run_function(func, target)
        except LowerError as error:
            raise ScheduleError(str(error)) from None


# --- GPUs ---------------------------------------------------------------------------------------


def _threads(axis: str) -> Callable[[KernelNeeds], float]:
    return lambda needs: max(needs.threads.get(f"threadIdx.{axis}", {1}))


_NEEDS: Mapping[str, Callable[[KernelNeeds], float]] = {
    "max_shared_memory_per_block": lambda needs: needs.shared_bytes,
    "max_local_memory_per_block": lambda needs: needs.local_bytes,
    "max_threads_per_block": lambda needs: math.prod(_threads(axis)(needs) for axis in "xyz"),
    "max_thread_x": _threads("x"),
    "max_thread_y": _threads("y"),
    "max_thread_z": _threads("z"),
    "max_vthread": lambda needs: math.prod(
        max(found) for tag, found in needs.threads.items() if tag.startswith("vthread")
    ),
    "max_vector_bytes": lambda needs: needs.vector_bytes,
}


def verify_gpu_code(func: ir.PrimFunc, constraints: Mapping[str, Any]) -> bool:
    """True if each kernel of a lowered function keeps the limits and uses each axis one way."""
    limits = {name: int(limit) for name, limit in constraints.items()}
    most_kernels = limits.pop("max_kernels", math.inf)
    for name in limits:
        if name not in _NEEDS:
            hint = did_you_mean(name, [*_NEEDS, "max_kernels"])
            raise IRError(f"verify_gpu_code: there is no limit {name!r}{hint}")
    kernels = list(lowered_kernels(func.body))
    return len(kernels) <= most_kernels and all(
        all(len(extents) == 1 for extents in needs.threads.values())
        and all(_NEEDS[name](needs) <= limit for name, limit in limits.items())
        for needs in kernels
    )


def verify_memory(func: ir.PrimFunc) -> bool:
    """True if a GPU function touches its buffers in kernels only. One for a CPU always does."""
    target = func.attrs.get("target")
    target = Target(target) if isinstance(target, (str, Mapping)) else target
    return target is None or "gpu" not in target.keys or not _touches_memory(func.body)


def _touches_memory(body: ir.Stmt) -> bool:
    """Outside of kernels."""
    outside = ir.walk(body, into=lambda node: not is_launch(node))
    return any(isinstance(node, (ir.BufferLoad, ir.BufferStore)) for node in outside)


# --- memory that lowered programs allocate --------------------------------------------------------


def calculate_allocated_bytes(func_or_mod: ir.PrimFunc | ir.IRModule) -> dict[str, dict[str, int]]:
    """For each function the most bytes that are allocated at a time in each scope."""
    module = ir.as_module(func_or_mod)
    return {name: _most_at_a_time(func) for name, func in module.functions.items()}


def calculate_workspace_bytes(func: ir.PrimFunc, workspace_byte_alignment: int) -> int:
    """The most bytes of global memory that are allocated at a time, each array aligned."""
    return _most_at_a_time(func, workspace_byte_alignment).get("global", 0)


def calculate_constant_bytes(func: ir.PrimFunc, constant_byte_alignment: int) -> int:
    """The bytes of all constant arrays, each aligned."""
    constants = ir.nodes_of(func.body, ir.AllocateConst)
    return sum(_aligned_bytes(node, constant_byte_alignment) for node in constants)


def _most_at_a_time(func: ir.PrimFunc, alignment: int = 1) -> dict[str, int]:
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def visit(node: ir.Node) -> None:
        if not isinstance(node, ir.Allocate):
            for child in ir.statements_in(node):
                visit(child)
            return
        pointer = node.buffer_var.type_annotation
        scope = "global" if pointer is None else pointer.storage_scope
        size = _aligned_bytes(node, alignment)
        now[scope] += size
        if now[scope] > most[scope]:
            most[scope] = now[scope]
        visit(node.body)
        now[scope] -= size

    visit(func.body)
    return dict(most)


def _aligned_bytes(node: ir.Allocate | ir.AllocateConst, alignment: int) -> int:
    """What cannot be known before the program runs counts as nothing."""
    return -(-(constant_bytes(node) or 0) // alignment) * alignment

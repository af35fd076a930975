"""Why a schedule rule left a block as it is, in words.

Rules only say that they have nothing to do. The reasons here ask the same conditions, in the order
in which the rules do; a rule of somebody else's may answer itself, with a method
`why_not(sch, block) -> str`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import Call, Node, Op, post_order_visit
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import INLINE_RULE
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import (
    analyze_read_write_pattern,
    has_if_then_else,
    has_trivial_binding,
    writes_output,
)
from tilewright.schedule.conditions.checks import is_reduction_block
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.state.scope import child_blocks, loops_of, realize_of
from tilewright.space.base import ScheduleRule
from tilewright.space.conditions import (
    all_iters_spatial,
    in_root_scope,
    is_root,
    is_spatial_function,
    is_tiled,
)
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.vector_reduction import reduces_contiguously
from tilewright.space.rules import AutoInline

Check = tuple[Callable[[Schedule, StmtSRef], bool], str]
UNKNOWN = "the rule found nothing to do"


def why_not(rule: ScheduleRule, sch: Schedule, block: BlockRV) -> str:
    """The reason why a rule did not apply at a block."""
    own = getattr(rule, "why_not", None)
    if callable(own):
        return str(own(sch, block))
    sref = sch.get_sref(block)
    if isinstance(rule, AutoInline):
        return _why_not_inlined(rule, sch, sref)
    for kind in type(rule).__mro__:
        if kind.__name__ in _CHECKS:
            return _first(_CHECKS[kind.__name__], sch, sref)
    return UNKNOWN


def _first(checks: Sequence[Check], sch: Schedule, block: StmtSRef) -> str:
    return next((text for holds, text in checks if holds(sch, block)), UNKNOWN)


# --- conditions ---------------------------------------------------------------------------------


def _always(sch: Schedule, block: StmtSRef) -> bool:
    return True


def _has_no_consumer(sch: Schedule, block: StmtSRef) -> bool:
    return not neighbours(sch, block, before=False)


def _has_no_right_operand(sch: Schedule, block: StmtSRef) -> bool:
    found = Contraction.of(block.block)
    return found is not None and found.right is None


_ROOT: Check = (lambda _, b: is_root(b), "it is the root block")
_TILED: Check = (lambda _, b: is_tiled(b), "another rule has taken care of it already")
_REDUCTION: Check = (lambda _, b: not all_iters_spatial(b.block), "it is a reduction")
_NO_REDUCTION: Check = (lambda _, b: all_iters_spatial(b.block), "it is no reduction")
_UNUSUAL: Check = (
    lambda _, b: not has_trivial_binding(b),
    "its iterators are not simply its loops",
)
_UNUSED: Check = (_has_no_consumer, "no other block reads its result")
_NOT_A_REDUCTION_BLOCK: Check = (
    lambda sch, b: not is_reduction_block(sch.state, b),
    "it is no reduction",
)
_NARROW_ENOUGH: Check = (
    _always,
    "its results alone give enough work to run in parallel",
)

_CHECKS: dict[str, Sequence[Check]] = {
    "InlineConstantScalars": (_ROOT, (_always, "it is no constant scalar")),
    "ApplyCustomRule": ((_always, "it names no rule of its own"),),
    "MultiLevelTilingWithIntrin": (
        _ROOT,
        _TILED,
        (_always, "it does not compute what the tensor instruction does"),
    ),
    "MultiLevelTilingTensorCore": (
        _ROOT,
        _TILED,
        (_always, "it does not compute what the tensor instructions do"),
    ),
    "MultiLevelTiling": (
        _ROOT,
        _TILED,
        _NO_REDUCTION,
        (lambda _, b: len(b.block.writes) != 1, "it writes more than one buffer"),
        (lambda _, b: not inputs_of(b.block), "it reads nothing"),
        _UNUSUAL,
        (_always, "no element of its inputs is used for more than one result"),
    ),
    "AddRFactor": (_ROOT, _TILED, _NOT_A_REDUCTION_BLOCK, _UNUSUAL, _NARROW_ENOUGH),
    "CrossThreadReduction": (_ROOT, _TILED, _NOT_A_REDUCTION_BLOCK, _UNUSUAL, _NARROW_ENOUGH),
    "ParallelizeVectorizeUnroll": ((_always, "it annotates root blocks only"),),
    "RandomComputeLocation": (
        _ROOT,
        (lambda _, b: not in_root_scope(b), "it is part of another block"),
        _TILED,
        (lambda _, b: not loops_of(b), "it has no loops"),
        _UNUSED,
        (
            lambda sch, b: len(child_blocks(sch.state, loops_of(b)[0])) != 1,
            "it shares its loops with another block",
        ),
    ),
    "AutoBind": (_ROOT, (_always, "its loops run on threads already")),
    "FuseRows": (
        _ROOT,
        _TILED,
        (lambda _, b: not writes_output(b), "it does not write an output of the function"),
        _REDUCTION,
        _UNUSUAL,
        (_always, "there are no reductions over rows before it, or fewer rows than cores"),
    ),
    "TensorTiling": (
        _ROOT,
        _TILED,
        _NO_REDUCTION,
        (lambda _, b: Contraction.of(b.block, any_layout=True) is None, "it is no contraction"),
        (_always, "no tensor instruction of the target computes what it does"),
    ),
    "RegisterTiling": (
        _ROOT,
        _TILED,
        _NO_REDUCTION,
        (
            lambda _, b: Contraction.of(b.block) is None,
            "it is no sum of products that runs along the last axis of its result",
        ),
        (_has_no_right_operand, "no input is contiguous along the last axis of its result"),
        (_always, "no register tile fits the program around it"),
    ),
    "ReduceInVectors": (
        _ROOT,
        _TILED,
        _NO_REDUCTION,
        _UNUSUAL,
        (
            lambda _, b: not reduces_contiguously(b.block),
            "its innermost reduction axis does not run over neighbouring elements",
        ),
    ),
    "SpatialPass": (
        _ROOT,
        _TILED,
        (lambda _, b: not loops_of(b), "it has no loops"),
        _REDUCTION,
        _UNUSUAL,
    ),
}


# --- inlining, whose conditions are options -----------------------------------------------------


def _why_not_inlined(rule: AutoInline, sch: Schedule, block: StmtSRef) -> str:
    stmt = block.block
    if is_root(block):
        return _ROOT[1]
    if len(stmt.writes) != 1:
        return "it writes more than one buffer"
    if _has_no_consumer(sch, block):
        return _UNUSED[1]
    if not all_iters_spatial(stmt):
        return _REDUCTION[1]
    if not is_spatial_function(sch.state, block):
        costly = _why_costly(rule, block)
        if costly:
            return costly
    if stmt.annotations.get(INLINE_RULE) == "disable":
        return f"its annotation {INLINE_RULE} forbids it"
    if rule.repeats_much(sch, block):
        return "the blocks that read its result would compute it again at each place they read"
    return "the blocks that read its result cannot take it in"


def _why_costly(rule: AutoInline, block: StmtSRef) -> str:
    """Why recomputing a block wherever it is used would be expensive."""
    realize, stmt = realize_of(block), block.block
    called: list[Op] = []
    post_order_visit(realize, lambda node: called.append(node.op) if _is_builtin(node) else None)
    expensive = [name for name in rule.disallow_op if Op.get(name) in called]
    if expensive:
        return f"it calls {expensive[0].removeprefix('tir.')}, which is expensive to recompute"
    if rule.disallow_if_then_else and has_if_then_else(realize):
        return "it holds a condition (T.if_then_else), which is expensive to recompute"
    patterns = [analyze_read_write_pattern(read, stmt.writes[0]) for read in stmt.reads]
    if rule.require_injective and not all(pattern.injective for pattern in patterns):
        return "it does not read an element of its inputs for each element of its result"
    if rule.require_ordered and not all(pattern.ordered for pattern in patterns):
        return "it reads its inputs in another order than it writes its result"
    return ""


def _is_builtin(node: Node) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op)

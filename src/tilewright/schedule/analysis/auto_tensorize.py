"""Folds the iterators of a block onto those of a tensor instruction.

A convolution is a matrix product once its iterators are fused in the right way. The right way
follows from which buffers an iterator appears in: an iterator of the workload may stand for one of
the instruction if both index the same buffers and are of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.arith import Analyzer, IndexMap
from tilewright.ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    IntImm,
    IterType,
    IterVar,
    PrimExpr,
    PrimFunc,
    Var,
    free_vars,
    is_one,
    multiply,
)
from tilewright.schedule.analysis.tensorize_info import description_block
from tilewright.schedule.state.handles import BlockRV
from tilewright.schedule.tensor.match import DescriptionMatcher, Mismatch

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule

_KINDS = (IterType.DATA_PAR, IterType.COMM_REDUCE)


@dataclass(frozen=True, eq=False)
class AutoTensorizeMappingInfo:
    """How a block becomes the computation of a tensor instruction."""

    mappings: list[IndexMap]  # of the block's iterators; exactly one
    lhs_buffer_map: Mapping[Buffer, Buffer]  # of the block -> of the description
    rhs_buffer_indices: Mapping[Buffer, list[PrimExpr]]  # of the description
    lhs_iters: tuple[IterVar, ...]
    rhs_iters: tuple[IterVar, ...]


class _BodyMatcher(DescriptionMatcher):
    """Compares what two blocks compute; where in memory is left open.

    Only the bodies count, neither shapes nor scopes. Buffers are paired one to one by their first
    use, and each must be accessed at the same indices everywhere.
    """

    def __init__(self, iters: Sequence[IterVar]) -> None:
        super().__init__(iters)
        self.buffer_map: dict[Buffer, Buffer] = {}
        self.mine: dict[Buffer, list[PrimExpr]] = {}  # both by the buffer of the workload
        self.theirs: dict[Buffer, list[PrimExpr]] = {}  # by the buffer of the description
        self._single = Analyzer()  # knows iterators with a single value, too
        for iter_var in iters:
            if iter_var.dom is not None:
                self._single.bind(iter_var.var, iter_var.dom)

    def access(self, mine: BufferLoad | BufferStore, theirs: BufferLoad | BufferStore) -> None:
        """Pair two buffers and remember how they are indexed."""
        buffer, wanted = mine.buffer, theirs.buffer
        known = self.buffer_map.get(buffer)
        if known is None:
            if buffer.dtype != wanted.dtype or wanted in self.theirs:
                raise Mismatch(f"{buffer.name} cannot be {wanted.name}")
            self._check_description(theirs)
            self.buffer_map[buffer] = wanted
            self.mine[buffer] = [self._simplified(index) for index in mine.indices]
            self.theirs[wanted] = list(theirs.indices)
            return
        if known is not wanted:
            raise Mismatch(f"{buffer.name} would be both {known.name} and {wanted.name}")
        self._check_same(self.mine[buffer], mine.indices)
        self._check_same(self.theirs[wanted], theirs.indices)

    def _simplified(self, index: PrimExpr) -> PrimExpr:
        """An index without iterators that add nothing; one that is all of an index stays."""
        return index if isinstance(index, Var) else self._single.simplify(index)

    def _check_description(self, access: BufferLoad | BufferStore) -> None:
        indices = access.indices
        single_zero = len(indices) == 1 and isinstance(indices[0], IntImm)
        if not single_zero and not all(isinstance(index, Var) for index in indices):
            raise Mismatch(f"{access.buffer.name} is not indexed by iterators alone")

    def _check_same(self, known: Sequence[PrimExpr], indices: Sequence[PrimExpr]) -> None:
        for old, new in zip(known, indices, strict=True):
            if not self.analyzer.can_prove_equal(old, new):
                raise Mismatch(f"accesses differ: `{old}` and `{new}`")


def match_bodies(block: Block, description: Block) -> _BodyMatcher | None:
    """How the buffers of two blocks pair up if both compute the same, else None."""
    if any(iv.iter_type not in _KINDS for iv in (*block.iter_vars, *description.iter_vars)):
        return None
    matcher = _BodyMatcher(block.iter_vars)
    try:
        matcher.stmt(block.body, description.body)
    except Mismatch:
        return None
    return matcher


def is_auto_tensorize_applicable(sch: Schedule, block: BlockRV, desc_func: PrimFunc) -> bool:
    """True when a block computes what a description says, whatever its loops and layouts."""
    target = description_block(desc_func).block
    return match_bodies(sch.get_sref(block).block, target) is not None


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: BlockRV, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How to fuse the iterators of a block so that it becomes what a description says."""
    workload, target = sch.get_sref(block).block, description_block(desc_func).block
    matched = match_bodies(workload, target)
    if matched is None:
        return None
    mapping = _propose(workload, target, matched)
    if mapping is None:
        return None
    return AutoTensorizeMappingInfo(
        [mapping], matched.buffer_map, matched.theirs, workload.iter_vars, target.iter_vars
    )


def _propose(workload: Block, target: Block, matched: _BodyMatcher) -> IndexMap | None:
    pairs = list(matched.buffer_map.items())
    mine = _uses([matched.mine[buffer] for buffer, _ in pairs])
    theirs = _uses([matched.theirs[wanted] for _, wanted in pairs])
    inputs: list[Var] = []
    kept: list[PrimExpr] = []
    fused: dict[IterVar, PrimExpr] = {}
    for iter_var in workload.iter_vars:
        fresh = Var(iter_var.var.name, iter_var.var.dtype)
        inputs.append(fresh)
        candidates = [
            other
            for other in target.iter_vars
            if other.iter_type is iter_var.iter_type
            and theirs.get(other.var, frozenset()) == mine.get(iter_var.var, frozenset())
        ]
        if not candidates:
            kept.append(fresh)
        elif len(candidates) == 1:
            fused[candidates[0]] = _append(fused.get(candidates[0]), iter_var, fresh)
        else:
            return None
    if any(other not in fused for other in target.iter_vars):
        return None
    analyzer = Analyzer()
    for iter_var, fresh in zip(workload.iter_vars, inputs, strict=True):
        if iter_var.dom is not None and not is_one(iter_var.dom.extent):
            analyzer.bind(fresh, iter_var.dom)
    outputs = [analyzer.simplify(fused[other]) for other in target.iter_vars]
    return IndexMap(tuple(inputs), (*kept, *outputs))


def _append(known: PrimExpr | None, iter_var: IterVar, fresh: Var) -> PrimExpr:
    if known is None:
        return fresh
    assert iter_var.dom is not None
    return multiply(known, iter_var.dom.extent) + fresh


def _uses(accesses: Sequence[Sequence[PrimExpr]]) -> dict[Var, frozenset[int]]:
    """For each variable the numbers of the buffers whose indices contain it."""
    found: dict[Var, set[int]] = {}
    for number, indices in enumerate(accesses):
        for index in indices:
            for var in free_vars(index):
                found.setdefault(var, set()).add(number)
    return {var: frozenset(numbers) for var, numbers in found.items()}

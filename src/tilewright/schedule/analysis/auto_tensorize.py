"""Folds the iterators of a block onto those of a tensor instruction.

A convolution is a matrix product once its iterators are fused in the right way. The right way
follows from which buffers an iterator appears in: an iterator of the workload may stand for one of
the instruction if both index the same buffers and are of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.schedule.analysis.tensorize_info import description_block
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.state import BlockRV, Exprs
from tilewright.schedule.state.scope import domain_of
from tilewright.schedule.tensor.match import DescriptionMatcher, Mismatch

_KINDS = (ir.IterType.DATA_PAR, ir.IterType.COMM_REDUCE)


@dataclass(frozen=True, eq=False)
class AutoTensorizeMappingInfo:
    """How a block becomes the computation of a tensor instruction."""

    mappings: list[arith.IndexMap]  # of the block's iterators; exactly one
    lhs_buffer_map: Mapping[ir.Buffer, ir.Buffer]  # of the block -> of the description
    rhs_buffer_indices: Mapping[ir.Buffer, list[ir.PrimExpr]]  # of the description
    lhs_iters: tuple[ir.IterVar, ...]
    rhs_iters: tuple[ir.IterVar, ...]


class _BodyMatcher(DescriptionMatcher):
    """Compares what two blocks compute; where in memory is left open.

    Only the bodies count, neither shapes nor scopes. Buffers are paired one to one by their first
    use, and each must be accessed at the same indices everywhere.
    """

    def __init__(self, iters: Sequence[ir.IterVar]) -> None:
        super().__init__(iters)
        self.buffer_map: dict[ir.Buffer, ir.Buffer] = {}
        self.mine: dict[ir.Buffer, list[ir.PrimExpr]] = {}  # both by the buffer of the workload
        self.theirs: dict[ir.Buffer, list[ir.PrimExpr]] = {}  # by the buffer of the description
        # Knows iterators with a single value, too.
        self._single = arith.Analyzer({iter_var.var: domain_of(iter_var) for iter_var in iters})

    def access(
        self, mine: ir.BufferLoad | ir.BufferStore, theirs: ir.BufferLoad | ir.BufferStore
    ) -> None:
        """Pair two buffers and remember how they are indexed."""
        buffer, wanted = mine.buffer, theirs.buffer
        if (known := self.buffer_map.get(buffer)) is None:
            if buffer.dtype != wanted.dtype or wanted in self.theirs:
                raise Mismatch(f"{buffer.name} cannot stand for {wanted.name}")
            self._check_description(theirs)
            self.buffer_map[buffer] = wanted
            self.mine[buffer] = [self._simplified(index) for index in mine.indices]
            self.theirs[wanted] = list(theirs.indices)
            return
        if known is not wanted:
            raise Mismatch(f"{buffer.name} would stand for both {known.name} and {wanted.name}")
        self._check_same(self.mine[buffer], mine.indices)
        self._check_same(self.theirs[wanted], theirs.indices)

    def _simplified(self, index: ir.PrimExpr) -> ir.PrimExpr:
        """An index without iterators that add nothing; one that is all of an index stays."""
        return index if isinstance(index, ir.Var) else self._single.simplify(index)

    def _check_description(self, access: ir.BufferLoad | ir.BufferStore) -> None:
        indices = access.indices
        single_zero = len(indices) == 1 and isinstance(indices[0], ir.IntImm)
        if not single_zero and not all(isinstance(index, ir.Var) for index in indices):
            raise Mismatch(f"{access.buffer.name} is not indexed by iterators alone")

    def _check_same(self, known: Exprs, indices: Exprs) -> None:
        for old, new in zip(known, indices, strict=True):
            if not self.analyzer.can_prove_equal(old, new):
                raise Mismatch(f"accesses differ: `{old}` and `{new}`")


def match_bodies(block: ir.Block, description: ir.Block) -> _BodyMatcher | None:
    """How the buffers of two blocks pair up if both compute the same, else None."""
    if any(iv.iter_type not in _KINDS for iv in (*block.iter_vars, *description.iter_vars)):
        return None
    matcher = _BodyMatcher(block.iter_vars)
    try:
        matcher.stmt(block.body, description.body)
    except Mismatch:
        return None
    return matcher


def is_auto_tensorize_applicable(sch: ScheduleCore, block: BlockRV, desc_func: ir.PrimFunc) -> bool:
    """True when a block computes what a description says, whatever its loops and layouts."""
    target = description_block(desc_func).block
    return match_bodies(sch.get_sref(block).block, target) is not None


def get_auto_tensorize_mapping_info(
    sch: ScheduleCore, block: BlockRV, desc_func: ir.PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How to fuse the iterators of a block so that it becomes what a description says."""
    workload, target = sch.get_sref(block).block, description_block(desc_func).block
    if (matched := match_bodies(workload, target)) is None:
        return None
    if (mapping := _propose(workload, target, matched)) is None:
        return None
    return AutoTensorizeMappingInfo(
        [mapping], matched.buffer_map, matched.theirs, workload.iter_vars, target.iter_vars
    )


def _propose(workload: ir.Block, target: ir.Block, matched: _BodyMatcher) -> arith.IndexMap | None:
    pairs = list(matched.buffer_map.items())
    mine = _uses([matched.mine[buffer] for buffer, _ in pairs])
    theirs = _uses([matched.theirs[wanted] for _, wanted in pairs])
    inputs: list[ir.Var] = []
    kept: list[ir.PrimExpr] = []
    fused: dict[ir.IterVar, ir.PrimExpr] = {}
    for iter_var in workload.iter_vars:
        fresh = ir.Var(iter_var.var.name, iter_var.var.dtype)
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
            known = fused.get(candidates[0])
            extent = domain_of(iter_var).extent
            fused[candidates[0]] = fresh if known is None else ir.multiply(known, extent) + fresh
        else:
            return None
    if any(other not in fused for other in target.iter_vars):
        return None
    analyzer = arith.Analyzer()
    for iter_var, fresh in zip(workload.iter_vars, inputs, strict=True):
        if not ir.is_one(domain_of(iter_var).extent):
            analyzer.bind(fresh, domain_of(iter_var))
    outputs = [analyzer.simplify(fused[other]) for other in target.iter_vars]
    return arith.IndexMap(tuple(inputs), (*kept, *outputs))


def _uses(accesses: Sequence[Exprs]) -> dict[ir.Var, frozenset[int]]:
    """For each variable the numbers of the buffers whose indices contain it."""
    found: dict[ir.Var, set[int]] = {}
    for number, indices in enumerate(accesses):
        for index in indices:
            for var in ir.free_vars(index):
                found.setdefault(var, set()).add(number)
    return {var: frozenset(numbers) for var, numbers in found.items()}

"""A scheduled function as a list of stores with the loops and blocks around them, read in one walk.

Nothing is lowered. Indices, values and costs are worked out later, by those who ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright import ir
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.nest.index_reader import IndexReader
from tilewright.nest.loops import Loop

Loops = tuple[Loop, ...]
Branches = tuple[tuple[ir.PrimExpr, bool], ...]  # conditions around, and whether they hold
_SERIAL = ir.ForKind.SERIAL
_NOTHING: Mapping[ir.Var, ir.PrimExpr] = {}


class EnclosingBlock:
    """A block as the stores in it see it: what its iterators and those around it stand for."""

    __slots__ = ("_bindings", "lets", "outer", "packs_weights", "realize")

    def __init__(
        self,
        realize: ir.BlockRealize,
        lets: Mapping[ir.Var, ir.PrimExpr],
        outer: EnclosingBlock | None,
    ) -> None:
        self.realize = realize
        self.lets = lets
        self.outer = outer
        # Constant weights get another layout here, once before all runs.
        self.packs_weights: bool = LAYOUT_REWRITE_PREPROC in realize.block.annotations or (
            outer is not None and outer.packs_weights
        )
        self._bindings: dict[ir.Var, ir.PrimExpr] | None = None

    @property
    def bindings(self) -> Mapping[ir.Var, ir.PrimExpr]:
        """Values of iterators over loop variables, as they stand."""
        if self._bindings is None:
            around = _NOTHING if self.outer is None else self.outer.bindings
            found = dict(around)
            for iter_var, value in self.realize.bindings:
                value = ir.substitute(value, self.lets) if self.lets else value
                found[iter_var.var] = ir.substitute(value, around) if around else value
            self._bindings = found
        return self._bindings


@dataclass(slots=True)
class StoreSite:
    """A store and what is around it; a block that is one tensor instruction has a site as well."""

    node: ir.BufferStore | ir.Block
    loops: Loops  # all of them
    lowered_loops: Loops  # without those that lowering drops
    scope: EnclosingBlock | None
    lets: Mapping[ir.Var, ir.PrimExpr]
    branches: Branches
    in_instruction: bool  # inside of a block that is one tensor instruction

    @property
    def packs_weights(self) -> bool:
        """True when the store only changes the layout of weights."""
        return self.scope is not None and self.scope.packs_weights


@dataclass(slots=True)
class LoadSite:
    """An expression outside of stores (a condition, an argument) that may load."""

    node: ir.Node
    loops: Loops
    branches: Branches


@dataclass(slots=True)
class Reading:
    """What the walk found, in program order."""

    reader: IndexReader = field(default_factory=IndexReader)
    sites: list[StoreSite] = field(default_factory=list)
    others: list[LoadSite] = field(default_factory=list)
    allocated: dict[ir.Buffer, None] = field(default_factory=dict)
    views: list[tuple[ir.MatchBufferRegion, Loops, Branches]] = field(default_factory=list)


class _Walker:
    """Walks a function once."""

    def __init__(self) -> None:
        self.reading = Reading()
        self._reader = self.reading.reader
        self._loops: Loops = ()
        self._lowered: Loops = ()
        self._scope: EnclosingBlock | None = None
        self._lets = _NOTHING
        self._branches: Branches = ()
        self._in_instruction = False

    def visit(self, node: ir.Stmt) -> None:
        _VISITORS.get(type(node), _Walker._visit_parts)(self, node)

    def _visit_parts(self, node: ir.Stmt) -> None:
        for child in ir.children(node):
            self.visit(child) if isinstance(child, ir.Stmt) else self._visit_other(child)

    def _visit_other(self, node: ir.Node) -> None:
        if _may_load(node) and not (self._scope and self._scope.packs_weights):
            self.reading.others.append(LoadSite(node, self._lowered, self._branches))

    def _visit_loop(self, node: ir.For) -> None:
        loops, lowered = self._loops, self._lowered
        first = node.min.value if type(node.min) is ir.IntImm else 0
        extent = node.extent.value if type(node.extent) is ir.IntImm else None
        if extent == 1 and node.kind is _SERIAL and not first and not node.annotations:
            self._reader.enter_loop(node.loop_var, 0, 1)
            self._loops = (*loops, Loop(node.loop_var, 1, _SERIAL))
            self.visit(node.body)
            self._loops = loops
            return
        binding = node.thread_binding
        tag = "" if binding is None else binding.thread_tag
        loop = Loop(node.loop_var, extent, node.kind, node.annotations, tag)
        self._reader.enter_loop(loop.var, first, extent)
        self._loops = (*loops, loop)
        # A loop around may run over the same threads already.
        is_thread = loop.tag and loop.tag != "vthread"
        same = next((each for each in lowered if each.tag == loop.tag), None) if is_thread else None
        if same is not None:
            self._reader.rename(loop.var, same.var)
        else:
            self._lowered = (*lowered, loop)
        self.visit(node.body)
        self._loops, self._lowered = loops, lowered

    def _visit_block(self, node: ir.BlockRealize) -> None:
        block, outer, inside = node.block, self._scope, self._in_instruction
        self._reader.enter_block(block.iter_vars, node.iter_values)
        self._scope = EnclosingBlock(node, self._lets, outer)
        if self._scope.packs_weights:
            for region in block.writes:
                self.reading.allocated.pop(region.buffer, None)
        else:
            self.reading.allocated.update(dict.fromkeys(block.alloc_buffers))
            for match in block.match_buffers:
                self.reading.views.append((match, self._lowered, self._branches))
        if not isinstance(node.predicate, ir.IntImm):
            self._visit_other(node.predicate)
        if block.match_buffers and len(block.writes) == 1 and not inside:
            self._add_site(block)
            self._in_instruction = True
        if block.init is not None:
            loops, self._loops = self._loops, _loops_of_results(node, self._loops)
            self.visit(block.init)
            self._loops = loops
        self.visit(block.body)
        self._scope, self._in_instruction = outer, inside

    def _visit_condition(self, node: ir.IfThenElse) -> None:
        self._visit_other(node.condition)
        around = self._branches
        for branch, holds in ((node.then_case, True), (node.else_case, False)):
            if branch is not None:
                self._branches = (*around, (node.condition, holds))
                self.visit(branch)
        self._branches = around

    def _visit_let(self, node: ir.LetStmt) -> None:
        self._visit_other(node.value)
        self._reader.enter_let(node.var)
        around = self._lets
        self._lets = {**around, node.var: ir.substitute(node.value, around)}
        self.visit(node.body)
        self._lets = around

    def _add_site(self, node: ir.BufferStore | ir.Block) -> None:
        around = self._loops, self._lowered, self._scope, self._lets, self._branches
        self.reading.sites.append(StoreSite(node, *around, self._in_instruction))


_VISITORS: dict[type, Callable[[_Walker, Any], None]] = {
    ir.For: _Walker._visit_loop,
    ir.BlockRealize: _Walker._visit_block,
    ir.BufferStore: _Walker._add_site,
    ir.IfThenElse: _Walker._visit_condition,
    ir.LetStmt: _Walker._visit_let,
}


def _may_load(node: ir.Node) -> bool:
    """False for arithmetic on variables and numbers."""
    while isinstance(node, ir.BinaryOp):
        if _may_load(node.b):
            return True
        node = node.a
    return not isinstance(node, (ir.Var, ir.IntImm))


def _loops_of_results(realize: ir.BlockRealize, loops: Loops) -> Loops:
    """The loops around a reduction in which its results start: those that do not reduce."""
    reducing = {
        var
        for iter_var, value in realize.bindings
        if iter_var.iter_type == ir.IterType.COMM_REDUCE
        for var in ir.free_vars(value)
    }
    return tuple(loop for loop in loops if loop.var not in reducing)


def read(func: ir.PrimFunc) -> Reading:
    """The stores of a function."""
    walker = _Walker()
    walker.visit(func.body)
    return walker.reading

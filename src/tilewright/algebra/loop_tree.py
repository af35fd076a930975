"""A program as a tree of loops over digits, whose extents depend on decisions.

A digit is an atom of iteration. Loops are lists of digits, so that splits replace a digit by digits
and fused loops are longer lists; the iterators of blocks are sums of digits. Digits of extent 1 add
nothing to any sum: factors of 1 need no cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tilewright import ir
from tilewright.algebra.expr import Value, product_of


class NotInterpreted(Exception):
    """A sketch, or a step of one, that is not interpreted; its text says why."""


@dataclass(eq=False)
class Digit:
    """An atom of iteration; it counts from zero.

    One with a `source` is no loop any more: it is `sum(source) // below % extent`, where loops were
    fused and split in other places.
    """

    extent: Value
    source: Mapping[Digit, Value] | None = None
    below: Value = 1
    total: Value = 1  # what the source stays below, by a predicate where tiles do not divide
    is_covered: bool = False  # it takes all its values while all of the source runs
    is_aligned: bool = False  # tiles of the source are multiples of `below`, or divide it


Terms: TypeAlias = dict[Digit, Value]


@dataclass(frozen=True)
class Predicate:
    """A sum of digits that stays below a limit."""

    terms: Mapping[Digit, Value]
    limit: Value


@dataclass(eq=False)
class LoopNode:
    """A loop."""

    digits: list[Digit]
    body: list[Node] = field(default_factory=list)
    parent: LoopNode | None = None
    kind: ir.ForKind = ir.ForKind.SERIAL
    tag: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    is_fused: bool = False  # where it runs once, iterators do not mention it
    # Where decisions say it: 1 if it is a part of the nest's one parallel loop, or of its vector.
    in_parallel: Value = 0
    in_vector: Value = 0

    @property
    def extent(self) -> Value:
        return product_of([digit.extent for digit in self.digits])


@dataclass(eq=False)
class StageNode:
    """A block: its iterators as sums of digits, and what its body does to buffers."""

    name: str
    block: ir.Block
    bindings: list[Terms]  # of its iterators; all of them count from zero
    predicates: list[Predicate] = field(default_factory=list)
    parent: LoopNode | None = None
    does: str = "all"  # "init" or "update" where a reduction is taken apart
    annotations: dict[str, Any] = field(default_factory=dict)
    outer: StageNode | None = None  # the block that it stands in
    parts: list[Node] = field(default_factory=list)  # of a block with blocks inside: its body
    init_parts: list[Node] = field(default_factory=list)  # and its initialisation
    is_made: bool = True  # False: by a later step
    packed: dict[ir.Buffer, Any] = field(default_factory=dict)  # by their `PackedLayout`
    fetched_by: dict[str, LoopNode | None] = field(default_factory=dict)  # axes; None: a warp

    @property
    def reads(self) -> tuple[ir.BufferRegion, ...]:
        """What it reads; an initialisation reads nothing."""
        return () if self.does == "init" else self.block.reads

    @property
    def is_reduction(self) -> bool:
        return any(not is_spatial(iter_var) for iter_var in self.block.iter_vars)


Node: TypeAlias = "LoopNode | StageNode"


def is_spatial(iter_var: ir.IterVar) -> bool:
    return iter_var.iter_type is ir.IterType.DATA_PAR


def types_of(loop: LoopNode, stages: Iterable[StageNode]) -> set[ir.IterType]:
    """The types of the iterators that stages bind to a loop."""
    digits = set(loop.digits)
    return {
        iter_var.iter_type
        for stage in stages
        for iter_var, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
        if not digits.isdisjoint(roots_of(terms))
    }


@dataclass(eq=False)
class LoopTree:
    """All loops and stages of a function, in program order."""

    body: list[Node] = field(default_factory=list)
    annotations: dict[str, Any] = field(default_factory=dict)  # of the root block
    packed: set[ir.Buffer] = field(default_factory=set)  # buffers with a copy in another layout
    # Conditions that do not hold where a loop has no constant extent.
    constant_extents: list[Value] = field(default_factory=list)
    # The last loop that was bound to each thread axis; None: the threads of a warp.
    thread_axes: dict[str, LoopNode | None] = field(default_factory=dict)

    def siblings(self, node: Node) -> list[Node]:
        """The statements among which a node stands."""
        return self.body if node.parent is None else node.parent.body

    def stages(self) -> list[StageNode]:
        """All stages in program order."""
        return list(_stages(self.body))

    def stages_below(self, node: Node) -> list[StageNode]:
        return list(_stages([node]))

    def remove(self, node: Node) -> None:
        """Take a node away, and loops that are empty then."""
        siblings = self.siblings(node)
        siblings.remove(node)
        if not siblings and node.parent is not None:
            self.remove(node.parent)

    def insert(self, node: Node, parent: LoopNode | None, position: int) -> None:
        node.parent = parent
        (self.body if parent is None else parent.body).insert(position, node)

    def replace(self, old: Node, new: Iterable[Node]) -> None:
        """Put other nodes into the place of one."""
        siblings = self.siblings(old)
        at = siblings.index(old)
        made = list(new)
        siblings[at : at + 1] = made
        for node in made:
            node.parent = old.parent


def _stages(nodes: Iterable[Node]) -> Iterator[StageNode]:
    for node in nodes:
        if isinstance(node, StageNode):
            if node.is_made:
                yield node
        else:
            yield from _stages(node.body)


def loops_of(node: Node) -> list[LoopNode]:
    """The loops around a node, outermost first."""
    found: list[LoopNode] = []
    parent = node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found[::-1]


def scopes_of(stage: StageNode) -> list[StageNode]:
    """A stage and the blocks that it stands in, the outermost first."""
    return [stage] if stage.outer is None else [*scopes_of(stage.outer), stage]


def iterators_of(stage: StageNode) -> dict[ir.Var, Terms]:
    """What the iterators of a stage stand for, and those of the blocks around it."""
    return {
        iter_var.var: terms
        for scope in scopes_of(stage)
        for iter_var, terms in zip(scope.block.iter_vars, scope.bindings, strict=True)
    }


def inner_stages(parts: Iterable[Node]) -> list[StageNode]:
    """The stages in the body of a block."""
    return list(_stages(parts))


def adopt(outer: StageNode, parts: Iterable[Node], init_parts: Iterable[Node] = ()) -> None:
    """Let a block have these parts."""
    outer.parts, outer.init_parts = list(parts), list(init_parts)
    for stage in _stages((*outer.parts, *outer.init_parts)):
        stage.outer = outer


def loops_between(stage: StageNode, top: LoopNode | None) -> list[LoopNode]:
    """The loops around a stage inside of `top`, outermost first."""
    loops = loops_of(stage)
    return loops if top is None else loops[loops.index(top) + 1 :]


def digits_of(loops: Iterable[LoopNode]) -> set[Digit]:
    return {digit for loop in loops for digit in loop.digits}


def roots_of(terms: Iterable[Digit]) -> set[Digit]:
    """The digits of loops that some digits are made of."""
    found: set[Digit] = set()
    for digit in terms:
        if digit.source is None:
            found.add(digit)
        else:
            found |= roots_of(digit.source)
    return found


def nest_of(loops: list[LoopNode], stage: StageNode) -> Node:
    """Loops inside of each other with a stage in the last."""
    inner: Node = stage
    for loop in reversed(loops):
        loop.body = [inner]
        inner.parent = loop
        inner = loop
    return inner

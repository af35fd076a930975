"""Equality of programs: two that are equal here are the same workload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tilewright import ir
from tilewright.errors import ScheduleError, TuneError
from tilewright.ir.node import NodeT, replace
from tilewright.ir.patterns import nodes_of, rewrite
from tilewright.records import entry_function
from tilewright.schedule.analysis import estimate_tir_flops
from tilewright.support.plugins import Family

__all__ = ["ModuleEquality", "module_equalities", "get_module_equality", "find_anchor_block"]


class ModuleEquality(ABC):
    """An equality of programs with a hash that equal ones share."""

    name: ClassVar[str]

    @abstractmethod
    def hash(self, mod: ir.IRModule) -> int:
        """A 64-bit number, the same in every process."""

    @abstractmethod
    def equal(self, lhs: ir.IRModule, rhs: ir.IRModule) -> bool:
        """True if the two are the same workload."""


module_equalities: Family[ModuleEquality] = Family("module equality", "tilewright.module_equality")


def get_module_equality(name: str) -> ModuleEquality:
    """The equality of that name; an unknown name is an error that lists the known ones."""
    return module_equalities.create(name)


@module_equalities.register("structural")
class StructuralEquality(ModuleEquality):
    """Everything counts but the names of what the programs define."""

    name = "structural"

    def subject(self, mod: ir.IRModule) -> ir.Node:
        """What is compared of a program."""
        return mod

    def hash(self, mod: ir.IRModule) -> int:
        return ir.structural_hash(self.subject(mod))

    def equal(self, lhs: ir.IRModule, rhs: ir.IRModule) -> bool:
        return ir.structural_equal(self.subject(lhs), self.subject(rhs))


@module_equalities.register("ignore-tensor")
@module_equalities.register("ignore-ndarray")
class IgnoreConstantsEquality(StructuralEquality):
    """Of constant arrays only shape and type count."""

    name = "ignore-ndarray"

    def subject(self, mod: ir.IRModule) -> ir.Node:
        return without_constants(mod)


@module_equalities.register("anchor-block")
class AnchorBlockEquality(StructuralEquality):
    """Only the heaviest reduction counts; programs without one are compared as a whole."""

    name = "anchor-block"

    def subject(self, mod: ir.IRModule) -> ir.Node:
        block = find_anchor_block(mod)
        return without_constants(mod) if block is None else _stripped(block)

    def equal(self, lhs: ir.IRModule, rhs: ir.IRModule) -> bool:
        ours, theirs = self.subject(lhs), self.subject(rhs)
        return type(ours) is type(theirs) and ir.structural_equal(ours, theirs, map_free_vars=True)


def without_constants(mod: ir.IRModule) -> ir.IRModule:
    """The program with empty constant arrays."""
    functions = {name: func.with_body(_stripped(func.body)) for name, func in mod.functions.items()}
    if all(functions[name] is mod.functions[name] for name in functions):
        return mod
    return replace(mod, functions=functions)


def _stripped(node: NodeT) -> NodeT:
    return rewrite(node, {ir.AllocateConst: lambda constant: replace(constant, data=())})


def find_anchor_block(mod: ir.IRModule) -> ir.Block | None:
    """The reduction block with the most operations in its loop nest; None without reductions."""
    try:
        func = entry_function(mod)
    except TuneError:
        return None
    candidates = [
        (nest, block)
        for nest in _top_level(func.body)
        for block in nodes_of(nest, ir.Block)
        if block.init is not None
    ]
    if len(candidates) <= 1:
        return candidates[0][1] if candidates else None
    return max(candidates, key=lambda candidate: _flops(candidate[0]))[1]


def _top_level(body: ir.Stmt) -> tuple[ir.Stmt, ...]:
    if isinstance(body, ir.BlockRealize) and not body.iter_values:
        body = body.block.body
    return ir.statements_of(body)


def _flops(nest: ir.Stmt) -> float:
    try:
        return estimate_tir_flops(ir.PrimFunc((), nest))
    except ScheduleError:
        return 0.0  # symbolic extents: there is nothing to compare

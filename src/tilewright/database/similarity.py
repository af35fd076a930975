"""Finds the known workload nearest to an unknown one, and names the differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilewright.database.module_equality import find_anchor_block
from tilewright.errors import IRError
from tilewright.ir import Block, IntImm, IRModule
from tilewright.ir.canonical import Encoder
from tilewright.ir.patterns import nodes_of
from tilewright.ir.structure import hash_of_tokens
from tilewright.records import Workload
from tilewright.support.nesting import nested_deeply
from tilewright.support.text import printable

_ITER_LETTERS = "STROP"  # of the iterator types, by number: spatial, thread, reduction, ...


@dataclass(frozen=True)
class Similar:
    """The nearest known workload and a sentence that says how it differs."""

    workload: Workload
    difference: str


class _AnyShape(Encoder):
    """An encoder that leaves out the values of integers and collects them instead."""

    def __init__(self) -> None:
        super().__init__(map_free_vars=True)
        self.numbers: list[int] = []

    def child(self, name: str, encode: Callable[[Encoder, object], None], value: object) -> None:
        if isinstance(value, IntImm):
            self.tokens += ("number", value.dtype)
            self.numbers.append(value.value)
        else:
            encode(self, value)


@nested_deeply(IRError, "the program")
def _encoded(mod: IRModule) -> _AnyShape:
    encoder = _AnyShape()
    for func in mod.functions.values():  # whatever they are called
        encoder.value(func.without_attr("global_symbol"))
    return encoder


def any_shape_hash(mod: IRModule) -> int:
    """A hash that programs share which differ only in numbers such as extents."""
    return hash_of_tokens(_encoded(mod).tokens)


def block_structure_hash(mod: IRModule) -> int:
    """A hash that programs share whose blocks have iterators of the same types, in order."""
    return hash_of_tokens([_block_structure(mod)])


@nested_deeply(IRError, "the program")
def _block_structure(mod: IRModule) -> str:
    return " ".join(
        "".join(_ITER_LETTERS[iter_var.iter_type] for iter_var in block.iter_vars)
        for func in mod.functions.values()
        for block in nodes_of(func.body, Block)
    )


def nearest(mod: IRModule, workloads: Iterable[Workload]) -> Similar | None:
    """The workload with the same blocks that differs least; None if there is none like it."""
    asked, structure = _encoded(mod), _block_structure(mod)
    best: tuple[float, Workload] | None = None
    for workload in workloads:
        known = _encoded(workload.mod)
        if known.tokens == asked.tokens:
            pairs = zip(known.numbers, asked.numbers, strict=True)
            distance = sum(abs(math.log2((abs(a) + 1) / (abs(b) + 1))) for a, b in pairs)
        elif _block_structure(workload.mod) == structure:
            distance = math.inf
        else:
            continue
        if best is None or distance < best[0]:
            best = distance, workload
    if best is None:
        return None
    return Similar(best[1], _difference(best[1].mod, mod, is_same_kind=best[0] < math.inf))


def _difference(known: IRModule, asked: IRModule, is_same_kind: bool) -> str:
    (known_name, known_shape), (asked_name, asked_shape) = map(_name_and_shape, (known, asked))
    if not is_same_kind:
        return (
            f"{describe(known)} is known, {describe(asked)} is asked; "
            "they have the same blocks but compute something else or on other types"
        )
    if known_name == asked_name and known_shape != asked_shape:
        return f"{known_name} {known_shape} is known, {asked_shape} is asked"
    if known_shape != asked_shape:
        return f"{describe(known)} is known, {describe(asked)} is asked"
    pairs = zip(_encoded(known).numbers, _encoded(asked).numbers, strict=True)
    changed = list(dict.fromkeys(f"{a} is {b}" for a, b in pairs if a != b))
    if not changed:
        return f"{describe(known)} is known, the same under another name"
    return f"{describe(known)} is known, but in the one asked for {', '.join(changed[:4])}"


@nested_deeply(IRError, "the program")
def describe(mod: IRModule) -> str:
    """A short name for people, such as `matmul 128x128x128`."""
    name, shape = _name_and_shape(mod)
    return printable(f"{name} {shape}" if shape else name)


def _name_and_shape(mod: IRModule) -> tuple[str, str]:
    blocks = [block for func in mod.functions.values() for block in nodes_of(func.body, Block)]
    computing = [block for block in blocks if block.iter_vars]
    block = find_anchor_block(mod) or (computing[-1] if computing else None)
    functions = [name for name in mod.functions if name != "main"]
    if block is None:
        return (functions or ["main"])[0], ""
    name = functions[0] if len(mod.functions) == 1 and functions else block.name_hint
    domains = [iter_var.dom for iter_var in block.iter_vars]
    return name, "x".join("?" if each is None else str(each.extent) for each in domains)

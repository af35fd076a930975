"""Primitives as data: what a schedule runs, a trace records, JSON stores and Python text spells.

A primitive is one object in one registry. It says how to run itself on a schedule and how its
arguments are named; everything else (the trace, its JSON and Python forms, replay) reads that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.errors import RegistryError
from tilewright.schedule.state.handles import AnyRV
from tilewright.schedule.trace.text import name_rv, python_value
from tilewright.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule

Outputs: TypeAlias = "AnyRV | list[Any] | None"
# (schedule, inputs, attrs, decision) -> (outputs, decision to record)
Runner: TypeAlias = "Callable[[Schedule, Sequence[Any], Sequence[Any], Any], tuple[Outputs, Any]]"
# (inputs, attrs), both as Python text -> arguments of the call
Speller: TypeAlias = Callable[[Sequence[str], Sequence[str]], list[str]]
Converter: TypeAlias = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True, eq=False)
class Primitive:
    """A kind of instruction."""

    kind: str  # its name in JSON, e.g. "Split"
    method: str  # its name in Python, e.g. "split"
    run: Runner
    spell: Speller
    is_pure: bool = False  # has no effect but its outputs: unused ones are dropped from traces
    attrs_to_json: Converter = list
    attrs_from_json: Converter = list
    # (schedule, *arguments, **arguments) -> results: the method, where `Schedule` has none
    call: Callable[..., Any] | None = None
    other_kinds: tuple[str, ...] = ()  # names in JSON that are read too: those of later TVMs
    gives_list: bool = False  # a call returns a list, however long

    @staticmethod
    def get(name: str) -> Primitive:
        """The primitive with that name in JSON."""
        return get_primitive(name)

    @property
    def name(self) -> str:
        """Its name in JSON."""
        return self.kind

    @property
    def is_postproc(self) -> bool:
        """True for the mark that divides a trace from its post-processing."""
        return self.kind == "EnterPostproc"


# Primitives that never ask how data flows between blocks; all others may (flags.py).
KEEP_IN_PLACE = frozenset(
    {
        "AddUnitLoop",
        "Annotate",
        "Bind",
        "CacheWrite",
        "DecomposeReduction",
        "EnterPostproc",
        "Fuse",
        "GetBlock",
        "GetChildBlocks",
        "GetConsumers",
        "GetLoops",
        "GetOutputBlocks",
        "GetProducers",
        "Parallel",
        "Reorder",
        "SampleCategorical",
        "SamplePerfectTile",
        "SetScope",
        "Split",
        "StorageAlign",
        "Unannotate",
        "Unroll",
        "Vectorize",
    }
)

_by_kind: dict[str, Primitive] = {}
_by_method: dict[str, Primitive] = {}


def register_primitive(primitive: Primitive) -> Primitive:
    """Make a primitive known under its kind and method names."""
    kinds = (primitive.kind, *primitive.other_kinds)
    for kind in kinds:
        if kind in _by_kind:
            raise RegistryError(f"the schedule primitive {kind!r} is registered already")
    if primitive.method in _by_method:
        raise RegistryError(
            f"the schedule method {primitive.method!r} belongs to the primitive "
            f"{_by_method[primitive.method].kind!r} already"
        )
    _by_kind.update(dict.fromkeys(kinds, primitive))
    _by_method[primitive.method] = primitive
    return primitive


def get_primitive(kind: str) -> Primitive:
    """The primitive with that JSON name."""
    found = _by_kind.get(kind)
    if found is None:
        hint = did_you_mean(kind, _by_kind)
        raise RegistryError(f"unknown schedule instruction {kind!r}{hint}")
    return found


def find_method(method: str) -> Primitive | None:
    """The primitive with that Python name."""
    return _by_method.get(method)


def all_primitives() -> list[Primitive]:
    """Every registered primitive."""
    return list(dict.fromkeys(_by_kind.values()))


def positional(inputs: Sequence[str], attrs: Sequence[str]) -> list[str]:
    """Spell inputs by position and the attributes as a list, as methods without a `call` take."""
    return [*inputs, f"attrs=[{', '.join(attrs)}]"] if attrs else list(inputs)


def keywords(*names: str) -> Speller:
    """Spell inputs, then attributes, under these names; an empty name is positional."""

    def spell(inputs: Sequence[str], attrs: Sequence[str]) -> list[str]:
        values = [*inputs, *attrs]
        return [
            f"{name}={value}" if name else value for name, value in zip(names, values, strict=True)
        ]

    return spell


@dataclass(frozen=True, eq=False)
class Instruction:
    """One recorded step."""

    kind: Primitive
    inputs: tuple[Any, ...]
    attrs: tuple[Any, ...]
    outputs: tuple[AnyRV, ...]
    is_list: bool = False  # the call returned a list, however long

    @property
    def primitive(self) -> Primitive:
        """What step it is."""
        return self.kind

    def as_python(self, names: dict[Any, str] | None, decision: Any = None) -> str:
        """The step as a call; results are named here, or are all `_` without names."""
        known = {} if names is None else names
        arguments = self.kind.spell(
            [python_value(value, known) for value in self.inputs],
            [python_value(value, known) for value in self.attrs],
        )
        if decision is not None:
            arguments.append(f"decision={python_value(decision, known)}")
        outputs = ["_" if names is None else name_rv(rv, names) for rv in self.outputs]
        if self.is_list and len(outputs) == 1:
            target = f"{outputs[0]}, = "
        else:
            target = f"{', '.join(outputs)} = " if outputs else ""
        return f"{target}sch.{self.kind.method}({', '.join(arguments)})"

    def __str__(self) -> str:
        return self.as_python(None)

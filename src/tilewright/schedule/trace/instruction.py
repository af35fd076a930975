"""Primitives as types, and recorded steps.

A primitive is a class in one registry: its fields are the arguments of a step, its class variables
say how it is called and what it does to a program. Schedules run its objects, traces record them;
their Python text, their JSON and their replay are read off the fields.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeGuard, get_origin

from typing_extensions import Self, TypeVar, dataclass_transform

from tilewright.errors import RegistryError
from tilewright.schedule.state import AnyRV, BlockRV
from tilewright.schedule.trace.text import name_rv, python_value, translated
from tilewright.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule

Made = TypeVar("Made", covariant=True)
_AnyPrimitive = TypeVar("_AnyPrimitive", bound="type[Primitive[object]]")


def _same(value: object) -> object:
    return value


def _plain(value: object) -> object:
    """A string that JSON takes for one: scopes are a kind of string of their own."""
    return str(value) if isinstance(value, str) else value


@dataclasses.dataclass(frozen=True)
class _Role:
    """The part that a field plays in a trace."""

    is_input: bool = False  # may hold handles; the others are constants, which JSON keeps apart
    takes_rest: bool = False  # a tuple of all further inputs
    is_positional: bool = False  # spelled without its name
    is_optional: bool = False  # left out of texts while it is empty or false
    to_json: Callable[[Any], object] = _plain
    from_json: Callable[[Any], object] = _same


@dataclasses.dataclass(frozen=True)
class _Argument:
    name: str
    role: _Role
    default: object

    def is_left_out(self, step: object) -> bool:
        return self.role.is_optional and not getattr(step, self.name)


def given(*, rest: bool = False, positional: bool = False, optional: bool = False) -> Any:
    """An argument that may hold handles: replay exchanges them for those of another schedule."""
    role = _Role(True, takes_rest=rest, is_positional=positional, is_optional=optional)
    return dataclasses.field(metadata={"role": role})


def constant(
    *,
    default: object = dataclasses.MISSING,
    optional: bool = False,
    to_json: Callable[[Any], object] = _plain,
    from_json: Callable[[Any], object] = _same,
) -> Any:
    """An argument without handles; a field that says nothing is one, too.

    With a default, JSON may lack it.
    """
    role = _Role(is_optional=optional, to_json=to_json, from_json=from_json)
    return dataclasses.field(default=default, metadata={"role": role})


def flag(*, default: object = dataclasses.MISSING, optional: bool = False) -> Any:
    """A constant that is 0 or 1 in JSON."""
    return constant(default=default, optional=optional, to_json=int, from_json=bool)


@dataclass_transform(
    frozen_default=True, eq_default=False, field_specifiers=(given, constant, flag)
)
class Primitive(Generic[Made]):
    """A kind of step, with `Made` as its result; its objects are steps with their arguments."""

    kind: ClassVar[str]  # its name in JSON: that of the class, unless it says otherwise
    name: ClassVar[str]  # the same, as TVM calls it
    method: ClassVar[str]  # its name in Python: `LoopPartition` is "loop_partition", as a rule
    is_pure: ClassVar[bool] = False  # no effect but its results: traces drop unused ones
    moves_blocks: ClassVar[bool] = True  # may ask how data flows between blocks (state/flags.py)
    is_postproc: ClassVar[bool] = False  # the mark that divides a trace from its post-processing
    other_kinds: ClassVar[tuple[str, ...]] = ()  # names in JSON of later TVMs, which are read too
    gives_list: ClassVar[bool] = False  # `Made` is a list, however long
    _arguments: ClassVar[tuple[_Argument, ...]]
    _inputs: ClassVar[tuple[_Argument, ...]]
    _input_names: ClassVar[tuple[str, ...]]
    _constants: ClassVar[tuple[_Argument, ...]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, eq=False)(cls)
        cls.kind = cls.name = cls.__dict__.get("kind", cls.__name__)
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.kind).lower()
        cls.method = cls.__dict__.get("method", words)
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is Primitive:
                cls.gives_list = get_origin(base.__args__[0]) is list
        cls._arguments = tuple(
            _Argument(field.name, field.metadata.get("role", _Role()), field.default)
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        )
        cls._inputs = tuple(a for a in cls._arguments if a.role.is_input)
        cls._input_names = tuple(argument.name for argument in cls._inputs)
        cls._constants = tuple(a for a in cls._arguments if not a.role.is_input)

    @staticmethod
    def get(name: str) -> type[Primitive[object]]:
        """The primitive with that name in JSON."""
        return get_primitive(name)

    @classmethod
    def call(cls, sch: Schedule, *args: Any, decision: object = None, **kwargs: Any) -> object:
        """The method of schedules, where `Schedule` defines none."""
        return sch.run(cls(*args, **kwargs), decision)

    def run(self, sch: Schedule) -> Made:
        """Change the program, or raise a `PrimitiveError` and change nothing."""
        raise NotImplementedError(f"{self.kind} defines neither `run` nor `decide`")

    def decide(self, sch: Schedule, decision: object) -> tuple[Made, object]:
        """Run with a decision or take one; the results and the decision to record."""
        return self.run(sch), None

    # --- arguments as traces have them ----------------------------------------------------------

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments that may hold handles, in a row."""
        row: list[object] = []
        for argument in self._inputs:
            value = getattr(self, argument.name)
            if argument.role.takes_rest:
                row += value
            else:
                row.append(value)
        return tuple(row)

    @property
    def attrs(self) -> tuple[Any, ...]:
        """The constant arguments."""
        return tuple(getattr(self, argument.name) for argument in self._constants)

    @classmethod
    def from_row(cls, inputs: Sequence[object], attrs: Sequence[object]) -> Self:
        """The step with these inputs and constants."""
        named = {a.name: value for a, value in zip(cls._constants, attrs, strict=False)}
        for position, argument in enumerate(cls._inputs):
            rest = argument.role.takes_rest
            named[argument.name] = tuple(inputs[position:]) if rest else inputs[position]
        return cls(**named)

    @classmethod
    def takes(cls, inputs: int, attrs: int) -> bool:
        """True when there are steps with `inputs` inputs and `attrs` constants."""
        fixed = sum(not argument.role.takes_rest for argument in cls._inputs)
        needed = sum(argument.default is dataclasses.MISSING for argument in cls._constants)
        enough = inputs == fixed or (inputs > fixed and fixed < len(cls._inputs))
        return enough and needed <= attrs <= len(cls._constants)

    def with_handles(self, known: Mapping[object, Any]) -> Self:
        """The step with the handles of another schedule."""
        if not self._input_names:
            return self
        copy = object.__new__(type(self))
        fields = copy.__dict__  # `replace` would check and set each of them
        fields.update(self.__dict__)
        for name in self._input_names:
            fields[name] = translated(fields[name], known)
        return copy

    # --- texts ----------------------------------------------------------------------------------

    def spelled(self, names: Mapping[object, str]) -> list[str]:
        """The arguments of the call in Python; handles have these names."""
        texts: list[str] = []
        for argument in self._arguments:
            value = getattr(self, argument.name)
            if argument.is_left_out(self):
                continue
            if not argument.role.is_positional:
                texts.append(f"{argument.name}={python_value(value, names)}")
            else:
                values = value if argument.role.takes_rest else (value,)
                texts += [python_value(item, names) for item in values]
        return texts

    def attrs_to_json(self) -> list[object]:
        """The constants in JSON."""
        return [
            argument.role.to_json(getattr(self, argument.name))
            for argument in self._constants
            if not argument.is_left_out(self)
        ]

    @classmethod
    def attrs_from_json(cls, attrs: Sequence[object]) -> list[object]:
        """The constants that `attrs_to_json` wrote."""
        return [a.role.from_json(value) for a, value in zip(cls._constants, attrs, strict=False)]


class BufferPrimitive(Primitive[Made]):
    """A step on one of the buffers of a block, which Python calls by its side and position."""

    block: BlockRV = given()
    buffer_index: int
    side: int  # 0 for reads, 1 for writes

    def spelled(self, names: Mapping[object, str]) -> list[str]:
        block, _, _, *others = super().spelled(names)
        side = "write" if self.side else "read"
        return [block, f'buffer=("{side}", {self.buffer_index})', *others]


_by_kind: dict[str, type[Primitive[object]]] = {}
_by_method: dict[str, type[Primitive[object]]] = {}


def register_primitive(primitive: _AnyPrimitive) -> _AnyPrimitive:
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


def get_primitive(kind: str) -> type[Primitive[object]]:
    """The primitive with that JSON name."""
    if (found := _by_kind.get(kind)) is None:
        hint = did_you_mean(kind, _by_kind)
        raise RegistryError(f"unknown schedule instruction {kind!r}{hint}")
    return found


def find_method(method: str) -> type[Primitive[object]] | None:
    """The primitive with that Python name."""
    return _by_method.get(method)


def all_primitives() -> list[type[Primitive[object]]]:
    """Every registered primitive."""
    return list(dict.fromkeys(_by_kind.values()))


Step = TypeVar("Step", bound=Primitive[object], default=Primitive[object], covariant=True)
OtherStep = TypeVar("OtherStep", bound=Primitive[object])


class Instruction(Generic[Step]):
    """One recorded step and what it gave."""

    __slots__ = ("outputs", "step")
    step: Step
    outputs: tuple[AnyRV, ...]

    def __init__(
        self,
        kind: type[Step],
        inputs: Sequence[object],
        attrs: Sequence[object],
        outputs: Sequence[AnyRV],
    ) -> None:
        self.step, self.outputs = kind.from_row(inputs, attrs), tuple(outputs)

    @staticmethod
    def of(step: OtherStep, outputs: Iterable[AnyRV]) -> Instruction[OtherStep]:
        """The record of a step."""
        made: Instruction[OtherStep] = Instruction.__new__(Instruction)
        made.step, made.outputs = step, tuple(outputs)
        return made

    @property
    def primitive(self) -> type[Step]:
        """What step it is."""
        return type(self.step)

    kind = primitive

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments that may hold handles."""
        return self.step.inputs

    @property
    def attrs(self) -> tuple[Any, ...]:
        """The constant arguments."""
        return self.step.attrs

    def as_python(self, names: dict[object, str] | None, decision: object = None) -> str:
        """The step as a call; results are named here, or are all `_` without names."""
        known = {} if names is None else names
        arguments = self.step.spelled(known)
        if decision is not None:
            arguments.append(f"decision={python_value(decision, known)}")
        outputs = ["_" if names is None else name_rv(rv, names) for rv in self.outputs]
        if self.step.gives_list and len(outputs) == 1:
            target = f"{outputs[0]}, = "
        else:
            target = f"{', '.join(outputs)} = " if outputs else ""
        return f"{target}sch.{self.step.method}({', '.join(arguments)})"

    def __str__(self) -> str:
        return self.as_python(None)


def is_step(inst: Instruction, kind: type[OtherStep]) -> TypeGuard[Instruction[OtherStep]]:
    """True when an instruction records a step of that primitive."""
    return isinstance(inst.step, kind)

"""Demands of a user on variables of a space, written as texts: `dense_vectorize == 1`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.algebra.constraints import Constraint, Eq, In, Le
from tilewright.errors import TuneError
from tilewright.heron.space import HeronSpace
from tilewright.support.suggestions import did_you_mean

_BEYOND = 1 << 62  # what solvers count with
_FORM = re.compile(r"\s*(?P<name>\S+?)\s*(?P<sign><=|>=|==|=(?!=)| in )\s*(?P<rest>.+?)\s*")


def with_demands(space: HeronSpace, texts: Sequence[str]) -> HeronSpace:
    """A space with what a user demands; a short name means all variables that have it."""
    demands = map(read_demand, texts)
    more = [each.on(name) for each in demands for name in _named(space, each.text, each.name)]
    problem = replace(space.problem, constraints=(*space.problem.constraints, *more))
    return replace(space, problem=problem)


@dataclass(frozen=True)
class Demand:
    """What one text says: a name, a sign and numbers."""

    text: str
    name: str
    sign: str
    numbers: tuple[int, ...]

    def on(self, variable: str) -> Constraint:
        """The constraint on a variable."""
        origin = f"the user's constraint {self.text!r}"
        match self.sign:
            case "<=":
                return Le(origin, variable, self.numbers[0])
            case ">=":
                return Le(origin, self.numbers[0], variable)
            case "in":
                return In(origin, variable, tuple(sorted(self.numbers)))
            case _:
                return Eq(origin, variable, self.numbers[0])


def read_demand(text: str) -> Demand:
    """The demand that a text stands for."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise TuneError(
            f"the constraint {text!r} must be of the form NAME <= NUMBER, NAME >= NUMBER, "
            "NAME == NUMBER or NAME in NUMBER, NUMBER, ..."
        )
    sign, rest = found["sign"].strip(), found["rest"]
    parts = rest.split(",") if sign == "in" else [rest]
    try:
        numbers = tuple(int(part) for part in parts)
    except ValueError as error:
        raise TuneError(f"the constraint {text!r} compares with {rest!r}, no number") from error
    if any(abs(number) >= _BEYOND for number in numbers):
        raise TuneError(f"the constraint {text!r} compares with a number beyond {_BEYOND}")
    return Demand(text, found["name"], sign, numbers)


def _named(space: HeronSpace, text: str, name: str) -> list[str]:
    if name in space.keys:
        return [name]
    found = [full for full, key in space.keys.items() if key.short == name]
    if not found:
        known = sorted({key.short for key in space.keys.values()})
        raise TuneError(
            f"the constraint {text!r} names {name!r}, which is no variable of the space"
            f"{did_you_mean(name, known)}"
        )
    return found

"""Demands of a user on variables of a space, written as texts: `dense_vectorize == 1`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.algebra.constraints import Constraint, Eq, In, Le
from tilewright.errors import TuneError
from tilewright.heron.space import HeronSpace
from tilewright.support.suggestions import did_you_mean

_FORM = re.compile(r"\s*(?P<name>\S+?)\s*(?P<sign><=|>=|==|=| in )\s*(?P<rest>.+?)\s*")


def with_demands(space: HeronSpace, texts: Sequence[str]) -> HeronSpace:
    """A space with what a user demands; a short name means all variables that have it."""
    more = [constraint for text in texts for constraint in _constraints(space, text)]
    problem = replace(space.problem, constraints=(*space.problem.constraints, *more))
    return replace(space, problem=problem)


def _constraints(space: HeronSpace, text: str) -> Iterator[Constraint]:
    found = _FORM.fullmatch(text)
    if found is None:
        raise TuneError(
            f"the constraint {text!r} must be of the form NAME <= NUMBER, NAME >= NUMBER, "
            "NAME == NUMBER or NAME in NUMBER, NUMBER, ..."
        )
    numbers = _numbers(text, found["rest"], found["sign"])
    origin = f"the user's constraint {text!r}"
    for name in _named(space, text, found["name"]):
        match found["sign"].strip():
            case "<=":
                yield Le(origin, name, numbers[0])
            case ">=":
                yield Le(origin, numbers[0], name)
            case "in":
                yield In(origin, name, tuple(sorted(numbers)))
            case _:
                yield Eq(origin, name, numbers[0])


def _numbers(text: str, rest: str, sign: str) -> list[int]:
    parts = rest.split(",") if sign.strip() == "in" else [rest]
    try:
        return [int(part) for part in parts]
    except ValueError as error:
        raise TuneError(f"the constraint {text!r} compares with {rest!r}, no number") from error


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

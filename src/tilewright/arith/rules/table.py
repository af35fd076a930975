"""A table of rules and the kind of numbers they hold for."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tilewright.arith.bounds import is_index_type
from tilewright.arith.pattern import Rule
from tilewright.ir import DType


class Domain(enum.Enum):
    """The numbers for which the rules of a table are identities."""

    INDEX = "signed integers of 32 bits and more, which never overflow"
    INTEGER = "all integers, also those that wrap around"
    VALUE = "everything, floats included"
    BOOL = "truth values"


@dataclass(frozen=True)
class RuleTable:
    """Rules of one domain, tried in the order in which they are written."""

    name: str
    domain: Domain
    rules: tuple[Rule, ...]


def domains_of(dtype: DType) -> frozenset[Domain]:
    """The domains that operands of type `dtype` belong to."""
    if dtype.is_bool:
        return frozenset({Domain.BOOL, Domain.VALUE})
    if is_index_type(dtype):
        return frozenset({Domain.INDEX, Domain.INTEGER, Domain.VALUE})
    if dtype.is_integral:
        return frozenset({Domain.INTEGER, Domain.VALUE})
    return frozenset({Domain.VALUE})

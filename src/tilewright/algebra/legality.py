"""Verdicts on whole populations: which candidates post-processors would refuse, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.algebra.decisions import Columns
from tilewright.algebra.model import Rows, SpaceModel, StructureCase, Uncovered


@dataclass(frozen=True, eq=False)
class Verdicts:
    """For each row whether it is legal; of those that are not, the first reason."""

    legal: npt.NDArray[np.bool_]
    reasons: dict[int, str]
    to_replay: dict[int, str]  # rows about which nothing is known, and why


def verdicts_of(model: SpaceModel, columns: Columns) -> Verdicts:
    """The verdicts on a population."""
    return verdicts_on(list(model.cases(columns)), columns)


def verdicts_on(
    cases: Sequence[tuple[StructureCase | Uncovered, Rows]], columns: Columns
) -> Verdicts:
    """The same where the population is divided into cases already."""
    count = max((len(column) for column in columns.values()), default=1)
    legal = np.zeros(count, np.bool_)
    reasons: dict[int, str] = {}
    to_replay: dict[int, str] = {}
    for case, rows in cases:
        if not isinstance(case, StructureCase):
            to_replay.update(dict.fromkeys(rows.tolist(), case.reason))
            continue
        legal[rows] = True
        checks = case.interpretation.checks
        if not checks:
            continue
        program = case.checks_program
        made = program({name: columns[name][rows] for name in program.inputs})
        for check, holds in zip(checks, made, strict=True):
            broken = rows[legal[rows] & (np.asarray(holds) == 0)]
            legal[broken] = False
            reasons.update(dict.fromkeys(broken.tolist(), check.origin))
    return Verdicts(legal, reasons, to_replay)

"""`sample_categorical`: one of several numbers, with given probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.trace.instruction import Outputs, Primitive, keywords, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class LengthsDiffer(PrimitiveError):
    reason = "{candidates} candidates but {probs} probabilities"


class NoProbabilities(PrimitiveError):
    reason = "the probabilities {probs} are not positive numbers with a sum"


class DecisionOutOfRange(PrimitiveError):
    reason = "the decision {decision!r} is not the position of one of {count} candidates"


def _run(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    candidates, probs = attrs
    if len(candidates) != len(probs) or not candidates:
        raise LengthsDiffer(candidates=len(candidates), probs=len(probs))
    if decision is None:
        weights = [float(p) for p in probs]
        if min(weights) < 0 or not 0 < sum(weights) < math.inf:
            raise NoProbabilities(probs=weights)
        decision = sch.random.discrete(weights)
    elif type(decision) is not int or not 0 <= decision < len(candidates):
        raise DecisionOutOfRange(decision=decision, count=len(candidates))
    return sch.expr_rv(int(candidates[decision])), decision


register_primitive(
    Primitive(
        "SampleCategorical",
        "sample_categorical",
        _run,
        keywords("candidates", "probs"),
        is_pure=True,
    )
)

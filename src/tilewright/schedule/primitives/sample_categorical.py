"""`sample_categorical`: one of several numbers, with given probabilities."""

from __future__ import annotations

import math

from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import ExprRV
from tilewright.schedule.trace.instruction import Primitive, register_primitive


class LengthsDiffer(PrimitiveError):
    reason = "{candidates} candidates but {probs} probabilities"


class NoProbabilities(PrimitiveError):
    reason = "the probabilities {probs} are not positive numbers with a sum"


class DecisionOutOfRange(PrimitiveError):
    reason = "the decision {decision!r} is not the position of one of {count} candidates"


@register_primitive
class SampleCategorical(Primitive[ExprRV]):
    is_pure = True
    moves_blocks = False
    candidates: list[int]
    probs: list[float]

    def decide(self, sch: ScheduleCore, decision: object) -> tuple[ExprRV, int]:
        candidates, probs = self.candidates, self.probs
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

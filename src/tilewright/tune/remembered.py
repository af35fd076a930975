"""Features and prior scores of programs that were looked at before.

A search scores good drafts in several rounds, and the model learns from those it has scored: each
program is looked at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.gbdt import Prior
from tilewright.features.base import FeatureExtractor, Matrix
from tilewright.records import Candidates
from tilewright.space.base import TaskContext

MOST = 256
ValueT = TypeVar("ValueT")


class ProgramMemory(Generic[ValueT]):
    """A value for each program, for those that were asked for last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._values: OrderedDict[tuple[int, int], ValueT] = OrderedDict()

    def values_of(
        self,
        context: TaskContext,
        candidates: Candidates,
        compute: Callable[[Candidates], Sequence[ValueT]],
    ) -> list[ValueT]:
        """Values of candidates of a task; `compute` gives those of programs that are new."""
        # Without a hash a program cannot be recognised, but for the object that it is.
        keys = [
            (id(context), id(each) if each.shash is None else each.shash) for each in candidates
        ]
        new = {key: each for key, each in zip(keys, candidates, strict=True) if not self._has(key)}
        made = dict(zip(new, compute(list(new.values())), strict=True)) if new else {}
        found = [made[key] if key in made else self._values[key] for key in keys]
        self._values.update((key, made[key]) for key in made if new[key].shash is not None)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
        return found

    def _has(self, key: tuple[int, int]) -> bool:
        if key in self._values:
            self._values.move_to_end(key)
            return True
        return False


class RememberedFeatures(FeatureExtractor):
    """An extractor that looks at each program once."""

    def __init__(self, extractor: FeatureExtractor) -> None:
        self._extractor = extractor
        self._memory: ProgramMemory[Matrix] = ProgramMemory()

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self._extractor._initialize_with_tune_context(context)

    def extract_from(self, context: TaskContext, candidates: Candidates) -> list[Matrix]:
        return self._memory.values_of(
            context, candidates, lambda new: self._extractor.extract_from(context, new)
        )


class RememberedPrior:
    """A prior that looks at each program once."""

    def __init__(self, prior: Prior) -> None:
        self._prior = prior
        self._memory: ProgramMemory[float] = ProgramMemory()

    def score(self, context: TaskContext, candidates: Candidates) -> npt.NDArray[np.float64]:
        """The scores of the prior behind this."""
        scores = self._memory.values_of(
            context, candidates, lambda new: list(self._prior.score(context, new))
        )
        return np.array(scores, dtype=np.float64)

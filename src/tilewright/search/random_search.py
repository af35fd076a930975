"""Random search: `ReplayTrace` replays sketches, `ReplayFunc` generates the space anew."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from typing_extensions import Self

from tilewright.errors import TuneError
from tilewright.search.base import search_strategies
from tilewright.search.replayer import Draft
from tilewright.search.task_search import TaskSearch, Tuning
from tilewright.space.base import HasRandState


class RandomSearch(TaskSearch):
    """Proposes random drafts, none twice.

    Gives up after `max_fail_count` vain attempts in a row.
    """

    def __init__(self, max_fail_count: int = 100) -> None:
        super().__init__()
        if max_fail_count < 1:
            raise TuneError(f"max_fail_count must be at least 1, got {max_fail_count}")
        self.max_fail_count = max_fail_count

    def clone(self) -> Self:
        return type(self)(self.max_fail_count)

    @abstractmethod
    def _draw(self, tuning: Tuning) -> Draft | None:
        """A random draft; None: it did not work."""

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        drafts: list[Draft] = []
        while len(drafts) < count:
            draft = self._new_draft(tuning)
            if draft is None:
                break
            drafts.append(draft)
        return drafts or None

    def _new_draft(self, tuning: Tuning) -> Draft | None:
        for _ in range(self.max_fail_count):
            draft = self._draw(tuning)
            if draft is None:
                continue
            if draft not in tuning.known:
                tuning.known.add(draft)
                return draft
            self.statistics.duplicates += 1
        return None


@search_strategies.register("replay-trace")
class ReplayTrace(RandomSearch):
    """Replays sketches with decisions drawn anew."""

    kind = "replay-trace"

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        self._engine = self.random.fork()
        return super()._propose(tuning, count)

    def _draw(self, tuning: Tuning) -> Draft | None:
        sketch = tuning.sketches[self._engine.integer(0, len(tuning.sketches))]
        return tuning.replayer.draw(sketch, self._engine.fork_seed())


@search_strategies.register("replay-func")
class ReplayFunc(RandomSearch):
    """Lets the generator itself decide, for every candidate."""

    kind = "replay-func"

    def _draw(self, tuning: Tuning) -> Draft | None:
        try:
            spaces = list(self.space.generate_design_space(tuning.replayer.mod))
        except Exception as error:
            counter = self.statistics.other_failures
            tuning.replayer.failed(counter, error, "space generator", self.space)
            return None
        if not spaces:
            return None
        return tuning.replayer.finish(spaces[self.random.integer(0, len(spaces))])

    def _more_state(self) -> dict[str, object]:
        space = self.space
        return {"generator": space.rand_state if isinstance(space, HasRandState) else None}

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, Any]) -> None:
        if isinstance(self.space, HasRandState) and state["generator"] is not None:
            self.space.rand_state = int(state["generator"])

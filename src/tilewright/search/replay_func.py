"""`ReplayFunc`: random search that generates the space anew for every candidate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.errors import TuneError
from tilewright.schedule import Schedule
from tilewright.search.base import search_strategies
from tilewright.search.replayer import Draft
from tilewright.search.task_search import TaskSearch, Tuning


@search_strategies.register("replay-func")
class ReplayFunc(TaskSearch):
    """Proposes what the generator itself decides on, nothing twice.

    Gives up after `max_fail_count` vain attempts in a row.
    """

    kind = "replay-func"

    def __init__(self, max_fail_count: int = 100) -> None:
        super().__init__()
        if max_fail_count < 1:
            raise TuneError(f"max_fail_count must be at least 1, got {max_fail_count}")
        self.max_fail_count = max_fail_count

    def clone(self) -> ReplayFunc:
        return ReplayFunc(self.max_fail_count)

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
            spaces = self._spaces(tuning)
            if not spaces:
                continue
            draft = tuning.replayer.finish(spaces[self.random.integer(0, len(spaces))])
            if draft is None:
                continue
            if draft not in tuning.known:
                tuning.known.add(draft)
                return draft
            self.statistics.duplicates += 1
        return None

    def _more_state(self) -> dict[str, Any]:
        generator = self.context.space_generator
        return {"generator": getattr(generator, "rand_state", None)}

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, Any]) -> None:
        if state["generator"] is not None:
            self.context.space_generator.rand_state = int(state["generator"])

    def _spaces(self, tuning: Tuning) -> list[Schedule]:
        generator = self.context.space_generator
        try:
            return list(generator.generate_design_space(self.context.mod))
        except Exception as error:
            counter = self.statistics.other_failures
            tuning.replayer.failed(counter, error, "space generator", generator)
            return []

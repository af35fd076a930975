"""`ReplayTrace`: random search, by replaying sketches with decisions drawn anew."""

from __future__ import annotations

from tilewright.errors import TuneError
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.base import search_strategies
from tilewright.search.replayer import Draft
from tilewright.search.task_search import TaskSearch, Tuning


@search_strategies.register("replay-trace")
class ReplayTrace(TaskSearch):
    """Proposes random drafts, none twice.

    Gives up after `max_fail_count` vain attempts in a row.
    """

    kind = "replay-trace"

    def __init__(self, max_fail_count: int = 100) -> None:
        super().__init__()
        if max_fail_count < 1:
            raise TuneError(f"max_fail_count must be at least 1, got {max_fail_count}")
        self.max_fail_count = max_fail_count

    def clone(self) -> ReplayTrace:
        return ReplayTrace(self.max_fail_count)

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        engine = self.random.fork()
        drafts: list[Draft] = []
        while len(drafts) < count:
            draft = self._new_draft(tuning, engine)
            if draft is None:
                break
            drafts.append(draft)
        return drafts or None

    def _new_draft(self, tuning: Tuning, engine: RandomEngine) -> Draft | None:
        for _ in range(self.max_fail_count):
            sketch = tuning.sketches[engine.integer(0, len(tuning.sketches))]
            draft = tuning.replayer.draw(sketch, engine.fork_seed())
            if draft is None:
                continue
            if draft not in tuning.known:
                tuning.known.add(draft)
                return draft
            self.statistics.duplicates += 1
        return None

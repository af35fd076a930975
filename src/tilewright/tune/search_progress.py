"""`SearchProgress`: how far the search of a task is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.schedule import Schedule
from tilewright.search.base import SearchStrategy
from tilewright.search.statistics import SearchStatistics
from tilewright.tune.abilities import statistics_of


@dataclass
class SearchProgress:
    """The sketches of a task and the state of its strategy; all but the sketches are saved."""

    sketches: list[Schedule] = field(default_factory=list)
    is_running: bool = False  # between `pre_tuning` and `post_tuning` of the strategy
    saved: Mapping[str, Any] = field(default_factory=dict)  # of the strategy, by an earlier call
    counted: SearchStatistics = field(default_factory=SearchStatistics)  # in the funnel so far
    finished: str | None = None  # why it had nothing more to propose

    def choose_from(self, sketches: list[Schedule]) -> None:
        """The search space is known."""
        self.sketches = sketches

    def begin(self) -> None:
        """The strategy has begun."""
        self.is_running = True

    def end(self) -> None:
        """The strategy need not be asked any more."""
        self.is_running = False

    def exhaust(self, reason: str) -> str:
        """The strategy has nothing more to propose; the reason."""
        self.finished = reason
        return reason

    def new_drafts(self, strategy: SearchStrategy | None, sent: int) -> SearchStatistics:
        """The drafts since the last call; a strategy that does not count lost none of `sent`."""
        now = statistics_of(strategy)
        if now is None:
            return SearchStatistics(proposed=sent, legal=sent, sent=sent)
        new, self.counted = now.since(self.counted), now.copy()
        return new

    def as_json(self, strategy: SearchStrategy | None) -> dict[str, object]:
        """Plain values, under the names that databases have them."""
        is_asked = self.is_running and strategy is not None
        state = strategy.state_dict() if is_asked and strategy else self.saved
        return {
            "counted": self.counted.as_json(),
            "finished": self.finished,
            "search": dict(state),
        }

    @staticmethod
    def from_json(state: Mapping[str, Any]) -> SearchProgress:
        """Read back what `as_json` wrote."""
        return SearchProgress(
            saved=state["search"],
            counted=SearchStatistics.from_json(state["counted"]),
            finished=state["finished"],
        )

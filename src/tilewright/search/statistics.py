"""Counts of the drafts of a search: how many were made, and why the others were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tilewright.space.base import Postproc


@dataclass
class SearchStatistics:
    """Counts over the whole search; the difference of two is what happened in between."""

    proposed: int = 0  # drafts that the search thought of
    legal: int = 0  # drafts that every post-processor accepted
    sent: int = 0  # drafts sent to be measured
    duplicates: int = 0  # legal drafts that equal one known or measured already
    replay_failures: Counter[str] = field(default_factory=Counter)  # by cause
    rejected: Counter[str] = field(default_factory=Counter)  # by post-processor
    postproc_failures: Counter[str] = field(default_factory=Counter)  # by post-processor and cause
    mutator_refusals: Counter[str] = field(default_factory=Counter)  # nothing to change, by mutator
    mutator_failures: Counter[str] = field(default_factory=Counter)  # by mutator and cause
    other_failures: Counter[str] = field(default_factory=Counter)  # generator, cost model, database

    def copy(self) -> SearchStatistics:
        """The counts as they are now."""
        return SearchStatistics.from_json(self.as_json())

    def since(self, before: SearchStatistics) -> SearchStatistics:
        """What was counted since `before`."""
        result = SearchStatistics()
        for item in fields(self):
            now, then = getattr(self, item.name), getattr(before, item.name)
            setattr(result, item.name, now - then)
        return result

    def reasons(self) -> dict[str, int]:
        """Why drafts were not sent, the commonest reason first."""
        causes: Counter[str] = Counter()
        causes.update({f"replay: {cause}": n for cause, n in self.replay_failures.items()})
        causes.update({f"rejected by {name}": n for name, n in self.rejected.items()})
        causes.update({f"post-processor {why}": n for why, n in self.postproc_failures.items()})
        causes.update({"duplicate": self.duplicates} if self.duplicates else {})
        return dict(causes.most_common())

    def summary(self, postprocs: Sequence[Postproc]) -> str:
        """A line a post-processor, and one a cause of other failures."""
        lines = []
        for number, postproc in enumerate(postprocs):
            name = type(postproc).__name__
            causes = self.postproc_failures.items()  # each begins with its member
            total = self.rejected[name] + sum(n for why, n in causes if why.split(":")[0] == name)
            lines.append(f"Postproc #{number} [{name}]: {total} failure(s)")
        for cause, count in self.replay_failures.most_common():
            lines.append(f"Replay [{cause}]: {count} failure(s)")
        for cause, count in self.mutator_failures.most_common():
            lines.append(f"Mutator [{cause}]: {count} failure(s)")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            item.name: dict(value) if isinstance(value, Counter) else value
            for item in fields(self)
            for value in (getattr(self, item.name),)
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> SearchStatistics:
        """Read back what `as_json` wrote."""
        result = SearchStatistics()
        for item in fields(result):
            value = values.get(item.name, 0)
            is_counter = isinstance(getattr(result, item.name), Counter)
            setattr(result, item.name, Counter(value or {}) if is_counter else int(value))
        return result

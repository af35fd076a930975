"""Which drafts are measured: mostly the best ones, now and then a random one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.schedule.trace.trace.random import RandomEngine
from tilewright.search.measured import KnownCandidates
from tilewright.search.replayer import Draft


def pick_with_eps_greedy(
    random: RandomEngine,
    known: KnownCandidates,
    bests: Sequence[Draft],
    others: Sequence[Draft],
    count: int,
    eps_greedy: float,
) -> list[Draft]:
    """At most `count` drafts that are not known, which they are from then on.

    One that is known is replaced by the next one, so a batch is full as long as there are enough.
    """
    num_bests = count - int(count * eps_greedy)
    best = iter(bests)
    other = (others[place] for place in _permutation(random, len(others)))
    picked: list[Draft] = []
    for place in range(count):
        sources = (best, other) if place < num_bests else (other, best)
        draft = _next_new(sources[0], known) or _next_new(sources[1], known)
        if draft is None:
            break
        known.add(draft)
        picked.append(draft)
    return picked


def _permutation(random: RandomEngine, count: int) -> list[int]:
    return random.without_replacement(count, count) if count else []


def _next_new(drafts: Iterator[Draft], known: KnownCandidates) -> Draft | None:
    return next((draft for draft in drafts if draft not in known), None)

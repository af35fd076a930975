"""Generations of drafts: parents chosen by their score, children made by mutators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import TuneError
from tilewright.schedule import Trace
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.measured import KnownCandidates
from tilewright.search.replayer import Draft, Replayer
from tilewright.space.base import Mutator

Scorer = Callable[[Sequence[Draft]], None]  # sets `score` of each


@dataclass(eq=False, kw_only=True)
class Evolution:
    """Evolves drafts in one round, with scores that do not change in between."""

    population_size: int
    generations: int
    mutate_prob: float
    max_fail_count: int  # attempts to make a child, besides the first one
    mutators: Mapping[Mutator, float]
    replayer: Replayer
    known: KnownCandidates
    score: Scorer
    random: RandomEngine

    def __post_init__(self) -> None:
        self.chances = mutator_chances(list(self.mutators.values()), self.mutate_prob)
        self.best: dict[int, Draft] = {}
        self.seen: set[int] = set()  # all drafts of this round

    def run(self, population: Sequence[Draft], keep: int) -> list[Draft]:
        """The best different drafts that are not known, best first, at most `keep`."""
        drafts = list(population)
        self.seen.update(draft.shash for draft in drafts)
        for generation in range(self.generations + 1):
            self.score(drafts)
            self._remember(drafts, keep)
            if generation == self.generations or not drafts:
                break
            before = self.replayer.statistics.copy()
            drafts = self._next_generation(drafts)
            counts = self.replayer.statistics.since(before)
            self.replayer.logger.info(
                "Evolve iter #%d done. Summary:\n%s",
                generation,
                counts.summary(self.replayer.postprocs),
            )
        return list(self.best.values())

    def _remember(self, drafts: Sequence[Draft], keep: int) -> None:
        for draft in drafts:
            if draft.shash not in self.best and draft not in self.known:
                self.best[draft.shash] = draft
        # Sorting is stable: of equal scores the older one stays in front.
        ranked = sorted(self.best.values(), key=score_of, reverse=True)[:keep]
        self.best = {draft.shash: draft for draft in ranked}

    def _next_generation(self, population: Sequence[Draft]) -> list[Draft]:
        pick_parent = self.random.multinomial(parent_weights(population))
        pick_mutator = self.random.multinomial(self.chances)
        unchanged: set[int] = set()  # parents that live on as they are
        return [
            self._child(population, pick_parent, pick_mutator, unchanged)
            for _ in range(self.population_size)
        ]

    def _child(
        self,
        population: Sequence[Draft],
        pick_parent: Callable[[], int],
        pick_mutator: Callable[[], int],
        unchanged: set[int],
    ) -> Draft:
        """A mutant of some parent, or the parent itself, each of them once."""
        mutators = list(self.mutators)
        for _ in range(self.max_fail_count + 1):
            place = pick_parent()
            chosen = pick_mutator()
            if chosen == 0:
                if place not in unchanged:
                    unchanged.add(place)
                    return population[place]
                continue
            parent = population[place]
            mutant = self._mutant(mutators[chosen - 1], parent.trace)
            if mutant is not None:
                draft = self.replayer.mutate(parent, mutant, self.random.fork_seed())
                if draft is not None:
                    is_known = draft.shash in self.seen or draft in self.known
                    self.replayer.statistics.duplicates += is_known
                    self.seen.add(draft.shash)
                    return draft
        return population[place]

    def _mutant(self, mutator: Mutator, trace: Trace) -> Trace | None:
        statistics, name = self.replayer.statistics, type(mutator).__name__
        try:
            mutant = mutator.apply(trace, self.random.fork_seed())
        except Exception as error:
            self.replayer.failed(statistics.mutator_failures, error, "mutator", mutator)
            return None
        if mutant is None:
            statistics.mutator_refusals[name] += 1
        return mutant


def score_of(draft: Draft) -> float:
    """The score of a draft; one that no model has seen comes last."""
    return -math.inf if draft.score is None else draft.score


def parent_weights(population: Sequence[Draft]) -> list[float]:
    """How likely each draft becomes a parent: by its score, never less than nothing."""
    scores = [score_of(draft) for draft in population]
    finite = [score for score in scores if math.isfinite(score)]
    if not finite or max(finite) <= 0.0:
        # Nothing is good: those that are less bad are likelier.
        lowest = min(finite, default=0.0)
        weights = [score - lowest if math.isfinite(score) else 0.0 for score in scores]
        return weights if any(weights) else [1.0] * len(scores)
    return [score if math.isfinite(score) and score > 0.0 else 0.0 for score in scores]


def mutator_chances(probabilities: Sequence[float], mutate_prob: float) -> list[float]:
    """The chance that nothing is mutated, then that of each mutator."""
    if any(not probability >= 0.0 for probability in probabilities):
        raise TuneError(f"probabilities of mutators must not be negative, got {probabilities}")
    total = sum(probabilities)
    if total == 0.0:
        return [1.0]
    shares = [mutate_prob * probability / total for probability in probabilities]
    return [1.0 - mutate_prob, *shares]


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
    order = random.without_replacement(len(others), len(others)) if others else []
    other = (others[place] for place in order)
    picked: list[Draft] = []
    for place in range(count):
        sources = (best, other) if place < num_bests else (other, best)
        draft = _next_new(sources[0], known) or _next_new(sources[1], known)
        if draft is None:
            break
        known.add(draft)
        picked.append(draft)
    return picked


def _next_new(drafts: Iterator[Draft], known: KnownCandidates) -> Draft | None:
    return next((draft for draft in drafts if draft not in known), None)

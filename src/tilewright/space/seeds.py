"""Seeds that members of a task draw from one another, so that one seed decides a whole search."""

from __future__ import annotations

from typing import Protocol

from tilewright.schedule.trace.random import RandomEngine


class HasRandState(Protocol):
    """A task or member with a random engine, kept as the number that is its state."""

    rand_state: int


def fork_rand_state(holder: HasRandState) -> int:
    """A seed for somebody else; moves the holder's own engine on by one draw."""
    engine = RandomEngine(holder.rand_state)
    seed = engine.fork_seed()
    holder.rand_state = engine.state
    return seed

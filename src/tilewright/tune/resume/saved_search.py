"""Saves a search, so that the same call goes on where it stopped.

The state is saved together with the records of each round, in one transaction where the database
has them. It holds the counts of the task and what the search strategy needs to go on; a strategy
that cannot tell its state starts anew, and is told which candidates are known.

A round that was cut short (by Ctrl-C, the time budget or the number of trials) is saved as begun:
the strategy proposes the same candidates again, and those that have a record are not measured.

A search goes on only if its fingerprint is the same: its space and its strategy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from tilewright.database import Database
from tilewright.errors import StoredDataError
from tilewright.search.measured import MeasuredResults
from tilewright.space.base import SpaceGenerator
from tilewright.support.decoding import decoding
from tilewright.tune.abilities import Configured
from tilewright.tune.context import TuneContext
from tilewright.tune.task import TaskRecord
from tilewright.version import __version__

FORMAT = 1


def save_search(task: TaskRecord, database: Database) -> None:
    """Keep where a task stands, as of now."""
    database.save_state(_key(task), {**_head(task), **task.as_json()})


def load_search(task: TaskRecord, database: Database) -> bool:
    """Let a task go on from where an earlier call stopped; False if there is none that fits.

    Either way nothing that was measured of its program is measured again.
    """
    task.records = database.task_records(task.mod, task.target)
    task.measured = MeasuredResults(task.records.earlier)
    task.fingerprint = fingerprint_of(task.ctx)
    state = database.load_state(_key(task))
    head = _head(task)
    if not isinstance(state, Mapping) or any(state.get(name) != head[name] for name in head):
        return False
    try:
        with decoding("the saved state of the search cannot be read", StoredDataError):
            task.restore(state)
    except StoredDataError:
        task.ctx.logger.warning("the saved state of the search cannot be read; it starts anew")
        return False
    return True


def _key(task: TaskRecord) -> str:
    assert task.records is not None
    return f"search/{task.records.workload.shash:x}/{task.target.fingerprint}/{task.seed}"


def _head(task: TaskRecord) -> dict[str, object]:
    return {"format": FORMAT, "setting": task.fingerprint}


_LISTS = ("sch_rules", "postprocs", "mutator_probs")


def fingerprint_of(context: TuneContext) -> str:
    """Equal for searches of which one may go on where the other stopped."""
    space, strategy = context.space_generator, context.search_strategy
    parts = [
        __version__,
        "" if space is None else _space(space),
        "" if strategy is None else _strategy(strategy),
    ]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def _space(space: SpaceGenerator) -> str:
    """The class of a generator, its members, its functions, and the generators it is made of."""
    attributes = {name: value for name, value in vars(space).items() if not name.startswith("_")}
    lists = [[_member(each) for each in attributes.get(name, ())] for name in _LISTS]
    parts = [
        _space(part)
        for value in attributes.values()
        for part in (value if isinstance(value, list | tuple) else [value])
        if isinstance(part, SpaceGenerator)
    ]
    functions = [
        _name(value)
        for value in attributes.values()
        if callable(value) and hasattr(value, "__qualname__")
    ]
    return f"{_name(type(space))}{lists}{parts}{functions}"


def _strategy(strategy: object) -> str:
    if isinstance(strategy, Configured):
        return f"{_name(type(strategy))}{sorted(strategy.settings().items())}"
    return _member(strategy)


def _member(member: object) -> str:
    """Numbers and texts; what begins with an underscore is state, and so are random numbers."""
    attributes = vars(member) if hasattr(member, "__dict__") else {}
    chosen = [
        (name, value)
        for name, value in attributes.items()
        if isinstance(value, int | float | str)
        if not name.startswith("_") and name != "rand_state"
    ]
    return f"{_name(type(member))}{sorted(chosen)}"


def _name(value: Callable[..., object]) -> str:
    return f"{value.__module__}.{value.__qualname__}"

"""Chooses the schedule of a program, and remembers it.

In this order: the one that was chosen before (it travels with a pickled function), the best that a
database knows, the one that a search finds, the one that is calculated without a search.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tilewright.database import Database
from tilewright.errors import TilewrightError
from tilewright.ir import For, ForKind, IRModule, Node, PrimFunc, children, replace
from tilewright.jit.settings import CompileSettings
from tilewright.records import normalize_mod
from tilewright.schedule import Schedule, Trace
from tilewright.space.layout_free import has_bound_weights
from tilewright.target import Target
from tilewright.tune import default_schedule, tune_tir
from tilewright.tune.checks import why_not_tuned

logger = logging.getLogger("tilewright.jit")

# A function by its name, the sizes it is compiled for (none: all), and whether weights are bound.
Key = tuple[str, tuple[int, ...], bool]


class Schedules:
    """The schedules of the functions of a program."""

    def __init__(self, settings: CompileSettings, *, keeps_schedule: bool = False) -> None:
        self.settings = settings
        self._keeps_schedule = keeps_schedule
        self._traces: dict[Key, object] = {}  # as JSON

    def scheduled(self, module: IRModule, sizes: tuple[int, ...]) -> IRModule:
        """A module of which each function has its schedule."""
        functions = {
            name: self._scheduled(func, (name, sizes, has_bound_weights(func)))
            for name, func in module.functions.items()
        }
        return IRModule(functions, module.attrs)

    def tune(self, module: IRModule, sizes: tuple[int, ...], options: Mapping[str, object]) -> None:
        """Search for better schedules, and choose the best that are known then."""
        with self.settings.records(writing=True) as database:
            for name, func in module.functions.items():
                self._search(database, name, func, options)
                found = self._known(database, name, func)
                if found is not None:
                    self._remember((name, sizes, has_bound_weights(func)), found)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "machine": self._target.fingerprint}

    def __setstate__(self, state: dict[str, object]) -> None:
        """A schedule for one machine may be wrong for another, which then chooses its own."""
        machine = state.pop("machine")
        self.__dict__.update(state)
        if machine != self._target.fingerprint:
            self._traces = {}

    def _scheduled(self, func: PrimFunc, key: Key) -> PrimFunc:
        sch = self._replayed(func, key)
        if sch is None:
            # Is the schedule that the function was written with the one it shall have?
            if self._keeps_schedule or (self.settings.tuning is None and is_scheduled(func)):
                return func
            sch = self._chosen(func, key[0])
            self._remember(key, sch)
        return replace(sch.mod["main"], attrs=func.attrs)

    def _chosen(self, func: PrimFunc, name: str) -> Schedule:
        tuning = self.settings.tuning
        with self.settings.records(writing=tuning is not None) as database:
            found = self._known(database, name, func)
            if found is None and tuning is not None:
                self._search(database, name, func, tuning)
                found = self._known(database, name, func)
        return default_schedule(func, self._target) if found is None else found

    def _known(self, database: Database, name: str, func: PrimFunc) -> Schedule | None:
        return database.schedule_for(normalize_mod(func), self._target, name)

    def _search(
        self, database: Database, name: str, func: PrimFunc, options: Mapping[str, Any]
    ) -> None:
        refusal = why_not_tuned(name, func)
        if refusal is None:
            tune_tir(func, self._target, database=database, **options)
        else:
            logger.warning("%s", refusal.reason)

    @property
    def _target(self) -> Target:
        return self.settings.target

    def _remember(self, key: Key, sch: Schedule) -> None:
        if sch.trace is not None:
            self._traces[key] = sch.trace.as_json()

    def _replayed(self, func: PrimFunc, key: Key) -> Schedule | None:
        known = self._traces.get(key)
        if known is None:
            return None
        sch = Schedule(normalize_mod(func))
        try:
            Trace.from_json(known).apply_to_schedule(sch, remove_postproc=False)
        except TilewrightError as error:
            logger.warning("the schedule of %s() cannot be repeated: %s", key[0], error)
            return None
        return sch


def is_scheduled(node: Node) -> bool:
    """True if somebody has said how the loops of a program run: in parallel, say."""
    if isinstance(node, For) and node.kind is not ForKind.SERIAL:
        return True
    return any(is_scheduled(child) for child in children(node))

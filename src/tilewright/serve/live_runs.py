"""Runs and nodes as the event log of a database tells of them while it grows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tilewright.database import Database
from tilewright.support.text import counted
from tilewright.tune.event_log import event_log_path

SEARCH, BUILD, RUN, FINAL = "search", "build", "run", "final"
PHASES = (SEARCH, BUILD, RUN, FINAL)
_GOING_ON = {SEARCH: "searching schedules of", BUILD: "building", RUN: "running", FINAL: "final of"}
_LATE_LINES = 100
_MOST_BYTES = 1 << 20  # of one look at the log; the next one goes on from there


class LoggedEvent(msgspec.Struct):
    """A line of the log; those that a kind of event does not have stay as they are here."""

    event: str
    time: float
    node: str
    pid: int = 0
    load: float | None = None
    run: int | None = None
    tasks: list[str] = []
    max_trials: int | None = None
    task_id: int = 0
    phase: str = ""
    candidates: int = 0
    trials: int = 0
    reason: str = ""
    devices: int = 0
    done: int = 0
    busy_secs: float = 0.0


@dataclass
class LiveRun:
    """A call of the tuner, as far as its events go."""

    node: str
    pid: int
    number: int | None = None  # of the run in the history
    tasks: list[str] = field(default_factory=list)
    phases: dict[int, str] = field(default_factory=dict)  # by the number of the task
    max_trials: int | None = None
    started: float = 0.0
    last: float = 0.0
    reason: str = ""  # why it ended
    current: str = ""  # the phase that goes on now
    candidates: int = 0  # in that phase

    @property
    def doing(self) -> str:
        """The phase that goes on, in words."""
        task = next((n for n, phase in self.phases.items() if phase == self.current), None)
        if not self.current or task is None:
            return ""
        name = self.tasks[task] if task < len(self.tasks) else f"task {task}"
        many = f" {counted(self.candidates, 'candidate')} of" if self.candidates else ""
        return f"{_GOING_ON.get(self.current, self.current)}{many} {name}"


@dataclass
class NodeLoad:
    """A machine that takes part, and where its time went."""

    name: str
    load: float | None = None  # runnable processes a core; of a node of a cluster, busy devices
    last: float = 0.0
    devices: dict[str, int] = field(default_factory=dict)  # by phase, of a node of a cluster
    seconds: dict[str, float] = field(default_factory=dict)  # by phase
    trials: int = 0


@dataclass
class LiveState:
    """Everything that a log has told so far."""

    runs: dict[tuple[str, int], LiveRun] = field(default_factory=dict)
    nodes: dict[str, NodeLoad] = field(default_factory=dict)

    def add(self, event: LoggedEvent) -> None:
        """Take one event in; a kind that is not known changes nothing but the node."""
        if event.event == "node_seen":
            _see(self.nodes.setdefault(event.node, NodeLoad(event.node)), event)
            return
        place = (event.node, event.pid)
        run = self.runs.setdefault(place, LiveRun(*place, started=event.time))
        node = self.nodes.setdefault(event.node, NodeLoad(event.node))
        if run.current:
            spent = max(0.0, event.time - run.last)
            node.seconds[run.current] = node.seconds.get(run.current, 0.0) + spent
        run.last = node.last = event.time
        node.load = node.load if event.load is None else event.load
        node.trials += event.trials
        change = _CHANGES.get(event.event)
        if change is not None:
            change(run, event)

    @property
    def going_on(self) -> list[LiveRun]:
        """The runs that have not said that they ended."""
        return [run for run in self.runs.values() if run.tasks and not run.reason]


def _see(node: NodeLoad, event: LoggedEvent) -> None:
    """Takes in how much work a node of a cluster has done since the run began."""
    before, passed = node.seconds.get(event.phase, 0.0), event.time - node.last
    spent = event.busy_secs - (before if before <= event.busy_secs else 0.0)
    if event.devices and node.last and passed > 0:
        node.load = spent / (passed * event.devices)
    node.seconds[event.phase], node.devices[event.phase] = event.busy_secs, event.devices
    if event.phase == RUN:
        node.last, node.trials = event.time, event.done


def _started(run: LiveRun, event: LoggedEvent) -> None:
    run.number, run.tasks, run.max_trials = event.run, event.tasks, event.max_trials
    run.started, run.phases, run.reason, run.current = event.time, {}, "", ""


def _phase(run: LiveRun, event: LoggedEvent) -> None:
    run.current, run.candidates = event.phase, event.candidates
    run.phases[event.task_id] = event.phase


def _measured(run: LiveRun, event: LoggedEvent) -> None:
    run.phases[event.task_id], run.current = "waiting", ""


def _task_ended(run: LiveRun, event: LoggedEvent) -> None:
    run.phases[event.task_id], run.current = "done", ""


def _ended(run: LiveRun, event: LoggedEvent) -> None:
    run.reason, run.current = event.reason or "done", ""


_CHANGES = {
    "tuning_started": _started,
    "phase_changed": _phase,
    "round_measured": _measured,
    "task_finished": _task_ended,
    "tuning_finished": _ended,
}


class EventReader:
    """Follows a log, of which there is none here: each look takes in what was added."""

    def __init__(self) -> None:
        self.state = LiveState()

    def look(self) -> bool:
        """Read on; True if there was something new."""
        lines = self._new_lines()
        for event in _events(lines):
            self.state.add(event)
        return bool(lines)

    def _new_lines(self) -> Sequence[bytes | str]:
        return []


class FileEvents(EventReader):
    """Follows the file beside a database."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._place = 0

    def _new_lines(self) -> list[bytes]:
        try:
            size = self.path.stat().st_size
            if size == self._place:
                return []
            if size < self._place:  # a later run began it again
                self.state, self._place = LiveState(), 0
            with self.path.open("rb") as file:
                file.seek(self._place)
                text = file.read(_MOST_BYTES)
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._place += len(whole) or (len(text) if len(text) == _MOST_BYTES else 0)
        return whole.splitlines()


class ServerEvents(EventReader):
    """Follows the events that a database keeps itself."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._last = 0
        self._seen: set[int] = set()  # of the last ones

    def _new_lines(self) -> list[str]:
        """Of several tuners a line may appear after one that was given a later number."""
        begin = max(0, self._last - _LATE_LINES)
        rows = self._database.event_lines(begin)
        fresh = {number: line for number, line in rows if number not in self._seen}
        self._last = max(self._last, max(fresh, default=0))
        self._seen = {n for n in (*self._seen, *fresh) if n > self._last - _LATE_LINES}
        return list(fresh.values())


def event_reader(database: Database, path: Path | None) -> EventReader:
    """Follows what the tuners of a database do; `path` of one that lies in a file."""
    return ServerEvents(database) if path is None else FileEvents(event_log_path(path))


def _events(lines: Iterable[bytes | str]) -> Iterable[LoggedEvent]:
    """The events of lines; what somebody else wrote is skipped."""
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            yield msgspec.json.decode(line, type=LoggedEvent)

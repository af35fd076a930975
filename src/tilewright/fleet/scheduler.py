"""Gives tasks to devices: a scheduler without a clock, threads or a network.

Whoever drives it tells what happened (a device joined, finished, was lost) and asks what to do
next. The same code schedules the actors of a cluster and the devices of a simulation.

Devices of one kind are peers: a task for that kind may go to any of them. From three peers on,
each runs the calibration kernel before its first task and again after some hundreds; one that is
off the median of its peers is set aside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

OFF = 0.2  # of the median of its peers: a device that is further away is set aside
LEAST_PEERS = 3  # of two that disagree nobody can say which is wrong


@dataclass(frozen=True)
class FleetDevice:
    """Something that does one task at a time."""

    name: str
    node: str  # the machine that it is lost with
    kind: str  # which tasks it can do


@dataclass(frozen=True)
class FleetLimits:
    """How often a task is tried, and after how many tasks a device is calibrated again."""

    attempts: int = 4
    calibrate_every: int = 500  # 0: never, not even at first


class Assignment(NamedTuple):
    """What a device has to do now."""

    device: str
    task: int | None  # None: run the calibration kernel


class GivenUp(NamedTuple):
    """A task that nobody will do."""

    task: int
    reason: str
    is_lost: bool = False  # devices were lost with it again and again; else nobody can do it


@dataclass(eq=False)
class _Seat:
    """A device and what it is doing."""

    device: FleetDevice
    task: int | None = None
    is_calibrating: bool = False
    secs: float | None = None  # of the calibration kernel
    tasks_since: int = 0


@dataclass
class _Peers:
    """All devices of one kind, and the tasks for them."""

    seats: dict[str, _Seat] = field(default_factory=dict)
    idle: deque[_Seat] = field(default_factory=deque)
    unjudged: list[_Seat] = field(default_factory=list)  # until enough others are calibrated
    waiting: deque[int] = field(default_factory=deque)
    again: list[int] = field(default_factory=list)  # that a lost device held
    had_devices: bool = False

    @property
    def figures(self) -> list[float]:
        return [seat.secs for seat in self.seats.values() if seat.secs is not None]

    @property
    def quorum(self) -> int:
        """Half of the peers have to be calibrated before anyone is judged."""
        return max(LEAST_PEERS, len(self.seats) // 2)


class FleetScheduler:
    """Gives tasks to devices; `told` by its driver, `ask`ed for assignments."""

    def __init__(self, limits: FleetLimits | None = None) -> None:
        self.limits = limits or FleetLimits()
        self._kinds: dict[str, _Peers] = {}
        self._seats: dict[str, _Seat] = {}
        self._tried: dict[int, list[str]] = {}  # nodes that a task was lost with
        self._notes: list[str] = []
        self._given_up: list[GivenUp] = []

    # --- what happened --------------------------------------------------------------------------

    def add(self, device: FleetDevice) -> None:
        """A device that is ready for tasks."""
        seat = _Seat(device)
        self._seats[device.name] = self._peers(device.kind).seats[device.name] = seat
        self._peers(device.kind).had_devices = True
        self._free(seat)

    def submit(self, task: int, kind: str) -> None:
        """A task for any device of that kind."""
        self._peers(kind).waiting.append(task)

    def finish(self, name: str) -> None:
        """A device has done its task."""
        seat = self._seats.get(name)
        if seat is not None and seat.task is not None:
            self._tried.pop(seat.task, None)
            seat.task = None
            seat.tasks_since += 1
            self._free(seat)

    def calibrated(self, name: str, secs: float) -> None:
        """A device has run the calibration kernel."""
        seat = self._seats.get(name)
        if seat is None:
            return
        seat.is_calibrating, seat.secs, seat.tasks_since = False, secs, 0
        self._peers(seat.device.kind).unjudged.append(seat)

    def lose(self, name: str, why: str = "") -> None:
        """A device is gone; what it held goes elsewhere. With a reason, say so."""
        seat = self._seats.pop(name, None)
        if seat is None:
            return
        peers = self._peers(seat.device.kind)
        del peers.seats[name]
        if seat in peers.unjudged:
            peers.unjudged.remove(seat)
        if why:
            self._notes.append(why)
        if seat.task is not None:
            self._try_again(seat.task, seat.device)

    def lose_node(self, node: str) -> None:
        """A machine is gone with all of its devices."""
        lost = [name for name, seat in self._seats.items() if seat.device.node == node]
        for name in lost:
            self.lose(name)

    # --- what to do -----------------------------------------------------------------------------

    def ask(self, *, more_may_come: bool = False) -> list[Assignment]:
        """What devices have to do now; each is busy until it is told otherwise.

        Tasks that no device can do are given up, unless more devices may come.
        """
        assigned: list[Assignment] = []
        for kind, peers in self._kinds.items():
            self._judge(peers)
            assigned += self._assign(peers)
            if not peers.seats and not more_may_come:
                self._strand(kind, peers)
        return assigned

    def given_up(self) -> list[GivenUp]:
        """The tasks that were given up since this was asked last."""
        found, self._given_up = self._given_up, []
        return found

    def notes(self) -> list[str]:
        """Sentences for the user since this was asked last."""
        found, self._notes = self._notes, []
        return found

    # --- inside ---------------------------------------------------------------------------------

    def _peers(self, kind: str) -> _Peers:
        return self._kinds.setdefault(kind, _Peers())

    def _free(self, seat: _Seat) -> None:
        """Let a device wait for work; those that have to be calibrated come first."""
        peers = self._peers(seat.device.kind)
        if self._wants_calibration(seat, peers):
            peers.idle.appendleft(seat)
        else:
            peers.idle.append(seat)

    def _assign(self, peers: _Peers) -> Iterator[Assignment]:
        for _ in range(len(peers.idle)):
            seat = peers.idle.popleft()
            name = seat.device.name
            if self._seats.get(name) is not seat:  # it was lost
                continue
            if self._wants_calibration(seat, peers):
                seat.is_calibrating = True
                yield Assignment(name, None)
                continue
            seat.task = self._next_task(seat, peers)
            if seat.task is not None:
                yield Assignment(name, seat.task)
            elif peers.again:  # for another machine
                peers.idle.append(seat)
            else:
                peers.idle.appendleft(seat)
                return

    def _wants_calibration(self, seat: _Seat, peers: _Peers) -> bool:
        every = self.limits.calibrate_every
        if not every or len(peers.seats) < LEAST_PEERS:
            return False
        return seat.secs is None or seat.tasks_since >= every

    def _next_task(self, seat: _Seat, peers: _Peers) -> int | None:
        """The next task; one that was lost goes to another machine if there is one."""
        for task in peers.again:
            tried = self._tried[task]
            others = any(each.device.node not in tried for each in peers.seats.values())
            if seat.device.node not in tried or not others:
                peers.again.remove(task)
                return task
        return peers.waiting.popleft() if peers.waiting else None

    def _try_again(self, task: int, device: FleetDevice) -> None:
        tried = self._tried.setdefault(task, [])
        tried.append(device.node)
        if len(tried) < self.limits.attempts:
            self._peers(device.kind).again.append(task)
            return
        del self._tried[task]
        nodes = ", ".join(tried)
        text = f"{len(tried)} devices were lost while they worked on it (on {nodes})"
        self._given_up.append(GivenUp(task, text, is_lost=True))

    def _judge(self, peers: _Peers) -> None:
        """Set devices aside that are off their peers; the others may work."""
        if not peers.unjudged:
            return
        figures, can_judge = peers.figures, len(peers.seats) >= LEAST_PEERS
        if can_judge and len(figures) < peers.quorum:
            return
        middle, seats, peers.unjudged = median(figures), peers.unjudged, []
        for seat in seats:
            if can_judge and _is_off(seat.secs, middle):
                self.lose(seat.device.name, _why_aside(seat, middle, len(peers.seats) - 1))
            else:
                peers.idle.append(seat)

    def _strand(self, kind: str, peers: _Peers) -> None:
        """Nobody is left for these tasks."""
        tasks = [*peers.again, *peers.waiting]
        peers.again.clear()
        peers.waiting.clear()
        others = sorted(other for other, found in self._kinds.items() if found.seats)
        here = f"; there is {' and '.join(others)}" if others else ""
        what = f"no node that runs {kind} is left" if peers.had_devices else f"no node runs {kind}"
        reason = what + here
        self._given_up += [GivenUp(task, reason) for task in tasks]


def _is_off(secs: float | None, middle: float) -> bool:
    return secs is not None and abs(secs / middle - 1) > OFF


def _why_aside(seat: _Seat, middle: float, peers: int) -> str:
    assert seat.secs is not None
    return (
        f"node {seat.device.node} is set aside: it runs the calibration kernel in "
        f"{seat.secs * 1e3:.3g} ms, its {peers} peers in {middle * 1e3:.3g} ms"
    )

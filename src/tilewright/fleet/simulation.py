"""The scheduler in simulated time: a thousand devices that fail, on durations that were recorded.

Tuners take turns with their devices as real ones do: each asks for a round of trials, waits for all
of them and asks for the next. A device is lost with its node, and a slow one needs more time and
gives other results, so that using one would show.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.fleet.scheduler import FleetDevice, FleetScheduler

_HOUR = 3600.0
_KIND = "simulated"


class RecordedTrial(NamedTuple):
    """A trial of a recorded run."""

    device_secs: float  # how long it keeps a device busy
    run_secs: float  # its result


@dataclass(frozen=True)
class Faults:
    """What happens to the nodes of a simulated cluster."""

    lost_an_hour: float = 0.0  # the share of nodes
    slow_share: float = 0.0  # of nodes
    slow_factor: float = 1.5
    noticed_after: float = 30.0  # seconds until the loss of a node is known


@dataclass(frozen=True)
class SimulatedCluster:
    """A cluster of `nodes` nodes with `devices_a_node` devices each."""

    nodes: int = 250
    devices_a_node: int = 4
    faults: Faults = field(default_factory=Faults)
    seed: int = 0
    calibration_secs: float = 0.1


@dataclass(frozen=True)
class Simulated:
    """What a simulated run came to."""

    results: list[list[float]]  # by tuner, in the order of its trials
    elapsed: float  # simulated seconds
    efficiency: float  # the work of all trials, as a share of the time of all devices
    lost_nodes: int
    notes: list[str]
    given_up: int


def simulate(
    tuners: Sequence[Sequence[RecordedTrial]], cluster: SimulatedCluster, round_size: int = 64
) -> Simulated:
    """Run all trials of all tuners."""
    return _Simulation(tuners, cluster, round_size).run()


class _Simulation:
    def __init__(
        self, tuners: Sequence[Sequence[RecordedTrial]], cluster: SimulatedCluster, round_size: int
    ) -> None:
        self._tuners, self._cluster, self._round_size = tuners, cluster, round_size
        self._scheduler = FleetScheduler()
        self._results: list[list[float | None]] = [[None] * len(trials) for trials in tuners]
        self._left_in_round = [0] * len(tuners)
        self._begun = [0] * len(tuners)  # trials of each tuner
        self._owners: list[tuple[int, int]] = []  # tuner and trial of each task
        self._random = random.Random(cluster.seed)
        self._events: list[tuple[float, int, str, str, int | None]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._lost: set[str] = set()
        self._slow: set[str] = set()
        self._notes: list[str] = []
        self._given_up = 0

    def run(self) -> Simulated:
        """Until all trials are done."""
        self._start()
        while self._events and any(self._left_in_round):
            self._now, _, what, name, task = heapq.heappop(self._events)
            getattr(self, f"_{what}")(name, task)
            self._dispatch()
        work = sum(trial.device_secs for trials in self._tuners for trial in trials)
        devices = self._cluster.nodes * self._cluster.devices_a_node
        results = [[secs for secs in found if secs is not None] for found in self._results]
        share = work / (devices * self._now) if self._now else 1.0
        return Simulated(results, self._now, share, len(self._lost), self._notes, self._given_up)

    def _start(self) -> None:
        cluster, faults = self._cluster, self._cluster.faults
        for number in range(cluster.nodes):
            node = f"node{number}"
            if self._random.random() < faults.slow_share:
                self._slow.add(node)
            if faults.lost_an_hour:
                self._at(self._random.expovariate(faults.lost_an_hour / _HOUR), "fail", node)
            for device in range(cluster.devices_a_node):
                self._scheduler.add(FleetDevice(f"{node}/{device}", node, _KIND))
        for tuner in range(len(self._tuners)):
            self._next_round(tuner)
        self._dispatch()

    def _next_round(self, tuner: int) -> None:
        first = self._begun[tuner]
        last = min(first + self._round_size, len(self._tuners[tuner]))
        self._begun[tuner], self._left_in_round[tuner] = last, last - first
        for trial in range(first, last):
            self._scheduler.submit(len(self._owners), _KIND)
            self._owners.append((tuner, trial))

    def _dispatch(self) -> None:
        for device, task in self._scheduler.ask():
            secs = self._cluster.calibration_secs
            if task is not None:
                tuner, trial = self._owners[task]
                secs = self._tuners[tuner][trial].device_secs
            self._at(self._now + secs * self._factor(device), "end", device, task)
        self._given_up += len(self._scheduler.given_up())
        self._notes += self._scheduler.notes()

    def _factor(self, device: str) -> float:
        return self._cluster.faults.slow_factor if _node_of(device) in self._slow else 1.0

    def _at(self, when: float, what: str, name: str, task: int | None = None) -> None:
        heapq.heappush(self._events, (when, next(self._order), what, name, task))

    # --- events ---------------------------------------------------------------------------------

    def _end(self, device: str, task: int | None) -> None:
        if _node_of(device) in self._lost:
            return  # nobody hears of it
        if task is None:
            secs = self._cluster.calibration_secs * self._factor(device)
            self._scheduler.calibrated(device, secs * self._random.uniform(0.98, 1.02))
            return
        self._scheduler.finish(device)
        tuner, trial = self._owners[task]
        self._results[tuner][trial] = self._tuners[tuner][trial].run_secs * self._factor(device)
        self._left_in_round[tuner] -= 1
        if not self._left_in_round[tuner]:
            self._next_round(tuner)

    def _fail(self, node: str, task: int | None) -> None:
        self._lost.add(node)
        self._at(self._now + self._cluster.faults.noticed_after, "notice", node)

    def _notice(self, node: str, task: int | None) -> None:
        self._scheduler.lose_node(node)


def _node_of(device: str) -> str:
    return device.partition("/")[0]


def shuffled(
    recorded: Sequence[RecordedTrial], tuners: int, trials: int, seed: int = 0
) -> list[list[RecordedTrial]]:
    """The trials of `tuners` tuners, `trials` each, drawn from recorded ones."""
    drawn: Iterator[RecordedTrial] = iter(random.Random(seed).choices(recorded, k=tuners * trials))
    return [list(itertools.islice(drawn, trials)) for _ in range(tuners)]

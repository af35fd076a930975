"""`Fleet`: actors of one sort on all nodes of a cluster, and the tasks that they do.

One thread owns the scheduler. Everything that happens comes to it through a queue: tasks from the
tuner, answers from Ray. So a tuner spends no more than the time to put a task into that queue.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import msgspec

from tilewright.codegen.artifact import Artifact
from tilewright.errors import MachineError, TuneError
from tilewright.fleet import messages
from tilewright.fleet.cluster import Claim, Placing, RayConnection
from tilewright.fleet.messages import ActorReply, NodeFacts
from tilewright.fleet.ray_library import is_connection_lost
from tilewright.fleet.scheduler import FleetDevice, FleetLimits, FleetScheduler, GivenUp
from tilewright.measure.node_work import NodeWork
from tilewright.measure.wire import MACHINE
from tilewright.version import __version__

_REFRESH_SECS = 5.0  # between two looks at the nodes of the cluster
_START_SECS = 120.0  # that actors may take to answer first
_MOST_RESTARTS = 5  # of an actor that ends on a node that lives, without doing anything
STARTING: Final = "starting"
READY: Final = "ready"
OUT: Final = "out"  # it is not used, but its node is known
_log = logging.getLogger("tilewright.measure")
_reply = msgspec.msgpack.Decoder(ActorReply)


class TaskLost(Exception):
    """A task that several devices were lost with."""


@dataclass(frozen=True)
class Work:
    """What an actor is asked, and the artefacts that it needs."""

    what: str
    payload: bytes
    artifacts: Sequence[Artifact] = ()


@dataclass(frozen=True)
class FleetPlan:
    """Which actors run where, and which tasks they can do."""

    actor: type
    settings: bytes
    placing: Placing
    kind_of: Callable[[NodeFacts], str]  # of the device that an actor has, unless it has none
    no_place: str  # what to say where no node has a place for an actor
    limits: FleetLimits = field(default_factory=FleetLimits)


@dataclass(eq=False)
class _Actor:
    claim: Claim
    handle: Any
    started: float
    restarts: int = 0
    state: Literal["starting", "ready", "out"] = STARTING


class Fleet:
    """Does tasks on a cluster; each is done by one actor, or by another if that is lost."""

    def __init__(self, cluster: RayConnection, plan: FleetPlan) -> None:
        self._cluster, self._plan = cluster, plan
        self._scheduler = FleetScheduler(plan.limits)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._actors: dict[str, _Actor] = {}
        self._tasks: dict[int, tuple[Work, Future[bytes]]] = {}
        self._numbers = itertools.count()
        self._problems: list[str] = []  # why nodes are not used
        self._work: dict[str, tuple[int, float]] = {}  # tasks and seconds of each node
        self._fault: Exception | None = None  # after which nothing works any more
        self._is_closed = False
        self._looked = 0.0
        self._thread = threading.Thread(target=self._serve, name="tilewright-fleet", daemon=True)
        self._thread.start()

    def submit(self, kind: str, work: Work) -> Future[bytes]:
        """A task for a device of that kind; the future has its payload."""
        if self._is_closed:
            raise TuneError("it is closed; make another builder or runner")
        answer: Future[bytes] = Future()
        answer.set_running_or_notify_cancel()
        self._inbox.put(partial(self._take, kind, work, answer))
        return answer

    def node_work(self) -> list[NodeWork]:
        """The nodes that take part, or did, and what they have done."""
        actors, work = list(self._actors.values()), dict(self._work)
        ready = Counter(actor.claim.node.name for actor in actors if actor.state == READY)
        return [
            NodeWork(name, ready[name], *work.get(name, (0, 0.0))) for name in {**ready, **work}
        ]

    def close(self) -> None:
        """End all actors; what is not done fails."""
        if not self._is_closed:
            self._is_closed = True
            self._inbox.put(lambda: None)
            self._thread.join()
            self._cluster.disconnect()

    # --- the thread -----------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._is_closed:
            try:
                if self._fault is None:
                    self._look_at_nodes()
                    self._dispatch()
                self._inbox.get(timeout=_REFRESH_SECS)()
            except queue.Empty:
                continue
            except Exception as error:
                self._break(error)
        for actor in self._actors.values():
            self._cluster.kill(actor.handle)
        self._actors.clear()
        self._break(TuneError("it was closed before this was done"))
        while not self._inbox.empty():
            self._inbox.get()()

    def _break(self, error: Exception) -> None:
        """Nothing works any more: all that wait learn why."""
        self._fault = self._fault or error
        for _, answer in self._tasks.values():
            answer.set_exception(self._fault)
        self._tasks.clear()

    def _take(self, kind: str, work: Work, answer: Future[bytes]) -> None:
        if self._fault is not None:
            answer.set_exception(self._fault)
            return
        number = next(self._numbers)
        self._tasks[number] = (work, answer)
        self._scheduler.submit(number, kind)

    # --- actors ---------------------------------------------------------------------------------

    def _look_at_nodes(self) -> None:
        """Start actors on nodes that are new."""
        now = time.monotonic()
        if self._looked and now - self._looked < _REFRESH_SECS:
            return
        self._looked = now
        known = {actor.claim.node.id for actor in self._actors.values()}
        for node in self._cluster.nodes():
            if node.id not in known:
                for claim in self._plan.placing(node):
                    self._start(claim)
        if not self._actors and not self._problems:
            raise TuneError(self._plan.no_place)

    def _start(self, claim: Claim, restarts: int = 0) -> None:
        handle = self._cluster.start(self._plan.actor, self._plan.settings, claim)
        actor = _Actor(claim, handle, time.monotonic(), restarts)
        self._actors[claim.name] = actor
        self._call(actor, Work(messages.DESCRIBE, b""), partial(self._joined, actor))

    def _call(self, actor: _Actor, work: Work, then: Callable[[bytes], None]) -> None:
        """Ask an actor; the thread goes on with its answer, or with its loss."""
        stored = [self._cluster.store(each) for each in work.artifacts]
        future = self._cluster.call(actor.handle, work.what, work.payload, stored)
        go_on = partial(self._answered, actor, then)
        future.add_done_callback(lambda done: self._inbox.put(partial(go_on, done)))

    def _answered(self, actor: _Actor, then: Callable[[bytes], None], done: Future[bytes]) -> None:
        if self._actors.get(actor.claim.name) is not actor:
            return  # it was given up before
        error = done.exception()
        if error is None:
            then(done.result())
        elif is_connection_lost(error):
            raise self._cluster.give_up(error)
        else:
            self._lost(actor, error)

    def _joined(self, actor: _Actor, answer: bytes) -> None:
        """An actor is there, on a node that may have another version than the tuner."""
        reply = _reply.decode(answer)
        if reply.failure:
            self._leave_out(actor, f"node {actor.claim.node.name} is not used: {reply.message}")
            return
        facts = msgspec.msgpack.decode(reply.payload, type=NodeFacts)
        if facts.tilewright != __version__:
            self._leave_out(actor, _other_version(actor.claim.node.name, facts.tilewright))
            return
        try:
            kind = self._plan.kind_of(facts)
        except MachineError as error:
            self._leave_out(actor, f"node {actor.claim.node.name} is not used: {error}")
            return
        actor.state = READY
        self._scheduler.add(FleetDevice(actor.claim.name, actor.claim.node.name, kind))

    def _leave_out(self, actor: _Actor, problem: str) -> None:
        """Use an actor no more, and say why."""
        self._problems.append(problem)
        _log.warning("%s", problem)
        self._cluster.kill(actor.handle)
        actor.state = OUT

    def _lost(self, actor: _Actor, error: BaseException) -> None:
        """What an actor held goes elsewhere; if its node lives, another actor takes its place."""
        name, node = actor.claim.name, actor.claim.node
        self._scheduler.lose(name)
        self._cluster.kill(actor.handle)  # it may hold its claim, and just not answer
        if actor.state == STARTING and "No module named" in str(error):
            text = f"node {node.name} is not used: it has no tilewright, this machine has"
            self._leave_out(actor, f"{text} {__version__}; install the same version there")
            return
        is_alive = any(each.id == node.id for each in self._cluster.nodes())
        if is_alive and actor.restarts < _MOST_RESTARTS:
            _log.warning("an actor on node %s ended; another one takes its place", node.name)
            self._start(actor.claim, actor.restarts + 1)
            return
        del self._actors[name]
        text = f"node {node.name} was lost"
        if is_alive:
            text = f"actors on node {node.name} end: {_last_line(str(error))}"
        self._problems.append(text)
        _log.warning("%s; what it held is tried on other nodes", text)

    # --- tasks ----------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        now = time.monotonic()
        may_come = any(
            actor.state == STARTING and now - actor.started < _START_SECS
            for actor in self._actors.values()
        )
        for assigned in self._scheduler.ask(more_may_come=may_come):
            actor = self._actors[assigned.device]
            if assigned.task is None:
                self._call(actor, Work(messages.CALIBRATE, b""), partial(self._calibrated, actor))
            else:
                work, _ = self._tasks[assigned.task]
                self._call(actor, work, partial(self._done, actor, assigned.task, now))
        for given_up in self._scheduler.given_up():
            self._give_up(given_up)
        for note in self._scheduler.notes():
            _log.warning("%s", note)

    def _calibrated(self, actor: _Actor, answer: bytes) -> None:
        reply = _reply.decode(answer)
        if reply.failure:
            self._out_of_order(actor, reply.message)
        else:
            secs = msgspec.msgpack.decode(reply.payload, type=float)
            self._scheduler.calibrated(actor.claim.name, secs)

    def _done(self, actor: _Actor, task: int, started: float, answer: bytes) -> None:
        reply = _reply.decode(answer)
        if reply.failure == MACHINE:
            self._out_of_order(actor, reply.message)
            return
        self._scheduler.finish(actor.claim.name)
        actor.restarts = 0
        tasks, secs = self._work.get(actor.claim.node.name, (0, 0.0))
        self._work[actor.claim.node.name] = tasks + 1, secs + time.monotonic() - started
        _, future = self._tasks.pop(task)
        if reply.failure:
            future.set_exception(TuneError(f"node {actor.claim.node.name}: {reply.message}"))
        else:
            future.set_result(reply.payload)

    def _out_of_order(self, actor: _Actor, message: str) -> None:
        """Its node lacks something: disk space, for example."""
        problem = f"node {actor.claim.node.name} is set aside: {_last_line(message)}"
        self._scheduler.lose(actor.claim.name)
        self._leave_out(actor, problem)

    def _give_up(self, given_up: GivenUp) -> None:
        _, future = self._tasks.pop(given_up.task)
        if given_up.is_lost:
            future.set_exception(TaskLost(given_up.reason))
            return
        future.set_exception(MachineError(f"{given_up.reason}{self._why_nobody()}"))

    def _why_nobody(self) -> str:
        """Why nodes that might do something do not."""
        waiting = [a.claim.node.name for a in self._actors.values() if a.state == STARTING]
        if waiting:
            return f": another tuner has the device of node {waiting[0]}, or it does not answer"
        return f": {self._problems[-1]}" if self._problems else ""


def _last_line(text: str) -> str:
    """The one of a traceback that says what is wrong."""
    return text.strip().rpartition("\n")[2]


def _other_version(node: str, version: str) -> str:
    return (
        f"node {node} is not used: it has tilewright {version}, this machine has {__version__}; "
        "install the same version on both"
    )

"""A pool of worker processes: tasks in, outcomes out, whatever the tasks do to their workers.

Workers are started when they are first needed, kept, and replaced when they crash, take too long,
take too much memory, or have been used often enough. Tasks can also be started one by one, while
the caller does something else; workers get new ones whenever it comes back. An exception in the
calling process, Ctrl-C included, kills the workers that are busy. A task that fails for a fault of
the machine gets a second chance in a new worker; if that fails, too, the fault is raised and the
task has no outcome.
"""

from __future__ import annotations

import itertools
import os
import selectors
import signal
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.errors import MachineError, TuneError
from tilewright.measure.interrupts import delayed_interrupts
from tilewright.measure.memory import LEAST, can_get, system_kills
from tilewright.measure.process import GarbledAnswer, WorkerGone, WorkerProcess
from tilewright.measure.wire import MACHINE, Reply, Start, TaskCall
from tilewright.records import FailureKind
from tilewright.support.import_hooks import active_hooks
from tilewright.support.machine_faults import as_machine_faults, fault_in_words, no_memory

_WATCH_INTERVAL = 0.05  # seconds between two looks at the memory of busy workers
_START_TIMEOUT = 120.0
_START_ATTEMPTS = 4
_NEAR_LIMIT = 0.9  # of the memory limit: a worker that dies there died of it
_LARGE = 0.5  # of it: a worker that the system ends there, because memory ran out, is to blame
# Signals that come from outside: the candidate is innocent and gets another chance.
_FOREIGN_SIGNALS = (-signal.SIGKILL, -signal.SIGTERM)


@dataclass(frozen=True)
class PoolOptions:
    """What the workers of a pool are like."""

    max_workers: int
    memory_limit: int = 0  # bytes for each worker; 0: none
    max_uses: int = 500
    preload: tuple[str, ...] = ()
    initializer: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict)  # what they see besides ours


@dataclass(frozen=True)
class Task:
    """A function "package.module:function" that makes bytes of bytes, and its time limit."""

    function: str
    payload: bytes
    timeout_sec: float


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    payload: bytes = b""
    failure: FailureKind | None = None
    message: str = ""

    def complaint(self, owner: str, limit: float) -> str:
        """The failure for the user of a builder or a runner."""
        match self.failure:
            case FailureKind.RUN_ERROR:
                return f"{owner}: An exception occurred\n{self.message}"
            case FailureKind.TIMEOUT:
                return f"{owner}: Timeout, killed after {limit} seconds"
        return f"{owner}: {self.message}"


@dataclass(eq=False)
class _Worker:
    process: WorkerProcess
    deadline: float
    job: int | None = None  # the index of the task it works on; None: it is starting, or free
    request: int = 0  # the number of what it was asked last
    ready: bool = False
    uses: int = 0
    peak_bytes: int = 0


@dataclass
class _Round:
    """The tasks of one call of `run`, or those started one by one, and how far they are."""

    tasks: list[Task]
    outcomes: list[Outcome | None] = field(default_factory=list)
    waiting: deque[int] = field(default_factory=deque)
    retried: set[int] = field(default_factory=set)
    system_kills: int = field(default_factory=system_kills)  # before it began
    fault: Exception | None = None  # that ended it before its time

    def __post_init__(self) -> None:
        self.outcomes = [None] * len(self.tasks)
        self.waiting.extend(range(len(self.tasks)))

    @property
    def goes_on(self) -> bool:
        """Whether some of its tasks have no outcome yet, but will have one."""
        return self.fault is None and None in self.outcomes

    def add(self, task: Task) -> int:
        """Take one more task; its number."""
        self.tasks.append(task)
        self.outcomes.append(None)
        self.waiting.append(len(self.tasks) - 1)
        return len(self.tasks) - 1


@dataclass(frozen=True)
class StartedTask:
    """The future of a task that was started."""

    pool: WorkerPool
    state: _Round
    number: int

    def done(self) -> bool:
        """Whether its outcome is known; nothing is looked at for that."""
        return self.state.outcomes[self.number] is not None

    def result(self) -> Outcome:
        """Its outcome; waits for it."""
        return self.pool.outcome_of(self.state, self.number)


class WorkerPool:
    """Runs tasks in worker processes; may be used from several threads, one at a time."""

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self._workers: list[_Worker] = []
        self._failed_starts = 0  # since the last worker that started well
        self._numbers = itertools.count(1)  # of requests
        self._lock = threading.Lock()
        self._is_stopped = False
        self._one_by_one = _Round([])  # tasks that were started so
        self._finalizer = weakref.finalize(self, _end_all, self._workers, os.getpid())

    def warm_up(self, count: int | None = None) -> None:
        """Start workers now, without waiting for them."""
        with self._lock, as_machine_faults():
            wanted = min(count or self.options.max_workers, self.options.max_workers)
            self._start_workers(wanted - len(self._workers))

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        """Run tasks, as many at a time as there are workers; an outcome for each, in order."""
        with self._lock:
            state, self._is_stopped = _Round([*tasks]), False
            if self._one_by_one.goes_on:
                self._work(self._one_by_one)  # which may end otherwise than these tasks
            self._drop_busy()  # a second Ctrl-C may have cut the cleaning-up after the first short
            self._work(state)
            if state.fault is not None:
                raise state.fault
            return [outcome for outcome in state.outcomes if outcome is not None]

    def begin(self, task: Task) -> StartedTask:
        """Let workers take one more task as soon as they can; what goes wrong, its future says."""
        with self._lock:
            if not self._one_by_one.goes_on:
                self._drop_busy()
                self._one_by_one, self._is_stopped = _Round([]), False
            state = self._one_by_one
            future = StartedTask(self, state, state.add(task))
            self._work(state, is_waiting=False)
            return future

    def outcome_of(self, state: _Round, number: int) -> Outcome:
        """Wait for the outcome of a task that was started, and for no other."""
        with self._lock:
            self._work(state, number)
            outcome = state.outcomes[number]
            if outcome is not None:
                return outcome
            raise state.fault or _stopped()

    def _work(self, state: _Round, until: int | None = None, is_waiting: bool = True) -> None:
        """Work on tasks until all have an outcome, or the given one has; or only look once."""
        try:
            with as_machine_faults():
                while state.goes_on and (until is None or state.outcomes[until] is None):
                    if self._is_stopped:
                        raise _stopped()
                    self._assign(state)
                    self._wait(state, _WATCH_INTERVAL if is_waiting else 0.0)
                    if not is_waiting:
                        break
                if state.goes_on:
                    self._assign(state)  # whoever is free now need not wait for the next call
        except BaseException as error:
            self._drop_busy()
            state.fault = error if isinstance(error, Exception) else _stopped()
            if state.fault is not error:
                raise

    def stop(self) -> None:
        """Let `run` end in another thread, with an error."""
        self._is_stopped = True

    def close(self) -> None:
        """End all workers. The pool can be used again: it starts new ones."""
        with self._lock:
            self._one_by_one.fault = _stopped()
            _end_all(self._workers, os.getpid())

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [worker.process.pid for worker in self._workers]

    # --- workers ---

    def _start_workers(self, count: int) -> None:
        """Start `count` workers, or as many as the machine lets us, but at least one."""
        for _ in range(count):
            try:
                self._start_worker()
            except OSError:
                if not self._workers:
                    raise
                return

    def _start_worker(self) -> None:
        import_path = [entry or os.getcwd() for entry in sys.path]
        options = self.options
        preload = [*(hook.install for hook in active_hooks()), *options.preload]
        start = Start(import_path, preload, options.initializer, options.memory_limit)
        with delayed_interrupts():
            process = WorkerProcess(start, options.environ)
            self._workers.append(_Worker(process, time.monotonic() + _START_TIMEOUT))

    def _bury(self, worker: _Worker) -> int:
        with delayed_interrupts():
            code = worker.process.bury()
            if worker in self._workers:
                self._workers.remove(worker)
            return code

    def _drop_busy(self) -> None:
        for worker in [worker for worker in self._workers if worker.job is not None]:
            self._bury(worker)

    # --- tasks ---

    def _assign(self, state: _Round) -> None:
        for worker in tuple(self._workers):
            if state.waiting and worker.ready and worker.job is None:
                self._give(worker, state)
        starting = sum(not worker.ready for worker in self._workers)
        missing = len(state.waiting) - starting
        self._start_workers(min(missing, self.options.max_workers - len(self._workers)))

    def _give(self, worker: _Worker, state: _Round) -> None:
        job = state.waiting.popleft()
        task = state.tasks[job]
        worker.job, worker.peak_bytes, worker.request = job, 0, next(self._numbers)
        worker.uses += 1
        worker.deadline = time.monotonic() + task.timeout_sec
        try:
            worker.process.send(TaskCall(task.function, task.payload, worker.request))
        except WorkerGone:  # it ended while it was idle
            state.waiting.appendleft(job)
            worker.job = None
            self._bury(worker)

    def _wait(self, state: _Round, most: float) -> None:
        """Until something happens, or it is time to look at clocks and memory."""
        active = [worker for worker in self._workers if worker.job is not None or not worker.ready]
        with selectors.DefaultSelector() as selector:
            for worker in active:
                selector.register(worker.process.reply_end, selectors.EVENT_READ, worker)
                if worker.process.has_unsent:
                    selector.register(worker.process.request_end, selectors.EVENT_WRITE, worker)
            nearest = min((worker.deadline for worker in active), default=0.0) - time.monotonic()
            patience = max(0.0, min(nearest, most))
            for key, events in selector.select(patience) if active else ():
                self._serve(key.data, events, state)
        for worker in active:
            if worker in self._workers:
                self._watch(worker, state)

    def _serve(self, worker: _Worker, events: int, state: _Round) -> None:
        if worker not in self._workers:
            return
        try:
            if events & selectors.EVENT_WRITE:
                worker.process.flush()
                return
            replies = worker.process.receive()
        except WorkerGone:
            self._worker_died(worker, state)
            return
        except GarbledAnswer:
            self._garbled(worker, state)
            return
        for reply in replies:
            if worker in self._workers and reply.number == worker.request:
                self._answered(worker, reply, state)

    def _answered(self, worker: _Worker, reply: Reply, state: _Round) -> None:
        if not worker.ready:
            self._started(worker, reply)
        elif worker.job is None:  # one that was given twice
            return
        elif reply.failure == MACHINE:
            self._bury(worker)
            if not self._retried(worker.job, state):
                raise MachineError(reply.message)
        else:
            failure = FailureKind(reply.failure) if reply.failure else None
            self._settle(worker, Outcome(reply.payload, failure, reply.message), state)
            # A worker that ran out of memory may hold on to what it got.
            if worker.uses >= self.options.max_uses or failure is FailureKind.OUT_OF_MEMORY:
                self._bury(worker)

    def _garbled(self, worker: _Worker, state: _Round) -> None:
        """Who wrote that may be an earlier task, so this one gets a second chance."""
        self._bury(worker)
        text = "the worker process sent something that is not an answer"
        if not worker.ready:
            raise TuneError(f"a worker could not start: {text}")
        if not self._retried(worker.job, state):
            self._settle(worker, Outcome(failure=FailureKind.CRASH, message=text), state)

    def _started(self, worker: _Worker, reply: Reply) -> None:
        if reply.failure:
            self._bury(worker)
            if reply.failure == MACHINE:
                raise MachineError(reply.message)
            raise TuneError(f"a worker could not start:\n{reply.message}")
        worker.ready = True
        worker.process.worker = int(reply.payload)
        self._failed_starts = 0

    def _retried(self, job: int | None, state: _Round) -> bool:
        """Give a task a second chance; False if it has had it.

        A fault of one worker, such as too many open files, is gone with it.
        """
        if job is None or job in state.retried:
            return False
        state.retried.add(job)
        state.waiting.appendleft(job)
        return True

    def _settle(self, worker: _Worker, outcome: Outcome, state: _Round) -> None:
        if worker.job is not None:
            state.outcomes[worker.job] = outcome
            worker.job = None

    def _watch(self, worker: _Worker, state: _Round) -> None:
        if time.monotonic() >= worker.deadline and (worker.job is not None or not worker.ready):
            self._bury(worker)
            if not worker.ready:
                raise TuneError(f"a worker did not start within {_START_TIMEOUT:g} seconds")
            self._settle(worker, Outcome(failure=FailureKind.TIMEOUT), state)
            return
        limit = self.options.memory_limit
        if not limit or worker.job is None:
            return
        worker.peak_bytes = max(worker.peak_bytes, worker.process.resident_bytes())
        if worker.peak_bytes > limit:
            self._bury(worker)
            self._settle(worker, _out_of_memory(limit), state)

    def _worker_died(self, worker: _Worker, state: _Round) -> None:
        words = worker.process.last_words()
        code = self._bury(worker)
        if not worker.ready:
            self._failed_starts += 1
            if code in _FOREIGN_SIGNALS and self._failed_starts < _START_ATTEMPTS:
                return
            text = f"a worker ended while it started ({_manner(code)}):\n{words}"
            raise fault_in_words(words) or TuneError(text)
        job = worker.job
        if job is None:
            return
        worker.peak_bytes = max(worker.peak_bytes, worker.process.peak_bytes)
        is_chosen = code == -signal.SIGKILL and system_kills() > state.system_kills
        limit, text = self.options.memory_limit, f"the worker process {_manner(code)}"
        if limit and worker.peak_bytes >= (_LARGE if is_chosen else _NEAR_LIMIT) * limit:
            self._settle(worker, _out_of_memory(limit), state)
        elif is_chosen or not can_get(LEAST):
            if not self._retried(job, state):
                raise no_memory(text)
        elif code not in _FOREIGN_SIGNALS or not self._retried(job, state):
            message = f"{text}:\n{words}" if words else text
            self._settle(worker, Outcome(failure=FailureKind.CRASH, message=message), state)


def check_positive(owner: str, **options: float) -> None:
    """Refuse options that are zero or less."""
    for name, value in options.items():
        if not value > 0:
            raise TuneError(f"{owner}: {name} must be positive, got {value!r}")


def _stopped() -> TuneError:
    return TuneError("the tasks of a pool of workers were stopped")


def _manner(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    return f"died of {signal.Signals(-code).name}"


def _out_of_memory(limit: int) -> Outcome:
    return Outcome(
        failure=FailureKind.OUT_OF_MEMORY,
        message=f"the worker process took more than its {limit >> 20} MiB of memory",
    )


def _end_all(workers: list[_Worker], owner: int) -> None:
    """End workers for good; a fork of their owner only lets go of them."""
    while workers:
        with delayed_interrupts():
            worker = workers.pop()
            if os.getpid() == owner:
                worker.process.bury()
            else:
                worker.process.close()

"""Values that travel between search, measuring and the database."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tilewright.codegen.artifact import Artifact
from tilewright.errors import ScheduleError, TargetError, TilewrightError, TuneError
from tilewright.ir import IRModule, PrimFunc, replace, structural_hash
from tilewright.ir.json import load_json, save_json
from tilewright.nest.reading import Reading, read
from tilewright.schedule import Schedule, Trace
from tilewright.support.decoding import decoding
from tilewright.target import Target, get_kind

# What TVM writes instead of the running time of a candidate that failed.
FAILED_RUN_SECS = 1e10


class FailureKind(str, Enum):
    """Why a candidate has no running time."""

    BUILD_ERROR = "build_error"
    RUN_ERROR = "run_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CRASH = "crash"
    WRONG_RESULT = "wrong_result"
    IMPOSSIBLE_SPEED = "impossible_speed"


@dataclass(frozen=True)
class TensorInfo:
    """Type and shape of an argument."""

    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", str(self.dtype))
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))

    def as_json(self) -> list[object]:
        """As tuning records write it."""
        return ["TENSOR", self.dtype, list(self.shape)]

    @staticmethod
    def from_json(json_obj: object) -> TensorInfo:
        """Read back what `as_json` wrote."""
        match json_obj:
            case ["TENSOR", str(dtype), list(shape)]:
                return TensorInfo(dtype, tuple(shape))
        raise TuneError(f'expected ["TENSOR", dtype, shape], got {json_obj!r}')

    @staticmethod
    def from_prim_func(func: PrimFunc) -> tuple[TensorInfo, ...]:
        """Types and shapes of the arguments of a function."""
        return args_info_of(IRModule({"main": func}))

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> tuple[TensorInfo, ...]:
        """Those of the entry function. No preprocessing of ours changes them."""
        return args_info_of(mod)


ArgInfo = TensorInfo


@dataclass(frozen=True)
class MeasureCandidate:
    """A schedule to be measured, with what it is called with."""

    sch: Schedule
    args_info: tuple[TensorInfo, ...]
    shash: int | None = field(default=None, compare=False)  # of the module, where it is known
    _readings: dict[PrimFunc, Reading] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def reading_of(self, func: PrimFunc) -> Reading:
        """The loop nests of one of its functions, read once for features and prior."""
        known = self._readings.get(func)
        if known is None:
            known = self._readings[func] = read(func)
        return known

    @property
    def program_hash(self) -> int:
        """Tells the candidates of one workload apart."""
        return structural_hash(self.sch.mod) if self.shash is None else self.shash

    @property
    def trace(self) -> Trace:
        """The steps that led to the candidate."""
        if self.sch.trace is None:
            raise TuneError("a candidate without a trace cannot be kept: use Schedule, traced")
        return self.sch.trace


@dataclass(frozen=True)
class BuilderInput:
    """A scheduled module to be compiled."""

    mod: IRModule
    target: Target
    params: Mapping[str, Any] | None = None
    is_reference: bool = False  # not a candidate, but what candidates are compared with


@dataclass(frozen=True)
class BuilderResult:
    """The compiled candidate, or why there is none.

    It travels as a value where the builder gives one; `artifact_path` is its name, or, as in TVM,
    the file that it lies in.
    """

    artifact_path: str | None
    error_msg: str | None = None
    failure: FailureKind | None = None
    artifact: Artifact | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RunnerInput:
    """A compiled candidate to be run; all but the first three fields are hints."""

    artifact_path: str
    device_type: str
    args_info: tuple[TensorInfo, ...]
    # The artefact of the untransformed program: candidates are compared with it, and those that
    # have the same one are compared with each other.
    reference_path: str | None = None
    artifact: Artifact | None = field(default=None, repr=False)  # None: read `artifact_path`
    reference: Artifact | None = field(default=None, repr=False)  # None: read `reference_path`
    best_secs: float | None = None  # of the workload so far
    min_secs: float | None = None  # nothing can be faster on this machine
    seed: int | None = None  # of the random arguments
    candidate: MeasureCandidate | None = None  # for runners that look at it instead of running it
    is_plain: bool = False  # the untransformed program itself
    row_offsets: Mapping[int, int] = field(default_factory=dict)  # arguments that rise to a number


@dataclass(frozen=True)
class RunnerResult:
    """The running times in seconds, or why there are none."""

    run_secs: tuple[float, ...] | None
    error_msg: str | None = None
    failure: FailureKind | None = None
    checked: bool = False  # compared with the untransformed program
    stopped_early: bool = False  # worse than the best: timed roughly, and not always checked
    protocol: str = ""  # how it was timed
    step_secs: Mapping[str, float] = field(default_factory=dict)  # where the runner's time went
    notes: tuple[str, ...] = ()  # what its user should know of the untransformed program
    heat_secs: tuple[float, ...] = ()  # in each heat of a final, which tells how sure the time is

    def __post_init__(self) -> None:
        if self.run_secs is not None:
            object.__setattr__(self, "run_secs", tuple(map(float, self.run_secs)))


Candidates: TypeAlias = Sequence[MeasureCandidate]
RunnerResults: TypeAlias = Sequence[RunnerResult]


class BuilderFuture(Protocol):
    """The result of a builder, which may not be there yet."""

    def done(self) -> bool: ...

    def result(self) -> BuilderResult: ...


@runtime_checkable
class RunnerFuture(Protocol):
    """The result of a runner, which may not be there yet."""

    def done(self) -> bool: ...

    def result(self) -> RunnerResult: ...


@dataclass(frozen=True)
class TargetIdentity:
    """A target as it was on the machine that measured, in plain values that travel."""

    description: Mapping[str, object]  # as `Target.export()` gives it
    fingerprint: str | None = None  # None: unknown
    features: tuple[str, ...] | None = None  # of the CPU; None: unknown
    is_complete: bool = False  # what follows from the description is filled in


@dataclass(frozen=True, eq=False)
class Workload:
    """A program to be tuned; two of one database are the same object if they are equal."""

    mod: IRModule
    shash: int = -1  # the structural hash of the program unless a database has one of its own

    def __post_init__(self) -> None:
        object.__setattr__(self, "mod", self.mod.clone())  # its owner may change it in place
        if self.shash < 0:
            object.__setattr__(self, "shash", structural_hash(self.mod))

    def as_json(self) -> list[str]:
        """The hash and the program, in our JSON, as two texts."""
        return [str(self.shash), base64.b64encode(save_json(self.mod).encode()).decode()]

    @staticmethod
    def from_json(json_obj: Sequence[str]) -> Workload:
        """Read back what `as_json` wrote."""
        shash, mod = json_obj
        return Workload(load_json(base64.b64decode(mod).decode()), int(shash))


class Seconds(float):
    """A running time; `value` is what the numbers in TVM's records are asked for."""

    @property
    def value(self) -> float:
        """The plain number."""
        return float(self)


@dataclass(frozen=True, eq=False)
class TuningRecord:
    """One measured candidate, successful or not."""

    trace: Trace
    workload: Workload
    run_secs: tuple[float, ...] | None = None
    target: Target | None = None
    args_info: tuple[TensorInfo, ...] | None = None
    failure: FailureKind | None = None
    error_msg: str | None = None
    # Plain values. Databases know these keys: protocol, seed, round; run, task, trial, prediction,
    # elapsed (of the history). Seed and round make committing a record twice harmless.
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Of a record that was read from a file: its target where it was measured.
    identity: TargetIdentity | None = None

    def __post_init__(self) -> None:
        if self.run_secs is not None:
            object.__setattr__(self, "run_secs", tuple(map(Seconds, self.run_secs)))

    def as_measure_candidate(self) -> MeasureCandidate:
        """The candidate again: its whole trace replayed."""
        sch = Schedule(self.workload.mod)
        with decoding("the trace cannot be replayed", ScheduleError):
            self.trace.apply_to_schedule(sch, remove_postproc=False)
        return MeasureCandidate(sch, args_info_of(sch.mod))

    def as_candidate_or_none(self) -> MeasureCandidate | None:
        """The same; None if the trace cannot be replayed: it may be of another version."""
        try:
            return self.as_measure_candidate()
        except TilewrightError:
            return None

    @staticmethod
    def of(
        candidate: MeasureCandidate,
        workload: Workload,
        target: Target | None,
        result: RunnerResult,
        extra: Mapping[str, object],
    ) -> TuningRecord:
        """The record of a candidate that was measured; what `extra` has no value for is left out.

        The hash of the program and how it was timed are added to it.
        """
        noted = {
            CANDIDATE_HASH: candidate_hash(candidate),
            "protocol": result.protocol or None,
            "checked": result.checked,
            **extra,
        }
        return TuningRecord(
            trace=candidate.trace,
            workload=workload,
            run_secs=result.run_secs or (FAILED_RUN_SECS,),
            target=target,
            args_info=candidate.args_info,
            failure=result.failure,
            error_msg=result.error_msg,
            extra={key: value for key, value in noted.items() if value is not None},
        )

    def as_result(self) -> RunnerResult:
        """The result that the record was made of."""
        failed = self.failure is not None or self.mean_secs >= FAILED_RUN_SECS
        return RunnerResult(
            run_secs=None if failed else self.run_secs,
            error_msg=self.error_msg,
            failure=self.failure,
            checked=bool(self.extra.get("checked")),
            stopped_early=bool(self.extra.get("stopped_early")),
            protocol=self.protocol,
        )

    def as_made(self) -> TuningRecord:
        """The record without what a final found out later."""
        first = self.extra.get("first_run_secs")
        if not first:
            return self
        return dataclasses.replace(self, run_secs=tuple(first), failure=None, error_msg=None)

    def as_json(self) -> list[Any]:
        """`[trace, run_secs, target, args_info]`, as TVM writes it."""
        target = None if self.target is None else self.target.export()
        return [
            self.trace.as_json(),
            self.plain_secs,
            target if self.identity is None else self.identity.description,
            None if self.args_info is None else [info.as_json() for info in self.args_info],
        ]

    @staticmethod
    def from_json(json_obj: object, workload: Workload) -> TuningRecord:
        """Read back what `as_json` wrote; nothing is replayed."""
        match json_obj:
            case [trace, list() | None as run_secs, dict() | None as target, list() | None as args]:
                return TuningRecord(
                    Trace.from_json(trace),
                    workload,
                    None if run_secs is None else tuple(float(secs) for secs in run_secs),
                    None if target is None else read_target(target),
                    None if args is None else tuple(TensorInfo.from_json(info) for info in args),
                    identity=None if target is None else TargetIdentity(target),
                )
        raise TuneError("a tuning record in JSON is [trace, run_secs, target, args_info]")

    @property
    def is_valid(self) -> bool:
        """It may be used: it ran, gave no wrong result, and its trace has a step of its own.

        The program as it is, which has none, was measured on purpose.
        """
        if self.failure is not None or not self.run_secs:
            return False
        ran = any(secs != FAILED_RUN_SECS for secs in self.run_secs)
        is_whole = self.baseline == PLAIN or self.trace.has_steps()
        return ran and all(0 <= secs < math.inf for secs in self.run_secs) and is_whole

    def is_for(self, target: Target | None) -> bool:
        """False when it was measured on a machine that says nothing about the target."""
        if self.target is None or target is None:
            return True
        return self.target.fingerprint == target.fingerprint

    @property
    def program_hash(self) -> int | None:
        """The hash of the program that was measured, if it was noted."""
        noted = self.extra.get(CANDIDATE_HASH)
        return int(noted, 16) if isinstance(noted, str) else None

    @property
    def baseline(self) -> str | None:
        """`ZERO_SEARCH` or `PLAIN` if it was not found by a search."""
        return self.extra.get(BASELINE)

    @property
    def notes(self) -> Sequence[str]:
        """Sentences about the untransformed program that its user should know."""
        found: Sequence[str] = self.extra.get(PROGRAM_NOTES, ())
        return found

    @property
    def protocol(self) -> str:
        """The way it was timed."""
        return str(self.extra.get("protocol", ""))

    @property
    def plain_secs(self) -> list[float] | None:
        """The running times for a file."""
        return None if self.run_secs is None else list(map(float, self.run_secs))

    @property
    def mean_secs(self) -> float:
        """The mean running time; `FAILED_RUN_SECS` without one."""
        if not self.run_secs:
            return FAILED_RUN_SECS
        return sum(self.run_secs) / len(self.run_secs)


def read_target(description: Mapping[str, object]) -> Target | None:
    """The target of a record, without attributes that only other versions know; None: unknown."""
    try:
        kind = get_kind(str(description.get("kind")))
        known = {*kind.attrs, "kind", "keys", "tag", "host"}
        return Target({name: value for name, value in description.items() if name in known})
    except TargetError:
        return None


# The keys of `TuningRecord.extra` that its properties read.
CANDIDATE_HASH = "candidate_hash"
PROGRAM_NOTES = "notes"
BASELINE = "baseline"
ZERO_SEARCH = "zero-search"  # the schedule that is calculated
PLAIN = "plain"  # the program as it is


def candidate_hash(candidate: MeasureCandidate) -> str:
    """What tells candidates of one workload apart; goes into a record under `CANDIDATE_HASH`."""
    return f"{candidate.program_hash:016x}"


def normalize_mod(mod: PrimFunc | IRModule) -> IRModule:
    """A module with one function called main, whose buffers do not overlap."""
    (func,) = [mod] if isinstance(mod, PrimFunc) else task_mod(mod).functions.values()
    attrs = {"global_symbol": "main", **func.attrs, "tir.noalias": True}
    return IRModule({"main": replace(func, attrs=attrs)})


def task_mod(mod: PrimFunc | IRModule) -> IRModule:
    """The module that a task is about: a function alone, or a module of one just as it is."""
    if isinstance(mod, PrimFunc):
        return normalize_mod(mod)
    if not isinstance(mod, IRModule):
        raise TuneError(f"a task is a PrimFunc or an IRModule, got {type(mod).__name__}")
    if len(mod.functions) != 1:
        raise TuneError(
            f"a task has one function, the module has {len(mod.functions)}: "
            f"{', '.join(mod.functions)}; tune_tir makes a task of each"
        )
    return mod


def entry_function(mod: IRModule) -> PrimFunc:
    """The function that a caller calls: marked as entry, named main, or the only one."""
    functions: Sequence[tuple[str, PrimFunc]] = list(mod.functions.items())
    for _, func in functions:
        if func.attrs.get("tir.is_entry_func"):
            return func
    for name, func in functions:
        if name == "main" or len(functions) == 1:
            return func
    raise TuneError(
        f"the module has {len(functions)} functions and none is the entry;"
        " name one of them main or mark it with tir.is_entry_func"
    )


def args_info_of(mod: IRModule) -> tuple[TensorInfo, ...]:
    """Types and shapes of the arguments of the entry function."""
    func = entry_function(mod)
    infos = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            raise TuneError(f"parameter {param.name} is a scalar; only buffers can be tuned with")
        shape = []
        for extent in buffer.shape:
            value = getattr(extent, "value", None)
            if not isinstance(value, int):
                raise TuneError(f"the shape of {buffer.name} is symbolic: {extent} is not a number")
            shape.append(value)
        infos.append(TensorInfo(str(buffer.dtype), tuple(shape)))
    return tuple(infos)

"""Measuring of Heron's candidates: here with our builder and runner; elsewhere by who registers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TilewrightError, TuneError
from tilewright.heron.config import HeronConfig
from tilewright.heron.platforms import Platform
from tilewright.heron.space import HeronSpace
from tilewright.measure import Builder, Runner
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.records import BuilderInput, RunnerInput, RunnerResult, args_info_of
from tilewright.runtime.devices import device
from tilewright.runtime.threads import available_cores
from tilewright.support.plugins import Family
from tilewright.target import Target

_ROW_MS = 20.0  # Heron's are 500: with medians of several rows that is not needed


@dataclass(frozen=True)
class HeronOutcome:
    """The time of a candidate in seconds, or why there is none."""

    secs: float | None
    reason: str = ""


class HeronMeasurer(ABC):
    """Times candidates of one space."""

    @abstractmethod
    def measure(self, values: Sequence[dict[str, int]]) -> list[HeronOutcome]:
        """One outcome for each solution, in order."""

    def close(self) -> None:
        """Give back what it holds."""
        return None


heron_measurers: Family[HeronMeasurer] = Family("measurer of Heron", "tilewright.heron_measurer")


def measurer_of(platform: Platform, space: HeronSpace, config: HeronConfig) -> HeronMeasurer:
    """Who measures on a platform."""
    if platform.name in heron_measurers:
        return heron_measurers.create(platform.name, space, config)
    raise TuneError(
        f"nothing measures on the platform {platform.name!r}: register a measurer under this name "
        "in the entry points of 'tilewright.heron_measurer'"
    )


@heron_measurers.register("dlboost")
def _measure_on_cpu(space: HeronSpace, config: HeronConfig) -> HeronMeasurer:
    target = _target(config, "dlboost", "llvm", "c")
    if "avx512vnni" not in target.features and _uses_vnni(space):
        raise TuneError(
            f"platform 'dlboost' needs a CPU with VNNI, which {target} does not have; choose "
            "in_dtype and out_dtype 'float32', or another target_name"
        )
    return LocalMeasurer(space, config, target)


def _uses_vnni(space: HeronSpace) -> bool:
    return any("vnni" in step.text({}) for step in space.steps)


@heron_measurers.register("tensorcore")
def _measure_on_gpu(space: HeronSpace, config: HeronConfig) -> HeronMeasurer:
    chosen = device("cuda", config.device_id)
    if not chosen.exist:
        raise TuneError(
            f"platform 'tensorcore' measures on an NVIDIA GPU: {chosen.why_missing}; --no-measure "
            "writes the space without one"
        )
    return LocalMeasurer(space, config, _target(config, "tensorcore", "cuda"))


@heron_measurers.register("vta")
def _measure_on_simulator(space: HeronSpace, config: HeronConfig) -> HeronMeasurer:
    return LocalMeasurer(space, config, _target(config, "vta", "vta"))


def _target(config: HeronConfig, platform: str, *kinds: str) -> Target:
    """The target of a configuration, of a kind that a platform measures on."""
    try:
        target = Target(config.target_name or kinds[0])
    except TilewrightError as error:
        raise TuneError(f"'target_name': {error}") from error
    if target.kind.name not in kinds:
        wanted = " or ".join(map(repr, kinds))
        raise TuneError(
            f"platform {platform!r} measures on targets of the kind {wanted}, but 'target_name' is "
            f"{config.target_name!r}"
        )
    return target


class LocalMeasurer(HeronMeasurer):
    """Compiles and runs on this machine; results are compared with the plain program."""

    def __init__(self, space: HeronSpace, config: HeronConfig, target: Target) -> None:
        self.space, self.target = space, target
        workers = min(config.parallel_num, available_cores()) if config.parallel else 1
        self.builder = Builder.create(
            "local", timeout_sec=config.build_timeout, max_workers=workers
        )
        evaluator = EvaluatorConfig(config.runner_number, config.runner_repeat, _ROW_MS)
        self.runner = Runner.create(
            "local", timeout_sec=config.runner_timeout, evaluator_config=evaluator
        )
        self.args_info = args_info_of(space.operation.mod)
        # An accelerator runs nothing but schedules for it.
        host = Target("llvm") if target.kind.name == "vta" else target
        plain = BuilderInput(space.operation.mod, host, is_reference=True)
        (self.reference,) = self.builder.build([plain])

    def measure(self, values: Sequence[dict[str, int]]) -> list[HeronOutcome]:
        """One outcome for each solution, in order."""
        outcomes: dict[int, HeronOutcome] = {}
        inputs: dict[int, BuilderInput] = {}
        for place, each in enumerate(values):
            try:
                inputs[place] = BuilderInput(self.space.schedule(each).mod, self.target)
            except TilewrightError as error:
                outcomes[place] = HeronOutcome(None, f"schedule: {error}")
        built = self.builder.build(list(inputs.values()))
        for place, result in zip(inputs, built, strict=True):
            if result.artifact_path is None:
                outcomes[place] = HeronOutcome(None, f"build: {result.error_msg}")
                continue
            run = RunnerInput(
                result.artifact_path,
                self.target.kind.name,
                self.args_info,
                reference_path=self.reference.artifact_path,
                artifact=result.artifact,
                reference=self.reference.artifact,
            )
            outcomes[place] = _outcome(self.runner.run([run])[0].result())
        return [outcomes[place] for place in range(len(values))]

    def close(self) -> None:
        """End workers."""
        for member in (self.builder, self.runner):
            close = getattr(member, "close", None)
            if close is not None:
                close()


def _outcome(result: RunnerResult) -> HeronOutcome:
    if not result.run_secs:
        return HeronOutcome(None, f"run: {result.error_msg}")
    ordered = sorted(result.run_secs)
    # Heron: the median of more than two, or else the mean.
    middle = ordered[len(ordered) // 2] if len(ordered) > 2 else sum(ordered) / len(ordered)
    return HeronOutcome(middle)

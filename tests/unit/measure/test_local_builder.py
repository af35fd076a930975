"""`LocalBuilder`: artefacts, typed failures, hooks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.driver import build
from tilewright.errors import RuntimeFailure, TuneError
from tilewright.ir import IRModule, as_module, replace
from tilewright.measure import LocalBuilder, load_artifact
from tilewright.measure.base import Builder
from tilewright.records import BuilderInput, BuilderResult, FailureKind
from tilewright.runtime import register_func, remove_global_func
from tilewright.target import Target
from tilewright.testing import faults, faulty_hooks
from tilewright.testing.conformance import builder as conformance

HOOKS = "tilewright.testing.faulty_hooks"
DOUBLE = BuilderInput(as_module(faults.double), Target("llvm"))


def build_one(builder: Builder, given: BuilderInput = DOUBLE) -> BuilderResult:
    (result,) = builder.build([given])
    return result


@pytest.mark.parametrize("check", conformance.CHECKS)
def test_conformance(check: Callable[..., None], builder: LocalBuilder) -> None:
    check(lambda: builder)


def test_artifact_runs(builder: LocalBuilder) -> None:
    path = build_one(builder).artifact_path
    assert path is not None
    module, _ = load_artifact(path)
    values, doubled = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    module(values, doubled)
    np.testing.assert_array_equal(doubled, values * 2)


def test_a_worker_builds_for_another_machine() -> None:
    builder = LocalBuilder(max_workers=1)  # whose worker has compiled nothing yet
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
    result = build_one(builder, BuilderInput(as_module(faults.double), arm))
    builder.close()
    assert result.artifact is not None, result.error_msg
    assert b"cortex-a72" in result.artifact.data


def test_artifact_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "strange.kernel"
    with pytest.raises(RuntimeFailure) as caught:
        load_artifact(str(file))
    assert str(caught.value) == f"cannot load {file}: No such file or directory"
    file.write_bytes(b"\x93strange")
    with pytest.raises(RuntimeFailure) as caught:
        load_artifact(str(file))
    assert str(caught.value).startswith(
        f"cannot load {file}: expected an artefact of LocalBuilder (.kernel) or a library of "
        "Module.export_library (.so); "
    )


def test_module_that_cannot_be_sent(builder: LocalBuilder) -> None:
    func = faults.double
    strange = replace(func, attrs={**func.attrs, "strange": object()})
    result = build_one(builder, BuilderInput(as_module(strange), Target("llvm")))
    assert result.failure is FailureKind.BUILD_ERROR
    assert str(result.error_msg).startswith(
        "LocalBuilder: a value of type object cannot be saved as JSON;"
    )


@pytest.fixture(scope="module")
def faulty_builder() -> Iterator[LocalBuilder]:
    made = LocalBuilder(
        max_workers=1, timeout_sec=5, memory_limit=256 << 20, f_build=f"{HOOKS}:build_as_named"
    )
    yield made
    made.close()


@pytest.mark.parametrize(
    ("fault", "failure", "message"),
    [
        ("raises", "build_error", "ValueError: this build always fails"),
        ("exits", "build_error", "LocalBuilder: An exception occurred\n"),
        ("crashes", "crash", "LocalBuilder: the worker process died of SIGSEGV"),
        ("hangs", "timeout", "LocalBuilder: Timeout, killed after 0.2 seconds"),
        ("takes_all_memory", "out_of_memory", "LocalBuilder: "),
    ],
)
def test_failures(fault: str, failure: str, message: str, faulty_builder: LocalBuilder) -> None:
    faulty_builder.timeout_sec = 0.2 if failure == "timeout" else 30.0
    mod = IRModule(DOUBLE.mod.functions, {"fault": fault})
    result = build_one(faulty_builder, BuilderInput(mod, Target("llvm")))
    assert result.artifact_path is None
    assert result.failure is FailureKind(failure), result.error_msg
    assert message in str(result.error_msg)


def test_failing_export() -> None:
    builder = LocalBuilder(max_workers=1, f_export=faulty_hooks.export_that_raises)
    result = build_one(builder)
    builder.close()
    assert result.failure is FailureKind.BUILD_ERROR
    assert str(result.error_msg).startswith("LocalBuilder: An exception occurred\nTraceback")
    assert "ValueError: this export always fails" in str(result.error_msg)


def test_hooks_that_cannot_be_imported_run_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def my_build(mod: IRModule, target: Target, params: Any) -> Any:
        seen.append((mod, target, params))
        return build(mod, target)

    def my_export(compiled: Any) -> str:
        return str(compiled.export_library(tmp_path / "mine.so")[0])

    with caplog.at_level(logging.WARNING, "tilewright.measure"):
        builder = LocalBuilder(f_build=my_build, f_export=my_export)
    assert caplog.messages == [
        "LocalBuilder: f_build (test_hooks_that_cannot_be_imported_run_here.<locals>.my_build of "
        f"{__name__}) cannot be imported by name in a worker process; the hooks run in this "
        "process, where a crash or a lack of memory is not contained and a time-out does not end "
        "what runs. Put them into a module that can be imported."
    ]
    params = {"w": np.ones(3)}
    result = build_one(builder, BuilderInput(DOUBLE.mod, DOUBLE.target, params))
    assert result == BuilderResult(str(tmp_path / "mine.so"))
    assert seen == [(DOUBLE.mod, DOUBLE.target, params)]


def test_hooks_here_fail_as_those_in_workers() -> None:
    def slow(mod: IRModule, target: Target, params: Any) -> None:
        time.sleep(0.5)

    def broken(mod: IRModule, target: Target, params: Any) -> None:
        raise ValueError("no luck")

    late = build_one(LocalBuilder(f_build=slow, timeout_sec=0.05))
    assert late.failure is FailureKind.TIMEOUT
    assert late.error_msg == "LocalBuilder: Timeout, killed after 0.05 seconds"
    failed = build_one(LocalBuilder(f_build=broken))
    assert failed.failure is FailureKind.BUILD_ERROR
    assert "ValueError: no luck" in str(failed.error_msg)


def test_global_function_of_an_initializer() -> None:
    """How scripts written for TVM register their hooks."""

    def initializer() -> None:
        @register_func("measure.test_build", override=True)
        def test_build(mod: IRModule, target: Target, params: Any) -> None:
            raise ValueError("builder intended Test Error (build func).")

    builder = LocalBuilder(f_build="measure.test_build", initializer=initializer)
    result = build_one(builder)
    remove_global_func("measure.test_build")
    assert "builder intended Test Error (build func)." in str(result.error_msg)


def test_unknown_hook() -> None:
    with pytest.raises(TuneError) as caught:
        LocalBuilder(f_build="measure.unknown")
    assert str(caught.value).startswith(
        "LocalBuilder: no global function 'measure.unknown' is registered; register it with "
        "register_func('measure.unknown', f) (a worker process cannot resolve the hooks: "
    )


def test_build_that_makes_no_module() -> None:
    builder = LocalBuilder(f_build=lambda mod, target, params: 42)
    assert (
        "TuneError: f_build returned int; return what tilewright.build() makes, or give an "
        "f_export that knows how to write it"
    ) in str(build_one(builder).error_msg)
    strange = LocalBuilder(f_export=lambda compiled: None)
    assert "f_export must return the path of the artefact, got None" in str(
        build_one(strange).error_msg
    )


def test_options_are_checked() -> None:
    with pytest.raises(TuneError, match="LocalBuilder: max_workers must be positive, got 0"):
        LocalBuilder(max_workers=0)
    with pytest.raises(TuneError, match="LocalBuilder: timeout_sec must be positive, got -1"):
        LocalBuilder(timeout_sec=-1)


def test_builder_by_name() -> None:
    made = Builder.create("local", max_workers=3)
    assert isinstance(made, LocalBuilder)
    assert made.max_workers == 3


def test_artifacts_go_with_their_builder() -> None:
    builder = LocalBuilder(f_build=lambda mod, target, params: build(mod, target))
    path = Path(str(build_one(builder).artifact_path))
    assert path.exists()
    builder.close()
    assert not path.parent.parent.exists()

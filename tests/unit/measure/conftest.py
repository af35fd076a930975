"""One builder and one runner for all tests that do not need their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.measure import LocalBuilder, LocalRunner
from tilewright.records import BuilderInput, RunnerInput, args_info_of
from tilewright.target import Target

MakeInput = Callable[..., RunnerInput]


@pytest.fixture(scope="session")
def builder() -> Iterator[LocalBuilder]:
    shared = LocalBuilder(max_workers=1)
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def runner() -> Iterator[LocalRunner]:
    shared = LocalRunner(timeout_sec=60, memory_limit=600 << 20, seed=1)
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def artifact(builder: LocalBuilder) -> Callable[[PrimFunc | IRModule], str]:
    """The artefact of a program; each is built once."""
    known: dict[int, tuple[object, str]] = {}  # with the program, so that its id stays its own

    def build(program: PrimFunc | IRModule) -> str:
        if id(program) not in known:
            (result,) = builder.build([BuilderInput(as_module(program), Target("llvm"))])
            assert result.artifact_path is not None, result.error_msg
            known[id(program)] = (program, result.artifact_path)
        return known[id(program)][1]

    return build


@pytest.fixture(scope="session")
def input_of(artifact: Callable[[PrimFunc | IRModule], str]) -> MakeInput:
    """A built program as a runner takes it, with the artefact of `reference` to compare with."""

    def make(program: PrimFunc, reference: PrimFunc | None = None, **hints: object) -> RunnerInput:
        infos = args_info_of(as_module(program))
        path = None if reference is None else artifact(reference)
        return RunnerInput(artifact(program), "llvm", infos, reference_path=path, **hints)  # type: ignore[arg-type]

    return make

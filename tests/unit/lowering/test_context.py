"""PassContext: options, the user's own passes, instruments; and the registry of passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.driver import lower
from tilewright.errors import LowerError, RegistryError
from tilewright.ir import IRModule, PrimFunc
from tilewright.lowering import (
    PassContext,
    get_pass,
    list_passes,
    prim_func_pass,
    register_pass,
)
from tilewright.lowering.base import FunctionPass

Named = Callable[[str], Any]


def names(**config: Any) -> list[str]:
    seen: list[str] = []

    def watch(name: str, module: IRModule) -> None:
        assert isinstance(module, IRModule)
        seen.append(name)

    with PassContext(config=config.pop("config", {}), **config):
        lower(PROGRAM, stages=watch)
    return seen


@pytest.fixture(autouse=True)
def _program(program_named: Named) -> None:
    global PROGRAM
    PROGRAM = program_named("matmul").func


PROGRAM: PrimFunc


def test_users_passes_run_in_their_phases() -> None:
    calls: list[tuple[str, type]] = []

    def on_module(module: IRModule) -> IRModule:
        calls.append(("module", type(module)))
        return module

    @prim_func_pass(opt_level=0)
    def on_function(func: PrimFunc, mod: IRModule, ctx: object) -> PrimFunc:
        calls.append(("function", type(func)))
        return func

    seen = names(
        config={"tir.add_lower_pass": [(3, on_function), (0, on_module), (1, on_function)]}
    )
    assert calls == [("module", IRModule), ("function", PrimFunc), ("function", PrimFunc)]
    assert seen[0] == "on_module"
    assert seen[seen.index("Simplify") + 1] == "on_function"
    assert seen[seen.index("HoistIfThenElse") + 1] == "on_function"


def test_users_pass_that_breaks_the_form_is_found() -> None:
    def to_nothing(module: IRModule) -> IRModule:
        return None  # type: ignore[return-value]

    with (
        PassContext(config={"tir.add_lower_pass": [(2, to_nothing)]}),
        pytest.raises(
            LowerError,
            match=r"pass to_nothing returned NoneType, expected IRModule; return the \(possibly "
            r"unchanged\) program",
        ),
    ):
        lower(PROGRAM)


def test_disabled_pass_is_skipped() -> None:
    with PassContext(disabled_pass=["LoopPartition"]):
        text = str(lower(PROGRAM))
    assert "if k == 0" in text
    assert "if k == 0" not in str(lower(PROGRAM))


def test_instruments_see_every_pass() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.before: list[str] = []

        def run_before_pass(self, module: IRModule, info: Any) -> None:
            self.before.append(info.name)

    recorder = Recorder()
    assert names(instruments=(recorder,)) == recorder.before


def test_contexts_nest() -> None:
    outer, inner = PassContext(opt_level=1), PassContext(opt_level=3)
    with outer:
        with inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current().config == {}


def test_unknown_option_is_told() -> None:
    with pytest.raises(LowerError, match=r"PassContext has no option 'tir.disable_vectorise'"):
        PassContext(config={"tir.disable_vectorise": True})


def test_unknown_option_of_a_pass_is_told() -> None:
    with pytest.raises(LowerError, match=r"tir.UnrollLoop has no option 'auto_max_steps'"):
        PassContext(config={"tir.UnrollLoop": {"auto_max_steps": 4}})


def test_constant_loops_may_stay_whole() -> None:
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": False}}):
        assert "if k == 0" in str(lower(PROGRAM))


@pytest.mark.parametrize("entry", [(4, len), "Simplify", (0, 1, 2)])
def test_wrong_users_pass_is_told(entry: object) -> None:
    with pytest.raises(LowerError, match=r"is not a \(phase, pass\) pair with a phase from 0 to 3"):
        PassContext(config={"tir.add_lower_pass": [entry]})


def test_users_pass_must_be_callable() -> None:
    with pytest.raises(LowerError, match="7 is not a pass: expected a callable on an IRModule"):
        PassContext(config={"tir.add_lower_pass": [(0, 7)]})


def test_stages_can_be_printed_and_found() -> None:
    stages = lower(PROGRAM, stages=True)
    assert [stage.name for stage in stages][:2] == ["input", "IntrinsicFallback"]
    assert stages.items[0].module["main"] is PROGRAM
    assert str(stages).count("# after ") == len(stages)
    assert stages.after("HostABI") is stages.module
    with pytest.raises(LowerError, match="no pass 'Nothing' was run; these were: input, Intrinsic"):
        stages.after("Nothing")


def test_registry() -> None:
    assert "VectorizeLoop" in list_passes()
    assert get_pass("UnrollLoop", expand=False) == get_pass("UnrollLoop", expand=False)
    with pytest.raises(RegistryError, match="no pass is called 'VectoriseLoop'"):
        get_pass("VectoriseLoop")

    class Again(FunctionPass):
        name = "VectorizeLoop"

    with pytest.raises(RegistryError, match="pass 'VectorizeLoop' is already registered"):
        register_pass(Again)


def test_a_pass_that_finds_nothing_to_do_returns_the_same_module(program_named: Named) -> None:
    lowered = lower(program_named("chain_of_temporaries").func)
    for name in (
        "LegalizeSmallFloats",
        "NarrowDataType",
        "VectorizeLoop",
        "RemoveNoOp",
        "Simplify",
    ):
        assert get_pass(name)(lowered) is lowered, name

"""The examples run as they are, each in a process of its own, and do what they promise."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tilewright import meta_schedule as ms
from tilewright.errors import RegistryError
from tilewright.ir import PrimFunc, as_module
from tilewright.measure import LocalBuilder
from tilewright.records import BuilderInput, RunnerInput, args_info_of
from tilewright.schedule import Schedule, Trace
from tilewright.target import Target
from tilewright.testing.conformance import (
    cost_model as cost_model_suite,
    runner as runner_suite,
    search_strategy as search_suite,
)
from tilewright.testing.handwritten import matmul
from tilewright.testing.schedule_checks import assert_same_result

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED_ELSEWHERE = {"custom_primitive.py", "demo.py"}


def check_custom_rule(printed: str) -> None:
    measured = re.findall(r"^tile sizes (.+): best of (\d+) is (?:\d+|nan) us$", printed, re.M)
    assert [kind for kind, _ in measured] == ["written down", "sampled"]
    assert sum(int(count) for _, count in measured) == 16
    assert "sch.fuse(" in printed
    assert re.search(r"^tuned: \d+ us$", printed, re.M)
    assert "right: True" in printed


def check_annotated_rule(printed: str) -> None:
    window, _, rest = printed.partition('T.block("blurred_update")')
    assert "for dy in T.unroll(3):" in window  # by the rule that the block names
    assert re.search(r"in T\.vectorized\((8|16|32|64)\):", window)
    assert "in T.parallel(" in rest.partition('T.block("scaled")')[0]  # by the usual rules
    assert "right: True" in printed


def check_template(printed: str) -> None:
    lines = re.findall(
        r"^\d+ us with \{'tile_y': \[(\d+), (\d+)\], 'tile_x': \[(\d+), (\d+)\], "
        r"'tile_k': \[(\d+), (\d+)\], 'unroll': (?:0|16|64)\}$",
        printed,
        re.M,
    )
    assert len(lines) == 3
    for line in lines:
        sizes = [int(size) for size in line]
        assert [outer * inner for outer, inner in zip(sizes[::2], sizes[1::2], strict=True)] == [
            256
        ] * 3
    assert "... and 13 slower ones" in printed
    for name in ("default", "best"):
        assert re.search(rf"^{name}: \d+ us, [\d.]+ GFLOP/s, right$", printed, re.M)


def check_new_instruction(printed: str) -> None:
    uses = re.findall(r"^ *[\d.]+ us (with|without) dot_16x2$", printed, re.M)
    assert len(uses) == 8
    assert "with" in uses
    body = "C_1[0:16] = C_1[0:16] + first + T.Broadcast(A_1[1], 16) * B_1[1, 0:16]"
    assert (body in printed) == (uses[0] == "with")  # the best program is shown
    assert "right: True" in printed


def check_search(printed: str) -> None:
    times = [int(us) for us in re.findall(r"^trial +\d+: (\d+) us$", printed, re.M)]
    assert times == sorted(times, reverse=True)
    assert times
    assert "measured: 24" in printed


def check_cost_model(printed: str) -> None:
    assert re.search(r"^round 0, random: best \d+ us, nothing was known yet$", printed, re.M)
    ranked = re.findall(
        r"^round \d, random: best \d+ us, \d+ of (\d+) pairs ranked right$", printed, re.M
    )
    assert ranked == ["66", "66"]
    assert re.search(r"^led by the model: best \d+ us$", printed, re.M)


def check_runner(printed: str) -> None:
    assert "16 measured as: 5 runs, cold caches" in printed
    assert re.search(r"^best, cold: \d+ us$", printed, re.M)


CHECKS: dict[str, Callable[[str], None]] = {
    "custom_rule.py": check_custom_rule,
    "custom_rule_by_annotation.py": check_annotated_rule,
    "autotvm_template.py": check_template,
    "new_instruction.py": check_new_instruction,
    "custom_search.py": check_search,
    "custom_cost_model.py": check_cost_model,
    "custom_runner.py": check_runner,
}


def test_all_are_run() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py")}
    assert found == {*CHECKS, *TESTED_ELSEWHERE}


@pytest.mark.parametrize("name", CHECKS)
def test_example(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    CHECKS[name](done.stdout)
    assert list(tmp_path.iterdir()) == []


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loops_around(sch: Schedule, block: str) -> list[tuple[str, str]]:
    loops = [sch.get_sref(loop).loop for loop in sch.get_loops(block)]
    return [(loop.kind.name, str(loop.extent)) for loop in loops]


def sketches(func: PrimFunc, space: object, target: str = "llvm -num-cores=4") -> list[Schedule]:
    context = ms.TuneContext(func, target=target, space_generator=space)  # type: ignore[arg-type]
    return context.generate_design_space()


def test_the_fancy_rule_makes_two_sketches() -> None:
    rule = load("custom_rule.py").WowSoFancyScheduleRule()
    space = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})
    func = matmul(128, 128, 128)
    made = sketches(func, space, "llvm -mcpu=skylake-avx512 -num-cores=4")
    by_number = {len(sch.trace.decisions): sch for sch in made if sch.trace is not None}
    assert sorted(by_number) == [0, 3]
    loops = loops_around(by_number[0], "C")
    assert loops == [
        ("PARALLEL", "16"),
        *(("SERIAL", str(extent)) for extent in (2, 2, 8, 4, 1, 16, 2)),
        ("VECTORIZED", "32"),
    ]
    for sch in made:
        assert_same_result(func, sch.mod)


def test_a_block_finds_the_rule_that_it_names() -> None:
    func = load("custom_rule_by_annotation.py").blur_and_scale()
    for space in ("tilewright", "post-order-apply"):
        made = sketches(func, space)
        assert made
        for sch in made:
            kinds = [kind for kind, _ in loops_around(sch, "blurred")]
            assert kinds == ["PARALLEL", "SERIAL", "UNROLLED", "UNROLLED", "VECTORIZED"]


def test_knobs_have_names() -> None:
    example = load("autotvm_template.py")
    func = matmul(256, 256, 256)
    (sch,) = sketches(func, example.template)
    assert isinstance(sch.trace, Trace)
    knobs = example.knobs(sch.trace)
    assert list(knobs) == ["tile_y", "tile_x", "tile_k", "unroll"]
    (first, *_) = loops_around(sch, "C_update")
    assert first == ("PARALLEL", str(knobs["tile_y"][0]))


def test_a_new_instruction_is_used_where_it_fits() -> None:
    example = load("new_instruction.py")
    func = matmul(64, 64, 64)
    rule = ms.schedule_rule.TensorTiling(["dot_16x2"])
    space = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})
    line = "first: T.float32x16 = T.Broadcast(A_1[0], 16) * B_1[0, 0:16]"
    made = sketches(func, space)
    tensorized = [sch for sch in made if line in sch.mod.script()]
    assert len(tensorized) == len(made) - 1 >= 1  # the last is left to other rules
    for sch in tensorized:
        assert_same_result(func, sch.mod)
    text = "the tensor intrinsic 'dot_16x2' is registered already"
    with pytest.raises(RegistryError, match=text):
        example.TensorIntrin.register(
            "dot_16x2", example.dot_16x2_description, example.dot_16x2_implementation
        )


@pytest.mark.parametrize(
    "check",
    [
        search_suite.check_fills_batches,
        search_suite.check_candidates_are_finished,
        search_suite.check_is_deterministic,
        search_suite.check_clone,
    ],
)
def test_the_search_is_a_good_member(check: Callable[..., None]) -> None:
    check(load("custom_search.py").HillClimbing)


@pytest.mark.parametrize("check", cost_model_suite.CHECKS)
def test_the_cost_model_is_a_good_member(check: Callable[..., None], tmp_path: Path) -> None:
    check(load("custom_cost_model.py").LinearModel, tmp_path)


def test_the_runner_is_a_good_member() -> None:
    func = matmul(16, 16, 16)
    with contextlib.closing(LocalBuilder(max_workers=1)) as builder:
        (built,) = builder.build([BuilderInput(as_module(func), Target("llvm"))])
        assert built.artifact_path is not None
        good = RunnerInput(built.artifact_path, "llvm", args_info_of(as_module(func)))
        bad = RunnerInput("/nowhere/candidate.kernel", "llvm", good.args_info)
        for check in runner_suite.CHECKS:
            check(load("custom_runner.py").ColdRunner, [good, good], bad)

"""Search spaces for GPUs are TVM's: sketches, candidates after post-processing, mutations.

Traces must agree letter by letter, but with tensor cores, where TVM 0.25 also records how it finds
the blocks to inline. Programs must agree once simplified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright import te
from tilewright.ir import IRModule, assert_structural_equal, structural_equal
from tilewright.lowering.base import get_pass
from tilewright.schedule import Schedule, Trace
from tilewright.script import from_source
from tilewright.space.base import schedule_rules
from tilewright.space.defaults import SCHEDULE_RULES, create_postprocs
from tilewright.space.mutators import MutateThreadBinding
from tilewright.target import Target
from tilewright.testing.gpu_programs import AT_THE_LIMITS
from tilewright.testing.known_gpu_sketches import CUDA, SINGLE, RuleSpec, tensor_core_rule
from tilewright.testing.space_generation import (
    Decision,
    SpaceTask,
    decisions_of,
    generate_design_space,
    with_decisions,
)
from tilewright.testing.te_workload import create_te_workload, matmul_relu
from tilewright.testing.tvm_process import TvmProcess

HERE = Path(__file__).parent
SEED = 42
RTX_2080 = "nvidia/geforce-rtx-2080"
RTX_3070 = "nvidia/geforce-rtx-3070"
RULES: list[RuleSpec] = [(spec.name, dict(spec.options)) for spec in SCHEDULE_RULES["cuda"]]

# Extents that depend on loops, which TVM simplifies further than we do.
OTHER_EXTENTS = ("T2D",)
# TVM 0.25 pads by blocks of their own, has renamed `dp4a`, and leaves loops of one iteration alone
# that 0.14 tiled.
NOT_AS_IN_0_14 = (
    "tensor_cores_with_padding",
    "dense_dp4a",
    "tensor_cores_of_a_small_convolution",
)


pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def tvm(tvm_python: Path) -> Iterator[TvmProcess]:
    with TvmProcess(tvm_python, HERE / "gpu_space_tvm_side.py") as process:
        yield process


def asked(
    tvm: TvmProcess, module: IRModule, target: str, rules: Sequence[RuleSpec], **more: Any
) -> dict[str, Any]:
    """What TVM makes of a program."""
    program, plain = module.script(), [(name, dict(options)) for name, options in rules]
    return tvm.ask_without_error(program=program, target=target, rules=plain, seed=SEED, **more)


def module_of(text: str) -> IRModule:
    module = from_source(text)
    assert isinstance(module, IRModule)
    return module


def simplified(module: IRModule) -> IRModule:
    """The program over its loops alone, with simple indices."""
    for name in ("LowerInitBlock", "ConvertBlocksToOpaque", "Simplify"):
        module = get_pass(name)(module)
    return module


def check_same_program(mine: IRModule, text: str) -> None:
    """Structurally the same, or so once both are simplified."""
    expected = module_of(text)
    if not structural_equal(mine, expected):
        assert_structural_equal(simplified(mine), simplified(expected))


def sketches_of(module: IRModule, target: str, rules: Sequence[RuleSpec]) -> list[Schedule]:
    members = [schedule_rules.create(name, **options) for name, options in rules]
    return generate_design_space("cuda", module, Target(target), sch_rules=members, seed=SEED)


def workload(name: str) -> IRModule:
    return IRModule({"main": create_te_workload(name, 0)})


@pytest.mark.parametrize("target", [RTX_2080, RTX_3070])
@pytest.mark.parametrize("name", CUDA)
def test_sketches_of_workloads(name: str, target: str, tvm: TvmProcess) -> None:
    module = workload(name)
    theirs = asked(tvm, module, target, RULES)["sketches"]
    ours = sketches_of(module, target, RULES)
    assert [str(sketch.trace) for sketch in ours] == [other["trace"] for other in theirs]
    if name not in OTHER_EXTENTS:
        for mine, other in zip(ours, theirs, strict=True):
            check_same_program(mine.mod, other["script"])


def matched(
    module: IRModule, sketches: list[Schedule], wanted: Sequence[Sequence[Decision]]
) -> list[tuple[int, Schedule]]:
    """For each list of decisions a sketch that takes it: its number, and what it makes of it."""
    free = dict(enumerate(sketches))
    found = []
    for decisions in wanted:
        for number, sketch in free.items():
            made = with_decisions(module, sketch, decisions, debug_mask="none")
            if made is not None and decisions_of(made) == list(decisions):
                found.append((number, made))
                del free[number]
                break
    assert len(found) == len(wanted) == len(sketches)
    return found


def check_replays(
    module: IRModule, target: str, rules: Sequence[RuleSpec], known: Any, tvm: TvmProcess
) -> None:
    found = matched(module, sketches_of(module, target, rules), known)
    replays = [(number, [value for _, value in decisions_of(made)]) for number, made in found]
    theirs = asked(tvm, module, target, rules, replays=replays)["replays"]
    for (_, made), other in zip(found, theirs, strict=True):
        check_same_program(made.mod, other["script"])


@pytest.mark.parametrize("name", [name for name in CUDA if name not in OTHER_EXTENTS])
def test_known_decisions(name: str, tvm: TvmProcess) -> None:
    check_replays(workload(name), RTX_2080, RULES, CUDA[name], tvm)


@pytest.mark.parametrize("name", [name for name in SINGLE if name not in NOT_AS_IN_0_14])
def test_single_rules(name: str, tvm: TvmProcess) -> None:
    case = SINGLE[name]
    module = IRModule({"main": case.make()})
    check_replays(module, case.target, case.rules, case.decisions, tvm)


TENSOR_CORES: Mapping[str, RuleSpec] = {
    "both_orders": tensor_core_rule(trans_b=(False, True)),
    "dynamic_memory": tensor_core_rule(scope="shared.dyn"),
    "pipeline": tensor_core_rule(pipeline=True),
}


@pytest.mark.parametrize("name", TENSOR_CORES)
def test_tensor_cores_take_the_same_decisions(name: str, tvm: TvmProcess) -> None:
    module = IRModule({"main": SINGLE["tensor_cores"].make()})
    rules = [TENSOR_CORES[name]]
    theirs = asked(tvm, module, RTX_3070, rules)["sketches"]
    ours = sketches_of(module, RTX_3070, rules)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        check_same_program(mine.mod, other["script"])


def check_candidates(
    module: IRModule, target: str, rules: Sequence[RuleSpec], seeds: Sequence[int], tvm: TvmProcess
) -> None:
    """Random candidates: the same ones are accepted, and they are the same programs."""
    steps = create_postprocs("cuda")
    for step in steps:
        step._initialize_with_tune_context(SpaceTask(module, Target(target)))
    for drafts in asked(tvm, module, target, rules, drafts=list(seeds))["drafts"]:
        for theirs in drafts:
            sch = Schedule(module)
            Trace.apply_json_to_schedule(theirs["before"], sch)
            sch.enter_postproc()
            assert all(step.apply(sch) for step in steps) == theirs["accepted"]
            if theirs["accepted"]:
                assert str(sch.trace) == theirs["trace"]
                check_same_program(sch.mod, theirs["script"])


@pytest.mark.parametrize("target", [RTX_2080, RTX_3070])
@pytest.mark.parametrize("name", ["GMM", "C1D", "TBG", "SFM", "NRM", "C2D"])
def test_candidates_after_post_processing(name: str, target: str, tvm: TvmProcess) -> None:
    check_candidates(workload(name), target, RULES, range(1, 13), tvm)


@pytest.mark.parametrize("name", TENSOR_CORES)
def test_candidates_with_tensor_cores(name: str, tvm: TvmProcess) -> None:
    func = te.create_prim_func(matmul_relu(512, 512, 512, "float16", "float32"))
    rules = [TENSOR_CORES[name], *RULES]
    seeds = range(1, 2_000_000_000, 150_000_001)
    check_candidates(IRModule({"main": func}), RTX_3070, rules, seeds, tvm)


# TVM 0.25 lets only some threads run a part that has fewer; 0.14 refused it, as we do.
@pytest.mark.parametrize("name", [name for name in AT_THE_LIMITS if "disagree" not in name])
def test_verdicts_at_the_limits(name: str, tvm: TvmProcess) -> None:
    make, accepted = AT_THE_LIMITS[name]
    module = IRModule({"main": make()})
    ((draft,),) = asked(tvm, module, RTX_3070, [], drafts=[1])["drafts"]
    assert draft["accepted"] == accepted


def test_mutations_of_thread_numbers(tvm: TvmProcess) -> None:
    module = workload("SFM")
    seeds = list(range(1, 2_000_000_000, 60_000_011))
    theirs = asked(tvm, module, RTX_2080, RULES, mutants=seeds)["mutants"]
    mutator = MutateThreadBinding()
    for sketch, expected in zip(sketches_of(module, RTX_2080, RULES), theirs, strict=True):
        assert sketch.trace is not None
        made = [mutator.apply(sketch.trace, seed) for seed in seeds]
        assert [None if new is None else new.as_json()[1] for new in made] == expected

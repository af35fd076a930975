# mypy: disable-error-code="valid-type, no-untyped-def"
"""Post-processors, mutators and the replay search do what TVM's do with the same decisions.

TVM makes its own sketches of a workload, draws them and post-processes the drafts; we replay its
traces and post-process them ourselves. Where our simplifier knows more, programs may differ in how
an index is written, so structure is compared everywhere and the text where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.ir import BlockRealize, For, IRModule, Node, PrimFunc, Stmt, children
from tilewright.schedule import Schedule, Trace
from tilewright.script import from_source, tir as T
from tilewright.space.base import Mutator, postprocs
from tilewright.space.mutators import (
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
)
from tilewright.space.postprocs import (
    DisallowDynamicLoop,
    RewriteLayout,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
)
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import create_te_workload
from tilewright.testing.tvm_process import TvmProcess
from tilewright.tune.context import TuneContext

HERE = Path(__file__).parent
TARGET = {"kind": "llvm", "num-cores": 4}
SEED = 7  # of space_side.py

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def tvm(tvm_python: Path) -> Iterator[TvmProcess]:
    with TvmProcess(tvm_python, HERE / "space_side.py") as process:
        yield process


def asked(tvm: TvmProcess, module: IRModule, **request: Any) -> Any:
    """What TVM makes of a program."""
    return tvm.ask(program=module.script(), target=TARGET, kind="llvm", **request)


@pytest.fixture(scope="module")
def answers(tvm: TvmProcess) -> dict[str, Any]:
    """Drafts by workload, asked for once."""
    return {
        name: asked(tvm, workload(name), samples=2, seeds=4)
        for name in (*SAME_TEXT, *SAME_STRUCTURE)
    }


def workload(name: str) -> IRModule:
    return IRModule({"main": create_te_workload(name, 0)})


SAME_TEXT = ("GMM", "DEP", "NRM", "SFM", "TBG")
SAME_STRUCTURE = ("C2D", "CBR")


def structure(node: Node) -> list[tuple[object, ...]]:
    """Loops and blocks in order, with everything that post-processors decide."""
    found: list[tuple[object, ...]] = []
    if isinstance(node, For):
        notes = {key: int(value) for key, value in node.annotations.items()}
        found.append((node.kind.name, str(node.extent), notes))
    elif isinstance(node, BlockRealize):
        found.append((node.block.name_hint, len(node.iter_values)))
    for child in children(node):
        if isinstance(child, (Stmt, PrimFunc)):
            found += structure(child)
    return found


def replayed(module: IRModule, recorded: Any) -> Schedule:
    sch = Schedule(module)
    Trace.apply_json_to_schedule(recorded, sch)
    return sch


@pytest.mark.parametrize("name", [*SAME_TEXT, *SAME_STRUCTURE])
def test_post_processors(name: str, answers: dict[str, Any]) -> None:
    module = workload(name)
    members = (
        DisallowDynamicLoop(),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        RewriteLayout(),
    )
    for draft in answers[name]:
        sch = replayed(module, draft["before"])
        sch.enter_postproc()
        assert all(member.apply(sch) for member in members) == draft["accepted"]
        if not draft["accepted"]:
            continue
        expected = from_source(draft["script"])
        assert isinstance(expected, IRModule)
        assert str(sch.trace) == draft["trace"]
        assert structure(sch.mod["main"]) == structure(expected["main"])
        if name in SAME_TEXT:
            assert sch.mod.script() == expected.script()


def _mutators(module: IRModule) -> dict[str, Mutator]:
    members = (MutateTileSize(), MutateComputeLocation(), MutateUnroll(), MutateParallel(16))
    for member in members:
        member._initialize_with_tune_context(SpaceTask(module, Target(TARGET)))
    return {type(member).__name__: member for member in members}


def _decided(recorded: Any) -> Any:
    """What a mutator can change: decisions, and the noted limit of parallel iterations."""
    if recorded is None:
        return None
    notes = [inst[1] for inst in recorded[0] if inst[2] == ["meta_schedule.parallel"]]
    return recorded[1], notes, len(recorded[0])


@pytest.mark.parametrize("name", [*SAME_TEXT, *SAME_STRUCTURE])
def test_mutators(name: str, answers: dict[str, Any]) -> None:
    module = workload(name)
    members = _mutators(module)
    for draft in answers[name]:
        assert set(draft["mutants"]) == set(members)
        trace = replayed(module, draft["before"]).trace
        assert trace is not None
        for kind, expected in draft["mutants"].items():
            made = [members[kind].apply(trace, seed) for seed in range(1, len(expected) + 1)]
            mine = [None if mutant is None else mutant.as_json() for mutant in made]
            assert [_decided(one) for one in mine] == [_decided(one) for one in expected], kind


@pytest.mark.parametrize("name", ["GMM", "SFM", "CBR"])
def test_replay_search_proposes_the_same(name: str, tvm: TvmProcess) -> None:
    module = workload(name)
    theirs = asked(tvm, module, trials=6)
    context = TuneContext(
        module,
        target=TARGET,
        space_generator="llvm",
        search_strategy="replay-trace",
        rand_state=SEED,
        num_threads=1,
    )
    context.pre_tuning(6, 6)
    candidates = context.generate_measure_candidates()
    assert candidates is not None
    assert [str(candidate.sch.trace) for candidate in candidates] == theirs


# --- programs that no sketch leads to -------------------------------------------------------------


@T.prim_func
def strided(A: T.Buffer((64,), "float32"), B: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 2, "meta_schedule.vectorize": 64})
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi * 16 + vj * 2]


@T.prim_func
def reversed_rows(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 2, "meta_schedule.vectorize": 64})
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, 7 - vj]


@T.prim_func
def reshaped(A: T.Buffer((4, 8), "float32"), B: T.Buffer((32,), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 64, "meta_schedule.vectorize": 16})
        for i, j in T.grid(4, 8):
            with T.block("B"):
                v = T.axis.spatial(32, i * 8 + j)
                B[v] = A[v // 8, v % 8]


@T.prim_func
def joined_again(A: T.Buffer((32,), "float32"), B: T.Buffer((2, 4, 8), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 64, "meta_schedule.vectorize": 16})
        for k, i in T.grid(2, 32):
            with T.block("B"):
                vk = T.axis.spatial(2, k)
                vi = T.axis.spatial(4, i // 8)
                vj = T.axis.spatial(8, i % 8)
                B[vk, vi, vj] = A[vi * 8 + vj]


@T.prim_func
def unrolled(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 4, "meta_schedule.unroll_implicit": 32})
        for i, k in T.grid(8, 16):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def branching(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 64, "meta_schedule.vectorize": 16})
        B = T.alloc_buffer((16, 16))
        for i in range(16):
            for j in range(16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func
def free_weight(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    T.func_attr({"layout_free_buffers": [1]})
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("matmul"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def free_weight_with_copies(
    A: T.Buffer((16, 16), "float32"),
    D: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    T.func_attr({"layout_free_buffers": [0]})
    A_local = T.alloc_buffer((16, 16))
    A_more = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("A_local"):
            v0, v1 = T.axis.remap("SS", [i, j])
            A_local[v0, v1] = A[v0, v1]
    for i, j in T.grid(16, 16):
        with T.block("A_more"):
            v0, v1 = T.axis.remap("SS", [i, j])
            A_more[v0, v1] = A_local[v0, v1]
    for i0, j0, i1, j1 in T.grid(4, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j0 * 4 + j1)
            C[vi, vj] = A_more[vi, vj] + D[vi, vj]


@T.prim_func
def two_free_weights(
    A: T.Buffer((8, 8), "float32"),
    B: T.Buffer((8, 8), "float32"),
    C: T.Buffer((8, 8), "float32"),
):
    T.func_attr({"layout_free_buffers": [0, 1]})
    for j0, i, j1 in T.grid(2, 8, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, j0 * 4 + j1)
            C[vi, vj] = A[vi, vj] + B[vj, vi]


LOOPS, LAYOUT = "RewriteParallelVectorizeUnroll", "RewriteLayout"


@pytest.mark.parametrize(
    ("func", "member"),
    [
        (strided, LOOPS),
        (reversed_rows, LOOPS),
        (reshaped, LOOPS),
        (joined_again, LOOPS),
        (unrolled, LOOPS),
        (branching, LOOPS),
        (free_weight, LAYOUT),
        (free_weight_with_copies, LAYOUT),
        (two_free_weights, LAYOUT),
    ],
    ids=lambda value: value if isinstance(value, str) else value.attrs["global_symbol"],
)
def test_unusual_programs(func: PrimFunc, member: str, tvm: TvmProcess) -> None:
    module = IRModule({"main": func})
    theirs = asked(tvm, module, postprocs=[member])
    sch = Schedule(module)
    sch.enter_postproc()
    assert postprocs.create(member).apply(sch)
    assert str(sch.trace) == _as_we_spell(theirs["trace"])
    expected = from_source(theirs["script"].replace('preproc": True', 'preproc": T.bool(True)'))
    assert isinstance(expected, IRModule)
    assert sch.mod.script() == expected.script()


def _as_we_spell(trace: str) -> str:
    """A trace of RewriteLayout with our module of index maps, and truth as truth."""
    trace = trace.replace("tvm.tirx.IndexMap", "tir.IndexMap")
    return trace.replace('preproc", ann_val=1)', 'preproc", ann_val=True)')

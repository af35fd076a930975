# mypy: disable-error-code="valid-type, no-untyped-def"
"""A reduction whose result stands among its declared reads is scheduled like any other."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.features import PerStoreFeature
from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.space.base import Postproc
from tilewright.target import Target
from tilewright.testing.declared_results import with_results_read, without_results_read
from tilewright.testing.schedule_checks import assert_same_result
from tilewright.testing.space_generation import SpaceTask, generate_design_space
from tilewright.testing.te_workload import create_te_workload, matmul

_SHARED = Path(__file__).parents[2] / "differential"


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_WORKLOADS: dict[str, Callable[[], PrimFunc]] = {
    name: function
    for path in _SHARED.glob("*workloads.py")
    for name, function in vars(_load(path)).items()
}


@functools.cache
def _reduces(workload: str) -> bool:
    return "T.init()" in _WORKLOADS[workload]().script()


_SEQUENCES: dict[str, Callable[[Any], object]] = {
    f"{path.stem}.{name}": function
    for path in sorted((_SHARED / "sequences").glob("*.py"))
    for name, function in vars(_load(path)).items()
    if "__" in name and not name.startswith("_") and _reduces(name.split("__")[0])
    if "no_such_buffer" not in name  # there is one more to choose from
}


def _outcome(func: PrimFunc, sequence: Callable[[Any], object]) -> tuple[str, IRModule | None]:
    sch = Schedule(func, seed=42, debug_mask="all")
    try:
        sequence(sch)
    except ScheduleError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0], None
    return str(sch.trace), without_results_read(sch.mod)


@pytest.mark.parametrize("name", _SEQUENCES)
def test_primitives_do_the_same(name: str) -> None:
    plain = _WORKLOADS[name.split(".")[1].split("__")[0]]()
    steps, expected = _outcome(plain, _SEQUENCES[name])
    again, found = _outcome(with_results_read(plain), _SEQUENCES[name])
    assert again == steps
    if expected is not None:
        assert_structural_equal(found, expected)


def _int8_product() -> PrimFunc:
    A, B = te.placeholder((64, 64), "uint8", "A"), te.placeholder((64, 64), "int8", "B")
    k = te.reduce_axis((0, 64), "k")
    product = te.compute(
        (64, 64),
        lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k),
        name="C",
    )
    return te.create_prim_func([A, B, product])


def _matmul(dtype: str, result: str) -> Callable[[], PrimFunc]:
    return lambda: te.create_prim_func(matmul(64, 64, 64, in_dtype=dtype, out_dtype=result))


_PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "matmul": _matmul("float32", "float32"),
    "half matmul": _matmul("float16", "float16"),
    "int8 product": _int8_product,
    "convolution": lambda: create_te_workload("C2D", 0),
    "norm": lambda: create_te_workload("NRM", 0),
    "softmax": lambda: create_te_workload("SFM", 0),
}
_TARGETS = {
    "kernels": "llvm -mcpu=skylake-avx512 -num-cores=4",
    "llvm": "llvm -num-cores=4",
    "vnni": "llvm -mcpu=cascadelake -num-cores=4",
    "c": "c",
    "cuda": "nvidia/geforce-rtx-2080",
    "cuda-tensorcore": "nvidia/geforce-rtx-3070",
}


@pytest.mark.parametrize("kind", _TARGETS)
@pytest.mark.parametrize("program", _PROGRAMS)
def test_design_spaces_are_the_same(program: str, kind: str) -> None:
    plain, target = _PROGRAMS[program](), Target(_TARGETS[kind])
    expected = generate_design_space(kind, plain, target)
    found = generate_design_space(kind, with_results_read(plain), target)
    assert [str(sketch.trace) for sketch in found] == [str(sketch.trace) for sketch in expected]
    for mine, other in zip(found, expected, strict=True):
        assert_structural_equal(without_results_read(mine.mod), without_results_read(other.mod))


def _finished(sketch: Schedule, kind: str, target: Target) -> Schedule | None:
    """A sketch after the default post-processors, None if they reject it."""
    sketch.enter_postproc()
    for postproc in Postproc.create(kind):
        postproc._initialize_with_tune_context(SpaceTask(sketch.mod, target))
        if not postproc.apply(sketch):
            return None
    return sketch


@pytest.mark.parametrize("kind", ["llvm", "cuda"])
@pytest.mark.parametrize("program", ["matmul", "softmax"])
def test_candidates_have_the_same_features(program: str, kind: str) -> None:
    plain, target = _PROGRAMS[program](), Target(_TARGETS[kind])
    pairs = [
        [_finished(sketch, kind, target) for sketch in generate_design_space(kind, func, target)]
        for func in (plain, with_results_read(plain))
    ]
    for expected, found in zip(*pairs, strict=True):
        assert (found is None) == (expected is None)
        if expected is not None and found is not None:
            rows = [PerStoreFeature().extract(sch.mod, kind == "cuda") for sch in (expected, found)]
            assert (rows[0] == rows[1]).all()


@T.prim_func
def product(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")
):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_the_program_keeps_what_it_declares() -> None:
    sch = Schedule(product, debug_mask="all")
    sch.cache_read("C", 1, "local")  # numbers are those of the declared reads
    sch.cache_write("C", 0, "local")
    assert "T.reads(C_local[vi, vj], A_local[vi, vk], B[vk, vj])" in sch.mod.script()
    assert_structural_equal(from_source(sch.mod.script()), sch.mod)
    assert_same_result(product, sch.mod)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda s: s.cache_read("C", 0, "local"), "no block that reads 'C' after it was written"),
        (lambda s: s.reindex("C", ("read", 0)), "both reads and writes buffer 'C'"),
        (
            lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, j)),
            "both reads and writes buffer 'C'",
        ),
        (
            lambda s: s.read_at(s.get_loops("C")[0], "C", 0, "local"),
            "block 'C' writes 'C' after its first read there",
        ),
    ],
)
def test_the_result_is_no_input(step: Callable[[Schedule], object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        step(Schedule(product))


def test_a_name_means_the_result_where_both_sides_have_it() -> None:
    sch = Schedule(product, debug_mask="all")
    sch.reindex("C", "C")
    assert 'buffer=("write", 0)' in str(sch.trace)
    by_object = Schedule(product, debug_mask="all")
    by_object.reindex("C", product.buffer_map[product.params[2]])
    assert_structural_equal(by_object.mod, sch.mod)


def test_results_of_other_iterations_are_inputs() -> None:
    """What the block did not initialise itself must be there before it runs."""

    @T.prim_func
    def scan(A: T.Buffer((8, 4), "float32"), C: T.Buffer((9,), "float32")):
        for i, k in T.grid(8, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(C[vi : vi + 2], A[vi, vk])
                T.writes(C[vi + 1])
                with T.init():
                    C[vi + 1] = C[vi]
                C[vi + 1] = C[vi + 1] + A[vi, vk]

    with pytest.raises(ScheduleError, match="reads buffer 'C', which it writes"):
        Schedule(scan).cache_write("C", 0, "local")

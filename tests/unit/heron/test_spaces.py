"""Solutions of Heron's spaces are programs: their extents are the variables', results are right."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tilewright.algebra.constraints import Eq
from tilewright.errors import RegistryError, TuneError
from tilewright.heron import steps
from tilewright.heron.demands import with_demands
from tilewright.heron.names import loop_key
from tilewright.heron.operators import OperatorCase, operation_of
from tilewright.heron.platforms import heron_platforms
from tilewright.heron.rules.always_inline import AlwaysInline
from tilewright.heron.rules.user_defined import UserDefinedRule, loaded_rule
from tilewright.heron.space import HeronSpace, space_of
from tilewright.heron.template import Template, TensorStage
from tilewright.ir import For, IntImm
from tilewright.solver.array_solver import ArraySolver
from tilewright.solver.conflicts import conflict_of
from tilewright.testing import simt
from tilewright.testing.gpu_lowering import lower_for_gpu

MINE = UserDefinedRule(
    lambda template, stage: stage.name == "dense",
    lambda template, stage: template.require(Eq("mine", "P#ST:dense,AX:None,PA:global_pos", 1)),
)


# One place for each operand: other places are other cases, which take their time to prepare.
PLACES = ["dense.wmma.accumulator_shared_pos == 1", "dense.wmma.accumulator_local_pos == 3"]


def space(
    platform: str, shape: tuple[int, ...], *dtypes: str, operator: str = "gemm"
) -> HeronSpace:
    chosen = heron_platforms.create(platform)
    return space_of(operation_of(chosen.case(operator, shape, *dtypes)), chosen)


def solutions(of: HeronSpace, count: int, seed: int = 0) -> list[dict[str, int]]:
    drawn = ArraySolver().prepare(of.problem).sample(count, np.random.default_rng(seed))
    return list(drawn.assignments())


def wrong_extents(of: HeronSpace, values: dict[str, int]) -> list[str]:
    """Loops of the replayed program whose extent is not the variable's."""
    player = steps.Player.on(of.operation.mod, values)
    wrong = []
    for step in of.steps:
        step.replay(player)
        if isinstance(step, steps.TensorizeLoops | steps.StartReduction):
            continue
        for (stage, axis), loop in list(player.loops.items()):
            name = loop_key(stage, axis).full
            try:
                found = player.sch.get(loop)
            except tilewright.errors.TilewrightError:
                continue  # split or fused since
            assert isinstance(found, For)
            assert isinstance(found.extent, IntImm)
            # Before a stage is placed its loops are those of the whole tensor.
            is_placed = stage not in of.compute_positions or any(
                isinstance(done, steps.ComputeAtStep) and done.stage == stage
                for done in of.steps[: of.steps.index(step) + 1]
            )
            if is_placed and name in values and found.extent.value != values[name]:
                wrong.append(f"{name}: {found.extent} and {values[name]}")
    return wrong


@pytest.mark.parametrize(
    ("platform", "shape", "dtypes"),
    [
        ("dlboost", (12, 10, 14), ("float32", "float32")),
        ("dlboost", (16, 16, 32), ("uint8", "int32")),
        ("dlboost", (7, 1, 13), ("float32", "float32")),
        ("tensorcore", (64, 32, 64), ("float16", "float16")),
    ],
)
def test_extents_of_loops_are_the_variables(
    platform: str, shape: tuple[int, ...], dtypes: tuple[str, str]
) -> None:
    found = space(platform, shape, *dtypes)
    if platform == "tensorcore":
        found = with_demands(found, PLACES)
    for values in solutions(found, 4):
        assert not list(found.problem.broken_by(values))
        assert wrong_extents(found, values) == []


def product(a: NDArray[np.uint8], b: NDArray[np.int8]) -> NDArray[np.int64]:
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64).T)


def test_dot_products_of_dl_boost_are_right() -> None:
    """Weights lie as the instruction wants them."""
    found = space("dlboost", (8, 16, 32))
    rng = np.random.default_rng(1)
    a = rng.integers(0, 200, (8, 16)).astype(np.uint8)
    b = rng.integers(-100, 100, (32, 16)).astype(np.int8)
    packed = np.ascontiguousarray(b.reshape(2, 16, 4, 4).transpose(0, 2, 1, 3))
    for values in solutions(found, 3):
        func = tilewright.build(found.schedule(values).mod, target="llvm")
        result = np.zeros((8, 32), np.int32)
        func(a, packed, result)
        assert (result == product(a, b)).all()


@pytest.mark.parametrize("operator", ["bmm", "gemv", "scan"])
def test_other_operators(operator: str) -> None:
    shape = {"bmm": (2, 4, 6, 8), "gemv": (6, 10), "scan": (4, 6, 5)}[operator]
    found = space("dlboost", shape, "float32", "float32", operator=operator)
    (values,) = solutions(found, 1)
    func = tilewright.build(found.schedule(values).mod, target="llvm")
    shapes = {
        "bmm": ((2, 4, 6), (2, 8, 6), (2, 4, 8)),
        "gemv": ((6, 10), (1, 10), (6, 1)),
        "scan": ((4, 5), (6, 5), (4, 6)),
    }[operator]
    rng = np.random.default_rng(0)
    a, b = (rng.random(size, dtype=np.float32) for size in shapes[:2])
    result = np.zeros(shapes[2], np.float32)
    func(a, b, result)
    np.testing.assert_allclose(result, a @ np.swapaxes(b, -1, -2), rtol=1e-5)


def test_tensor_core_kernels_are_right_and_do_not_race() -> None:
    found = with_demands(space("tensorcore", (32, 32, 32)), PLACES)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (32, 32)).astype(np.float16) for _ in range(2))
    for values in solutions(found, 2):
        result = np.zeros((32, 32), np.float16)
        simt.run(lower_for_gpu(found.schedule(values).mod), [a, b, result])
        assert (result == a.astype(np.float32) @ b.astype(np.float32).T).all()


@pytest.mark.parametrize(
    ("shape", "legal"),
    [((64,) * 3, 141), ((256,) * 3, 536), ((1024,) * 3, 901), ((4096, 1024, 1024), 903)],
)
def test_as_many_tiles_fit_vta_as_were_counted_by_hand(shape: tuple[int, ...], legal: int) -> None:
    count = ArraySolver().prepare(space("vta", shape).problem).count
    assert count == pytest.approx(legal)


@pytest.mark.parametrize(
    ("platform", "shape"),
    [
        ("vta", (720_720, 720_720, 720_720)),
        ("dlboost", (999_983, 4, 16)),
        ("tensorcore", (999_983, 16, 1)),
        ("tensorcore", (1, 1, 1)),
        ("vta", (1, 16, 16)),
    ],
)
def test_huge_extents_primes_and_ones(platform: str, shape: tuple[int, ...]) -> None:
    found = space(platform, shape)
    for values in solutions(found, 20):
        assert not list(found.problem.broken_by(values))


def test_rules_of_users() -> None:
    operation = operation_of(OperatorCase("gemm", (8, 8, 8), "float32", "float32"))
    with_mine = space_of(operation, heron_platforms.create("dlboost"), [MINE])
    assert {each["P#ST:dense,AX:None,PA:global_pos"] for each in solutions(with_mine, 20)} == {1}
    assert loaded_rule(f"{__name__}:MINE") is MINE
    for text, message in (
        ("nowhere:rule", "the rule 'nowhere:rule' cannot be loaded: No module named 'nowhere'"),
        (
            "tilewright:build",
            "the rule 'tilewright:build' must be a HeronRule, got function",
        ),
    ):
        with pytest.raises(TuneError) as error:
            loaded_rule(text)
        assert str(error.value) == message


def _rows_first(template: Template, stage: TensorStage) -> None:
    """Rows of the result in one level of tiles, then sums, then columns as lanes."""
    row, column = stage.spatial
    template.whole(stage.name, column)
    template.whole(stage.name, "k")
    (outer,) = template.tile(stage.name, [row], template.tile_knob(stage.name, "mine"))
    template.reorder(stage.name, [outer, f"{row}.inner", "k", column])
    template.mark(steps.VectorizeStep(stage.name, column), column, "vectorize")
    template.steps.append(steps.StartReduction(stage.name, "k"))


def test_rules_of_users_schedule_whole_stages() -> None:
    mine = UserDefinedRule(lambda template, stage: bool(stage.reduced), _rows_first, is_last=True)
    operation = operation_of(OperatorCase("gemm", (12, 10, 16), "float32", "float32"))
    found = space_of(operation, heron_platforms.create("dlboost"), [mine])
    assert found.knob_names[-1] == "dense.global_mine"
    assert "dense.global_tileAll" not in found.knob_names
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, dtype=np.float32) for shape in ((12, 10), (16, 10)))
    tiles = set()
    for values in solutions(found, 12):
        result = np.zeros((12, 16), np.float32)
        tilewright.build(found.schedule(values).mod, target="llvm")(a, b, result)
        np.testing.assert_allclose(result, a @ b.T, rtol=1e-5)
        tiles.add(values["P#ST:dense.global,AX:i.c,PA:mine"])
    assert len(tiles) > 1


def test_always_inline() -> None:
    stages = {
        "A": TensorStage("A", ("ax0",), is_input=True, extents={"ax0": 4}),
        "relu": TensorStage("relu", ("i",), reads=("A",), extents={"i": 4}, is_injective=True),
        "out": TensorStage("out", ("i",), reads=("relu",), extents={"i": 4}, is_injective=True),
    }
    template = Template(stages, ["out", "relu", "A"], "float32", "float32")
    rule = AlwaysInline()
    assert rule.why_not(template, stages["A"]) == "it is not computed element by element"
    assert rule.why_not(template, stages["out"]) == "it is the output"
    relu = stages["relu"]
    assert rule.why_not(template, relu) is None
    rule.apply(template, relu)
    assert template.order == ["out", "A"]
    assert stages["out"].reads == ("A",)
    assert [step.text({}) for step in template.steps] == ["s[relu].compute_inline()"]


def test_demands_of_users() -> None:
    plain = space("dlboost", (8, 8, 8), "float32", "float32")
    some = with_demands(
        plain, ["dense_vectorize == 1", "dense_tileSpatial <= 2", "dense_unroll_pragma in 0, 3"]
    )
    tiles = [name for name in some.knobs if name.endswith("PA:tileSpatial")]
    assert len(tiles) == 4
    for values in solutions(some, 30):
        assert values["P#ST:dense,AX:None,PA:vectorize"] == 1
        assert all(values[name] <= 2 for name in tiles)
        assert values["P#ST:dense,AX:None,PA:unroll_pragma"] in (0, 3)


def test_contradictory_demands_are_named() -> None:
    plain = space("tensorcore", (64, 64, 64))
    name = "V#ST:None,AX:None,PA:shared_mem"
    both = with_demands(plain, ["wmma_m == 32", "wmma_n == 32", f"{name} <= 40000"])
    assert ArraySolver().prepare(both.problem).is_empty
    assert str(conflict_of(both.problem)).splitlines()[1:5] == [
        "  V#ST:None,AX:None,PA:wmma_m_wmma_n = P#ST:None,AX:None,PA:wmma_m * "
        "P#ST:None,AX:None,PA:wmma_n    (from wmma tiles: m * n = 256 with k = 16)",
        "  V#ST:None,AX:None,PA:wmma_m_wmma_n = 256    (from wmma tiles: m * n = 256 with k = 16)",
        "  P#ST:None,AX:None,PA:wmma_m = 32    (from the user's constraint 'wmma_m == 32')",
        "  P#ST:None,AX:None,PA:wmma_n = 32    (from the user's constraint 'wmma_n == 32')",
    ]


def test_conflicts_name_the_limit_of_the_target() -> None:
    whole = with_demands(space("tensorcore", (256, 16, 256)), [*PLACES, "dense_tileBlock == 1"])
    conflict = conflict_of(whole.problem)
    assert conflict is not None
    assert conflict.limits == ("max_shared_memory_per_block = 49152",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "vectorise",
            "the constraint 'vectorise' must be of the form NAME <= NUMBER, NAME >= NUMBER, "
            "NAME == NUMBER or NAME in NUMBER, NUMBER, ...",
        ),
        (
            "dense_vectorise == 1",
            "the constraint 'dense_vectorise == 1' names 'dense_vectorise', which is no variable "
            "of the space; did you mean 'dense_vectorize'?",
        ),
        (
            "dense_vectorize == on",
            "the constraint 'dense_vectorize == on' compares with 'on', no number",
        ),
    ],
)
def test_bad_demands(text: str, message: str) -> None:
    with pytest.raises(TuneError) as error:
        with_demands(space("dlboost", (8, 8, 8), "float32", "float32"), [text])
    assert str(error.value) == message


def test_bad_operators() -> None:
    with pytest.raises(TuneError) as error:
        space("dlboost", (64, 64))
    assert str(error.value) == "operator 'gemm' takes the sizes (M, K, N), got [64, 64]"
    with pytest.raises(TuneError) as error:
        space("dlboost", (64, 0, 64))
    assert str(error.value) == "operator 'gemm': K must be at least 1, got 0"
    with pytest.raises(RegistryError, match="unknown operator of Heron 'conv'; known: bmm, c1d"):
        space("dlboost", (1,), operator="conv")

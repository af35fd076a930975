"""`TuneContext`: what it makes of its arguments, what it forwards, and where seeds flow."""

from __future__ import annotations

import logging
import os

import pytest

from tilewright.cost_model.random_model import RandomModel
from tilewright.database import MemoryDatabase
from tilewright.errors import RegistryError, TargetError, TuneError
from tilewright.ir import IRModule
from tilewright.records import RunnerResult
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search import EvolutionarySearch, ReplayTrace
from tilewright.space.generators import PostOrderApply, ScheduleFn
from tilewright.target import Target
from tilewright.testing.small_search import matmul, nothing, tile_two
from tilewright.tune import TuneContext


def replaying(**more: object) -> TuneContext:
    options = {"space_generator": tile_two, "search_strategy": "replay-trace", "rand_state": 42}
    return TuneContext(matmul, target="llvm", **{**options, **more})  # type: ignore[arg-type]


# --- arguments ----------------------------------------------------------------------------------


def test_a_function_becomes_a_module() -> None:
    context = TuneContext(matmul)
    assert context.mod is not None
    (func,) = context.mod.functions.values()
    assert list(context.mod.functions) == ["main"]
    assert func.attrs["global_symbol"] == "main"
    assert func.attrs["tir.noalias"]


def test_a_module_stays_as_it_is() -> None:
    module = IRModule({"product": matmul})
    assert TuneContext(module).mod is module


def test_a_module_of_two_functions_is_two_tasks() -> None:
    with pytest.raises(TuneError, match=r"a task has one function, the module has 2: a, b"):
        TuneContext(IRModule({"a": matmul, "b": matmul}))


def test_names_become_members() -> None:
    context = TuneContext(
        matmul,
        target={"kind": "llvm", "num-cores": 3},
        space_generator="post-order-apply",
        search_strategy="evolutionary-tvm",
    )
    assert context.target == Target("llvm -num-cores=3")
    assert isinstance(context.space_generator, PostOrderApply)
    assert isinstance(context.search_strategy, EvolutionarySearch)


def test_a_schedule_function_is_a_space() -> None:
    context = replaying()
    assert isinstance(context.space_generator, ScheduleFn)
    (sketch,) = context.generate_design_space()
    assert str(sketch.trace).count("sample_perfect_tile") == 2


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"target": "lvm"}, TargetError, r"lvm"),
        ({"space_generator": "post-order"}, TuneError, r"unknown space generator 'post-order'"),
        (
            {"search_strategy": "genetic"},
            RegistryError,
            r"unknown search strategy 'genetic'; known: arrays, cga, crand, default, descent, "
            r"evolutionary",
        ),
        ({"num_threads": 0}, TuneError, r"num_threads must be at least 1, got 0"),
        ({"num_threads": True}, TuneError, r"num_threads must be at least 1, got True"),
        (
            {"num_threads": "all"},
            TuneError,
            r"num_threads is a number, \"physical\" or \"logical\", got 'all'",
        ),
        ({"search_strategy": ReplayTrace()}, TuneError, r"needs a search space"),
    ],
)
def test_mistakes(options: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        TuneContext(matmul, **options)  # type: ignore[arg-type]


def test_threads() -> None:
    assert TuneContext(num_threads=3).num_threads == 3
    assert TuneContext(num_threads="logical").num_threads == len(os.sched_getaffinity(0))
    assert 1 <= TuneContext().num_threads <= TuneContext(num_threads="logical").num_threads


def test_loggers() -> None:
    own = logging.getLogger("mine")
    assert TuneContext(logger=own).logger is own
    assert TuneContext().logger.name == "tilewright.tune"


# --- what is forwarded --------------------------------------------------------------------------


def test_a_search_from_begin_to_end() -> None:
    context = replaying()
    context.pre_tuning(5, 3)
    sizes = []
    while (batch := context.generate_measure_candidates()) is not None:
        sizes.append(len(batch))
        context.notify_runner_results(batch, [RunnerResult((1.0,))] * len(batch))
    context.post_tuning()
    assert sizes == [3, 2]


def test_evolution_gets_a_database_and_a_model() -> None:
    context = replaying(
        search_strategy=EvolutionarySearch(population_size=8, init_min_unmeasured=1)
    )
    context.pre_tuning(4, 4)
    batch = context.generate_measure_candidates()
    assert batch is not None
    assert len(batch) == 4


def test_what_is_given_is_used() -> None:
    context, database = replaying(), MemoryDatabase()
    sketches = context.generate_design_space()
    context.pre_tuning(4, 2, sketches, database, RandomModel(seed=1))
    assert len(database.workloads()) == 1


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (TuneContext(space_generator=nothing), r"task 'main' has no program \(mod\)"),
        (TuneContext(matmul), r"task 'main' has no space generator"),
    ],
)
def test_no_space_without_a_program_and_a_generator(context: TuneContext, text: str) -> None:
    with pytest.raises(TuneError, match=text):
        context.generate_design_space()


def test_no_search_without_a_strategy() -> None:
    context = TuneContext(matmul, space_generator=nothing, task_name="product")
    for call in (context.post_tuning, context.generate_measure_candidates):
        with pytest.raises(TuneError, match=r"task 'product' has no search strategy"):
            call()


# --- seeds --------------------------------------------------------------------------------------


def test_initialising_draws_a_seed_for_each_member() -> None:
    context = replaying()
    engine = RandomEngine(42)
    of_space, of_strategy = engine.fork_seed(), engine.fork_seed()
    assert isinstance(context.space_generator, ScheduleFn)
    assert isinstance(context.search_strategy, ReplayTrace)
    assert context.space_generator.rand_state == of_space
    assert context.search_strategy.random.state == of_strategy
    assert context.rand_state == engine.state


def test_a_clone_has_members_and_a_seed_of_its_own() -> None:
    context = replaying(task_name="product", num_threads=3)
    state = context.rand_state
    seed = RandomEngine(state).fork_seed()
    clone = context.clone()
    assert context.rand_state == state
    assert clone.mod is not None
    assert context.mod is not None
    assert clone.space_generator is not context.space_generator
    assert clone.search_strategy is not context.search_strategy
    assert (clone.task_name, clone.num_threads) == ("product", 3)
    assert clone.target == context.target
    after = RandomEngine(seed)
    after.fork_seed()
    after.fork_seed()
    assert clone.rand_state == after.state


def test_the_same_seed_gives_the_same_candidates() -> None:
    def traces(seed: int) -> list[str]:
        context = replaying(rand_state=seed)
        context.pre_tuning(6, 6)
        batch = context.generate_measure_candidates()
        assert batch is not None
        return [str(candidate.sch.trace) for candidate in batch]

    assert traces(7) == traces(7)
    assert traces(7) != traces(8)


def test_without_a_seed_every_task_is_different() -> None:
    assert len({TuneContext().rand_state for _ in range(8)}) > 1

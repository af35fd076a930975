"""Strategies in the solutions of a problem: legal, never twice, better than chance."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.solver.problems import listed, tiles

from tilewright.algebra import constraints as c
from tilewright.errors import TuneError
from tilewright.records import RunnerResult
from tilewright.search import ConstrainedSearch, SearchStrategy
from tilewright.search.constrained import ConstrainedSettings, constrained_strategies
from tilewright.search.constrained.base import ConstrainedStrategy
from tilewright.search.constrained.cga import ConstrainedGenetic
from tilewright.search.constrained.legality import Individuals
from tilewright.search.constrained.rcga import RandomKeyGenetic
from tilewright.search.constrained.simulated_annealing import SimulatedAnnealing
from tilewright.search.constrained.srga import StochasticRankingGenetic
from tilewright.solver.array_solver import ArraySolver, ArraySpace
from tilewright.solver.base import Columns
from tilewright.solver.residuals import violations
from tilewright.target import Target
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.testing.space_algebra import task_and_sketches
from tilewright.testing.te_workload import create_te_workload
from tilewright.tune.api import tune_tir

NAMES = ("cga", "crand", "descent", "ga", "idea", "rcga", "sa", "sdga", "srga")
SMALL = ConstrainedSettings(pop_num=40, iter_walks=3, select_num=20, history_topk=8)


def chain() -> ArraySpace:
    """Three splits of 720 in four parts each, with a limit on the product of the innermost."""
    loops = [[f"{axis}{n}" for n in range(4)] for axis in "ijk"]
    return ArraySolver().prepare(
        c.ConstraintProblem(
            (
                *(
                    c.IntegerVariable(name, range(1, 721), "loop" if name[1] == "0" else "tunable")
                    for axis in loops
                    for name in axis
                ),
                c.IntegerVariable("tile", range(1, 10**9)),
            ),
            (
                *(c.Prod("split", 720, tuple(axis)) for axis in loops),
                c.Prod("tile", "tile", tuple(axis[-1] for axis in loops)),
                c.Le("cache", "tile", 512),
            ),
        )
    )


KNOBS = [n for n in range(12) if n % 4]


def worth(points: Columns) -> NDArray[np.float64]:
    """A smooth figure with one summit at the border of what is legal."""
    logs = np.log2(points[:, :12])
    return np.asarray(20.0 - np.abs(logs - 2.4).sum(axis=1))


@pytest.fixture(scope="module")
def space() -> ArraySpace:
    return chain()


def made(name: str, space: ArraySpace, seed: int = 0) -> ConstrainedStrategy:
    return constrained_strategies.create(name, space, KNOBS, SMALL, seed)


def test_all_are_there() -> None:
    assert set(NAMES) <= set(constrained_strategies)


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_asked_for_is_legal_and_new(name: str, space: ArraySpace) -> None:
    strategy = made(name, space)
    seen: set[tuple[int, ...]] = set()
    for _ in range(4):
        points = strategy.ask(16)
        assert len(points) == 16
        assert not violations(space.problem, points).any()
        rows = {tuple(row) for row in points[:, KNOBS].tolist()}
        assert len(rows) == 16
        assert not rows & seen
        seen |= rows
        strategy.tell(points, worth(points).tolist())


@pytest.mark.parametrize("name", [each for each in NAMES if each not in ("idea", "srga")])
def test_searching_is_better_than_drawing(name: str, space: ArraySpace) -> None:
    strategy = made(name, space, seed=1)
    for _ in range(6):
        points = strategy.ask(16)
        strategy.tell(points, worth(points).tolist())
    drawn = [worth(space.sample(96, np.random.default_rng(n)).values).max() for n in range(20)]
    assert strategy.scores.max() > np.mean(drawn)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_asks_the_same(name: str) -> None:
    space = chain()  # which nobody has asked before
    twins = made(name, space, seed=7), made(name, space, seed=7)
    for _ in range(2):
        points, same = (twin.ask(8) for twin in twins)
        assert (points == same).all()
        for twin in twins:
            twin.tell(points, worth(points).tolist())


@pytest.mark.parametrize("name", NAMES)
def test_a_space_that_is_used_up(name: str) -> None:
    problem = tiles()
    strategy = constrained_strategies.create(
        name, ArraySolver().prepare(problem), [0, 1, 2, 4], SMALL, 0
    )
    found: set[tuple[int, ...]] = set()
    for _ in range(12):
        points = strategy.ask(8)
        found |= {tuple(row) for row in points.tolist()}
        strategy.tell(points, [1.0] * len(points))
    assert found == listed(problem)
    assert len(strategy.ask(8)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_goes_on_in_another_process(name: str, space: ArraySpace) -> None:
    whole, other = made(name, space, seed=3), made(name, space, seed=4)
    points = whole.ask(8)
    whole.tell(points, worth(points).tolist())
    other.load_state(json.loads(json.dumps(whole.state())))
    assert (whole.ask(8) == other.ask(8)).all()


def test_failures_teach_nothing(space: ArraySpace) -> None:
    strategy = made("cga", space)
    points = strategy.ask(8)
    strategy.tell(points, [0.0] * 8)
    assert not strategy.model.is_trained
    assert len(strategy.best_measured(4)) == 0
    assert len(strategy.ask(8)) == 8


def test_key_variables_of_cga_are_those_that_matter(space: ArraySpace) -> None:
    strategy = made("cga", space)
    assert isinstance(strategy, ConstrainedGenetic)
    points = space.sample(300, np.random.default_rng(0)).values
    strategy.tell(points, (10 + np.log2(points[:, 1]) * 3 - np.log2(points[:, 7])).tolist())
    assert set(strategy._key_variables()[:2]) == {1, 7}
    assert len(strategy._key_variables()) == round(0.2 * 13)
    random = made("rcga", space)
    assert isinstance(random, RandomKeyGenetic)
    random.tell(points, [1.0] * len(points))
    drawn = {tuple(random._key_variables()) for _ in range(10)}
    assert len(drawn) > 5


def test_children_of_cga_keep_to_their_parents(space: ArraySpace) -> None:
    strategy = made("cga", space)
    assert isinstance(strategy, ConstrainedGenetic)
    parents = space.sample(2, np.random.default_rng(3)).values
    keys = np.asarray([1, 2, 5])
    children = strategy._children(parents, keys)
    taken = (children[:, None, :] == parents).any(axis=1)[:, keys]
    assert (taken.sum(axis=1) >= 2).all()  # one of three may be anything
    assert not taken.all()


def test_annealing_accepts_what_is_worse_while_it_is_hot(space: ArraySpace) -> None:
    def worse_steps(temperature: float) -> int:
        strategy = made("sa", space)
        assert isinstance(strategy, SimulatedAnnealing)
        points = space.sample(200, np.random.default_rng(0)).values
        strategy.tell(points, worth(points).tolist())
        before = strategy.predict(strategy._walkers)
        strategy._walk(temperature)
        return int((strategy.predict(strategy._walkers) < before).sum())

    assert worse_steps(10.0) > 3
    assert worse_steps(1e-9) == 0


def test_stochastic_ranking_puts_legal_ones_first_mostly(space: ArraySpace) -> None:
    strategy = made("srga", space)
    assert isinstance(strategy, StochasticRankingGenetic)
    legal = Individuals.of(space, strategy._population[:4])
    broken = legal.at(np.arange(4))
    broken.violation[:] = 5.0
    everyone = broken.beside(legal)
    places = np.mean([np.argsort(strategy._ranking(everyone)) for _ in range(50)], axis=0)
    assert places[4:].mean() < places[:4].mean() - 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("pop_num", 0, "pop_num must be at least 1, got 0"),
        ("epsilon", 1.5, "epsilon is a share, so from 0 to 1, got 1.5"),
        ("temperature", 0.0, "temperature must be positive, got 0.0"),
    ],
)
def test_bad_settings(field: str, value: float, message: str) -> None:
    with pytest.raises(TuneError) as error:
        ConstrainedSettings(**{field: value})  # type: ignore[arg-type]
    assert str(error.value) == message


def test_a_search_of_the_tuner() -> None:
    """All candidates that a search of the tuner proposes, it learns from."""
    mod = create_te_workload("GMM", 0)
    search = SearchStrategy.create("cga", pop_num=8, iter_walks=1, select_num=8)
    assert isinstance(search, ConstrainedSearch)
    assert search.clone().settings() == search.settings()
    database = tune_tir(
        mod, "llvm", max_trials_global=8, num_trials_per_iter=4, builder=NoBuilder(),
        runner=MadeUp(), database="memory", cost_model="random", strategy=search, space="llvm",
        seed=1, console=False, check=False,
    )  # fmt: skip
    assert len(database.get_all_tuning_records()) >= 8


def test_longer_searches_go_on_in_the_wider_space() -> None:
    task, sketches = task_and_sketches(
        create_te_workload("SFM", 0), Target("llvm -mcpu=cascadelake -num-cores 4"), "tilewright"
    )
    search = ConstrainedSearch("cga")
    search._initialize_with_tune_context(task)
    search.pre_tuning(96, 16, sketches)
    texts: list[str] = []
    while batch := search.generate_measure_candidates():
        texts += [candidate.sch.mod.script() for candidate in batch]
        search.notify_runner_results(batch, [RunnerResult((1.0,)) for _ in batch])
    assert len(texts) > 16  # all of the first space
    assert any("invariant_divisors" in text for text in texts)
    again = ConstrainedSearch("cga")
    again._initialize_with_tune_context(task)
    again.pre_tuning(96, 16, sketches)
    again.load_state_dict(search.state_dict())
    assert len(again._arms) == len(search._arms) == 2

"""Heron's loop and its files, on a made-up machine and on this one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import TuneError
from tilewright.heron.config import HeronConfig, config_of
from tilewright.heron.measuring import HeronMeasurer, HeronOutcome, LocalMeasurer, measurer_of
from tilewright.heron.operators import operation_of
from tilewright.heron.platforms import heron_platforms
from tilewright.heron.space import HeronSpace, space_of
from tilewright.heron.tuning import HeronRun
from tilewright.solver.array_solver import ArraySolver
from tilewright.target import Target


def config(**fields: object) -> HeronConfig:
    return config_of({"cases": {"g": ["gemm", [8, 16, 16]]}, **fields})


def space(
    platform: str = "vta", shape: tuple[int, ...] = (64, 64, 64), operator: str = "gemm"
) -> HeronSpace:
    chosen = heron_platforms.create(platform)
    return space_of(operation_of(chosen.case(operator, shape)), chosen)


class Ruler(HeronMeasurer):
    """A machine whose time is a formula; every fifth candidate fails."""

    def __init__(self, of: HeronSpace) -> None:
        self.space = of
        self.measured: list[dict[str, int]] = []

    def measure(self, values: Sequence[dict[str, int]]) -> list[HeronOutcome]:
        outcomes = []
        for each in values:
            assert not list(self.space.problem.broken_by(each))
            self.measured.append(each)
            if len(self.measured) % 5 == 0:
                outcomes.append(HeronOutcome(None, "run: it was the fifth"))
            else:
                load = each["V#ST:None,AX:None,PA:inp_mem"] + each["V#ST:None,AX:None,PA:wgt_mem"]
                outcomes.append(HeronOutcome(1e-3 / load))
        return outcomes


@pytest.mark.parametrize("method", ["CGA", "CRAND"])
def test_files_of_a_run(tmp_path: Path, method: str) -> None:
    found = space()
    options = config(method=method, max_trials=50, measure_time_per_round=16)
    run = HeronRun(found, ArraySolver().prepare(found.problem), options, tmp_path / "out")
    run.write_space()
    ruler = Ruler(found)
    result = run.tune(ruler)
    rows = [json.loads(line) for line in (tmp_path / "out/records.txt").read_text().splitlines()]
    assert len(rows) == result.trials == 50
    assert [row["variables"] for row in rows] == ruler.measured
    assert len({row["code"] for row in rows}) == 50
    for number, row in enumerate(rows, 1):
        failed = number % 5 == 0
        assert row["code"] == "_".join(str(row["variables"][name]) for name in found.knobs)
        assert row["perf"] == (0 if failed else pytest.approx(math.log(1 / row["latency"])))
        assert (row["latency"] is None) == failed
    assert result.best_secs is not None
    assert result.best_secs == min(row["latency"] for row in rows if row["latency"])
    assert result.failures == ["run: it was the fifth"] * 10
    stats = [json.loads(line) for line in (tmp_path / "out/stat.txt").read_text().splitlines()]
    assert [row["round"] for row in stats] == [0, 1, 2, 3]
    assert set(stats[0]) == {
        "round", "sample_time", "measure_time", "train_time", "elapsed", "best_perf",
    }  # fmt: skip
    assert stats[-1]["best_perf"] == pytest.approx(math.log(1 / result.best_secs))


def test_a_space_with_fewer_candidates_than_trials(tmp_path: Path) -> None:
    found = space(shape=(16, 16, 16))
    solutions = ArraySolver().prepare(found.problem)
    assert solutions.count is not None
    run = HeronRun(found, solutions, config(max_trials=1000), tmp_path)
    run.write_space()
    assert run.tune(Ruler(found)).trials == round(solutions.count)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["CGA", "DESCENT"])
@pytest.mark.parametrize(
    ("target", "platform", "operator", "shape"),
    [
        ("llvm", "dlboost", "gemm", (16, 32, 32)),
        ("llvm", "dlboost", "c2d", (1, 14, 14, 16, 32, 3, 3, 1, 1, 1)),
        ("llvm", "dlboost", "t2d", (1, 7, 7, 16, 16, 3, 3, 2, 1, 1)),
        ("llvm", "dlboost", "dep", (1, 14, 14, 32, 3, 3, 1, 1, 1)),
        ("vta", "vta", "gemm", (64, 64, 64)),
        ("vta", "vta", "c2d", (1, 14, 14, 32, 32, 3, 3, 1, 1, 1)),
    ],
)
def test_all_candidates_run_and_are_right(
    target: str, platform: str, operator: str, shape: tuple[int, ...], method: str, tmp_path: Path
) -> None:
    """Results are compared with the plain program, in every trial."""
    if platform == "dlboost" and "avx512vnni" not in Target("llvm").features:
        pytest.skip("this CPU has no VNNI")
    found = space(platform, shape, operator)
    options = config(
        method=method, max_trials=24, measure_time_per_round=8, runner_number=1, runner_repeat=1
    )
    run = HeronRun(found, ArraySolver().prepare(found.problem), options, tmp_path)
    run.write_space()
    measurer = LocalMeasurer(found, options, Target(target))
    result = run.tune(measurer)
    measurer.close()
    assert result.failures == []
    assert result.trials == 24


def test_a_platform_without_a_measurer() -> None:
    unknown = replace(heron_platforms.create("vta"), name="tpu")
    with pytest.raises(TuneError) as error:
        measurer_of(unknown, space(), config())
    assert str(error.value) == (
        "nothing measures on the platform 'tpu': register a measurer under this name in the entry "
        "points of 'tilewright.heron_measurer'"
    )


def test_samples_of_one_seed_repeat() -> None:
    solutions = ArraySolver().prepare(space().problem)
    first, second = (solutions.sample(5, np.random.default_rng(4)).values for _ in range(2))
    assert (first == second).all()

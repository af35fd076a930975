"""Candidates of Heron's space for VTA: all of them run on the simulator, with exact results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tilewright as tw
from tilewright.cli import app
from tilewright.codegen.vta.backend import SimulatedFunction
from tilewright.heron.operators import operation_of
from tilewright.heron.platforms import heron_platforms
from tilewright.heron.space import HeronSpace, space_of
from tilewright.solver.array_solver import ArraySolver


def space(shape: tuple[int, int, int]) -> HeronSpace:
    chosen = heron_platforms.create("vta")
    return space_of(operation_of(chosen.case("gemm", shape)), chosen)


@pytest.mark.slow
def test_the_command_measures_every_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"out_name": "out", "cases": {"g": ["gemm", [64, 64, 64]]}, "max_trials": 6}
    (tmp_path / "quick_start.json").write_text(json.dumps(asked), encoding="utf-8")
    shown = CliRunner().invoke(app, ["heron", "-p", "vta", "-c", "quick_start.json"])
    assert shown.exit_code == 0
    assert "6 of 6 trials ran" in shown.output


@pytest.mark.parametrize("shape", [(64, 64, 64), (16, 32, 48)])
def test_candidates_run(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    of = space(shape)
    drawn = ArraySolver().prepare(of.problem).sample(6, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    a, w = (rng.integers(-128, 128, size, np.int8) for size in ((m, k), (n // 16, k // 16, 16, 16)))
    plain = w.transpose(0, 2, 1, 3).reshape(n, k).astype(np.int32)
    cycles = set()
    for values in drawn.assignments():
        module = tw.build(of.schedule(values).mod, "vta")
        out = np.zeros((m, n), np.int32)
        module(a, w, out)
        np.testing.assert_array_equal(out, a.astype(np.int32) @ plain.T)
        function = module["main"]._run
        assert isinstance(function, SimulatedFunction)
        cycles.add(function.report.cycles)
    assert len(cycles) > 1

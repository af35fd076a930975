"""Profiles: figures of each step, as data and as a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import ArgumentError
from tilewright.graph import parse_graph
from tilewright.model import CompiledModel, compile_model, load
from tilewright.model.profiling import profile_of

_TEXT = """
def main(x: float32[64, 64]):
    w = constant(float32[64, 64])
    a = nn.dense(x, w)
    b = nn.softmax(a)
    return b
"""
_X = np.ones((64, 64), np.float32)


class _Slow:
    """A machine that does one operation a microsecond, and moves a byte a nanosecond."""

    def operations(self) -> float:
        return 1e6

    def bandwidth(self, size: int) -> float:
        return 1e9


@pytest.fixture(scope="module")
def executable() -> CompiledModel:
    return compile_model(parse_graph(_TEXT))


def test_every_step_has_its_figures(executable: CompiledModel) -> None:
    profile = executable.profile(x=_X, repeats=3, threads=1)
    assert [step.operators for step in profile] == [("nn.dense",), ("nn.softmax",)]
    dense = profile[0]
    assert dense.flop == 2 * 64**3
    assert dense.bytes == 3 * 64 * 64 * 4
    assert dense.gflops == pytest.approx(dense.flop / dense.seconds / 1e9)
    assert sum(step.share for step in profile) == pytest.approx(1)
    assert all(0 < (step.roofline_share or 0) <= 1 for step in profile)
    assert profile.threads == 1
    assert json.loads(json.dumps(profile.rows()))[0]["operators"] == ["nn.dense"]


def test_medians_and_rooflines(executable: CompiledModel) -> None:
    runs = [[1_000_000_000, 10], [3_000_000_000, 20], [2_000_000_000, 30]]
    profile = profile_of(executable.program, runs, 64, _Slow())
    dense, softmax = profile
    assert dense.seconds == 2
    assert softmax.seconds == pytest.approx(20e-9)
    assert profile.seconds == pytest.approx(2.00000003)
    assert dense.bound == "compute"
    assert dense.roofline_share == pytest.approx(2 * 64**3 / 1e6 / 2)
    assert softmax.roofline_share == 1  # faster than possible: still all of it
    alone = profile_of(executable.program, runs, 1, _Slow())[0]
    assert alone.least_seconds >= dense.least_seconds


def test_the_table(executable: CompiledModel) -> None:
    profile = executable.profile(_X, repeats=1)
    lines = str(profile).splitlines()
    assert "a run" in lines[0]
    assert "GFLOP/s" in lines[2]
    assert any("fused_nn_dense" in line for line in lines)
    assert profile.table(limit=1).row_count == 1


def test_a_loaded_model_has_the_same_figures(executable: CompiledModel, tmp_path: Path) -> None:
    loaded = load(executable.save(tmp_path / "model"))
    ours, theirs = executable.profile(_X), loaded.profile(_X)
    assert [(s.name, s.flop, s.bytes, s.bound) for s in ours] == [
        (s.name, s.flop, s.bytes, s.bound) for s in theirs
    ]


def test_no_runs_are_refused(executable: CompiledModel) -> None:
    with pytest.raises(ArgumentError) as caught:
        executable.profile(_X, repeats=0)
    assert str(caught.value) == "profile: expected at least 1 repeat, got 0"

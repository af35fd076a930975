"""Budgets, targets and databases as they are written on the command line."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from tilewright.cli import options
from tilewright.cli.app import app as cli
from tilewright.cli.arguments import with_model_options
from tilewright.cli.models import ModelOptions
from tilewright.cli.options import runnable_target
from tilewright.cli.run_limits import TuneCommand, limits_of
from tilewright.errors import DeviceError, TargetError, TuneError
from tilewright.testing import fake_gpu
from tilewright.tune.budget import parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("0.5m", 30.0),
        ("250ms", 0.25),
    ],
)
def test_budgets(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["soon", "10x", "", "m", "-5s", "1 h"])
def test_bad_budgets(text: str) -> None:
    with pytest.raises(TuneError) as caught:
        parse_seconds(text, "--budget")
    assert str(caught.value) == f"--budget {text}: expected a time such as 90s, 10m or 1h30m"


def test_no_time_at_all() -> None:
    with pytest.raises(TuneError, match="--budget 0s: expected a time above zero"):
        parse_seconds("0s", "--budget")


def test_targets() -> None:
    assert runnable_target("llvm -num-cores=2").num_cores == 2
    with pytest.raises(TargetError, match="unknown target kind 'lvm'; did you mean 'llvm'"):
        runnable_target("lvm")


def test_targets_on_gpus() -> None:
    with fake_gpu.installed(fake_gpu.FakeDriver()):
        assert runnable_target("cuda").arch == "sm_90a"
    missing = DeviceError("no NVIDIA driver was found")
    with fake_gpu.installed(missing), pytest.raises(TargetError) as caught:
        runnable_target("nvidia/nvidia-h200")
    assert str(caught.value) == (
        "--target nvidia/nvidia-h200: its code cannot run here: no NVIDIA driver was found"
    )


def test_targets_of_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "why_unrunnable", lambda info: "it needs amx-tile")
    with pytest.raises(TargetError) as caught:
        runnable_target("llvm -num-cores=4")
    assert str(caught.value) == (
        "--target llvm -num-cores=4: its code cannot run here: it needs amx-tile"
    )


def test_limits() -> None:
    def limits(tasks: int = 1, **given: object) -> tuple[object, ...]:
        found = limits_of(TuneCommand(["GMM"], **given), tasks)  # type: ignore[arg-type]
        return found.trials, found.budget_secs, found.plateau

    assert limits() == (256, None, 128)
    assert limits(tasks=3, effort="fast") == (192, None, None)
    assert limits(effort="none") == (0, None, None)
    assert limits(tasks=3, trials=10) == (10, None, None)
    assert limits(budget="1m") == (None, 60.0, None)
    assert limits(budget="1m", trials=10) == (10, 60.0, None)


def test_bad_limits() -> None:
    with pytest.raises(TuneError, match="--effort fst: there is no such effort; did you mean 'f"):
        limits_of(TuneCommand(["GMM"], effort="fst"), 1)
    with pytest.raises(TuneError, match="--trials 0: expected at least 1"):
        limits_of(TuneCommand(["GMM"], trials=0), 1)


@pytest.mark.parametrize("seed", [-1, 1 << 32])
def test_seeds_that_numpy_does_not_take(seed: int) -> None:
    asked = TuneCommand(["GMM:0"], trials=1, seed=seed)
    with pytest.raises(TuneError, match=f"--seed {seed}: expected a number from 0 to 4294967295"):
        limits_of(asked, 1)


def test_options_of_models_are_one_argument_of_commands() -> None:
    seen: list[tuple[str, bool, ModelOptions]] = []

    def command(model: str, *, reading: ModelOptions, json: bool = False) -> None:
        seen.append((model, json, reading))

    app = typer.Typer()
    app.command()(with_model_options(command))
    for arguments, expected in [
        (["m"], ("m", False, ModelOptions())),
        (
            ["m", "--json", "--dim", "batch=2", "--shape", "x=2x3", "--no-winograd"],
            ("m", True, ModelOptions({"batch": 2}, {"x": [2, 3]}, None, winograd=False)),
        ),
        (["m", "--layout", "nchw"], ("m", False, ModelOptions(layout="nchw"))),
    ]:
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert seen.pop() == expected


@pytest.mark.parametrize("name", ["tune", "bench", "inspect", "check", "build"])
def test_commands_for_models_share_their_options(name: str) -> None:
    shown = CliRunner().invoke(cli, [name, "--help"], env={"COLUMNS": "200"}).output
    assert all(option in shown for option in ("--dim", "--shape", "--layout", "--no-winograd"))

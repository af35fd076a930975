"""Comparing databases, runs and commits' result files."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.sharing import compare, side_from
from tilewright.sharing.intervals import Ratio, mean_ratio, quantile, ratio_of
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1e9, 1.960)],
)
def test_quantiles_of_student(freedom: float, expected: float) -> None:
    assert quantile(freedom) == pytest.approx(expected, rel=0.005)


def test_an_interval_holds_what_is_told() -> None:
    ratio = ratio_of([2.0, 2.2, 1.8, 2.1], [1.0, 1.1, 0.9, 1.0])
    assert ratio.value == pytest.approx(2.02, rel=0.01)
    assert ratio.low is not None
    assert ratio.high is not None
    assert 1.6 < ratio.low < ratio.value < ratio.high < 2.5
    assert ratio.low * ratio.high == pytest.approx(ratio.value**2)
    assert (ratio.verdict, ratio_of([1.0, 1.1], [1.0, 1.1]).verdict) == ("slower", "same")
    assert ratio_of([1.0, 1.01], [2.0, 2.01]).verdict == "faster"
    assert ratio_of([1.0, 1.0], [2.0, 2.0]) == Ratio(0.5, 0.5, 0.5)
    single = ratio_of([1.0], [2.0, 2.0])
    assert (str(single), single.verdict) == ("0.500", "?")


def test_the_mean_is_geometric() -> None:
    mean = mean_ratio([Ratio(2.0), Ratio(0.5), Ratio(1.0)])
    assert mean.value == pytest.approx(1.0)
    assert mean.low == pytest.approx(math.exp(-4.303 * math.log(2) / math.sqrt(3)), rel=0.01)
    assert mean_ratio([Ratio(3.0)]) == Ratio(3.0)


def two_runs(path: Path) -> None:
    """A task that both runs measured, and one of the second alone."""
    database = SQLiteDatabase(path)
    for run, times in ((1, (4.0, 4.2)), (2, (2.0, 2.1))):
        database.history.begin_run(f"run {run}")
        for size in (8, 16)[:run]:
            workload = database.commit_workload(matmul(size, 8, 8))
            extra = {"run": run, "task": "mm", "trial": size, "round": 0, "seed": run}
            slow = a_record(workload, 9.0, seed=2, extra={**extra, "trial": 0, "round": 1})
            database.commit_tuning_records([slow, a_record(workload, *times, extra=extra)])
    database.close()


def test_runs_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    two_runs(path)
    made = compare(side_from(f"{path}#1"), side_from(f"{path}#2"))
    (row,) = made.rows
    assert [row.first, row.second] == pytest.approx([4.1, 2.05])
    assert row.ratio.value == pytest.approx(0.5)
    assert row.ratio.verdict == "faster"
    assert row.name.startswith("C 8x8x8 on llvm ")
    assert list(made.only_first) == []
    assert [name.split(" on ")[0] for name in made.only_second] == ["C 16x8x8"]
    whole = compare(side_from(str(path)), side_from(str(path)))
    assert [row.ratio.value for row in whole.rows] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("heats", "interval"),
    [
        ([2.0, 2.2, 2.1], (0.94, 1.07)),
        ([2.0], None),
        ([], None),
        (["x", 1.0], None),
        ([0, 1], None),
    ],
)
def test_heats_of_a_final_tell_how_sure_a_time_is(
    heats: list[Any], interval: tuple[float, float] | None, tmp_path: Path
) -> None:
    database = SQLiteDatabase(tmp_path / "records.db")
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_tuning_record(a_record(workload, 3.0, extra={"final_heat_secs": heats}))
    database.close()
    side = side_from(str(tmp_path / "records.db"))
    (row,) = compare(side, side).rows
    assert row.ratio.value == pytest.approx(1)
    assert row.first == pytest.approx(3, rel=1e-3)
    bounds = (row.ratio.low, row.ratio.high)
    assert bounds == ((None, None) if interval is None else pytest.approx(interval, abs=0.06))


@pytest.mark.parametrize(
    ("side", "text"),
    [
        ("records.db#3", "there is no run 3 in records.db; it has 1, 2"),
        ("records.db#x", "'records.db#x': a run is a number, as in records.db#3; got 'x'"),
        ("nothing.db", "there is no database at nothing.db"),
        ("nothing.json", "cannot read nothing.json: No such file or directory"),
        ("-x:y.json", "'-x:y.json' is not a commit and a file"),
    ],
)
def test_sides_that_are_not_there(
    side: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    two_runs(tmp_path / "records.db")
    with pytest.raises(DatabaseError) as failure:
        side_from(side)
    assert str(failure.value) == text


def results(path: Path, **ours: float) -> None:
    rows = [{"name": name, "ours": value, "unit": "ms"} for name, value in ours.items()]
    path.write_text(json.dumps({"title": "speed", "rows": rows}))


def test_result_files_of_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    results(Path("speed.json"), matmul=2.0, conv=1.0)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    results(Path("speed.json"), matmul=1.0, pool=1.0)
    made = compare(side_from("HEAD:speed.json"), side_from("speed.json"))
    assert [(row.name, row.ratio.value, row.unit) for row in made.rows] == [("matmul", 0.5, "ms")]
    assert (list(made.only_first), list(made.only_second)) == (["conv"], ["pool"])
    with pytest.raises(DatabaseError, match=r"^git has no HEAD:other\.json: fatal: "):
        side_from("HEAD:other.json")


@pytest.mark.parametrize(
    "content", ["", "[]", '{"rows": 1}', '{"rows": [{"name": "a", "ours": 0}]}', "[" * 100_000]
)
def test_files_that_are_no_results(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(StoredDataError, match="is not the result file of a benchmark"):
        side_from(str(path))


def test_one_machine_however_its_target_is_written(tmp_path: Path) -> None:
    plain = Target("llvm")
    written = Target(f"llvm -num-cores={plain.num_cores}")
    assert written.fingerprint == plain.fingerprint
    paths = {tmp_path / "a.db": plain, tmp_path / "b.db": written}
    for path, target in paths.items():
        database = SQLiteDatabase(path)
        workload = database.commit_workload(matmul(8, 8, 8))
        database.commit_tuning_record(a_record(workload, 2.0, target=target))
        database.close()
    found = compare(*(side_from(str(path)) for path in paths))
    assert [row.ratio.value for row in found.rows] == [1.0]

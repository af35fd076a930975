"""Datasets: four steps that go on where they were stopped, and what is done with the result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.cost_model.prior import AnalyticPrior
from tilewright.dataset import (
    Dataset,
    collect_models,
    extract_dataset_tasks,
    load_pretrained,
    measure_candidates,
    pretrain,
    sample_candidates,
)
from tilewright.dataset.measuring import MeasureOptions
from tilewright.dataset.pretrain import new_model
from tilewright.errors import GraphError, StoredDataError, TuneError
from tilewright.measure import Builder, FinishedFuture, ReplayBuilder, ReplayRunner, Runner
from tilewright.records import FailureKind, RunnerFuture, RunnerInput, RunnerResult
from tilewright.tune.api import tune_tir
from tilewright.tune.context import TuneContext

MakeModel = Callable[..., None]


def quiet(text: str) -> None:
    """Says nothing."""


class Counted(Runner):
    """Made-up times, by the order of calls; may stop in the middle."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.calls, self.stop_after = 0, stop_after

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        futures: list[RunnerFuture] = []
        for _ in runner_inputs:
            if self.calls >= self.stop_after:
                raise KeyboardInterrupt
            self.calls += 1
            failed = self.calls % 5 == 0
            result = (
                RunnerResult(None, "made up", FailureKind.TIMEOUT)
                if failed
                else RunnerResult((self.calls * 1e-6, self.calls * 2e-6), checked=True)
            )
            futures.append(FinishedFuture(result))
        return futures


class NoBuilder(ReplayBuilder, Builder):
    """Nothing is compiled."""


def options(runner: Runner, format: str = "jsonl", batch_size: int = 4) -> MeasureOptions:
    return MeasureOptions(format, batch_size, NoBuilder(), runner)


def measured(dataset: Dataset, runner: Runner | None = None, **more: Any) -> Dataset:
    return measure_candidates(
        dataset.folder, options=options(runner or Counted(), **more), tell=quiet
    )


# --- steps --------------------------------------------------------------------------------------


def test_tasks_of_models_with_weights(sampled: Dataset) -> None:
    assert sampled.models == ["one", "two"]
    assert [(task.model, task.weight) for task in sampled.tasks()] == [
        ("one", 1), ("one", 1), ("two", 1),
    ]  # fmt: skip
    first = sampled.tasks()[0]
    assert first.flop > 2 * 8 * 16 * 24
    assert first.target.num_cores == 1


def test_candidates_are_different_and_can_be_replayed(sampled: Dataset) -> None:
    for task in sampled.tasks():
        records = sampled.candidates(task)
        assert len({record.extra["candidate_hash"] for record in records}) == len(records) == 6
        assert all(record.run_secs is None for record in records)
        assert all(record.as_candidate_or_none() is not None for record in records)


def test_sampling_with_a_seed_is_repeatable(sampled: Dataset, tmp_path: Path) -> None:
    before = {path: path.read_text() for path in sampled.folder.glob("candidates/*/*")}
    for path in before:
        path.unlink()
    sample_candidates(sampled.folder, 6, tell=quiet)
    assert {path: path.read_text() for path in before} == before


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_measurements(sampled: Dataset, format: str) -> None:
    if format == "parquet":
        pytest.importorskip("pyarrow")
    measured(sampled, format=format)
    assert {path.suffix for path in sampled.folder.glob("measurements/*/*")} == {f".{format}"}
    records = sampled.get_all_tuning_records()
    assert len(records) == 18
    assert records[1].run_secs == (2e-6, 4e-6)
    failed = records[4]
    assert (failed.run_secs, failed.failure, failed.error_msg) == (
        None, FailureKind.TIMEOUT, "made up",
    )  # fmt: skip
    assert records[1].extra["checked"] is True


def test_a_measurement_on_this_machine(sampled: Dataset) -> None:
    first = sampled.tasks()[0]
    for task in sampled.tasks()[1:]:
        sampled.candidates_file(task).unlink()
    lines = sampled.candidates_file(first).read_text().splitlines(keepends=True)
    sampled.candidates_file(first).write_text("".join(lines[:3]))
    told: list[str] = []
    measure_candidates(sampled.folder, options=MeasureOptions(batch_size=2), tell=told.append)
    assert told == [f"one/{first.name}: 2 of 3", f"one/{first.name}: 3 of 3"]
    records = sampled.measurements(first)
    assert all(record.is_valid and record.run_secs for record in records)


# --- going on -----------------------------------------------------------------------------------


def test_steps_that_are_done_do_nothing(sampled: Dataset) -> None:
    measured(sampled)
    before = {path: path.stat().st_mtime_ns for path in sampled.folder.rglob("*.*")}
    told: list[str] = []
    extract_dataset_tasks(sampled.folder, tell=told.append)
    sample_candidates(sampled.folder, tell=told.append)
    runner = Counted()
    measured(sampled, runner)
    assert told == ["one: there already", "two: there already"]
    told.clear()
    measure_candidates(sampled.folder, options=options(runner), tell=told.append)
    assert told == [
        f"{task.model}/{task.name}: all {len(sampled.candidates(task))} are measured"
        for task in sampled.tasks()
    ]
    assert runner.calls == 0
    assert {path: path.stat().st_mtime_ns for path in sampled.folder.rglob("*.*")} == before


def test_measuring_goes_on_after_an_interrupt(sampled: Dataset) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(sampled, Counted(stop_after=9))
    # A batch that was not complete is measured again.
    assert len(sampled.get_all_tuning_records()) == 6 + 0
    runner = Counted()
    measured(sampled, runner)
    assert runner.calls == 12
    ids = [record.extra["candidate_hash"] for record in sampled.get_all_tuning_records()]
    assert len(ids) == 18


def test_a_row_that_was_cut_is_measured_again(sampled: Dataset) -> None:
    measured(sampled)
    path = sampled.measurements_file(sampled.tasks()[0])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert len(sampled.get_all_tuning_records()) == 17
    runner = Counted()
    measured(sampled, runner)
    assert runner.calls == 1
    assert len(sampled.get_all_tuning_records()) == 18
    assert path.read_bytes().count(b"\n") == 6


@pytest.mark.slow
def test_measuring_goes_on_after_a_kill(sampled: Dataset) -> None:
    command = [sys.executable, "-m", "tilewright.cli", "dataset", "measure", str(sampled.folder)]
    slowly = [*command, "--batch-size", "1"]
    with subprocess.Popen(slowly, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # a batch is on the disk
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    before = len(sampled.get_all_tuning_records())
    assert 1 <= before < 18
    subprocess.run(command, check=True, capture_output=True)
    records = sampled.get_all_tuning_records()
    assert len(records) == 18
    assert all(record.is_valid for record in records)


# --- use ----------------------------------------------------------------------------------------


def test_replaying_answers_with_what_was_measured(sampled: Dataset) -> None:
    measured(sampled)
    task = sampled.tasks()[0]
    runner = ReplayRunner(sampled)
    # The task of "two" is one of "one": what both have drawn counts once.
    drawn = {
        (r.workload.shash, r.extra["candidate_hash"]) for r in sampled.get_all_tuning_records()
    }
    assert len(runner) == len(drawn)
    for record in sampled.measurements(task):
        candidate = record.as_measure_candidate()
        inputs = RunnerInput("", "llvm", candidate.args_info, candidate=candidate)
        (future,) = runner.run([inputs])
        assert future.result().run_secs == record.run_secs


def test_tuning_with_recorded_measurements(sampled: Dataset) -> None:
    measured(sampled)
    task = sampled.tasks()[0]
    database = tune_tir(
        task.workload.mod, task.target, max_trials_global=4, runner="replay",
        database=sampled.database(), seed=1, console=False,
    )  # fmt: skip
    # The task of "two" is one of the tasks of "one".
    known = {
        r.extra["candidate_hash"] for each in sampled.tasks() for r in sampled.measurements(each)
    }
    found = [r for r in database.get_all_tuning_records() if r.is_valid]
    assert {record.extra["candidate_hash"] for record in found} <= known


def test_a_model_that_was_trained_before_knows_a_new_task(sampled: Dataset, tmp_path: Path) -> None:
    measured(sampled)
    path = tmp_path / "model.npz"
    model = pretrain(sampled, path=path)
    assert model.num_samples == 12
    again = load_pretrained(path)
    task = sampled.tasks()[0]
    candidates = [record.as_measure_candidate() for record in sampled.candidates(task)]
    context = TuneContext(task.workload.mod, target=task.target, num_threads=1)
    scores = again.predict(context, candidates)
    np.testing.assert_allclose(scores, model.predict(context, candidates))


def test_what_others_taught_counts_from_the_first_candidate(sampled: Dataset) -> None:
    """A task that was never seen is ranked by what is known of others, not by the prior."""
    for path in sampled.folder.glob("candidates/*/*"):
        path.unlink()
    one, two, *_ = sample_candidates(sampled.folder, 24, tell=quiet).tasks()
    records = sampled.candidates(one)
    candidates = [record.as_measure_candidate() for record in records] * 4
    others = TuneContext(one.workload.mod, target=one.target, num_threads=1)
    prior = AnalyticPrior().score(others, candidates)
    # What the prior likes best takes longest.
    slow = [RunnerResult((float(2.0**-cost),)) for cost in prior]
    model = new_model()
    model.update(others, candidates, slow)
    assert np.corrcoef(model.predict(others, candidates), prior)[0, 1] > 0
    context = TuneContext(two.workload.mod, target=two.target, num_threads=1)
    fresh = [record.as_measure_candidate() for record in sampled.candidates(two)]
    scores = model.predict(context, fresh)
    assert scores.std() > 0
    assert not np.allclose(scores, np.exp2(-AnalyticPrior().score(context, fresh)))


def test_what_is_held_out_is_not_learned(sampled: Dataset) -> None:
    measured(sampled)
    # The only task of "two" is a task of "one", which is left out there, too.
    assert pretrain(sampled, held_out=["two"]).num_samples == 6
    with pytest.raises(TuneError, match="there are no measurements in "):
        pretrain(sampled, held_out=["one"])


# --- bad input ----------------------------------------------------------------------------------


def refusal(call: Callable[[], object], kind: type[Exception] = TuneError) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_steps_out_of_order(tmp_path: Path) -> None:
    nowhere, empty = tmp_path / "nowhere", tmp_path / "empty"
    empty.mkdir()
    for step in (extract_dataset_tasks, sample_candidates, measure_candidates):
        assert refusal(lambda step=step: step(nowhere)) == (  # type: ignore[misc]
            f"there is no dataset in {nowhere}: it is not a folder"
        )
    assert refusal(lambda: extract_dataset_tasks(empty)) == (
        f"there are no models in {empty}: collect some first"
    )
    assert refusal(lambda: sample_candidates(empty)) == (
        f"there are no tasks in {empty}: extract them first"
    )
    assert refusal(lambda: measure_candidates(empty)) == (
        f"there are no candidates in {empty}: sample some first"
    )
    assert list(empty.iterdir()) == []


def test_a_model_that_is_none(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"nothing")
    folder = tmp_path / "data"
    said = refusal(lambda: collect_models(folder, [str(bad)]), GraphError)
    assert said.startswith(f"{bad} cannot be read as an ONNX model: ")
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_model_with_data_in_a_file_of_any_name(tmp_path: Path, make_model: MakeModel) -> None:
    import onnx

    make_model(tmp_path / "plain.onnx", (48, 64))
    model = onnx.load(str(tmp_path / "plain.onnx"))
    path = tmp_path / "net.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin")
    collect_models(tmp_path / "data", [str(path)], tell=quiet)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert refusal(lambda: collect_models(tmp_path / "data", [str(path)])) == (
        f"{path}: the dataset has another model of this name; give the file another one"
    )
    path.unlink()
    weights.unlink()
    assert len(extract_dataset_tasks(tmp_path / "data", tell=quiet).tasks()) == 1


def test_a_model_whose_data_is_outside_of_its_folder(tmp_path: Path, make_model: MakeModel) -> None:
    import onnx

    inner = tmp_path / "inner"
    inner.mkdir()
    make_model(tmp_path / "plain.onnx", (48, 64))
    model = onnx.load(str(tmp_path / "plain.onnx"))
    path = inner / "net.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin")
    outside = onnx.load(str(path), load_external_data=False)
    for entry in outside.graph.initializer[0].external_data:
        entry.value = "../plain.onnx" if entry.key == "location" else entry.value
    path.write_bytes(outside.SerializeToString())
    said = refusal(lambda: collect_models(tmp_path / "data", [str(path)]))
    assert said.startswith(f"{path}: its external data cannot be read: ")
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []


def test_a_second_model_of_the_same_name(tmp_path: Path, make_model: MakeModel) -> None:
    files = []
    for name, widths in (("a", (48, 64)), ("b", (32, 64))):
        (tmp_path / name).mkdir()
        files.append(tmp_path / name / "model.onnx")
        make_model(files[-1], widths)
    told: list[str] = []
    for _ in range(2):
        collect_models(tmp_path / "data", [str(files[0])], tell=told.append)
    assert told == ["model: 0.0 MB", "model: there already"]
    assert refusal(lambda: collect_models(tmp_path / "data", [str(files[1])])) == (
        f"{files[1]}: the dataset has another model of this name; give the file another one"
    )


def test_a_zoo_that_is_missing_or_fails(tmp_path: Path) -> None:
    folder, zoo = tmp_path / "data", tmp_path / "zoo.py"
    assert refusal(lambda: collect_models(folder, ["net"], zoo)) == (
        f"there is no model zoo at {zoo}; give its program, or ONNX files"
    )
    zoo.write_text("import pathlib, sys; pathlib.Path(sys.argv[1], 'net.onnx').touch(); 1 / 0")
    assert refusal(lambda: collect_models(folder, ["net"], zoo)) == (
        f"{zoo} cannot write net: ZeroDivisionError: division by zero"
    )
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_networks_of_a_zoo(tmp_path: Path, make_model: MakeModel) -> None:
    make_model(tmp_path / "made.onnx", (4, 8))
    zoo = tmp_path / "zoo.py"
    zoo.write_text(
        "import shutil, sys\n"
        f"for name in sys.argv[2:] or ['a', 'b']: shutil.copy({str(tmp_path / 'made.onnx')!r}, "
        "f'{sys.argv[1]}/{name}.onnx')\n"
    )
    told: list[str] = []
    collect_models(tmp_path / "data", ["a"], zoo, told.append)
    dataset = collect_models(tmp_path / "data", [], zoo, told.append)
    collect_models(tmp_path / "data", ["a"], zoo, told.append)
    assert [path.stem for path in dataset.model_files] == ["a", "b"]
    assert told == ["a: 0.0 MB", "b: 0.0 MB", "a: there already"]


def test_a_model_that_cannot_be_imported_is_skipped(tmp_path: Path, make_model: MakeModel) -> None:
    make_model(tmp_path / "good.onnx", (4, 8))
    make_model(tmp_path / "odd.onnx", (4, 8), unknown="NonZero")
    folder = tmp_path / "data"
    collect_models(folder, [str(tmp_path / "good.onnx"), str(tmp_path / "odd.onnx")], tell=print)
    told: list[str] = []
    dataset = extract_dataset_tasks(folder, tell=told.append)
    assert told[0] == "good: 1 task"
    assert told[1].startswith("odd: skipped: NonZero (NonZero_1) cannot be imported yet; ")
    assert dataset.models == ["good"]
    (folder / "models" / "good.onnx").unlink()
    assert refusal(lambda: extract_dataset_tasks(folder)) == "no model could be imported: odd"


def test_damaged_rows(sampled: Dataset) -> None:
    task = sampled.tasks()[0]
    path = sampled.candidates_file(task)
    path.write_text("{}\n")
    assert refusal(lambda: sampled.candidates(task), StoredDataError) == (
        f"{path}, row 1: KeyError('trace')"
    )
    path.write_text("[1]\n")
    assert refusal(lambda: sampled.candidates(task), StoredDataError) == (
        f"{path}, line 1: expected an object, got [1]"
    )
    path.write_text("{\n")
    assert refusal(lambda: sampled.candidates(task), StoredDataError).startswith(
        f"{path}, line 1: "
    )
    tasks = sampled.tasks_file("one")
    tasks.write_text(json.dumps({"task": "x", "target": {"kind": "abacus"}}) + "\n")
    assert refusal(sampled.tasks, StoredDataError) == "task 'x' has a target that is not known"


def test_options_that_make_no_sense(sampled: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(lambda: MeasureOptions("json")) == (
        "there is no format 'json'; did you mean 'jsonl'?"
    )
    assert refusal(lambda: MeasureOptions(batch_size=0)) == "batch_size must be at least 1, got 0"
    assert refusal(lambda: sample_candidates(sampled.folder, 0)) == (
        "num_samples_per_task must be at least 1, got 0"
    )
    assert refusal(lambda: sampled.tasks(["on"])) == (
        "the dataset has no model 'on'; did you mean 'one'?"
    )
    assert refusal(lambda: pretrain(sampled, ["three"])) == (
        "the dataset has no model 'three' to hold out"
    )
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refusal(lambda: MeasureOptions("parquet")) == (
        "Parquet files need the package pyarrow: pip install pyarrow, or use jsonl"
    )

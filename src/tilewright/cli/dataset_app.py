"""`tilewright dataset`: the commands; their work is in `dataset.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import (
    DimOption,
    LayoutOption,
    TargetOption,
    argument,
    option,
    work_of,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Make datasets of measured candidates; each step goes on where it was stopped.",
)
FolderArgument = Annotated[Path, argument("FOLDER", "Where the dataset is, or is to be.")]
ModelsOption = Annotated[list[str] | None, option("--model NAME", "Only the tasks of this model.")]


@app.command("collect-models")
def collect_models(
    folder: FolderArgument,
    models: Annotated[
        list[str] | None,
        argument("[MODEL]...", "FILE.onnx, or networks of the zoo by name; none: all."),
    ] = None,
    zoo: Annotated[
        Path | None, option("--zoo FILE", "The program that writes networks by name as ONNX.")
    ] = None,
) -> None:
    """Put models of ONNX into the folder."""
    work_of("dataset").collect(folder, models or [], zoo)


@app.command("extract-tasks")
def extract_tasks(
    folder: FolderArgument,
    target: TargetOption = "llvm",
    dim: DimOption = None,
    layout: LayoutOption = None,
) -> None:
    """List the tasks of each model."""
    work_of("dataset").extract(folder, target, dim, layout)


@app.command("sample-candidates")
def sample_candidates(
    folder: FolderArgument,
    samples: Annotated[int, option("--num-samples-per-task N", "Candidates of each task.")] = 64,
    model: ModelsOption = None,
    seed: Annotated[int, option("--seed N", "Seed of all random choices.")] = 0,
) -> None:
    """Draw random candidates of each task."""
    work_of("dataset").sample(folder, samples, model, seed)


@app.command()
def measure(
    folder: FolderArgument,
    model: ModelsOption = None,
    format: Annotated[
        str, option("--format FORMAT", "jsonl, or parquet (needs pyarrow).")
    ] = "jsonl",
    batch_size: Annotated[
        int, option("--batch-size N", "Candidates between writes to the disk.")
    ] = 16,
) -> None:
    """Measure candidates on this machine."""
    work_of("dataset").measure(folder, model, format, batch_size)


@app.command()
def train(
    folder: FolderArgument,
    output: Annotated[Path, option("--output -o FILE", "Where to write.")],
    hold_out: Annotated[
        list[str] | None, option("--hold-out NAME", "A model to leave out of the training.")
    ] = None,
) -> None:
    """Train a cost model on the measurements, for tasks that are not among them."""
    work_of("dataset").train(folder, output, hold_out)

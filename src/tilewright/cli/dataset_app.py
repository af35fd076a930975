"""`tilewright dataset`: the commands; their work is in `dataset.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import DimOption, LayoutOption, TargetOption, work_of

app = typer.Typer(
    no_args_is_help=True,
    help="Make datasets of measured candidates; each step goes on where it was stopped.",
)
FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where the dataset is, or is to be.")
]
ModelsOption = Annotated[
    list[str] | None, typer.Option("--model", metavar="NAME", help="Only the tasks of this model.")
]


@app.command("collect-models")
def collect_models(
    folder: FolderArgument,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...", help="FILE.onnx, or networks of the zoo by name; none: all."
        ),
    ] = None,
    zoo: Annotated[
        Path | None,
        typer.Option(
            "--zoo", metavar="FILE", help="The program that writes networks by name as ONNX."
        ),
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
    samples: Annotated[
        int, typer.Option("--num-samples-per-task", metavar="N", help="Candidates of each task.")
    ] = 64,
    model: ModelsOption = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of all random choices.")
    ] = 0,
) -> None:
    """Draw random candidates of each task."""
    work_of("dataset").sample(folder, samples, model, seed)


@app.command()
def measure(
    folder: FolderArgument,
    model: ModelsOption = None,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="jsonl, or parquet (needs pyarrow).")
    ] = "jsonl",
    batch_size: Annotated[
        int,
        typer.Option("--batch-size", metavar="N", help="Candidates between writes to the disk."),
    ] = 16,
) -> None:
    """Measure candidates on this machine."""
    work_of("dataset").measure(folder, model, format, batch_size)


@app.command()
def train(
    folder: FolderArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")],
    hold_out: Annotated[
        list[str] | None,
        typer.Option("--hold-out", metavar="NAME", help="A model to leave out of the training."),
    ] = None,
) -> None:
    """Train a cost model on the measurements, for tasks that are not among them."""
    work_of("dataset").train(folder, output, hold_out)

"""The work of `tilewright dataset`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from tilewright import dataset
from tilewright.cli.models import parse_options
from tilewright.dataset.collect import ZOO
from tilewright.dataset.measuring import MeasureOptions
from tilewright.support.text import counted


def collect(folder: Path, models: Sequence[str], zoo: Path | None) -> None:
    """`collect-models`."""
    dataset.collect_models(folder, models, ZOO if zoo is None else zoo, typer.echo)


def extract(folder: Path, target: str, dims: Sequence[str] | None, layout: str | None) -> None:
    """`extract-tasks`."""
    sizes = parse_options(dims, None, layout).dims
    dataset.extract_dataset_tasks(folder, target, sizes, layout, typer.echo)


def sample(folder: Path, samples: int, models: Sequence[str] | None, seed: int) -> None:
    """`sample-candidates`."""
    dataset.sample_candidates(folder, samples, models, seed, typer.echo)


def measure(folder: Path, models: Sequence[str] | None, format: str, batch_size: int) -> None:
    """`measure`."""
    options = MeasureOptions(format, batch_size)
    dataset.measure_candidates(folder, models, options, typer.echo)


def train(folder: Path, output: Path, held_out: Sequence[str] | None) -> None:
    """`train`."""
    model = dataset.pretrain(dataset.Dataset(folder), held_out or (), output)
    typer.echo(f"{output}: trained on {counted(model.num_samples, 'measurement')}")

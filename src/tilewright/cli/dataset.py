"""The work of `tilewright dataset`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from tilewright.cli.models import parse_options
from tilewright.dataset import (
    Dataset,
    collect_models,
    extract_dataset_tasks,
    measure_candidates,
    pretrain,
    sample_candidates,
)
from tilewright.dataset.collect import ZOO
from tilewright.dataset.measuring import MeasureOptions
from tilewright.support.text import counted


def collect(folder: Path, models: Sequence[str], zoo: Path | None) -> None:
    """`collect-models`."""
    collect_models(folder, models, ZOO if zoo is None else zoo, typer.echo)


def extract(folder: Path, target: str, dims: Sequence[str] | None, layout: str | None) -> None:
    """`extract-tasks`."""
    sizes = parse_options(dims, None, layout).dims
    extract_dataset_tasks(folder, target, sizes, layout, typer.echo)


def sample(folder: Path, samples: int, models: Sequence[str] | None, seed: int) -> None:
    """`sample-candidates`."""
    sample_candidates(folder, samples, models, seed, typer.echo)


def measure(folder: Path, models: Sequence[str] | None, format: str, batch_size: int) -> None:
    """`measure`."""
    options = MeasureOptions(format, batch_size)
    measure_candidates(folder, models, options, typer.echo)


def train(folder: Path, output: Path, held_out: Sequence[str] | None) -> None:
    """`train`."""
    model = pretrain(Dataset(folder), held_out or (), output)
    typer.echo(f"{output}: trained on {counted(model.num_samples, 'measurement')}")

"""Measure the candidates of a dataset: TVM's script of this name, on this machine alone.

    python -m tilewright.meta_schedule.testing.distributed_measure_candidates \
        --candidate_cache_dir FOLDER --result_cache_dir FOLDER [--batch_size 128]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.dataset import measure_candidates
from tilewright.dataset.measuring import MeasureOptions
from tilewright.meta_schedule.testing.script_options import dataset_step


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the candidates that have no measurement yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch_size", type=int, default=128)
    folders = ("candidate_cache_dir", "result_cache_dir")
    return dataset_step(parser, arguments, folders, _measure)


def _measure(folder: Path, batch_size: int) -> None:
    measure_candidates(folder, options=MeasureOptions(batch_size=batch_size))


if __name__ == "__main__":
    sys.exit(main())

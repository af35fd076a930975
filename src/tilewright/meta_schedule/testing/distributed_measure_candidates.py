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
from tilewright.meta_schedule.testing.script_options import same_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the candidates that have no measurement yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidate_cache_dir", type=Path, required=True)
    parser.add_argument("--result_cache_dir", type=Path, required=True)
    parser.add_argument("--batch_size", type=int, default=128)
    options = parser.parse_args(arguments)
    folder = same_folder([options.candidate_cache_dir, options.result_cache_dir])
    measure_candidates(folder, options=MeasureOptions(batch_size=options.batch_size))
    return 0


if __name__ == "__main__":
    sys.exit(main())

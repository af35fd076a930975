"""Draw candidates of the tasks of a dataset: TVM's script of this name.

    python -m tilewright.meta_schedule.testing.dataset_sample_candidates \
        --task_cache_dir FOLDER --candidate_cache_dir FOLDER [--num_samples_per_task 400]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.dataset import sample_candidates
from tilewright.meta_schedule.testing.script_options import same_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Write candidates of tasks that have none yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task_cache_dir", type=Path, required=True)
    parser.add_argument("--candidate_cache_dir", type=Path, required=True)
    parser.add_argument("--num_samples_per_task", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    folder = same_folder([options.task_cache_dir, options.candidate_cache_dir])
    sample_candidates(folder, options.num_samples_per_task, seed=options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Draw candidates of the tasks of a dataset: TVM's script of this name.

    python -m tilewright.meta_schedule.testing.dataset_sample_candidates \
        --task_cache_dir FOLDER --candidate_cache_dir FOLDER [--num_samples_per_task 400]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.dataset import sample_candidates
from tilewright.meta_schedule.testing.script_options import dataset_step


def main(arguments: Sequence[str] | None = None) -> int:
    """Write candidates of tasks that have none yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num_samples_per_task", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    folders = ("task_cache_dir", "candidate_cache_dir")
    return dataset_step(parser, arguments, folders, sample_candidates)


if __name__ == "__main__":
    sys.exit(main())

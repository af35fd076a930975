"""List the tasks of the models of a dataset: TVM's script of this name.

    python -m tilewright.meta_schedule.testing.dataset_extract_tasks \
        --model_cache_dir FOLDER --task_cache_dir FOLDER [--target llvm] [--layout nchw]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.dataset import extract_dataset_tasks
from tilewright.meta_schedule.testing.script_options import same_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tasks of models that have none yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_cache_dir", type=Path, required=True)
    parser.add_argument("--task_cache_dir", type=Path, required=True)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--layout")
    options = parser.parse_args(arguments)
    folder = same_folder([options.model_cache_dir, options.task_cache_dir])
    extract_dataset_tasks(folder, options.target, layout=options.layout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""List the tasks of the models of a dataset: TVM's script of this name.

    python -m tilewright.meta_schedule.testing.dataset_extract_tasks \
        --model_cache_dir FOLDER --task_cache_dir FOLDER [--target llvm] [--layout nchw]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.dataset import extract_dataset_tasks
from tilewright.meta_schedule.testing.script_options import dataset_step


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tasks of models that have none yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--layout")
    folders = ("model_cache_dir", "task_cache_dir")
    return dataset_step(parser, arguments, folders, extract_dataset_tasks)


if __name__ == "__main__":
    sys.exit(main())

"""Put models into the folder of a dataset: TVM's script of this name.

python -m tilewright.meta_schedule.testing.dataset_collect_models --model_cache_dir FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.dataset import collect_models
from tilewright.dataset.collect import ZOO


def main(arguments: Sequence[str] | None = None) -> int:
    """Files of ONNX, and networks of a zoo by name; without any, all of the zoo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_cache_dir", type=Path, required=True)
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args(arguments)
    collect_models(options.model_cache_dir, options.models, options.zoo)
    return 0


if __name__ == "__main__":
    sys.exit(main())

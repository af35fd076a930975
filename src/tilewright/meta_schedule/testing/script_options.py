"""Options that TVM's tuning scripts share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import TuneError
from tilewright.measure import LocalRunner
from tilewright.measure.evaluator import EvaluatorConfig


def tuning_parser(description: str) -> argparse.ArgumentParser:
    """A parser with what all of them have.

    Programs are measured on this machine: the options of a tracker are accepted, and not used.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--num-trials", type=int, required=True)
    parser.add_argument("--work-dir", type=Path, required=True)
    parser.add_argument("--rpc-host", help="not used")
    parser.add_argument("--rpc-port", type=int, help="not used")
    parser.add_argument("--rpc-key", help="not used")
    parser.add_argument("--number", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--min-repeat-ms", type=int, default=100)
    parser.add_argument("--adaptive-training", type=yes_or_no, default=True, help="not used")
    parser.add_argument("--cpu-flush", type=yes_or_no, default=False)
    return parser


def yes_or_no(text: str) -> bool:
    """`True`, `1` or `yes`, and their opposites."""
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return known[text.lower()]


def runner_of(options: argparse.Namespace) -> LocalRunner:
    """A runner that measures as the options say."""
    return LocalRunner(
        evaluator_config=EvaluatorConfig(
            number=options.number,
            repeat=options.repeat,
            min_repeat_ms=options.min_repeat_ms,
            enable_cpu_cache_flush=options.cpu_flush,
        )
    )


def input_infos(text: str) -> list[dict[str, Any]]:
    """`[{"name": "x", "dtype": "float32", "shape": [1, 3, 224, 224]}]`."""
    try:
        infos = json.loads(text)
        return [
            {
                "name": str(i["name"]),
                "dtype": str(i["dtype"]),
                "shape": [int(n) for n in i["shape"]],
            }
            for i in infos
        ]
    except (ValueError, KeyError, TypeError):
        raise TuneError(
            f"--input-shape {text}: expected JSON such as "
            '[{"name": "x", "dtype": "float32", "shape": [1, 3, 224, 224]}]'
        ) from None


def dataset_step(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    folders: Sequence[str],
    step: Callable[..., object],
) -> int:
    """Take a step of a dataset: `folders` are options, all for the one folder of the dataset."""
    for name in folders:
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = vars(parser.parse_args(arguments))
    given = [options.pop(name) for name in folders]
    if len(set(given)) != 1:
        raise TuneError(
            "the steps of a dataset share one folder; got " + " and ".join(map(str, given))
        )
    step(given[0], **options)
    return 0

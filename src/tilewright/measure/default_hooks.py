"""The default hooks of the local builder and runner, for hooks of one's own that add to them.

`default_build` is in `build_task`. Arrays are made of what the runner hands to hooks: arguments
as `["TENSOR", dtype, shape]`.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.measure.arguments import TensorSpec, random_values
from tilewright.measure.artifact import SUFFIX, write_artifact
from tilewright.measure.evaluator import EvaluatorConfig, evaluate_as_tvm
from tilewright.measure.tolerance import Rounding
from tilewright.runtime import ndarray
from tilewright.runtime.devices import Device
from tilewright.runtime.module import Module
from tilewright.runtime.ndarray import NDArray

Infos = Sequence[tuple[str, str, Sequence[int]]]  # ("TENSOR", dtype, shape) each


def default_export(mod: Module) -> str:
    """Write a compiled module into a folder of its own; the path of the file."""
    path = Path(tempfile.mkdtemp(prefix="tilewright-candidate-")) / f"candidate{SUFFIX}"
    write_artifact(path, mod, Rounding())
    return str(path)


def default_alloc_argument(
    device: Device, args_info: Infos, alloc_repeat: int
) -> list[list[NDArray]]:
    """`alloc_repeat` sets of arrays with random contents."""
    rng = np.random.default_rng(secrets.randbits(64))
    specs = [TensorSpec(dtype, tuple(shape)) for _, dtype, shape in args_info]
    return [
        [ndarray.array(random_values(spec, rng), device) for spec in specs]
        for _ in range(alloc_repeat)
    ]


def default_run_evaluator(
    rt_mod: Module,
    device: object,
    evaluator_config: EvaluatorConfig,
    repeated_args: Sequence[Sequence[object]],
) -> list[float]:
    """Run times in seconds, `repeat` of them for each set of arguments."""
    return evaluate_as_tvm(rt_mod[rt_mod.entry_name], repeated_args, evaluator_config)


def default_cleanup() -> None:
    """Nothing is left behind."""

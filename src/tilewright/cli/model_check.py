"""`tilewright check MODEL`: its results against the original's, layer by layer where they part."""

from __future__ import annotations

import numpy as np

from tilewright.cli.console import make_console, print_json
from tilewright.cli.model_build import compiled
from tilewright.cli.models import ModelOptions, load_model
from tilewright.cli.options import runnable_target
from tilewright.cli.originals import difference, largest_gap, original_of, tolerance_of
from tilewright.graph.graph import Array
from tilewright.model.finals import random_inputs

DIFFERENT = 1


def run(
    text: str, options: ModelOptions, db: str | None, target_text: str, *, as_json: bool
) -> int:
    """Compare outputs for random inputs; the exit status is 1 if they differ."""
    model, target = load_model(text, options), runnable_target(target_text)
    original, executable = original_of(model, target), compiled(model, target, db)
    inputs = random_inputs(model.graph)
    wanted, found = original.run(inputs), executable(*inputs)
    wrong = difference(wanted, found)
    lines = [
        f"output {value}: {_gap(want, have)}"
        for value, want, have in zip(model.graph.outputs, wanted, found, strict=False)
    ]
    if original.note:
        lines.insert(0, original.note)
    if as_json:
        print_json({"model": model.name, "original": original.name, "difference": wrong or None})
    else:
        verdict = (
            f"differs from {original.name}: {wrong}" if wrong else f"agrees with {original.name}"
        )
        make_console().print("\n".join([*lines, f"{model.name} {verdict}"]), markup=False)
    return DIFFERENT if wrong else 0


def _gap(want: Array, have: Array) -> str:
    if np.shape(want) != np.shape(have):
        return "another shape"
    if np.asarray(want).dtype.kind in "iub":
        return f"{int(np.count_nonzero(want != have))} of {np.size(want)} elements differ"
    return f"largest difference {largest_gap(want, have):.2g}, {tolerance_of(want):.2g} is rounding"

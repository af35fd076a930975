"""`tilewright check MODEL`: its results against the original's, layer by layer where they part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.cli.console import make_console, print_json
from tilewright.cli.model_build import compiled
from tilewright.cli.models import Model, ModelOptions, load_model
from tilewright.cli.options import runnable_target
from tilewright.cli.originals import (
    ONNXRUNTIME,
    Original,
    difference,
    layers_in_onnxruntime,
    original_of,
    tolerance_of,
)
from tilewright.graph.graph import Array
from tilewright.model import CompiledModel
from tilewright.model.checking import difference as share_of_largest
from tilewright.model.compiled import results_of
from tilewright.model.finals import random_inputs

DIFFERENT = 1


def run(
    text: str, options: ModelOptions, db: str | None, target_text: str, *, as_json: bool
) -> int:
    """Compare outputs for random inputs; the exit status is 1 if they differ."""
    model, target = load_model(text, options), runnable_target(target_text)
    original, executable = original_of(model, target), compiled(model, target, db)
    inputs = random_inputs(model.graph)
    wanted, found = original.run(inputs), results_of(executable, inputs)
    wrong = difference(wanted, found)
    where = _where(model, original, executable, inputs) if wrong else ""
    if as_json:
        told = {"difference": wrong or None, "where": where or None}
        print_json({"model": model.name, "original": original.name, **told})
        return DIFFERENT if wrong else 0
    lines = [original.note] if original.note else []
    lines += [
        f"output {name}: {value.type}: {_gap(want, have)}"
        for (name, value), want, have in zip(model.graph.named_outputs, wanted, found, strict=False)
    ]
    lines.append(
        f"{model.name} differs from {original.name}: {wrong}\n{where}"
        if wrong
        else f"{model.name} agrees with {original.name}"
    )
    make_console().print("\n".join(lines))
    return DIFFERENT if wrong else 0


def _where(
    model: Model, original: Original, executable: CompiledModel, inputs: Sequence[Array]
) -> str:
    """The first operator that differs, kernel by kernel and layer by layer."""
    reference = layers_in_onnxruntime(model) if original.name == ONNXRUNTIME else None
    report = executable.check(model.graph, *inputs, reference=reference)
    if report.is_right:
        return f"all kernels are right for the imported graph: {original.name} computes another one"
    return str(report)


def _gap(want: Array, have: Array) -> str:
    want, have = np.asarray(want), np.asarray(have)
    if want.shape != have.shape:
        return "another shape"
    if want.dtype.kind in "iub":
        return f"{int(np.count_nonzero(want != have))} of {want.size} elements differ"
    gap = share_of_largest(have, want)
    return f"differs by {gap:.2g} of its largest element, {tolerance_of(want):.2g} is rounding"

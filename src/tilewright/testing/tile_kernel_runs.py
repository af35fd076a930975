"""Tile kernels lowered for a target, changed call by call, and run on the emulator."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import ir, te, topi
from tilewright.ir.annotation_keys import TILE_STAGES
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing.gpu_lowering import Arrays, drafts_of, lower_for_gpu, random_arrays
from tilewright.testing.simt import run
from tilewright.testing.space_generation import SpaceTask, generate_design_space
from tilewright.testing.tile_programs import product_tensors


def ordered_product(
    sizes: tuple[int, int, int], dtypes: Sequence[str], order: str = "nn", bias: bool = False
) -> ir.PrimFunc:
    """A product of m x k and k x n; the types of operands (one or both), sums and results.

    `order` has a `t` for an operand that is stored the other way round. With `bias`, a value for
    each column is added, and what is negative becomes zero.
    """
    (m, n, _), (*_, sums, result) = sizes, dtypes
    names = ("left", "right", "product")
    left, right, out = product_tensors(sizes, dtypes[:-1], order, names=names)
    shift = te.placeholder((n,), sums, name="shift")
    if bias:
        added = te.compute((m, n), lambda i, j: out[i, j] + shift[j], name="biased")
        out = topi.nn.relu(added)
    if result != sums:
        wide = out
        out = te.compute((m, n), lambda i, j: wide[i, j].astype(result), name="result")
    return te.create_prim_func([left, right, *([shift] if bias else []), out])


def hopper(processors: int = 132) -> Target:
    """An H200 with fewer processors."""
    described = Target("nvidia/nvidia-h200").export()
    return Target({**described, "multi_processor_count": processors})


def tile_kernel(
    func: ir.PrimFunc,
    target: Target,
    sketch: int = -1,
    rule: str = "WarpGroupTiling",
    annotations: Mapping[str, int] | None = None,
) -> ir.IRModule:
    """The lowered program for one of the sketches of a rule; the last has the smallest tiles.

    `rule` may have several names; `annotations` are added to those of its loop over tiles, or
    replace them.
    """
    module, kind = ir.IRModule({"main": func}), "cuda-kernels"
    rules = [schedule_rules.create(name) for name in rule.split()]
    sketches = generate_design_space(kind, module, target, sch_rules=rules, seed=1)
    number = sketch if sketch >= 0 else -1 - sketch  # counted from the end
    task = SpaceTask(module, target)
    drafts = (
        draft
        for each in (sketches if sketch >= 0 else reversed(sketches))
        for draft in itertools.islice(drafts_of(each, task, kind, range(3)), 1)
    )
    found = [*itertools.islice(drafts, number + 1)]
    chosen = found[number % len(found)].mod["main"]
    return lower_for_gpu(_annotated(chosen, annotations or {}), str(target))


def _annotated(func: ir.PrimFunc, annotations: Mapping[str, int]) -> ir.PrimFunc:
    def loop(node: ir.For) -> ir.For:
        if TILE_STAGES not in node.annotations:
            return node
        return ir.updated(node, annotations={**node.annotations, **annotations})

    return ir.rewrite(func, {ir.For: loop})


def with_calls(
    module: ir.IRModule, name: str, change: Callable[[ir.Call, int], ir.Call | None]
) -> ir.IRModule:
    """A module whose calls of a device function are changed, or left out, one by one."""
    count = 0

    def evaluate(node: ir.Evaluate) -> ir.Evaluate:
        nonlocal count
        if not isinstance(node.value, ir.Call) or name not in str(node.value):
            return node
        changed = change(node.value, count)
        count += 1
        return ir.Evaluate(ir.const(0) if changed is None else changed)

    functions = {
        key: ir.rewrite(func, {ir.Evaluate: evaluate}) for key, func in module.functions.items()
    }
    assert count, f"no call of {name} in the program"
    return ir.IRModule(functions)


def results(func: ir.PrimFunc, module: ir.IRModule, seed: int = 0) -> tuple[Any, Arrays]:
    """The array that a lowered program writes, and those that it reads in float64."""
    arrays = random_arrays(func)
    run(module, arrays, seed=seed)
    return arrays[-1].astype(np.float64), [each.astype(np.float64) for each in arrays[:-1]]


def convolved(image: Any, weight: Any, stride: int, pad: int, dilation: int = 1) -> Any:
    """The convolution of an NHWC image with an RSCK filter."""
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taps_down, taps_across = weight.shape[:2]
    rows = (padded.shape[1] - dilation * (taps_down - 1) - 1) // stride + 1
    columns = (padded.shape[2] - dilation * (taps_across - 1) - 1) // stride + 1
    found = np.zeros((len(image), rows, columns, weight.shape[3]))
    for r, s in np.ndindex(taps_down, taps_across):
        y, x = r * dilation, s * dilation
        part = padded[:, y : y + stride * rows : stride, x : x + stride * columns : stride]
        found += part[:, :rows, :columns] @ weight[r, s]
    return found

"""Features of programs that nobody chose: always numbers, read from the right elements."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.arith import Analyzer
from tilewright.features import PerStoreFeature
from tilewright.features.stores import StoreReader
from tilewright.ir import (
    INT32,
    BufferStore,
    FloatImm,
    For,
    IntImm,
    Node,
    PrimExpr,
    PrimFunc,
    Var,
    const,
    pre_order_visit,
    substitute,
)
from tilewright.lowering.convert_blocks_to_opaque import ConvertBlocksToOpaque
from tilewright.lowering.lower_init_block import LowerInitBlock
from tilewright.nest.reading import read as read_nests
from tilewright.testing.schedule_fuzzer import apply_random_steps


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_have_features(seed: int) -> None:
    _, sch, _ = apply_random_steps(seed, None)
    extractor = PerStoreFeature()
    rows = extractor.extract(sch.mod, is_gpu=False)
    assert rows.shape[1] == extractor.feature_vector_length
    assert np.isfinite(rows).all()
    assert (rows >= 0).all()
    flags = [place for place, name in enumerate(extractor.column_names) if ".k" in name]
    assert set(np.unique(rows[:, flags])) <= {0.0, 1.0}


def stores_and_loops(func: PrimFunc) -> tuple[list[BufferStore], dict[Var, int]]:
    """The stores of a function over loop variables, and how far the loops run."""
    stores: list[BufferStore] = []
    extents: dict[Var, int] = {}

    def note(node: Node) -> bool:
        if isinstance(node, BufferStore) and not isinstance(node.value, (IntImm, FloatImm)):
            stores.append(node)
        if isinstance(node, For):
            # One that depends on other loops is looked at where it starts.
            extents[node.loop_var] = node.extent.value if isinstance(node.extent, IntImm) else 1
        return True

    opaque = ConvertBlocksToOpaque().run_function(LowerInitBlock().run_function(func))
    pre_order_visit(opaque.body, note)
    return stores, extents


def value_of(expr: PrimExpr, point: dict[Var, PrimExpr]) -> int:
    value = Analyzer().simplify(substitute(expr, point))
    assert isinstance(value, IntImm)
    return value.value


@pytest.mark.parametrize("seed", range(40))
def test_stores_write_where_the_program_does(seed: int) -> None:
    _, sch, _ = apply_random_steps(seed, None)
    (func,) = sch.mod.functions.values()
    stores, extents = stores_and_loops(func)
    read = StoreReader(read_nests(func)).stores
    if len(read) != len(stores):
        pytest.skip("a value is always the same constant, or a branch never runs")
    rng = random.Random(seed)
    for _ in range(3):
        point: dict[Var, PrimExpr] = {
            var: const(rng.randrange(extent)) for var, extent in extents.items()
        }
        for store, written in zip(stores, read, strict=True):
            if written.buffer is not store.buffer:
                continue  # written through a view
            for index, affine in zip(store.indices, written.indices, strict=True):
                assert value_of(affine.expr(INT32), point) == value_of(index, point)

"""Rows that TVM 0.25 computed for candidates of its own, sampled from the spaces of the workloads.

`tests/differential` asks TVM for new ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.features import PerStoreFeature
from tilewright.features.per_store import workload_embedding
from tilewright.ir import IRModule
from tilewright.script import from_source

ROWS: dict[str, Any] = json.loads((Path(__file__).parent / "tvm_rows.json").read_text("utf-8"))


@pytest.mark.parametrize("name", ROWS)
def test_same_rows_as_tvm(name: str) -> None:
    known = ROWS[name]
    mod = from_source(known["program"])
    assert isinstance(mod, IRModule)
    extractor = PerStoreFeature(extract_workload=True)
    rows = extractor.extract(mod, known["target"] == "cuda", workload_embedding(mod))
    expected = np.array(known["rows"])
    assert rows.shape == expected.shape
    for row, column in np.argwhere(~np.isclose(rows, expected, rtol=1e-5, atol=1e-5)):
        what = extractor.column_names[column]
        pytest.fail(f"row {row}, {what}: {rows[row, column]}, TVM has {expected[row, column]}")

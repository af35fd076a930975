"""Features of candidates that TVM samples for the workloads equal those that TVM extracts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.features import PerStoreFeature
from tilewright.features.per_store import workload_embedding
from tilewright.ir import IRModule
from tilewright.script import from_source
from tilewright.testing.te_workload import CONFIGS, create_te_workload
from tilewright.testing.tvm_process import answers_of

HERE = Path(__file__).parent
# Of these, so many candidates may differ: our simplifier finds shorter forms of some of their
# indices, `(f % 8 * 8 + i * 4 + j) // 16` is `f % 8 // 2`, which changes counts and extents.
MAY_DIFFER = {"GRP": 1, "C2D_WIN_NCHW": 1}
WORKLOADS = sorted(CONFIGS)

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def theirs(tvm_python: Path) -> dict[str, Any]:
    programs = {
        name: IRModule({"main": create_te_workload(name, 0)}).script() for name in WORKLOADS
    }
    answers = answers_of(tvm_python, str(HERE / "tvm_features_side.py"), asked=programs)
    return {answer["name"]: answer["candidates"] for answer in answers}


@pytest.mark.parametrize("name", WORKLOADS)
def test_same_features(name: str, theirs: dict[str, Any]) -> None:
    extractor = PerStoreFeature(extract_workload=True)
    assert len(theirs[name]) >= 3
    different = []
    for candidate in theirs[name]:
        mod = from_source(candidate["program"])
        assert isinstance(mod, IRModule)
        rows = extractor.extract(mod, is_gpu=False, embedding=workload_embedding(mod))
        try:
            np.testing.assert_allclose(rows, candidate["rows"], rtol=1e-5, atol=1e-5)
        except AssertionError as error:
            different.append(str(error))
    assert len(different) <= MAY_DIFFER.get(name, 0), "\n".join(different)

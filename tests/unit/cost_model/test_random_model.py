"""Scores that mean nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.cost_model import GBDTModel, RandomModel
from tilewright.errors import TuneError
from tilewright.testing.conformance.candidates import matmul_candidates, matmul_context

CONTEXT, CANDIDATES = matmul_context(), matmul_candidates(3)


def test_the_task_gives_the_seed_unless_there_is_one() -> None:
    first, second, seeded = RandomModel(), RandomModel(seed=1), RandomModel(seed=8)
    for model in (first, second, seeded):
        model._initialize_with_tune_context(CONTEXT)  # whose seed is 1
    scores = first.predict(CONTEXT, CANDIDATES)
    np.testing.assert_array_equal(scores, second.predict(CONTEXT, CANDIDATES))
    assert not np.allclose(scores, seeded.predict(CONTEXT, CANDIDATES))
    assert ((scores >= 0) & (scores < 100)).all()
    assert (RandomModel(seed=3, max_range=1).predict(CONTEXT, CANDIDATES) < 1).all()


def test_it_goes_on_from_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "random")
    model = RandomModel(seed=5)
    model.predict(CONTEXT, CANDIDATES)
    model.save(path)
    again = RandomModel(path=path)
    again._initialize_with_tune_context(CONTEXT)
    np.testing.assert_array_equal(
        model.predict(CONTEXT, CANDIDATES), again.predict(CONTEXT, CANDIDATES)
    )
    with pytest.raises(TuneError) as error:
        GBDTModel().load(path)
    assert str(error.value) == f"{path} holds a cost model of another kind: random"

"""Checks that every cost model must pass; each takes a function that makes one, and a folder.

from tilewright.testing.conformance import cost_model

@pytest.mark.parametrize("check", cost_model.CHECKS)
def test_conformance(check, tmp_path):
    check(MyModel, tmp_path)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tilewright.cost_model.base import CostModel
from tilewright.records import FailureKind, RunnerResult
from tilewright.testing.conformance.candidates import (
    made_up_results,
    matmul_candidates,
    matmul_context,
)

MakeModel = Callable[[], CostModel]
_NEW_SEED = 500


def _trained(make: MakeModel) -> CostModel:
    model, candidates = make(), matmul_candidates(24)
    model._initialize_with_tune_context(matmul_context())
    model.update(matmul_context(), candidates, made_up_results(candidates))
    return model


def check_one_score_each(make: MakeModel, folder: Path) -> None:
    """A finite score for each candidate, before and after learning; none for none."""
    context, candidates = matmul_context(), matmul_candidates(3)
    for model in (make(), _trained(make)):
        model._initialize_with_tune_context(context)
        scores = model.predict(context, candidates)
        assert scores.shape == (3,)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert model.predict(context, []).shape == (0,)


def check_equal_members_agree(make: MakeModel, folder: Path) -> None:
    """The same settings and measurements give the same scores; so does a clone."""
    context, new = matmul_context(), matmul_candidates(5, _NEW_SEED)
    first, second = _trained(make), _trained(make)
    copied = first.clone()
    scores = first.predict(context, new)
    np.testing.assert_array_equal(scores, second.predict(context, new))
    np.testing.assert_array_equal(scores, copied.predict(context, new))


def check_a_clone_learns_on_its_own(make: MakeModel, folder: Path) -> None:
    """What a clone learns does not reach the original."""
    context, new = matmul_context(), matmul_candidates(5, _NEW_SEED)
    model, untouched = _trained(make), _trained(make)
    candidates = matmul_candidates(24, _NEW_SEED)
    model.clone().update(context, candidates, made_up_results(candidates))
    np.testing.assert_array_equal(model.predict(context, new), untouched.predict(context, new))


def check_save_and_load(make: MakeModel, folder: Path) -> None:
    """A model that was saved goes on where it was, also in learning."""
    context, new = matmul_context(), matmul_candidates(6, _NEW_SEED)
    path = folder / "model.bin"
    model, other = _trained(make), make()
    model.save(str(path))
    assert [item.name for item in folder.iterdir()] == ["model.bin"]
    other.load(str(path))
    np.testing.assert_allclose(model.predict(context, new), other.predict(context, new))
    results = made_up_results(new)
    for member in (model, other):
        member.update(context, new, results)
    np.testing.assert_allclose(model.predict(context, new), other.predict(context, new))


def check_empty_and_failed_updates(make: MakeModel, folder: Path) -> None:
    """No candidates, or only failed ones, are no reason to fail."""
    context, candidates = matmul_context(), matmul_candidates(3)
    model = make()
    model.update(context, [], [])
    failed = RunnerResult(None, "made up", FailureKind.TIMEOUT)
    model.update(context, candidates, [failed] * 3)
    assert np.isfinite(model.predict(context, candidates)).all()


Check = Callable[[MakeModel, Path], None]
CHECKS: tuple[Check, ...] = (
    check_one_score_each,
    check_equal_members_agree,
    check_a_clone_learns_on_its_own,
    check_save_and_load,
    check_empty_and_failed_updates,
)

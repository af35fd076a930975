"""`RemoveBuildArtifact`: compiled candidates go once they were measured."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult
from tilewright.tune.callbacks.base import MeasureCallback, measure_callbacks


@measure_callbacks.register("remove-build-artifact")
class RemoveBuildArtifact(MeasureCallback):
    """Removes the folder of every artefact, if it is one."""

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        for result in builder_results:
            if result.artifact_path is not None:
                remove_build_dir(result.artifact_path)


def remove_build_dir(artifact_path: str) -> None:
    """Remove the folder of an artefact, if it is a file."""
    if Path(artifact_path).is_file():
        shutil.rmtree(Path(artifact_path).parent, ignore_errors=True)

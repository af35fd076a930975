"""Notes on tuned models, kept in the database of their records for reports."""

from __future__ import annotations

import logging

import msgspec

from tilewright.database import Database
from tilewright.errors import StoredDataError
from tilewright.model.finals import ModelFinal, StepComparison
from tilewright.support.decoding import decoding
from tilewright.target import Target

logger = logging.getLogger("tilewright.report")
_KEY = "models"


class ModelNote(msgspec.Struct, frozen=True):
    """A model as it was when it was tuned last: its kernels in the order in which they run."""

    name: str
    target: str
    steps: list[StepComparison]
    beaten: list[str] = []

    @property
    def final(self) -> ModelFinal:
        """What the tuner found."""
        return ModelFinal(self.steps, self.beaten)

    @property
    def where(self) -> Target:
        """The target that it was tuned for."""
        return Target(self.target)


def keep_final(database: Database, name: str, target: Target, final: ModelFinal) -> None:
    """Note how a model did; what was noted of it before is replaced."""
    note = ModelNote(name, str(target), list(final.steps), list(final.beaten))
    others = [
        other
        for other in model_notes(database)
        if (other.name, other.target) != (name, note.target)
    ]
    database.save_state(_KEY, [msgspec.to_builtins(each) for each in (*others, note)])


def model_notes(database: Database) -> list[ModelNote]:
    """All models that were tuned with a database."""
    try:
        with decoding("the stored notes on models are damaged", StoredDataError):
            return msgspec.convert(database.load_state(_KEY) or [], list[ModelNote])
    except StoredDataError as error:
        logger.warning("%s", error)
        return []

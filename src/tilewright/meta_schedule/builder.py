"""Builders."""

from tilewright.measure import (
    Builder as Builder,
    LocalBuilder as LocalBuilder,
    builders as builders,
)
from tilewright.records import BuilderInput as BuilderInput, BuilderResult as BuilderResult

PyBuilder = Builder
create = Builder.create

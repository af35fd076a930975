"""Builders."""

from tilewright.fleet.members import RayBuilder as RayBuilder
from tilewright.measure import (
    Builder as Builder,
    LocalBuilder as LocalBuilder,
    builders as builders,
    default_build as default_build,
)
from tilewright.measure.default_hooks import default_export as default_export
from tilewright.records import BuilderInput as BuilderInput, BuilderResult as BuilderResult

PyBuilder = Builder
create = Builder.create

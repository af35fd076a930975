"""The helpers of `tilewright.testing` under the paths that they have in TVM."""

from tilewright.meta_schedule.module_paths import register_path
from tilewright.testing import (
    custom_builder_runner as custom_builder_runner,
    dummy_object as dummy_object,
    space_generation as space_generation,
    te_workload as te_workload,
    tune_utils as tune_utils,
)

for _module in (custom_builder_runner, dummy_object, space_generation, te_workload, tune_utils):
    register_path(__name__, _module.__name__.rpartition(".")[2], _module)

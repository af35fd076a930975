"""MetaSchedule under the names everybody knows: `from tilewright import meta_schedule as ms`.

Re-exports only. A member of one's own is a plain subclass (`ms.schedule_rule.PyScheduleRule` is
`ScheduleRule`); `@ms.derived_object` is accepted for the sake of existing code and changes nothing.
"""

from tilewright.meta_schedule import (
    arg_info as arg_info,
    builder as builder,
    cost_model as cost_model,
    database as database,
    extracted_task as extracted_task,
    feature_extractor as feature_extractor,
    logging as logging,
    measure_callback as measure_callback,
    mutator as mutator,
    postproc as postproc,
    profiler as profiler,
    relax_integration as relax_integration,
    relay_integration as relay_integration,
    runner as runner,
    schedule_rule as schedule_rule,
    search_strategy as search_strategy,
    space_generator as space_generator,
    task_scheduler as task_scheduler,
    tir_integration as tir_integration,
    trace_apply as trace_apply,
    tune as tune,
    tune_context as tune_context,
    utils as utils,
)
from tilewright.meta_schedule.builder import Builder as Builder
from tilewright.meta_schedule.cost_model import CostModel as CostModel
from tilewright.meta_schedule.database import (
    Database as Database,
    TuningRecord as TuningRecord,
    Workload as Workload,
)
from tilewright.meta_schedule.extracted_task import ExtractedTask as ExtractedTask
from tilewright.meta_schedule.feature_extractor import FeatureExtractor as FeatureExtractor
from tilewright.meta_schedule.measure_callback import MeasureCallback as MeasureCallback
from tilewright.meta_schedule.module_paths import register_files as _register_files
from tilewright.meta_schedule.mutator import Mutator as Mutator
from tilewright.meta_schedule.postproc import Postproc as Postproc
from tilewright.meta_schedule.relay_integration import extract_tasks as extract_tasks
from tilewright.meta_schedule.runner import Runner as Runner
from tilewright.meta_schedule.schedule_rule import ScheduleRule as ScheduleRule
from tilewright.meta_schedule.search_strategy import (
    MeasureCandidate as MeasureCandidate,
    SearchStrategy as SearchStrategy,
)
from tilewright.meta_schedule.space_generator import SpaceGenerator as SpaceGenerator
from tilewright.meta_schedule.task_scheduler import TaskScheduler as TaskScheduler
from tilewright.meta_schedule.utils import derived_object as derived_object
from tilewright.tune import (
    Profiler as Profiler,
    TuneContext as TuneContext,
    compile_tir as compile_tir,
    default_schedule as default_schedule,
    tune_tasks as tune_tasks,
    tune_te as tune_te,
    tune_tir as tune_tir,
)

_register_files(__name__)

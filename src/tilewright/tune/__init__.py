"""Where search, measuring and the database are wired together."""

from tilewright.tune.api import (
    compile_tir as compile_tir,
    tune_tasks as tune_tasks,
    tune_te as tune_te,
    tune_tir as tune_tir,
)
from tilewright.tune.context import TuneContext as TuneContext
from tilewright.tune.custom_rules import connect_global_functions
from tilewright.tune.fallback import default_schedule as default_schedule
from tilewright.tune.profiler import Profiler as Profiler

connect_global_functions()

"""Compiled models: kernels for a graph, and the program that runs them."""

from tilewright.model.api import (
    compile_model as compile_model,
    served_by as served_by,
    tune_model as tune_model,
)
from tilewright.model.executable import Executable as Executable
from tilewright.model.external import ExternalCall as ExternalCall
from tilewright.model.saving import LoadedModel as LoadedModel, load as load
from tilewright.model.tasks import ExtractedTask as ExtractedTask, extract_tasks as extract_tasks

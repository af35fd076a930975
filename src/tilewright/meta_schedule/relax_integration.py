"""Tasks of whole models under the names of Relax: models are given as to `relay_integration`."""

from tilewright.meta_schedule.relay_integration import (
    compile_relay as compile_relax,
    extract_tasks as extract_tasks,
    extracted_tasks_to_tune_contexts as extracted_tasks_to_tune_contexts,
    tune_relay as tune_relax,
)

__all__ = ["compile_relax", "extract_tasks", "extracted_tasks_to_tune_contexts", "tune_relax"]

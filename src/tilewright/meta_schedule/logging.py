"""Loggers of a tuning run."""

from logging import getLogger as get_logger

from tilewright.tune.logs import task_loggers as get_loggers_from_work_dir

__all__ = ["get_logger", "get_loggers_from_work_dir"]

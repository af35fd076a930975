"""Tuning tasks together."""

from tilewright.tune import tune_tasks as tune_tasks

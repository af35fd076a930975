"""Tuning functions and modules."""

from tilewright.tune import compile_tir as compile_tir, tune_tir as tune_tir

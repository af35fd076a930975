"""Compiled models: kernels for a graph, and the program that runs them."""

from tilewright.model.api import compile_model as compile_model, tune_model as tune_model
from tilewright.model.executable import Executable as Executable
from tilewright.model.external import ExternalCall as ExternalCall

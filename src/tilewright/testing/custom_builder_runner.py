"""Hooks that build and run whole models, as TVM's scripts name them.

    builder = LocalBuilder(f_build=build_graph_with_onnxruntime, f_export=export_graph)
    runner = LocalRunner(f_load=load_graph, f_run_evaluator=run_with_graph_executor)

A graph travels as a module without functions that has the text of the graph for an attribute;
its constants are the parameters.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.byoc import partition
from tilewright.graph import Graph, parse_graph
from tilewright.graph.graph import Array
from tilewright.ir import IRModule
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.model import compile_model
from tilewright.model.compiled import CompiledModel
from tilewright.target import Target

_GRAPH = "graph"


def graph_module(graph: Graph) -> tuple[IRModule, dict[str, Array]]:
    """A graph as builders take it: a module, and the constants by name."""
    params = {value.name: array for value, array in graph.constants.items()}
    return IRModule({}).with_attr(_GRAPH, graph.script()), params


def _graph_of(mod: IRModule, params: Mapping[str, Any] | None) -> Graph:
    arrays = {name: np.asarray(array) for name, array in (params or {}).items()}
    return parse_graph(str(mod.attrs[_GRAPH]), arrays)


class BuiltGraph:
    """A graph that was compiled once, to see that it can be."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.executable = compile_model(graph, target)


def build_graph(mod: IRModule, target: Target, params: Mapping[str, Any] | None) -> BuiltGraph:
    """Our kernels for all of it."""
    return BuiltGraph(_graph_of(mod, params), target)


def _built_with(
    backend: str, mod: IRModule, target: Target, params: Mapping[str, Any] | None
) -> BuiltGraph:
    return BuiltGraph(partition(_graph_of(mod, params), backend), target)


def build_graph_with_onnxruntime(
    mod: IRModule, target: Target, params: Mapping[str, Any] | None
) -> BuiltGraph:
    """onnxruntime for what it takes, our kernels for the rest."""
    return _built_with("onnxruntime", mod, target, params)


def build_graph_with_openvino(
    mod: IRModule, target: Target, params: Mapping[str, Any] | None
) -> BuiltGraph:
    """OpenVINO for what it takes, our kernels for the rest."""
    return _built_with("openvino", mod, target, params)


def build_graph_with_tensorrt(
    mod: IRModule, target: Target, params: Mapping[str, Any] | None
) -> BuiltGraph:
    """TensorRT for what it takes, our kernels for the rest."""
    return _built_with("tensorrt", mod, target, params)


def export_graph(built: BuiltGraph) -> str:
    """Write a graph and its constants into a folder of its own; the path of the file."""
    path = Path(tempfile.mkdtemp(prefix="tilewright-graph-")) / "graph.npz"
    arrays: dict[str, Any] = {v.name: array for v, array in built.graph.constants.items()}
    arrays[f"{_GRAPH}.text"] = np.asarray([built.graph.script(), str(built.target)])
    np.savez(path, **arrays)
    return str(path)


def load_graph(path: str) -> CompiledModel:
    """What `export_graph` wrote, ready to run."""
    with np.load(path) as stored:
        arrays = dict(stored)
    script, target = arrays.pop(f"{_GRAPH}.text")
    return compile_model(parse_graph(str(script), arrays), str(target))


def run_with_graph_executor(
    rt_mod: CompiledModel,
    device: object,
    evaluator_config: EvaluatorConfig,
    repeated_args: Sequence[Sequence[Any]],
) -> list[float]:
    """Seconds of a run, `repeat` means of `number` runs for each set of arguments."""
    times = []
    for args in repeated_args:
        arrays = [np.asarray(arg) for arg in args]
        rt_mod(*arrays)
        for _ in range(evaluator_config.repeat):
            start = time.perf_counter()
            for _ in range(evaluator_config.number):
                rt_mod(*arrays)
            times.append((time.perf_counter() - start) / evaluator_config.number)
    return times

"""`tilewright inspect MODEL`: operators, sizes, tasks, and what is not supported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.cli.console import make_console, print_json
from tilewright.cli.models import Model, ModelOptions, load_model
from tilewright.cli.tables import print_table
from tilewright.graph import Graph
from tilewright.graph.graph import GraphNode, GraphValue
from tilewright.model.tasks import ExtractedTask, tasks_of
from tilewright.report.units import percent
from tilewright.support.text import counted
from tilewright.target import Target

_OPERATORS = ("operator", "calls", "in the kernels")
_TASKS = ("task", "runs", "result", "FLOP", "share")


def run(text: str, options: ModelOptions, target_text: str, *, as_json: bool) -> int:
    """Show a model; nothing is compiled."""
    model, target = load_model(text, options), Target(target_text)
    simple = model.simple(target)
    tasks = tasks_of(simple, target)
    if as_json:
        print_json(_as_json(model, tasks))
        return 0
    console = make_console()
    console.print("\n".join(_lines(model, tasks)))
    print_table(
        console, ("operator", "calls", "in the kernels"), _operator_rows(model.graph, simple)
    )
    total = _flop(tasks) or 1.0
    console.print("")
    print_table(console, _TASKS, [_task_row(task, total) for task in tasks])
    return 0


def _lines(model: Model, tasks: Sequence[ExtractedTask]) -> list[str]:
    graph = model.graph
    elements, size = parameters_of(graph)
    return [
        f"{model.name}: {counted(len(graph.nodes), 'operator')}, {_flop(tasks) / 1e9:.3g} GFLOP, "
        f"{elements / 1e6:.3g} M parameters ({size / 1e6:.3g} MB)",
        *(f"input {name}: {value.type}" for name, value in graph.named_inputs),
        *(f"output {name}: {value.type}" for name, value in graph.named_outputs),
        f"{counted(sum(task.weight for task in tasks), 'kernel')} in {counted(len(tasks), 'task')}",
        f"unsupported operators: {model.unsupported or 'none'}",
    ]


def parameters_of(graph: Graph) -> tuple[int, int]:
    """Elements and bytes of all constants with more than one element."""
    weights: list[GraphValue] = [v for v, array in graph.constants.items() if array.size > 1]
    return sum(v.type.size for v in weights), sum(v.type.bytes for v in weights)


def _flop(tasks: Sequence[ExtractedTask]) -> float:
    return sum(task.weight * task.flop for task in tasks)


def _operator_rows(graph: Graph, simple: Graph) -> list[tuple[str, str, str]]:
    """How often each operator is called, as imported and after simplification."""
    before, after = _calls(graph.nodes), _calls(simple.nodes)
    names = sorted({*before, *after}, key=lambda name: (-before[name], name))
    return [(name, str(before[name]), str(after[name])) for name in names]


def _calls(nodes: Sequence[GraphNode]) -> Counter[str]:
    return Counter(node.op for node in nodes)


def _task_row(task: ExtractedTask, total: float) -> tuple[str, ...]:
    results = ", ".join(str(value.type) for value in task.mod.outputs)
    share = task.weight * task.flop / total
    return task.task_name, str(task.weight), results, f"{task.flop:.3g}", percent(share)


def _as_json(model: Model, tasks: Sequence[ExtractedTask]) -> dict[str, object]:
    elements, size = parameters_of(model.graph)
    return {
        "model": model.name,
        "inputs": {name: str(value.type) for name, value in model.graph.named_inputs},
        "outputs": {name: str(value.type) for name, value in model.graph.named_outputs},
        "flop": _flop(tasks),
        "parameters": elements,
        "parameter_bytes": size,
        "operators": dict(_calls(model.graph.nodes)),
        "tasks": [
            {
                "task": task.task_name,
                "weight": task.weight,
                "flop": task.flop,
                "outputs": [str(value.type) for value in task.mod.outputs],
                "sources": task.sources,
            }
            for task in tasks
        ],
        "unsupported": model.unsupported or None,
    }

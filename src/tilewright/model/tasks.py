"""Tasks of a model: its different kernels, each with the number of times that it runs.

Kernels that compute the same are one task. The list, its names and its order are those of TVM: from
the last operator back to the first, each when it is met first, and then turned around. So branches
come before the main path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tilewright import ir
from tilewright.database.module_equality import get_module_equality
from tilewright.errors import GraphError
from tilewright.graph.fusion import FusedGroup, hash_of
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.passes.pipeline import GPU_PASSES, PASSES, simplify
from tilewright.graph.passes.transformed_winograd import transformed_winograd
from tilewright.model.kernels import groups_of, program_of
from tilewright.schedule.analysis import flop_of
from tilewright.support.names import NameSupply
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target
from tilewright.tune.context import TuneContext, normalize_mod

LAYOUTS = ("nhwc", "nchw")  # of images inside of the model
_CHANNELS_LAST = "channels_last"
_LONGEST_NAME = 80


@dataclass(frozen=True, eq=False)
class ExtractedTask:
    """A kernel of a model that can be tuned, under the names of TVM."""

    task_name: str
    mod: Graph  # the operators that it is fused from
    target: Target
    dispatched: Sequence[ir.IRModule]  # the program
    weight: int = 1  # how often it runs
    groups: Sequence[FusedGroup] = field(default=(), repr=False)  # where it runs

    @property
    def func(self) -> ir.PrimFunc:
        """The program."""
        return self.dispatched[0]["main"]

    @cached_property
    def flop(self) -> float:
        """Operations of one run."""
        return flop_of(self.dispatched[0])

    @property
    def sources(self) -> list[str]:
        """The nodes of the original model that it stands for."""
        return [node.source for group in self.groups for node in group.nodes if node.source]


def simplified(graph: Graph, layout: str | None = None, target: Target | None = None) -> Graph:
    """A graph ready for kernels; `layout="nchw"` keeps channels where the model has them.

    For a GPU its convolutions of 3x3 are Winograd's then, as with TVM.
    """
    if layout is None or layout.lower() == "nhwc":
        return simplify(graph, PASSES if target is None or target.is_cpu else GPU_PASSES)
    if layout.lower() not in LAYOUTS:
        raise GraphError(f"there is no layout {layout!r}{did_you_mean(layout, LAYOUTS)}")
    for step in PASSES:
        if step.__name__ != _CHANNELS_LAST:
            graph = step(graph)
    return graph if target is None or target.is_cpu else transformed_winograd(graph)


def extract_tasks(
    graph: Graph,
    target: Target | str = "llvm",
    *,
    layout: str | None = None,
    module_equality: str = "structural",
) -> list[ExtractedTask]:
    """The tasks of a model with their weights."""
    where = Target(target)
    return tasks_of(simplified(graph, layout, where), where, module_equality)


def tasks_of(graph: Graph, target: Target, equality: str = "structural") -> list[ExtractedTask]:
    """The tasks of a graph that is simplified already."""
    return tasks_of_groups(graph, groups_from_the_end(graph), target, equality)


def tasks_of_groups(
    graph: Graph, groups: Sequence[FusedGroup], target: Target, equality: str = "structural"
) -> list[ExtractedTask]:
    """The tasks of some kernels of a graph, given from the last back to the first."""
    same = get_module_equality(equality)
    if equality == "anchor-block":  # the smallest program stands for the others
        groups = sorted(groups, key=lambda group: len(group.nodes))
    found: dict[int, list[tuple[ir.IRModule, list[FusedGroup]]]] = {}
    order: list[tuple[ir.IRModule, list[FusedGroup]]] = []
    for group in groups:
        if not _has_known_sizes(group):
            continue
        mod = normalize_mod(program_of(group, graph))
        known = found.setdefault(same.hash(mod), [])
        members = next((them for other, them in known if same.equal(other, mod)), None)
        if members is None:
            known.append((mod, [group]))
            order.append(known[-1])
        else:
            members.append(group)
    return _named(order[::-1], target)


def _named(
    found: Iterable[tuple[ir.IRModule, list[FusedGroup]]], target: Target
) -> list[ExtractedTask]:
    names = NameSupply()
    tasks = []
    for mod, members in found:
        first, name = members[0], names.fresh(task_name(members[0]))
        part = Graph(name, first.inputs, first.outputs, first.nodes)
        tasks.append(ExtractedTask(name, part, target, [mod], len(members), members))
    return tasks


def _has_known_sizes(group: FusedGroup) -> bool:
    return all(value.type.is_static for value in (*group.inputs, *group.outputs))


# --- names --------------------------------------------------------------------------------------


def task_name(group: FusedGroup) -> str:
    """`fused_nn_conv2d_add_nn_relu`, cut where it would be too long."""
    words = "_".join(_tvms_word(node) for node in group.nodes)
    name = f"fused_{words}"
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}_{hash_of(words)}_"


def _tvms_word(node: GraphNode) -> str:
    """What TVM calls an operator; some of ours are several of its."""
    word = node.op
    if word in ("nn.pool1d", "nn.pool2d", "nn.pool3d"):
        word = word.replace("pool", f"{node.attrs.get('pool_type', 'max')}_pool")
    if word == "mean" and _is_global_pool(node):
        word = "nn.adaptive_avg_pool2d"
    return word.replace(".", "_")


def _is_global_pool(node: GraphNode) -> bool:
    """A mean over height and width that keeps the axes."""
    axes = node.attrs.get("axis")
    spatial = ([2, 3], [1, 2], [-2, -1])
    return list(axes or ()) in spatial and bool(node.attrs.get("keepdims"))


# --- order --------------------------------------------------------------------------------------


def groups_from_the_end(graph: Graph) -> list[FusedGroup]:
    """All kernels: depth first from the outputs, each before what it reads."""
    makers = _makers(graph)
    seen: dict[FusedGroup, None] = {}
    pending = [makers[value] for value in reversed(graph.outputs) if value in makers]
    while pending:
        group = pending.pop()
        if group not in seen:
            seen[group] = None
            pending += [makers[value] for value in reversed(group.inputs) if value in makers]
    return list(seen)


def _makers(graph: Graph) -> dict[GraphValue, FusedGroup]:
    """The kernel that makes each value; a view is made with what it shows."""
    made = {value: group for group in groups_of(graph) for value in group.outputs}
    for node in graph.nodes:
        source = next((made[value] for value in node.operands if value in made), None)
        for value in node.outputs:
            if value not in made and source is not None and node not in source.nodes:
                made[value] = source
    return made


# --- tuning -------------------------------------------------------------------------------------


def module_of(tasks: Sequence[ExtractedTask]) -> tuple[ir.IRModule, dict[str, float]]:
    """All programs as one module, and how often each of them runs, by name."""
    return (
        ir.IRModule({task.task_name: task.func for task in tasks}),
        {task.task_name: float(task.weight) for task in tasks},
    )


def rivals_among(tasks: Sequence[ExtractedTask]) -> dict[str, str]:
    """Tasks that make the same values of a model, by name: ways to compute the same."""
    made = {task.task_name: _made_by(task) for task in tasks}
    counts = Counter(made.values())
    return {name: values for name, values in made.items() if counts[values] > 1}


def _made_by(task: ExtractedTask) -> str:
    return ", ".join(sorted(value.name for group in task.groups for value in group.outputs))


def to_tune_contexts(
    tasks: Sequence[ExtractedTask], strategy: Callable[[], Any], **options: Any
) -> tuple[list[TuneContext], list[float]]:
    """Tasks for `tune_tasks`, with their weights; options are those of `TuneContext`."""
    contexts = [
        TuneContext(
            task.dispatched[0],
            target=task.target,
            search_strategy=strategy(),
            task_name=task.task_name,
            **options,
        )
        for task in tasks
    ]
    return contexts, [float(task.weight) for task in tasks]

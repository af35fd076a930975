"""Steps that functions of Python run, between kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import RuntimeFailure
from tilewright.graph import Graph, GraphNode, GraphValue, TensorType, parse_graph
from tilewright.graph.fusion import FusedGroup
from tilewright.model import Executable, ExternalCall
from tilewright.model.external import ExternalFunction
from tilewright.model.kernels import KernelCall, compile_calls
from tilewright.target import Target

_TEXT = """
def main(x: float32[2, 3]):
    w = constant(float32[2, 3])
    a = exp(x)
    b = add(a, w)
    c = multiply(b, x)
    flat = reshape(c, newshape=[6])
    d = negative(flat)
    return d, b
"""
_W = np.arange(6, dtype=np.float32).reshape(2, 3)
_X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _plain(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    return ir.IRModule({str(func.attrs["global_symbol"]): func})


def _one_by_one(graph: Graph) -> list[KernelCall]:
    """A kernel for each node that is not a view."""
    calls: list[KernelCall] = []
    for node in graph.nodes:
        if node.op != "reshape":
            group = FusedGroup((node,), node.operands, node.outputs)
            alone = Graph("main", group.inputs, group.outputs, group.nodes)
            (call,) = compile_calls(alone, Target("llvm"), _plain)
            calls.append(KernelCall(call.kernel, group, call.values))
    return calls


def _with_external(function: ExternalFunction, *ops: str) -> Executable:
    graph = parse_graph(_TEXT, {"w": _W})
    calls: list[KernelCall | ExternalCall] = list(_one_by_one(graph))
    for number, call in enumerate(calls):
        assert isinstance(call, KernelCall)
        node = call.group.nodes[0]
        if node.op in ops:
            calls[number] = ExternalCall(node.op, function, node.operands, node.outputs)
    return Executable(graph, calls)


_NUMPY: dict[str, Any] = {
    "exp": lambda given: [np.exp(given[0])],
    "add": lambda given: [given[0] + given[1]],
    "multiply": lambda given: [given[0] * given[1]],
    "negative": lambda given: [-given[0]],
}


@pytest.mark.parametrize("op", sorted(_NUMPY))
def test_each_step_can_be_external(op: str) -> None:
    """First, between kernels with a constant, and last on a view of another step's result."""
    executable = _with_external(_NUMPY[op], op)
    d, b = executable(_X)
    np.testing.assert_allclose(b, np.exp(_X) + _W, rtol=1e-6)
    np.testing.assert_allclose(d, -(b * _X).reshape(6), rtol=1e-6)


def test_kernels_between_external_steps_run_in_one_native_call() -> None:
    counts: list[int] = []
    executable = _with_external(_NUMPY["multiply"], "multiply")
    frame = executable._frames[0]
    launch = frame._launch

    def counted(begin: int, end: int, timed: bool) -> list[int]:
        counts.append(end - begin)
        return launch(begin, end, timed)

    frame._launch = counted  # type: ignore[method-assign]
    executable(_X)
    assert counts == [2, 1]


def test_external_steps_are_profiled() -> None:
    executable = _with_external(_NUMPY["add"], "add")
    times = executable.profile(_X)
    assert [step.name for step in times] == ["fused_exp", "add", "fused_multiply", "fused_negative"]
    assert all(step.seconds > 0 for step in times)


def test_an_input_may_be_returned() -> None:
    """What a function returns is copied, whatever memory it is."""
    x = GraphValue("x", TensorType((2,), "float32"))
    y = GraphValue("y", TensorType((2,), "float32"))
    graph = Graph("main", (x,), (y,), (GraphNode("unknown.op", (x,), (y,)),))
    given = np.ones(2, np.float32)
    (made,) = Executable(graph, [ExternalCall("same", lambda a: a, (x,), (y,))])(given)
    np.testing.assert_array_equal(made, given)
    assert not np.shares_memory(made, given)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda given: [], "add returned 0 arrays, expected 1"),
        (
            lambda given: [given[0].astype(np.float64)],
            "add returned float64[2, 3] for b, expected float32[2, 3]",
        ),
        (
            lambda given: [given[0][:1]],
            "add returned float32[1, 3] for b, expected float32[2, 3]",
        ),
    ],
)
def test_wrong_results(function: Any, message: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        _with_external(function, "add")(_X)
    assert str(caught.value) == message


def test_what_a_function_raises_comes_out_and_the_next_run_is_well() -> None:
    failing = [True]

    def function(given: Sequence[Any]) -> Sequence[Any]:
        if failing:
            raise ZeroDivisionError("of the function")
        return [given[0] + given[1]]

    executable = _with_external(function, "add")
    with pytest.raises(ZeroDivisionError, match="of the function"):
        executable(_X)
    failing.clear()
    np.testing.assert_allclose(executable(_X)[1], np.exp(_X) + _W, rtol=1e-6)

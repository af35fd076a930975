"""Tasks of models: their names, weights and order, which are TVM's, and their programs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.errors import GraphError
from tilewright.graph import Graph, parse_graph
from tilewright.graph.operators.transformed_winograd import TRANSFORMED_WINOGRAD
from tilewright.graph.passes.transformed_winograd import transformed_winograd
from tilewright.ir import structural_equal
from tilewright.model import ExtractedTask, compile_model, extract_tasks
from tilewright.model.tasks import module_of, to_tune_contexts
from tilewright.testing.small_models import resnet18, small_network

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def image() -> Floats:
    return np.random.default_rng(1).standard_normal((1, 8, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def channels_first(image: Floats) -> Floats:
    """What the small network makes of the image with this layout."""
    (found,) = compile_model(small_network(), layout="nchw")(image)
    return np.asarray(found)


def _weights(tasks: list[ExtractedTask]) -> list[tuple[str, int]]:
    return [(task.task_name, task.weight) for task in tasks]


def test_resnet18_has_tvms_tasks_in_tvms_order() -> None:
    """The 18 tasks of the network with channels first; 23 kernels run in all."""
    tasks = extract_tasks(resnet18(), "llvm", layout="nchw")
    assert _weights(tasks) == [
        ("fused_nn_conv2d_add", 1),
        ("fused_nn_conv2d_add_1", 1),
        ("fused_nn_conv2d_add_2", 1),
        ("fused_nn_conv2d_add_nn_relu", 1),
        ("fused_nn_max_pool2d", 1),
        ("fused_nn_conv2d_add_nn_relu_1", 2),
        ("fused_nn_conv2d_add_add_nn_relu", 2),
        ("fused_nn_conv2d_add_nn_relu_2", 1),
        ("fused_nn_conv2d_add_nn_relu_3", 1),
        ("fused_nn_conv2d_add_add_nn_relu_1", 2),
        ("fused_nn_conv2d_add_nn_relu_4", 1),
        ("fused_nn_conv2d_add_nn_relu_5", 1),
        ("fused_nn_conv2d_add_add_nn_relu_2", 2),
        ("fused_nn_conv2d_add_nn_relu_6", 1),
        ("fused_nn_conv2d_add_nn_relu_7", 1),
        ("fused_nn_conv2d_add_add_nn_relu_3", 2),
        ("fused_nn_adaptive_avg_pool2d", 1),
        ("fused_nn_dense_add", 1),
    ]
    flop = sum(task.weight * task.flop for task in tasks)
    assert 3.63e9 < flop < 3.66e9


def test_resnet18_for_a_gpu_has_the_tasks_that_tvm_tunes_there() -> None:
    winograd = "fused_nn_contrib_conv2d_winograd_without_weight_transform_add"
    tasks = extract_tasks(resnet18(), "cuda -arch=sm_80", layout="nchw")
    assert _weights(tasks) == [
        ("fused_nn_conv2d_add", 1),
        ("fused_nn_conv2d_add_1", 1),
        ("fused_nn_conv2d_add_2", 1),
        ("fused_nn_conv2d_add_nn_relu", 1),
        ("fused_nn_max_pool2d", 1),
        (f"{winograd}_nn_relu", 2),
        (f"{winograd}_add_nn_relu", 2),
        ("fused_nn_conv2d_add_nn_relu_1", 1),
        (f"{winograd}_nn_relu_1", 1),
        (f"{winograd}_add_nn_relu_1", 2),
        ("fused_nn_conv2d_add_nn_relu_2", 1),
        (f"{winograd}_nn_relu_2", 1),
        (f"{winograd}_add_nn_relu_2", 2),
        ("fused_nn_conv2d_add_nn_relu_3", 1),
        (f"{winograd}_nn_relu_3", 1),
        (f"{winograd}_add_nn_relu_3", 2),
        ("fused_nn_adaptive_avg_pool2d", 1),
        ("fused_nn_dense_add", 1),
    ]


def test_winograd_with_transformed_weights_computes_the_same(
    image: Floats, channels_first: Floats
) -> None:
    changed = transformed_winograd(small_network())
    assert sum(node.op == TRANSFORMED_WINOGRAD for node in changed.nodes) == 6
    (found,) = compile_model(changed, layout="nchw")(image)
    np.testing.assert_allclose(found, channels_first, rtol=1e-3, atol=1e-3)


def test_channels_last_adds_one_transposition() -> None:
    """Of the image; behind the last pool there is one pixel, and channels are where they were."""
    names = [task.task_name for task in extract_tasks(resnet18())]
    assert len(names) == 19
    assert [name for name in names if "transpose" in name] == ["fused_transpose"]


def test_the_smallest_program_stands_for_those_with_its_anchor_block() -> None:
    """As in TVM: without the residual variants, which have the convolutions of the others."""
    tasks = extract_tasks(resnet18(), layout="nchw", module_equality="anchor-block")
    assert len(tasks) == 14
    assert sum(task.weight for task in tasks) == 23
    assert not any("add_add" in task.task_name for task in tasks)


def test_a_task_knows_its_operators_and_where_they_are_from() -> None:
    tasks = {task.task_name: task for task in extract_tasks(small_network())}
    shared = tasks["fused_nn_conv2d_add_add_nn_relu"]
    assert shared.weight == 2
    assert [node.op for node in shared.mod.nodes] == ["nn.conv2d", "add", "add", "nn.relu"]
    assert sorted(shared.sources) == ["conv_3", "conv_5"]
    assert str(shared.target).startswith("llvm")
    assert list(shared.dispatched[0].functions) == ["main"]


def test_no_two_tasks_are_equal() -> None:
    tasks = extract_tasks(small_network())
    for number, task in enumerate(tasks):
        assert not any(
            structural_equal(task.dispatched[0], other.dispatched[0]) for other in tasks[:number]
        )


def test_both_layouts_compute_the_same(image: Floats, channels_first: Floats) -> None:
    (channels_last,) = compile_model(small_network())(image)
    np.testing.assert_allclose(channels_last, channels_first, rtol=1e-4, atol=1e-4)
    assert np.abs(channels_first).max() > 0


def test_sizes_that_are_not_known_make_no_task() -> None:
    graph = parse_graph("def main(x: float32[n, 4]):\n    y = exp(x)\n    return y\n")
    assert isinstance(graph, Graph)
    assert extract_tasks(graph) == []


def test_layouts_are_checked() -> None:
    with pytest.raises(GraphError, match=r"^there is no layout 'nhcw'; did you mean 'nhwc'\?$"):
        extract_tasks(small_network(), layout="nhcw")


def test_tasks_for_the_tuner() -> None:
    tasks = extract_tasks(small_network())
    contexts, weights = to_tune_contexts(
        tasks, lambda: "replay-trace", space_generator="tilewright"
    )
    assert [context.task_name for context in contexts] == [task.task_name for task in tasks]
    assert weights == [task.weight for task in tasks]
    module, by_name = module_of(tasks)
    assert by_name == dict(zip(module.functions, weights, strict=True))

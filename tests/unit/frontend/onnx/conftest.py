"""Small models of ONNX, written down in a line or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")

MakeModel = Callable[..., bytes]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """`make_model(nodes, inputs, outputs, initializers)`: the bytes of a model."""
    from onnx import TensorProto, helper, numpy_helper

    def values(shapes: Mapping[str, Sequence[int | str | None]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
            for name, shape in shapes.items()
        ]

    def make(
        nodes: Sequence[Any],
        inputs: Mapping[str, Sequence[int | str | None]],
        outputs: Sequence[str],
        initializers: Mapping[str, Any] | None = None,
        opset: int = 20,
    ) -> bytes:
        made = helper.make_graph(
            list(nodes), "main", values(inputs),
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
        )  # fmt: skip
        others = dict.fromkeys(node.domain for node in nodes if node.domain)
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in others)]
        return bytes(helper.make_model(made, opset_imports=opsets).SerializeToString())

    return make

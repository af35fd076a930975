"""Graphs for tests: a small network with shared kernels, and ResNet-18."""

from __future__ import annotations

import numpy as np

from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType


def small_network() -> Graph:
    """Two equal blocks, a branch, a pool and a layer on top; random weights."""
    net = _Network("small")
    x = net.input("x", TensorType((1, 8, 8, 8), "float32"))
    x = net.conv_relu(x, 16, 3)
    for _ in range(2):
        x = net.residual(x, 16, 1)
    return net.head(net.residual(x, 32, 2), 10)


def resnet18() -> Graph:
    """ResNet-18 for one image of 224x224, as PyTorch's importer gives it, with zero weights."""
    net = _Network("resnet18", random=False)
    x = net.input("x", TensorType((1, 3, 224, 224), "float32"))
    x = net.conv_relu(x, 64, 7, 2)
    x = net.call(
        "nn.pool2d", x, kernel=[3, 3], stride=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1],
        pool_type="max",
    )  # fmt: skip
    for stage, width in enumerate((64, 128, 256, 512)):
        x = net.residual(x, width, 2 if stage else 1)
        x = net.residual(x, width, 1)
    return net.head(x, 1000)


class _Network(GraphBuilder):
    def __init__(self, name: str, random: bool = True) -> None:
        super().__init__(name)
        self._generator = np.random.default_rng(0) if random else None
        self._layers = 0

    def weight(self, *shape: int) -> GraphValue:
        if self._generator is None:
            return self.constant(np.zeros(shape, np.float32), "w")
        return self.constant(self._generator.standard_normal(shape).astype(np.float32) / 8, "w")

    def conv(self, x: GraphValue, width: int, size: int, stride: int = 1) -> GraphValue:
        inputs, around = x.type.extents[1], size // 2
        self._layers += 1
        source = f"conv_{self._layers}"
        made = self.call(
            "nn.conv2d", x, self.weight(width, inputs, size, size), source=source,
            strides=[stride, stride], padding=[around] * 4,
        )  # fmt: skip
        return self.call("add", made, self.weight(width, 1, 1))

    def conv_relu(self, x: GraphValue, width: int, size: int, stride: int = 1) -> GraphValue:
        return self.call("nn.relu", self.conv(x, width, size, stride))

    def residual(self, x: GraphValue, width: int, stride: int) -> GraphValue:
        y = self.conv(self.conv_relu(x, width, 3, stride), width, 3)
        short = x if stride == 1 else self.conv(x, width, 1, stride)
        return self.call("nn.relu", self.call("add", y, short))

    def head(self, x: GraphValue, classes: int) -> Graph:
        width = x.type.extents[1]
        pooled = self.call("mean", x, axis=[2, 3], keepdims=True)
        flat = self.call("reshape", pooled, newshape=[1, width])
        made = self.call("nn.dense", flat, self.weight(classes, width))
        return self.graph([self.call("add", made, self.weight(classes))])

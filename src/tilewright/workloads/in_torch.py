"""The thirteen workloads in PyTorch: the same arguments, in the same layouts, as ours.

Needs PyTorch, which nothing else here does: import it where PyTorch is known to be installed.

`make(name, arguments, arrays)` gives a function of no arguments that computes the workload from
tensors that share memory with `arrays`, and returns the output as an array in our layout.
Activations and weights are handed over as PyTorch likes them best (channels last), outside the
timed part; only views are made inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

Array = npt.NDArray[Any]
Tensor = Any  # torch.Tensor, which type checkers need not know
Compute = Callable[..., Tensor]
Made = tuple[Compute, list[Tensor]]  # what is timed, and its arguments


def _channels_first(x: Tensor) -> Tensor:
    """A view of N...C memory as NC..., which is PyTorch's channels-last."""
    return x.movedim(-1, 1)


def _weight(array: Array) -> Tensor:
    """k...IO weights as OIk..., in channels-last memory."""
    w = torch.from_numpy(array)
    spatial = w.dim() - 2
    w = w.permute(spatial + 1, spatial, *range(spatial)).contiguous()
    if spatial == 2:
        w = w.contiguous(memory_format=torch.channels_last)
    if spatial == 3:
        w = w.contiguous(memory_format=torch.channels_last_3d)
    return w


_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _convolution(dims: int) -> Callable[..., Made]:
    def make(arguments: Sequence[int], arrays: Sequence[Array]) -> Made:
        rest = list(arguments[1 + dims + 2 + 1 :])  # after N, sizes, CI, CO, kernel
        stride, padding = rest[0], rest[1]
        dilation = rest[2] if len(rest) > 2 else 1
        groups = rest[3] if len(rest) > 3 else 1
        x = _channels_first(torch.from_numpy(arrays[0]))
        w = _weight(arrays[1])

        def compute(x: Tensor, w: Tensor) -> Tensor:
            return _CONV[dims](x, w, None, stride, padding, dilation, groups)

        return compute, [x, w]

    return make


def _operands(arrays: Sequence[Array], order: Sequence[int]) -> list[Tensor]:
    """Data and weights, these in another order of axes, as PyTorch likes them."""
    x, w = map(torch.from_numpy, arrays[:2])
    w = w.permute(*order).contiguous(memory_format=torch.channels_last)
    return [_channels_first(x), w]


def _depthwise(arguments: Sequence[int], arrays: Sequence[Array]) -> Made:
    channels, stride, padding = arguments[3], arguments[5], arguments[6]

    def compute(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, None, stride, padding, 1, channels)

    return compute, _operands(arrays, (3, 0, 1, 2))


def _transposed(arguments: Sequence[int], arrays: Sequence[Array]) -> Made:
    stride, padding = arguments[6], arguments[7]

    def compute(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose2d(x, w, None, stride, padding)

    return compute, _operands(arrays, (2, 3, 0, 1))


def _capsule(arguments: Sequence[int], arrays: Sequence[Array]) -> Made:
    n, height, width, inputs, outputs, _, stride, padding = arguments[:8]
    x = torch.from_numpy(arrays[0])
    w = torch.from_numpy(arrays[1])  # k, k, c, j, CI, CO
    w = w.permute(3, 5, 2, 4, 0, 1).reshape(4 * outputs, 4 * inputs, *w.shape[:2])
    w = w.contiguous(memory_format=torch.channels_last)

    def compute(x: Tensor, w: Tensor) -> Tensor:
        rows = x.permute(0, 3, 4, 5, 1, 2).reshape(n * 4, 4 * inputs, height, width)
        y = F.conv2d(rows, w, None, stride, padding)  # n*i, j*CO, h, w
        y = y.reshape(n, 4, 4, outputs, *y.shape[2:])
        return y.permute(0, 4, 5, 1, 2, 3)

    return compute, [x, w]


def _plain(compute: Compute, inputs: int) -> Callable[..., Made]:
    """A workload that takes its first arrays as they are."""

    def make(arguments: Sequence[int], arrays: Sequence[Array]) -> Made:
        return compute, [torch.from_numpy(array) for array in arrays[:inputs]]

    return make


def _transpose_matmul(query: Tensor, value: Tensor) -> Tensor:
    return torch.matmul(query.permute(0, 2, 1, 3), value.permute(0, 2, 3, 1))


def _conv_bn_relu(arguments: Sequence[int], arrays: Sequence[Array]) -> Made:
    stride, padding = arguments[6], arguments[7]
    x = _channels_first(torch.from_numpy(arrays[0]))
    w = _weight(arrays[1])
    bias, offset, scale = (torch.from_numpy(a).view(1, -1, 1, 1) for a in arrays[2:5])

    def compute(x: Tensor, w: Tensor, bias: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
        y = F.conv2d(x, w, bias.flatten(), stride, padding)
        return torch.relu(y.mul_(scale).add_(offset))

    return compute, [x, w, bias, offset, scale]


MAKERS: dict[str, Callable[..., Made]] = {
    "C1D": _convolution(1),
    "C2D": _convolution(2),
    "C3D": _convolution(3),
    "GMM": _plain(torch.bmm, 2),
    "GRP": _convolution(2),
    "DIL": _convolution(2),
    "DEP": _depthwise,
    "T2D": _transposed,
    "CAP": _capsule,
    "NRM": _plain(lambda x: torch.linalg.vector_norm(x, dim=(1, 2)), 1),
    "SFM": _plain(lambda x: torch.softmax(x, 1), 1),
    "CBR": _conv_bn_relu,
    "TBG": _plain(_transpose_matmul, 2),
}
_LAST_CHANNEL = {"C1D", "C2D", "C3D", "GRP", "DIL", "DEP", "T2D", "CBR"}


_CALLS = 20  # in a graph


def make(
    name: str,
    arguments: Sequence[int],
    arrays: Sequence[Array],
    *,
    compiled: bool = False,
    device: str = "cpu",
) -> tuple[Callable[[], Any], Callable[[], Array]]:
    """(the timed call, the output of one call in our layout)."""
    compute, tensors = MAKERS[name](arguments, arrays)
    if device != "cpu":
        tensors = [tensor.to(device) for tensor in tensors]
        torch.backends.cudnn.allow_tf32 = False  # ours has all bits of float32
        torch.backends.cudnn.benchmark = True
    if compiled:
        compute = torch.compile(compute, options={"freezing": True})

    def call() -> Tensor:
        with torch.inference_mode():
            return compute(*tensors)

    def output() -> Array:
        y = call()
        if name in _LAST_CHANNEL:
            y = y.movedim(1, -1)
        return np.asarray(y.cpu())

    return call, output


def timed_on_gpu(call: Callable[[], Any]) -> Callable[[int], float]:
    """How many seconds a number of calls takes on a GPU, replayed as a graph, as ours are."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(_CALLS):
            call()

    def run(number: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        replays = -(-number // _CALLS)
        graph.replay()  # hides what starting costs
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3 * number / (replays * _CALLS)

    return run

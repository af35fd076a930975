"""Models for a GPU from files: machine code goes to the driver as it is."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from tilewright.codegen.cuda.loading import CudaLibrary, why_wrong_gpu
from tilewright.errors import RuntimeFailure
from tilewright.graph.graph import Graph
from tilewright.model.file_format import DeviceKernel, ModelDescription
from tilewright.model.gpu_runner import GpuRunner
from tilewright.model.loading import graph_without_constants
from tilewright.native.cuda_driver import cuda_driver
from tilewright.runtime.devices import cuda
from tilewright.runtime.module import Module, ModuleSources
from tilewright.runtime.tensor_view import Array

_NO_SOURCE = "the file of a model has no source of its kernels; compile the model to see it"


class LoadedGpuModel(GpuRunner):
    """A model for a GPU, from a file."""

    def __init__(
        self, description: ModelDescription, kernels: Sequence[Module], constants: Sequence[Array]
    ) -> None:
        self._text = description.graph
        super().__init__(description.program, kernels, constants)

    @functools.cached_property
    def graph(self) -> Graph:
        """What it computes."""
        return graph_without_constants(self._text)


def why_no_gpu(arch: str) -> str:
    """Why machine code for an architecture cannot run here; empty if it can."""
    missing = cuda(0).why_missing
    if missing:
        return f"its kernels run on an NVIDIA GPU ({arch}), and {missing}"
    reason = why_wrong_gpu(arch, cuda_driver())
    return f"{reason}; compile it for this machine" if reason else ""


def device_kernels(data: memoryview, count: int) -> list[Module]:
    """The kernels in a block of a file."""
    kernels = msgspec.msgpack.decode(data, type=list[DeviceKernel])
    if len(kernels) != count:
        raise RuntimeFailure(f"expected {count} kernels, got {len(kernels)}")
    sources = ModuleSources(dict, _NO_SOURCE)
    return [Module(k.info, CudaLibrary(k.artifact), sources, k.artifact) for k in kernels]

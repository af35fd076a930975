"""A compiled model as plain data: its steps, and where their arguments lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewright.ir.numpy_bridge import to_numpy

if TYPE_CHECKING:
    from tilewright.graph.graph import GraphValue

EXTERNAL = -1  # stands for the kernel of a step that a function of Python runs


@dataclass(frozen=True)
class ValueInfo:
    """Name, shape and type of an array."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, value: GraphValue, name: str | None = None) -> ValueInfo:
        """Describes a value of a graph, which may have another name for callers."""
        name = value.name if name is None else name
        return cls(name, value.type.extents, value.type.dtype)

    @property
    def element_type(self) -> np.dtype[Any]:
        """The type as NumPy's."""
        return to_numpy(self.dtype)

    @property
    def bytes(self) -> int:
        """What the array takes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.element_type.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"

    @property
    def type(self) -> str:
        """`float32[1, 8]`."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class ArrayPlace:
    """Where an array is: bytes into the block of intermediate values, or the number of another."""

    memory: Literal["arena", "constant", "packed", "input", "output"]
    index: int


@dataclass(frozen=True)
class Packing:
    """A constant in the layout that a kernel wants, made by the device before the first run."""

    kernel: int
    position: int  # of the argument
    constant: int


@dataclass(frozen=True)
class ExternalProgram:
    """A step that another library runs, as plain data: `byoc.ExternalPart` is made of it."""

    backend: str
    name: str
    program: str
    inputs: tuple[ValueInfo, ...]  # with those that are constants
    constants: tuple[tuple[int, int], ...]  # positions of these, and their numbers in the model


@dataclass(frozen=True)
class ModelStep:
    """One kernel, or one external function, on arrays; inputs before outputs."""

    name: str
    kernel: int  # a number, or EXTERNAL
    arguments: tuple[ArrayPlace, ...]
    values: tuple[ValueInfo, ...]
    inputs: int  # how many of the arguments are read
    flop: float = 0.0  # of one run
    sources: tuple[str, ...] = ()  # nodes of the original model
    operators: tuple[str, ...] = ()
    external: ExternalProgram | None = None  # None: a kernel, or a function that nobody can write


@dataclass(frozen=True)
class ModelProgram:
    """All steps of a model."""

    name: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    results: tuple[ArrayPlace, ...]  # where each output is after the last step
    steps: tuple[ModelStep, ...]
    arena_bytes: int
    target: str = ""  # that the kernels are compiled for; empty: there are none
    packings: tuple[Packing, ...] = ()  # on the CPU constants are packed already

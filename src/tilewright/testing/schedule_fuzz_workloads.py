"""Random small programs for the schedule fuzzer: stages of many kinds, each on what came before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright import te
from tilewright.ir import IntImm, PrimFunc, const, logical_and
from tilewright.te import Tensor
from tilewright.testing.declared_results import with_results_read

EXTENTS = (1, 2, 3, 4, 4, 5, 6, 8, 8, 9)
MAX_STAGES = 4
NAMING_RESULTS = 0.2


@dataclass
class ProgramFuzzer:
    """Grows a graph of tensors stage by stage."""

    rng: random.Random
    dtype: str = "int32"
    inputs: list[Tensor] = field(default_factory=list)
    stages: list[Tensor] = field(default_factory=list)

    def program(self) -> PrimFunc:
        """A function of one to four stages; its results are the stages that nobody reads."""
        self.dtype = self.rng.choice(["int32", "int32", "float32"])
        self.add_input((self.extent(), self.extent()))
        for _ in range(self.rng.randint(1, MAX_STAGES)):
            source = self._source()
            fitting = [make for ndim, make in STAGES if ndim in (0, source.ndim)]
            self.stages.append(self.rng.choice(fitting)(self, source))
        return te.create_prim_func([*self.inputs, *self._results()])

    def _source(self) -> Tensor:
        """A tensor to read from, mostly the last one."""
        if self.stages and self.rng.random() < 0.8:
            return self.stages[-1]
        return self.rng.choice(self.tensors())

    def tensors(self) -> list[Tensor]:
        """All tensors that a stage can read: those of the type of the program."""
        return [t for t in (*self.inputs, *self.stages) if t.dtype == self.dtype]

    def _results(self) -> list[Tensor]:
        read = {tensor.op for stage in self.stages for tensor in stage.op.input_tensors}
        return [
            # Now and then an intermediate stage is a result as well.
            stage
            for stage in self.stages
            if stage.op not in read or self.rng.random() < 0.1
        ]

    def extent(self) -> int:
        """A random size."""
        return self.rng.choice(EXTENTS)

    def add_input(self, shape: tuple[int, ...], dtype: str = "") -> Tensor:
        """A new parameter."""
        made = te.placeholder(shape, name=f"X{len(self.inputs)}", dtype=dtype or self.dtype)
        self.inputs.append(made)
        return made

    def compute(self, shape: tuple[int, ...], function: Callable[..., Any]) -> Tensor:
        """A new stage."""
        made = te.compute(shape, function, name=f"S{len(self.stages)}")
        assert isinstance(made, Tensor)
        return made


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(extent.value for extent in tensor.shape if isinstance(extent, IntImm))


def _scaled(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    factor = const(fuzz.rng.randint(1, 3), fuzz.dtype)
    return fuzz.compute(_shape(source), lambda *i: source(*i) * factor + const(1, fuzz.dtype))


def _relu(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    zero = const(0, fuzz.dtype)
    return fuzz.compute(_shape(source), lambda *i: te.select(source(*i) > zero, source(*i), zero))


def _joined(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    same = [t for t in fuzz.tensors() if _shape(t) == _shape(source)]
    other = fuzz.rng.choice([*same, fuzz.add_input(_shape(source))])
    return fuzz.compute(_shape(source), lambda *i: source(*i) + other(*i))


def _stencil(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    *outer, last = _shape(source)
    width = min(last, fuzz.rng.randint(1, 3))
    return fuzz.compute(
        (*outer, last - width + 1),
        lambda *i: sum((source(*i[:-1], i[-1] + shift) for shift in range(1, width)), source(*i)),
    )


def _padded(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    first, *inner = _shape(source)
    before, after = fuzz.rng.randint(0, 2), fuzz.rng.randint(0, 2)

    def element(*i: Any) -> Any:
        inside = logical_and(i[0] >= before, i[0] < first + before)
        return te.if_then_else(inside, source(i[0] - before, *i[1:]), const(0, fuzz.dtype))

    return fuzz.compute((first + before + after, *inner), element)


def _reversed(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    first, *inner = _shape(source)
    return fuzz.compute((first, *inner), lambda *i: source(first - 1 - i[0], *i[1:]))


def _transposed(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    rows, columns = _shape(source)
    return fuzz.compute((columns, rows), lambda i, j: source(j, i))


def _flattened(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    rows, columns = _shape(source)
    return fuzz.compute((rows * columns,), lambda i: source(i // columns, i % columns))


def _every_other(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    first, *inner = _shape(source)
    return fuzz.compute(((first + 1) // 2, *inner), lambda *i: source(i[0] * 2, *i[1:]))


def _spread(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    columns = fuzz.extent()
    return fuzz.compute((*_shape(source), columns), lambda i, j: source(i) + j.astype(fuzz.dtype))


def _row_sum(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    rows, columns = _shape(source)
    k = te.reduce_axis((0, columns), name="k")
    return fuzz.compute((rows,), lambda i: te.sum(source(i, k), axis=k))


def _column_max(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    rows, columns = _shape(source)
    k = te.reduce_axis((0, rows), name="k")
    return fuzz.compute((columns,), lambda j: te.max(source(k, j), axis=k))


def _total(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    axes = [te.reduce_axis((0, extent), name=f"k{n}") for n, extent in enumerate(_shape(source))]
    return fuzz.compute((1,), lambda _: te.sum(source(*axes), axis=axes))


def _product(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    rows, depth = _shape(source)
    columns = fuzz.extent()
    weights = fuzz.add_input((depth, columns))
    k = te.reduce_axis((0, depth), name="k")
    return fuzz.compute((rows, columns), lambda i, j: te.sum(source(i, k) * weights(k, j), axis=k))


def _product_of_bytes(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    """A product of parameters, which a second stage adds to what it reads."""
    rows, columns = _shape(source)
    depth = fuzz.extent()
    kinds = ("int8", "uint8") if fuzz.dtype == "int32" else ("float32",)
    left = fuzz.add_input((rows, depth), fuzz.rng.choice(kinds))
    right = fuzz.add_input((columns, depth), fuzz.rng.choice(kinds))
    k = te.reduce_axis((0, depth), name="k")
    dtype = fuzz.dtype
    product = fuzz.compute(
        (rows, columns),
        lambda i, j: te.sum(left(i, k).astype(dtype) * right(j, k).astype(dtype), axis=k),
    )
    fuzz.stages.append(product)
    return fuzz.compute((rows, columns), lambda i, j: source(i, j) + product(i, j))


def _convolution(fuzz: ProgramFuzzer, source: Tensor) -> Tensor:
    rows, columns = _shape(source)
    high, wide = min(rows, 2), min(columns, 3)
    kernel = fuzz.add_input((high, wide))
    a, b = te.reduce_axis((0, high), name="a"), te.reduce_axis((0, wide), name="b")
    return fuzz.compute(
        (rows - high + 1, columns - wide + 1),
        lambda i, j: te.sum(source(i + a, j + b) * kernel(a, b), axis=[a, b]),
    )


# (dimensions of the tensor read, 0 for any; how to make the stage)
STAGES: tuple[tuple[int, Callable[[ProgramFuzzer, Tensor], Tensor]], ...] = (
    (0, _scaled),
    (0, _relu),
    (0, _joined),
    (0, _stencil),
    (0, _padded),
    (0, _reversed),
    (0, _every_other),
    (0, _total),
    (1, _spread),
    (2, _transposed),
    (2, _flattened),
    (2, _row_sum),
    (2, _row_sum),
    (2, _column_max),
    (2, _product),
    (2, _product),
    (2, _product_of_bytes),
    (2, _convolution),
)


def random_program(seed: int | str) -> PrimFunc:
    """The program of a seed; the reductions of some name their results among their reads."""
    rng = random.Random(seed)
    program = ProgramFuzzer(rng).program()
    return with_results_read(program) if rng.random() < NAMING_RESULTS else program

"""Operators on given sizes, as programs and as stages that rules work on; their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import TuneError
from tilewright.heron.template import Template, TensorStage
from tilewright.ir import IRModule
from tilewright.support.plugins import Family

_MOST = (1 << 31) - 1  # of a size: what loops count to


@dataclass(frozen=True)
class HeronOperator:
    """An operator on given shapes."""

    name: str
    mod: IRModule
    make_template: Callable[[], Template]
    flop: int


@dataclass(frozen=True)
class OperatorCase:
    """What a configuration asks for: an operator, its shape and its data types."""

    operator: str
    shape: tuple[int, ...]
    in_dtype: str
    out_dtype: str
    weight_block: int = 0  # sides of square blocks that weights are stored in; 0: plain, or packed
    as_matrices: bool = False  # everything becomes a product of matrices that fill fragments

    @property
    def weight_dtype(self) -> str:
        """That of the second operand."""
        return "int8" if self.in_dtype == "uint8" else self.in_dtype

    def sizes(self, names: Sequence[str], may_be_zero: Sequence[str] = ()) -> tuple[int, ...]:
        """The shape, if it has a number for each of these names."""
        if len(self.shape) != len(names):
            raise TuneError(
                f"operator {self.operator!r} takes the sizes ({', '.join(names)}), got "
                f"{list(self.shape)}"
            )
        for name, size in zip(names, self.shape, strict=True):
            least = 0 if name in may_be_zero else 1
            if size < least:
                raise TuneError(
                    f"operator {self.operator!r}: {name} must be at least {least}, got {size}"
                )
            if size > _MOST:
                raise TuneError(f"operator {self.operator!r}: {name} must be at most {_MOST}")
        return self.shape


heron_operators: Family[HeronOperator] = Family("operator of Heron", "tilewright.heron_operator")


def operation_of(case: OperatorCase) -> HeronOperator:
    """The operator of a case."""
    return heron_operators.create(case.operator, case)


def operand_stage(
    name: str,
    follows: Sequence[str],
    extents: Mapping[str, int],
    reads: tuple[str, ...] | None = None,
) -> TensorStage:
    """An operand by the iterators of its consumer; `reads`: what it is computed from."""
    axes = tuple(f"ax{place}" for place in range(len(follows)))
    return TensorStage(
        name,
        axes,
        reads=reads or (),
        extents={axis: extents[other] for axis, other in zip(axes, follows, strict=True)},
        follows=dict(zip(axes, follows, strict=True)),
        is_input=reads is None,
        is_injective=reads is not None,
    )

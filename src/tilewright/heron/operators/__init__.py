"""Operators that Heron tunes; importing this registers them.

base                    operators by name
products                products of matrices, as they are written
matrices                operators as products of matrices that fill fragments of tensor cores
convolution             sizes and indices of convolutions of any number of dimensions
convolutions            their operators: as loops over windows, or as products of matrices
blocked_convolutions    the same in the layouts of VTA
statistics              sums over rows as products with ones
"""

from tilewright.heron.operators import (  # noqa: F401
    convolutions,
    products,
    statistics,
)
from tilewright.heron.operators.base import (
    HeronOperator,
    OperatorCase,
    heron_operators,
    operation_of,
)

__all__ = ["HeronOperator", "OperatorCase", "heron_operators", "operation_of"]

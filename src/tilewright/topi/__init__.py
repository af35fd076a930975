"""Operators on tensors in the style of NumPy; neural-network operators are in `topi.nn`.

Importing this package also gives whole tensors their arithmetic: `a + b`, `a * 2`, `a.astype(...)`.
"""

from tilewright.topi import image as image, nn as nn
from tilewright.topi.broadcast import *  # noqa: F403 - its `__all__`
from tilewright.topi.creation import arange as arange, full as full, full_like as full_like
from tilewright.topi.einsum import einsum as einsum
from tilewright.topi.elementwise import *  # noqa: F403 - its `__all__`
from tilewright.topi.indexing import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.dense import plain_matmul as _matmul
from tilewright.topi.quantize import *  # noqa: F403 - its `__all__`
from tilewright.topi.reduction import *  # noqa: F403 - its `__all__`
from tilewright.topi.scan import cumprod as cumprod, cumsum as cumsum
from tilewright.topi.scatter import scatter_elements as scatter_elements, scatter_nd as scatter_nd
from tilewright.topi.sort import argsort as argsort, sort as sort, topk as topk
from tilewright.topi.transform import *  # noqa: F403 - its `__all__`

matmul = _matmul

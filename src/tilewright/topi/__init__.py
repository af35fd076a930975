"""Operators on tensors in the style of NumPy; neural-network operators are in `topi.nn`.

Importing this package also gives whole tensors their arithmetic: `a + b`, `a * 2`, `a.astype(...)`.
"""

from tilewright.topi import image as image, nn as nn
from tilewright.topi.broadcast import (
    add as add,
    atan2 as atan2,
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    broadcast_to as broadcast_to,
    divide as divide,
    equal as equal,
    floor_divide as floor_divide,
    floor_mod as floor_mod,
    greater as greater,
    greater_equal as greater_equal,
    left_shift as left_shift,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_or as logical_or,
    maximum as maximum,
    minimum as minimum,
    mod as mod,
    multiply as multiply,
    not_equal as not_equal,
    power as power,
    right_shift as right_shift,
    subtract as subtract,
)
from tilewright.topi.creation import arange as arange, full as full, full_like as full_like
from tilewright.topi.einsum import einsum as einsum
from tilewright.topi.elementwise import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atanh as atanh,
    bitwise_not as bitwise_not,
    cast as cast,
    ceil as ceil,
    clip as clip,
    cos as cos,
    cosh as cosh,
    erf as erf,
    exp as exp,
    exp2 as exp2,
    floor as floor,
    identity as identity,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    logical_not as logical_not,
    negative as negative,
    reinterpret as reinterpret,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from tilewright.topi.indexing import (
    gather as gather,
    gather_nd as gather_nd,
    one_hot as one_hot,
    strided_slice as strided_slice,
    take as take,
    where as where,
)
from tilewright.topi.nn.dense import plain_matmul as _matmul
from tilewright.topi.quantize import (
    Requantization as Requantization,
    fixed_point_multiply as fixed_point_multiply,
    fixed_point_multiply_per_axis as fixed_point_multiply_per_axis,
    fixed_point_scales as fixed_point_scales,
    requantize as requantize,
    saturating_cast as saturating_cast,
)
from tilewright.topi.reduction import (
    all as all,
    any as any,
    argmax as argmax,
    argmin as argmin,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    sum as sum,
)
from tilewright.topi.scan import cumprod as cumprod, cumsum as cumsum
from tilewright.topi.scatter import scatter_elements as scatter_elements, scatter_nd as scatter_nd
from tilewright.topi.sort import argsort as argsort, sort as sort, topk as topk
from tilewright.topi.transform import (
    concatenate as concatenate,
    expand_dims as expand_dims,
    flip as flip,
    repeat as repeat,
    reshape as reshape,
    split as split,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    transpose as transpose,
)

matmul = _matmul

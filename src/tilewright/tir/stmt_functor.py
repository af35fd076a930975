"""Walking and rewriting TensorIR."""

from tilewright.ir import (
    ir_transform as ir_transform,
    post_order_visit as post_order_visit,
    pre_order_visit as pre_order_visit,
    substitute as substitute,
)
from tilewright.ir.clone import renew_defs as renew_defs

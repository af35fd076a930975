# mypy: ignore-errors
"""A pass of one's own that vectorises loops, made of the functions on statements."""

import numpy as np
import tvm
from tvm import te

n = tvm.tir.const(128, "int32")
a = te.placeholder((n,), name="a")
b = te.placeholder((n,), name="b")
c = te.compute((n,), lambda i: a[i] + b[i], name="c")
mod = tvm.IRModule.from_expr(te.create_prim_func([a, b, c]))
gv = mod.get_global_var("main")

loops = []


def find_width8(op):
    if isinstance(op, tvm.tir.For) and isinstance(op.extent, tvm.tir.IntImm):
        if op.extent.value % 8 == 0:
            loops.append(op)


def vectorize8(op):
    if op not in loops:
        return None
    extent, name = op.extent.value, op.loop_var.name
    lo, li = te.var(name + ".outer"), te.var(name + ".inner")
    body = tvm.tir.stmt_functor.substitute(op.body, {op.loop_var: lo * 8 + li})
    body = tvm.tir.For(li, 0, 8, tvm.tir.ForKind.VECTORIZED, body)
    return tvm.tir.For(lo, 0, extent // 8, tvm.tir.ForKind.SERIAL, body)


@tvm.tir.transform.prim_func_pass(opt_level=0)
def vectorize(f, mod, ctx):
    tvm.tir.stmt_functor.post_order_visit(f.body, find_width8)
    if not loops:
        return f
    return f.with_body(tvm.tir.stmt_functor.ir_transform(f.body, None, vectorize8, ["tir.For"]))


changed = tvm.transform.Sequential([vectorize, tvm.tir.transform.Simplify()])(mod)
assert "T.vectorized(8)" in changed[gv].script()

names = []


@tvm.instrument.pass_instrument
class Watch:
    def run_before_pass(self, mod, info):
        names.append(info.name)


with tvm.transform.PassContext(
    instruments=[Watch()], config={"tir.add_lower_pass": [(0, vectorize)]}
):
    f = tvm.build(mod, target="llvm", name="add")
assert "vectorize" in names
x, y = np.random.rand(2, 128).astype("float32")
z = tvm.nd.empty((128,))
f["main"](tvm.nd.array(x), tvm.nd.array(y), z)
np.testing.assert_allclose(z.numpy(), x + y)
print("done")

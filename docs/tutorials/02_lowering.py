"""Tutorial 2: follow a program through lowering, and add a pass of your own.

Run it: python docs/tutorials/02_lowering.py
"""

import numpy as np

import tilewright as tw
from tilewright import tir
from tilewright.script import tir as T


# A tile of 16 does not divide 100: the block runs only where its predicate holds.
@T.prim_func
def tiled(X: T.Buffer((100,), "float32"), Y: T.Buffer((100,), "float32")):
    for o in T.parallel(7):
        for i in T.vectorized(16):
            with T.block("Y"):
                vi = T.axis.spatial(100, o * 16 + i)
                T.where(o * 16 + i < 100)
                Y[vi] = X[vi] * X[vi]


# `stages=True` keeps the module after every pass.
stages = tw.lower(tiled, stages=True)
print("passes:", ", ".join(stage.name for stage in stages))
for name in ("LowerOpaqueBlock", "LoopPartition", "VectorizeLoop"):
    print(f"\n--- after {name}")
    stages.after(name)["tiled"].show()


# A pass is a function from function to function. This one turns x * x into x ** 2, to show how a
# rewriter looks: a method for the class of nodes it cares about, `generic_visit` for the children.
class SquareToPower(tir.Rewriter):
    count = 0

    def visit_mul(self, node):
        node = self.generic_visit(node)
        if not tir.structural_equal(node.a, node.b):
            return node
        self.count += 1
        return tir.pow(node.a, tir.const(2.0, node.dtype))


@tir.transform.prim_func_pass(opt_level=0)
def squares(func, mod, ctx):
    rewriter = SquareToPower()
    body = rewriter.rewrite(func.body)
    print(f"\nrewrote {rewriter.count} product in {func.name}")
    return func.with_body(body)


# `PassContext` inserts it: phase 0 is before everything, 1 after flattening, 2 and 3 later.
with tw.PassContext(config={"tir.add_lower_pass": [(1, squares)]}):
    mod = tw.build(tiled)

x, y = np.linspace(-3, 3, 100).astype("float32"), np.empty(100, "float32")
mod(x, y)
np.testing.assert_allclose(y, x * x, rtol=1e-5)

# The same context switches parts of the pipeline off, and lets you watch.


class Counter:
    """Counts the passes that change something."""

    def __init__(self):
        self.before, self.changed = None, []

    def run_before_pass(self, module, info):
        self.before = module

    def run_after_pass(self, module, info):
        if module is not self.before:
            self.changed.append(info.name)


counter = Counter()
with tw.PassContext(config={"tir.disable_vectorize": True}, instruments=(counter,)):
    tw.lower(tiled)
print("passes that changed the program:", ", ".join(counter.changed))
assert "LowerOpaqueBlock" in counter.changed

"""Tutorial 6: from an ONNX file to a faster model.

Run it: python docs/tutorials/06_from_onnx.py (it needs the package onnx)
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, reference

from tilewright import model as models
from tilewright.database import open_database
from tilewright.frontend.onnx import import_onnx
from tilewright.model import compile_model, extract_tasks, served_by, tune_model

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "model.onnx"


# A small network stands for yours: two convolutions with activations, a pool, a layer on top.
def weight(name: str, *shape: int) -> onnx.TensorProto:
    numbers = np.random.default_rng(len(name)).standard_normal(shape) / 8
    return numpy_helper.from_array(numbers.astype("float32"), name)


nodes = [
    helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], name="stem", pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["c1"], ["r1"]),
    helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="body", pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["c2"], ["r2"]),
    helper.make_node("GlobalAveragePool", ["r2"], ["pooled"], name="pool"),
    helper.make_node("Flatten", ["pooled"], ["flat"]),
    helper.make_node("Gemm", ["flat", "w3", "b3"], ["scores"], name="head", transB=1),
]
image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 16, 16])
scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])
weights = [
    weight("w1", 16, 3, 3, 3), weight("b1", 16), weight("w2", 16, 16, 3, 3), weight("b2", 16),
    weight("w3", 10, 16), weight("b3", 10),
]  # fmt: skip
graph_proto = helper.make_graph(nodes, "tiny", [image], [scores], weights)
onnx.save(helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", 20)]), str(path))

# Two lines: import, compile. Dimensions with a name get a size when the model is imported.
graph = import_onnx(path, dims={"batch": 1})
run = compile_model(graph)

x = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype("float32")
(expected,) = reference.ReferenceEvaluator(str(path)).run(None, {"image": x})
np.testing.assert_allclose(run(x)[0], expected, rtol=1e-4, atol=1e-4)
print("the calculated model agrees with ONNX's own evaluator")

# The model's kernels are tasks: each is tuned once, however often it runs.
for task in extract_tasks(graph):
    print(f"{task.weight} x {task.task_name}")

# Trials go where the model gains most. At the end its kernels run in the model against calculated
# ones: what is slower in place is not used. Called again, tuning goes on where it stopped.
database = open_database(str(Path(folder.name) / "records.db"))
results = []
tune_model(
    graph, max_trials_global=24, database=database, console=False, on_final=results.append
)  # fmt: skip
(final,) = results
print(f"{final.calculated_secs / final.secs:.2f}x as fast as calculated, in the model")

# Any database serves. The report says which record serves which operator.
tuned = compile_model(graph, database=database)
print(served_by(tuned))
np.testing.assert_allclose(tuned(x)[0], expected, rtol=1e-4, atol=1e-4)

# One file, which is loaded without a compiler.
saved = tuned.save(Path(folder.name) / "model.twm")
np.testing.assert_array_equal(models.load(saved)(x)[0], tuned(x)[0])
print("the saved model gives the same results")

database.close()
folder.cleanup()

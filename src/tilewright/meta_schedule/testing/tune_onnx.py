"""Tune a model of ONNX, compile it, and time it: TVM's script of this name.

    python -m tilewright.meta_schedule.testing.tune_onnx --model-name NAME --onnx-path FILE \
        --input-shape '[{"name": "x", "dtype": "float32", "shape": [1, 3, 224, 224]}]' \
        --target llvm --num-trials 1000 --work-dir FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.frontend.sources import load_graph
from tilewright.meta_schedule.testing.script_options import input_infos, runner_of, tuning_parser
from tilewright.model import compile_model, served_by, tune_model
from tilewright.testing.tune_utils import generate_input_data
from tilewright.tune.profiler import Profiler


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune, compile, time; prints where the time of tuning went, and that of each kernel."""
    parser = tuning_parser(__doc__.splitlines()[0])
    parser.add_argument("--model-name", required=True)
    parser.add_argument("--onnx-path", type=Path, required=True)
    parser.add_argument("--input-shape", required=True)
    parser.add_argument("--backend", choices=["graph"], default="graph")
    options = parser.parse_args(arguments)
    infos = input_infos(options.input_shape)
    graph = load_graph(options.onnx_path, shapes={i["name"]: i["shape"] for i in infos})
    print(f"Workload: {options.model_name}", *(f"  input {info}" for info in infos), sep="\n")
    with Profiler() as profiler:
        database = tune_model(
            graph,
            options.target,
            work_dir=options.work_dir,
            max_trials_global=options.num_trials,
            runner=runner_of(options),
            console=False,
        )
    print("Tuning Time:", profiler.table(), sep="\n")
    executable = compile_model(graph, options.target, database)
    print(served_by(executable))
    arrays = [generate_input_data(v.type.extents, str(v.type.dtype)) for v in graph.inputs]
    print(executable.profile(*arrays))
    database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

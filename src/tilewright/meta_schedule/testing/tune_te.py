"""Tune one of the workloads of `te_workload`: TVM's script of this name.

    python -m tilewright.meta_schedule.testing.tune_te --workload GMM --target llvm \
        --num-trials 64 --work-dir FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tilewright.meta_schedule.testing.script_options import runner_of, tuning_parser
from tilewright.testing.te_workload import CONFIGS, create_te_workload
from tilewright.tune.api import compile_tir, tune_tir
from tilewright.tune.profiler import Profiler


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune; prints where the time went, and the best program with its trace."""
    parser = tuning_parser(__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=list(CONFIGS), required=True)
    options = parser.parse_args(arguments)
    program = create_te_workload(options.workload, 0)
    with Profiler() as profiler:
        database = tune_tir(
            program,
            options.target,
            options.work_dir,
            options.num_trials,
            runner=runner_of(options),
            console=False,
        )
    print("Tuning Time:", profiler.table(), sep="\n")
    best = compile_tir(database, program, options.target)
    print("No valid schedule found!" if best is None else f"{best.mod.script()}\n{best.trace}")
    database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

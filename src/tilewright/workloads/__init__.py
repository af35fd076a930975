"""The operators that tuning is measured and tested on, under the names everybody uses.

`in_torch` holds the same in PyTorch, and is imported only where PyTorch is installed.
"""

from tilewright.workloads.configs import (
    CONFIGS as CONFIGS,
    create_te_workload as create_te_workload,
)

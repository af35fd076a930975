"""Programs written for TVM 0.14 run unchanged: `python -m tilewright.compat script.py`.

`tvm_imports()` is the same for a part of a program. `docs/coming_from_tvm.md` lists what differs.
"""

from tilewright.compat.finder import tvm_imports as tvm_imports
from tilewright.compat.run import run as run

# What `tvm.__version__` says: the version whose names are offered.
TVM_VERSION = "0.14.0"

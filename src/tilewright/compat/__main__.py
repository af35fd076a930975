"""`python -m tilewright.compat script.py [arguments]` or `... -m module [arguments]`."""

import sys

from tilewright.compat.run import run

sys.exit(run(sys.argv[1:]))

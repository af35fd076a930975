"""`python -m tilewright.compat script.py [arguments]` or `... -m module [arguments]`."""

import sys

from tilewright.compat.run import prepared
from tilewright.errors import ConfigError

try:
    job = prepared(sys.argv[1:])
except ConfigError as error:
    sys.exit(f"error: {error}")
job()

"""Hooks of a runner that tell on which GPU a worker runs, without a GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.config import environ_for_gpu

_PATIENCE = 30.0


def load(path: str) -> Path:
    """A candidate is a file such as "3.2": the third, of two that run at the same time."""
    return Path(path)


def evaluate(compiled: Path, *_: object) -> Sequence[float]:
    """Write the number of the GPU into the file, and wait for the files of the others."""
    (gpu,) = environ_for_gpu(0).values()
    compiled.write_text(gpu)
    deadline = time.monotonic() + _PATIENCE
    together = int(compiled.suffix[1:])
    while len(list(compiled.parent.iterdir())) < together and time.monotonic() < deadline:
        time.sleep(0.01)
    return [float(gpu)]


def wait_forever(_: bytes) -> bytes:
    """A task that does not end."""
    time.sleep(3600)
    return b""

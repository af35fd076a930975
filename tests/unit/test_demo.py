"""`make demo` works, with less time than it usually takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py"), "--budget", "0.5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for program in ("matmul 512x512x512", "conv2d 14x14x256, 3x3"):
        assert program in done.stdout
    for version in ("plain loops", "no search", "tuned"):
        rows = re.findall(rf"{version} +(\S+ \S+) +\S+ +\d+x +\de[-+]\d\d", done.stdout)
        assert len(rows) == 2, done.stdout
    assert list(tmp_path.iterdir()) == []

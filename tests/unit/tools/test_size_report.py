from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "size_report.py"


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_small_code_passes(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("def f():\n    return 1\n")
    done = _run(tmp_path)
    assert done.returncode == 0
    assert done.stdout == "1 files, median 2 lines\n1 functions, median 2 lines\n"


def test_a_long_function_fails_but_its_docstring_is_free(tmp_path: Path) -> None:
    manual = '    """Text.\n' + "    more\n" * 90 + '    """\n'
    (tmp_path / "manual.py").write_text("def f():\n" + manual + "    return 1\n")
    assert _run(tmp_path).returncode == 0
    (tmp_path / "long.py").write_text("def g():\n" + "    x = 1\n" * 80)
    done = _run(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'long.py'}:1 g: 81 lines, at most 80 are allowed" in done.stdout

"""The hand-written kernels on another machine, as exported libraries, beside PyTorch.

    python benchmarks/exported_kernels.py export DIR --mcpu sapphirerapids   # where Tilewright is
    python DIR/exported_kernels.py run DIR [--cpus 2,10] [--json FILE]       # where PyTorch is

The second machine needs neither Tilewright nor a compiler: only Python, NumPy, PyTorch and the
folder that the first command filled.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {"sgemm_1024": 1024, "sgemm_128": 128}
EXP_SIZE = 1 << 20
SETTLE_SECONDS = 0.05
ROUNDS = 25


def export(folder: Path, mcpu: str) -> None:
    """Build the kernels for a processor and put them, with this script, into `folder`."""
    tw = importlib.import_module("tilewright")
    handwritten = importlib.import_module("tilewright.testing.handwritten")
    folder.mkdir(parents=True, exist_ok=True)
    kernels = {
        "sgemm_1024": handwritten.packed_matmul(1024, 1024, 1024),
        "sgemm_128": handwritten.direct_matmul(128, 128, 128),
        "exp_1m": handwritten.exp(EXP_SIZE),
    }
    for name, func in kernels.items():
        tw.build(func, target=f"llvm -mcpu={mcpu}").export_library(str(folder / f"{name}.so"))
        print(f"{folder / name}.so")
    shutil.copy(__file__, folder)


class Kernel:
    """A function of an exported library, called on NumPy arrays."""

    def __init__(self, folder: Path, name: str, threads: int) -> None:
        self._library = ctypes.CDLL(str(folder / f"{name}.so"))
        getattr(self._library, f"{name}_set_num_threads")(threads)
        self._function: Any = getattr(self._library, f"{name}_main")

    def bind(self, *arrays: Any) -> Callable[[], object]:
        """A call with the arrays filled in."""
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        function = self._function
        if function(*pointers) != 0:
            raise RuntimeError("the kernel failed")
        return lambda: function(*pointers)


def seconds(call: Callable[[], object], number: int) -> float:
    """The mean time of a call, after the threads of others had time to stop spinning."""
    time.sleep(SETTLE_SECONDS)
    call()
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], number: int
) -> Any:
    """Both in turn; the best and the median of each, and their ratios."""
    samples = [(seconds(ours, number), seconds(theirs, number)) for _ in range(ROUNDS)]
    mine, rival = zip(*samples, strict=True)
    row = {
        "name": name,
        "ours": min(mine) * 1e6,
        "rival": min(rival) * 1e6,
        "unit": "us",
        "ratio": min(mine) / min(rival),
        "ratio_of_medians": statistics.median(mine) / statistics.median(rival),
    }
    figures = f"{row['ours']:10.1f} us  torch {row['rival']:10.1f} us"
    ratios = f"ratio {row['ratio']:.2f}  of medians {row['ratio_of_medians']:.2f}"
    print(f"{name:<12} {figures}  {ratios}", flush=True)
    return row


def run(folder: Path, cpus: list[int], json_file: Path | None) -> None:
    """Measure everything on two processors."""
    os.sched_setaffinity(0, set(cpus))
    np = importlib.import_module("numpy")
    torch = importlib.import_module("torch")
    torch.set_num_threads(len(cpus))
    rows = []
    for name, size in SIZES.items():
        a, b = (np.random.rand(size, size).astype("float32") for _ in range(2))
        c = np.zeros((size, size), "float32")
        ours = Kernel(folder, name, len(cpus)).bind(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-3)
        x, y, z = torch.from_numpy(a), torch.from_numpy(b), torch.empty(size, size)
        number = 3 if size > 512 else 200
        rows.append(compare(name, ours, lambda x=x, y=y, z=z: torch.mm(x, y, out=z), number))
    x = np.random.uniform(-20, 20, EXP_SIZE).astype("float32")
    y = np.zeros_like(x)
    ours = Kernel(folder, "exp_1m", len(cpus)).bind(x, y)
    source, target = torch.from_numpy(x), torch.empty(EXP_SIZE)
    rows.append(compare("exp_1m", ours, lambda: torch.exp(source, out=target), 10))
    if json_file is not None:
        content = {
            "title": "exported kernels",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": processor(),
            "threads": len(cpus),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "rows": rows,
        }
        json_file.write_text(json.dumps(content, indent=1) + "\n")


def processor() -> str:
    """The processor's own name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    """Export or run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["export", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mcpu", default="x86-64-v4")
    parser.add_argument("--cpus", default="0,1", help="processors to use, one thread each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.mode == "export":
        export(options.folder, options.mcpu)
    else:
        run(options.folder, [int(cpu) for cpu in options.cpus.split(",")], options.json)


if __name__ == "__main__":
    main()

"""TVM's side of `build_gmm`: builds the same program and says how long it took.

Runs in TVM's own environment. For every line on standard input it answers one line of JSON: the
seconds of one build of the program.
"""

import json
import sys
import time
from pathlib import Path

import tvm

# TVM 0.25 spells some constructs differently from 0.14, whose names the program uses.
RENAMED = {
    "T.block_attr": "T.sblock_attr",
    "T.block(": "T.sblock(",
    "T.alloc_buffer": "T.sblock_alloc_buffer",
    "T.prim_func": "T.prim_func(s_tir=True)",
    '"tir.noalias": T.bool(True)': '"tirx.noalias": True',
}


def load(path: str) -> tvm.IRModule:
    """The program under TVM's names."""
    text = Path(path).read_text()
    text = text[text.index("@I.ir_module") :]
    for ours, theirs in RENAMED.items():
        text = text.replace(ours, theirs)
    return tvm.script.from_source(text)


def main() -> None:
    """Answer until the input ends."""
    module = load(sys.argv[1])
    target = json.loads(sys.argv[2])
    for _ in sys.stdin:
        start = time.perf_counter()
        tvm.compile(module, target=target)
        print(json.dumps(time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()

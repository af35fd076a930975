"""TVM's side of the tests of how blocks map onto tensor instructions; runs in TVM's environment.

Each line on standard input is a JSON object with `program` and `description`, scripts of modules
under the names of TVM 0.14. The answer is one line: which loops of block "C" the description would
take over, without and with padding, and how the iterators fold onto those of the description.
"""

import json
import sys
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import analysis
from tvm_side import to_tvm  # type: ignore[import-not-found]


def loop_mapping(schedule: Any, block: Any, description: Any, allow_padding: bool) -> Any:
    """Pairs of positions of loops, and what is to be added to iterators; None if nothing fits."""
    info = analysis.get_tensorize_loop_mapping(schedule, block, description, allow_padding)
    if info is None:
        return None
    loops = [schedule.get_sref(loop) for loop in schedule.get_loops(block)]
    pairs = []
    for sref, loop in info.loop_map.items():
        position = next(index for index, mine in enumerate(loops) if mine.same_as(sref))
        pairs.append([position, int(info.desc_loop_indexer[loop])])
    paddings = info.block_iter_paddings
    return [sorted(pairs), None if paddings is None else [int(amount) for amount in paddings]]


def index_map(schedule: Any, block: Any, description: Any) -> Any:
    """The proposed index map, and the buffers that stand for those of the description."""
    info = analysis.get_auto_tensorize_mapping_info(schedule, block, description)
    if info is None:
        return None
    (mapping,) = info.mappings
    buffers = {mine.name: theirs.name for mine, theirs in info.lhs_buffer_map.items()}
    return {
        "initial": [index.name for index in mapping.initial_indices],
        "final": [str(index) for index in mapping.final_indices],
        "buffers": buffers,
    }


def answer(request: dict[str, str]) -> dict[str, Any]:
    """What TVM makes of a request."""
    program, description = (
        tvm.script.from_source(to_tvm(request[name])) for name in ("program", "description")
    )
    schedule = Schedule(program)
    block = schedule.get_sblock("C")
    wanted = description["main"]
    return {
        "plain": loop_mapping(schedule, block, wanted, False),
        "padded": loop_mapping(schedule, block, wanted, True),
        "folded": index_map(schedule, block, wanted),
    }


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

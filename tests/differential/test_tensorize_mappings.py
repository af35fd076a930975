"""Which loops an instruction takes over, and what folds onto what: as TVM says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import IntImm, IRModule
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
)
from tilewright.testing.contraction_forms import FORMS
from tilewright.testing.tvm_process import TvmProcess

HERE = Path(__file__).parent
INSTRUCTIONS = {
    "dot_16x4_vnni": ("uint8", "int8", "int32"),
    "wmma_sync_16x16x16_f16f16f32": ("float16", "float16", "float32"),
    "wmma_sync_16x16x16_f16f16f32_trans": ("float16", "float16", "float32"),
    "wmma_sync_16x16x16_s8s8s32": ("int8", "int8", "int32"),
}

pytestmark = pytest.mark.tvm


@pytest.fixture(scope="module")
def tvm(tvm_python: Path) -> Iterator[TvmProcess]:
    with TvmProcess(tvm_python, HERE / "tensorize_side.py") as process:
        yield process


class Ours:
    """The same questions, answered here."""

    def __init__(self, program: IRModule, intrin: TensorIntrin) -> None:
        self.sch = Schedule(program)
        self.block = self.sch.get_block("C")
        self.desc = intrin.desc

    def loops(self, allow_padding: bool) -> Any:
        info = get_tensorize_loop_mapping(self.sch, self.block, self.desc, allow_padding)
        if info is None:
            return None
        loops = [self.sch.get_sref(loop) for loop in self.sch.get_loops(self.block)]
        pairs = [
            [loops.index(own), info.desc_loop_indexer[theirs]]
            for own, theirs in info.loop_map.items()
        ]
        return [sorted(pairs), info.block_iter_paddings]

    def amounts(self, answer: Any) -> Any:
        """TVM's answer with the amounts to add, where it now names what to be a multiple of."""
        if answer is None or answer[1] is None:
            return answer
        extents = []
        for iter_var in self.sch.get_sref(self.block).block.iter_vars:
            assert iter_var.dom is not None
            assert isinstance(iter_var.dom.extent, IntImm)
            extents.append(iter_var.dom.extent.value)
        return [answer[0], [-e % unit for e, unit in zip(extents, answer[1], strict=True)]]

    def folded(self) -> Any:
        info = get_auto_tensorize_mapping_info(self.sch, self.block, self.desc)
        if info is None:
            return None
        (mapping,) = info.mappings
        return {
            "initial": [index.name for index in mapping.initial_indices],
            "final": [str(index) for index in mapping.final_indices],
            "buffers": {mine.name: theirs.name for mine, theirs in info.lhs_buffer_map.items()},
        }


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_same_mappings(form: str, instruction: str, tvm: TvmProcess) -> None:
    intrin = TensorIntrin.get(instruction)
    assert intrin is not None
    program = IRModule({"main": FORMS[form](*INSTRUCTIONS[instruction])})
    description = IRModule({"main": intrin.desc})
    theirs = tvm.ask(program=program.script(), description=description.script())
    ours = Ours(program, intrin)
    assert ours.loops(allow_padding=False) == theirs["plain"]
    assert ours.loops(allow_padding=True) == ours.amounts(theirs["padded"])
    assert ours.folded() == theirs["folded"]

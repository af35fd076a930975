# mypy: disable-error-code="valid-type, no-untyped-def"
"""`RewriteTensorize`: marked blocks are replaced by intrinsics."""

from __future__ import annotations

import logging

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import Block, ForKind, IRModule, PrimFunc
from tilewright.ir.annotation_keys import AUTO_TENSORIZE, LAYOUT_REWRITE_PREPROC
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import RewriteLayout, RewriteReductionBlock, RewriteTensorize
from tilewright.testing.schedule_checks import verify_trace_roundtrip
from tilewright.testing.space_generation import SpaceTask

VNNI = "dot_16x4_vnni"


@T.prim_func
def dense(
    X: T.Buffer((8, 16), "uint8"),
    W: T.Buffer((2, 4, 16, 4), "int8"),
    Y: T.Buffer((8, 32), "int32"),
):
    for i, jo, ko, ji, ki in T.grid(8, 2, 4, 16, 4):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(32, jo * 16 + ji)
            vk = T.axis.reduce(16, ko * 4 + ki)
            with T.init():
                Y[vi, vj] = 0
            Y[vi, vj] = Y[vi, vj] + T.cast(X[vi, vk], "int32") * T.cast(
                W[vj // 16, vk // 4, vj % 16, vk % 4], "int32"
            )


def marked(intrin: str, func: PrimFunc = dense) -> tuple[Schedule, IRModule]:
    """A dense layer with its innermost loops as a block that an intrinsic is meant for."""
    module = IRModule({"main": func})
    sch = Schedule(module)
    block = sch.get_block("Y")
    outer = sch.blockize(sch.get_loops(block)[3])
    sch.annotate(outer, AUTO_TENSORIZE, intrin)
    sch.enter_postproc()
    RewriteReductionBlock().apply(sch)
    return sch, module


def blocks(sch: Schedule) -> dict[str, Block]:
    return {sref.name: sref.block for sref in sch.state.srefs.values() if sref.is_block}


def test_block_becomes_the_intrinsic() -> None:
    sch, module = marked(VNNI)
    assert RewriteTensorize(vectorize_init_loop=True).apply(sch) is True
    found = blocks(sch)
    assert "vpdpbusd" in str(found["Y_o_update"].body)
    assert not any(AUTO_TENSORIZE in block.annotations for block in found.values())
    verify_trace_roundtrip(sch, module)


def test_initialisation_is_vectorized() -> None:
    sch, _ = marked(VNNI)
    RewriteTensorize(vectorize_init_loop=True).apply(sch)
    (loop,) = sch.get_loops(sch.get_block("Y_init"))
    assert sch.get(loop).kind is ForKind.VECTORIZED  # type: ignore[union-attr]


def test_initialisation_stays_unless_asked_for() -> None:
    sch, _ = marked(VNNI)
    RewriteTensorize().apply(sch)
    (loop,) = sch.get_loops(sch.get_block("Y_init"))
    assert sch.get(loop).kind is ForKind.SERIAL  # type: ignore[union-attr]
    assert blocks(sch)["Y_o_init"].annotations == {AUTO_TENSORIZE: ""}


def test_what_does_not_fit_stays_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    sch, _ = marked("dot_4x4_i8i8s32_sdot")
    member = RewriteTensorize()
    member._initialize_with_tune_context(SpaceTask())
    with caplog.at_level(logging.WARNING, logger="tilewright.test"):
        assert member.apply(sch) is True
    assert [record.name for record in caplog.records] == ["tilewright.test"]
    assert caplog.messages[0].startswith("Tensorize failed with error ")
    assert AUTO_TENSORIZE not in blocks(sch)["Y_o_update"].annotations


def test_blocks_without_marks_stay() -> None:
    sch = Schedule(IRModule({"main": dense}))
    before = sch.mod
    assert RewriteTensorize(vectorize_init_loop=True).apply(sch) is True
    assert sch.mod is before


def test_clone_keeps_the_setting() -> None:
    assert RewriteTensorize(vectorize_init_loop=True).clone().vectorize_init_loop is True


@T.prim_func
def layer(
    X: T.Buffer((8, 16), "uint8"),
    W: T.Buffer((32, 16), "int8"),
    Y: T.Buffer((8, 32), "int32"),
):
    for i, jo, ko, ji, ki in T.grid(8, 2, 4, 16, 4):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(32, jo * 16 + ji)
            vk = T.axis.reduce(16, ko * 4 + ki)
            with T.init():
                Y[vi, vj] = 0
            Y[vi, vj] = Y[vi, vj] + T.cast(X[vi, vk], "int32") * T.cast(W[vj, vk], "int32")


@pytest.mark.parametrize("is_free", [True, False])
def test_weights_are_packed_first_if_they_may_be(is_free: bool) -> None:
    func = layer.with_attr("layout_free_buffers", [1]) if is_free else layer
    sch, module = marked(VNNI, func)
    assert RewriteTensorize(vectorize_init_loop=True).apply(sch) is True
    found = blocks(sch)
    assert ("vpdpbusd" in str(found["Y_o_update"].body)) == is_free
    assert ("W_global" in found) == is_free
    if is_free:
        assert LAYOUT_REWRITE_PREPROC in found["W_global"].annotations
        shape = [str(extent) for extent in found["W_global"].writes[0].buffer.shape]
        assert shape == ["2", "4", "16", "4"]
        verify_trace_roundtrip(sch, module)
    before = sch.mod
    RewriteLayout().apply(sch)  # has nothing left to do
    assert sch.mod is before

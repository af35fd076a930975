# mypy: disable-error-code="valid-type, no-untyped-def"
"""`parallel`, `vectorize`, `unroll`, `bind`, `annotate`, `unannotate`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import ForKind, PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def refused(sch: Schedule, step: Callable[[], object], text: str) -> None:
    before, steps = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as failure:
        step()
    assert str(failure.value) == f"ScheduleError: {text}"
    assert sch.mod is before
    assert str(sch.trace) == steps


def test_kinds(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, j, k = sch.get_loops("C")
    _, lanes = sch.split(j, [None, 8])
    sch.reorder(k, lanes)
    sch.parallel(i)
    sch.unroll(k)
    sch.vectorize(lanes)
    kinds = [sch.get(loop).kind for loop in sch.get_loops("C")]  # type: ignore[union-attr]
    assert kinds == [ForKind.PARALLEL, ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED]
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_bind(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, j, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "vthread.x")
    sch.bind(k, "threadIdx.y")  # a reduction across threads
    text = sch.mod.script()
    assert 'for i in T.thread_binding(32, thread="blockIdx.x"):' in text
    assert 'for k in T.thread_binding(24, thread="threadIdx.y"):' in text
    verify_trace_roundtrip(sch, matmul)
    sch.unroll(k)
    assert "for k in T.unroll(24):" in sch.mod.script()


REMEDY = "only loops over spatial iterators can run in any order; see rfactor for reductions"


@pytest.mark.parametrize("primitive", ["parallel", "vectorize", "bind"])
def test_reductions_are_refused(primitive: str, matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    loop = sch.get_loops("C")[2]
    arguments = ("blockIdx.x",) if primitive == "bind" else ()
    refused(
        sch,
        lambda: getattr(sch, primitive)(loop, *arguments),
        f"{primitive}: the iterations of loop 'k' depend on each other: block 'C' binds it to its "
        f"reduction iterator 'vk'; {REMEDY}",
    )


def test_unknown_thread_axis(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    loop = sch.get_loops("C")[0]
    refused(
        sch,
        lambda: sch.bind(loop, "threadIdx.w"),
        "bind: unknown thread axis 'threadIdx.w'; use blockIdx.x/y/z, threadIdx.x/y/z or "
        "vthread.x/y/z",
    )


def test_a_block_that_is_not_the_only_writer() -> None:
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("first"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            with T.block("second"):
                vi = T.axis.spatial(8, i)
                B[vi] = B[vi] + T.float32(1)

    sch = Schedule(twice, error_render_level="fast")
    loop = sch.get_loops("first")[0]
    refused(
        sch,
        lambda: sch.parallel(loop),
        "parallel: block 'first' is neither a complete block nor a reduction block under loop 'i': "
        "it is not the only writer of what it writes; only loops whose blocks compute each of "
        "their outputs once can be transformed so",
    )
    unchecked = Schedule(twice, enable_check=False)
    unchecked.parallel(unchecked.get_loops("first")[0])
    assert "T.parallel" in unchecked.mod.script()


def test_annotations(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=42, debug_mask="all")
    block = sch.get_block("C")
    i, _, _ = sch.get_loops(block)
    steps = sch.sample_categorical([0, 16, 64], [0.5, 0.25, 0.25], decision=1)
    sch.annotate(block, "text", "SSRSRS")
    sch.annotate(block, "text", "another")  # the first one stays
    sch.annotate(block, "numbers", [1, 2.5, steps])
    sch.annotate(i, "pragma_unroll", steps)
    sch.annotate(i, "flag", True)
    sch.annotate(i, "gone", 1)
    sch.unannotate(i, "gone")
    assert sch.get(block).annotations == {"text": "SSRSRS", "numbers": [1, 2.5, 16]}  # type: ignore[union-attr]
    assert sch.get(i).annotations == {"pragma_unroll": 16, "flag": True}  # type: ignore[union-attr]
    verify_trace_roundtrip(sch, matmul)


def test_dicts_as_annotations(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.annotate(sch.get_block("C"), "options", {"b": 1, "a": [2, 3]})
    assert sch.get(sch.get_block("C")).annotations["options"] == {"a": [2, 3], "b": 1}  # type: ignore[union-attr]
    again = verify_trace_roundtrip(sch, matmul)
    assert again.trace is not None
    assert 'ann_val={"a": [2, 3], "b": 1}' in again.trace.as_python()[1]


def test_quotes_in_annotations(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.annotate(sch.get_block("C"), "text", 'say "hi"\\n')
    verify_trace_roundtrip(sch, matmul)


def test_annotate_refused(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    block = sch.get_block("C")
    refused(
        sch,
        lambda: sch.annotate(block, "what", {1, 2}),
        "annotate: the annotation 'what' cannot hold {1, 2}; use a string, a number, a list or a "
        "dict of them",
    )
    refused(
        sch,
        lambda: sch.unannotate(block, "what"),
        "unannotate: 'C' has no annotation 'what'; it has none",
    )
    sch.annotate(block, "that", 1)
    refused(
        sch,
        lambda: sch.unannotate(block, "what"),
        "unannotate: 'C' has no annotation 'what'; it has 'that'",
    )

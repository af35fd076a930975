"""`tensorize` on blocks: what it puts in, where operands lie, and every reason to refuse."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.errors import RegistryError, ScheduleError, TargetError
from tilewright.ir import PrimFunc, assert_structural_equal, replace
from tilewright.ir.tensor_intrin import (
    TensorIntrin,
    _registry,
    all_tensor_intrins,
    features_of_intrin,
)
from tilewright.schedule import LoopRV, Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import verify_trace_roundtrip


@T.prim_func
def add_desc(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")) -> None:
    with T.block("root"):
        T.reads(A[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j in T.grid(4, 4):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def add_impl(a: T.handle, c: T.handle) -> None:
    s0, s1, t0, t1 = T.int32(), T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (4, 4), "float32", offset_factor=1, strides=[s0, s1])
    C = T.match_buffer(c, (4, 4), "float32", offset_factor=1, strides=[t0, t1])
    with T.block("root"):
        T.reads(A[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        T.evaluate(
            T.call_extern("add4x4", A.access_ptr("r"), s0, C.access_ptr("w"), t0, dtype="int32")
        )


@T.prim_func
def add_one(A: T.Buffer((2, 8, 8), "float32"), C: T.Buffer((2, 8, 8), "float32")) -> None:
    for n, i_0, j_0 in T.grid(2, 2, 2):
        with T.block("add_o"):
            vn, vi_o, vj_o = T.axis.remap("SSS", [n, i_0, j_0])
            T.reads(A[vn, vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4])
            T.writes(C[vn, vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4])
            for i_1, j_1 in T.grid(4, 4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i_1, j_1])
                    C[vn, vi_o * 4 + vi, vj_o * 4 + vj] = A[
                        vn, vi_o * 4 + vi, vj_o * 4 + vj
                    ] + T.float32(1)


@pytest.fixture
def add4x4() -> Iterator[str]:
    TensorIntrin.register("test_add4x4", add_desc, add_impl)
    yield "test_add4x4"
    del _registry["test_add4x4"]


def tensorized(func: PrimFunc, block: str, intrin: str) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    sch.tensorize(sch.get_block(block), intrin)
    verify_trace_roundtrip(sch, func)
    return sch


@T.prim_func
def add_one_expected(A: T.Buffer((2, 8, 8), "float32"), C: T.Buffer((2, 8, 8), "float32")) -> None:
    for n, i_0, j_0 in T.grid(2, 2, 2):
        with T.block("add_o"):
            vn, vi_o, vj_o = T.axis.remap("SSS", [n, i_0, j_0])
            T.reads(A[vn, vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4])
            T.writes(C[vn, vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4])
            s0, s1, t0, t1 = T.int32(), T.int32(), T.int32(), T.int32()
            A_1 = T.match_buffer(
                A[vn, vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4],
                (4, 4), "float32", strides=(s0, s1), offset_factor=1,
            )  # fmt: skip
            C_1 = T.match_buffer(
                C[vn, vi_o * 4 : vi_o * 4 + 4, vj_o * 4 : vj_o * 4 + 4],
                (4, 4), "float32", strides=(t0, t1), offset_factor=1,
            )  # fmt: skip
            T.evaluate(
                T.call_extern("int32", "add4x4", A_1.access_ptr("r"), s0, C_1.access_ptr("w"), t0)
            )


def test_operands_have_symbolic_offsets_and_strides(add4x4: str) -> None:
    sch = tensorized(add_one, "add_o", add4x4)
    assert_structural_equal(sch.mod["main"], add_one_expected.with_attr("global_symbol", "add_one"))


def test_trace_text_and_json(add4x4: str) -> None:
    sch = tensorized(add_one, "add_o", add4x4)
    assert sch.trace is not None
    assert sch.trace.as_python()[-1] == (
        'sch.tensorize(block_or_loop=b0, tensor_intrin="test_add4x4", preserve_unit_iters=True)'
    )
    assert sch.trace.as_json()[0][-1] == ["Tensorize", ["b0"], ["test_add4x4", True], []]


def test_two_uses_share_no_definition(add4x4: str) -> None:
    @T.prim_func
    def twice(
        A: T.Buffer((4, 4), "float32"),
        B: T.Buffer((4, 4), "float32"),
        C: T.Buffer((4, 4), "float32"),
    ) -> None:
        with T.block("first"):
            T.reads(A[0:4, 0:4])
            T.writes(B[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("second"):
            T.reads(B[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("add_again"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(twice, debug_mask="all")
    sch.tensorize(sch.get_block("first"), add4x4)
    sch.tensorize(sch.get_block("second"), add4x4)
    verify_trace_roundtrip(sch, twice)
    blocks = [sch.get(sch.get_block(name)) for name in ("first", "second")]
    views = [match.buffer for block in blocks for match in block.match_buffers]  # type: ignore[union-attr]
    assert len({view.data for view in views}) == 4
    assert len({stride for view in views for stride in view.strides}) == 8


def test_wide_indices_widen_the_implementation(add4x4: str) -> None:
    @T.prim_func
    def wide(
        A: T.Buffer((T.int64(4), T.int64(8)), "float32"),
        C: T.Buffer((T.int64(4), T.int64(8)), "float32"),
    ) -> None:
        for j_0 in T.serial(T.int64(2)):
            with T.block("add_o"):
                vj_o = T.axis.spatial(T.int64(2), j_0)
                T.reads(
                    A[T.int64(0) : T.int64(4), vj_o * T.int64(4) : vj_o * T.int64(4) + T.int64(4)]
                )
                T.writes(
                    C[T.int64(0) : T.int64(4), vj_o * T.int64(4) : vj_o * T.int64(4) + T.int64(4)]
                )
                for i, j_1 in T.grid(T.int64(4), T.int64(4)):
                    with T.block("add"):
                        vi, vj = T.axis.remap("SS", [i, j_1])
                        C[vi, vj_o * T.int64(4) + vj] = A[vi, vj_o * T.int64(4) + vj] + T.float32(1)

    sch = tensorized(wide, "add_o", add4x4)
    block = sch.get(sch.get_block("add_o"))
    for match in block.match_buffers:  # type: ignore[union-attr]
        assert {stride.dtype for stride in match.buffer.strides} == {"int64"}
        assert match.buffer.elem_offset is not None
        assert match.buffer.elem_offset.dtype == "int64"


def test_annotations_of_both_are_kept(add4x4: str) -> None:
    annotated = TensorIntrin.get(add4x4)
    assert annotated is not None
    body = annotated.impl.body
    root = replace(body.block, annotations={"permuted": 1, "mine": "impl"})  # type: ignore[attr-defined]
    impl = annotated.impl.with_body(replace(body, block=root))
    TensorIntrin.register(add4x4, add_desc, impl, override=True)
    sch = Schedule(add_one, debug_mask="all")
    block = sch.get_block("add_o")
    sch.annotate(block, "mine", "program")
    sch.tensorize(block, add4x4)
    verify_trace_roundtrip(sch, add_one)
    assert sch.get(block).annotations == {"mine": "program", "permuted": 1}  # type: ignore[union-attr]


# --- loops --------------------------------------------------------------------------------------


@T.prim_func
def add_plain(A: T.Buffer((2, 8, 8), "float32"), C: T.Buffer((2, 8, 8), "float32")) -> None:
    for n, i, j in T.grid(2, 8, 8):
        with T.block("add"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = A[vn, vi, vj] + T.float32(1)


def tiled(func: PrimFunc) -> tuple[Schedule, LoopRV]:
    """A schedule with tiles of 4x4, and the outer loop of a tile."""
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    _, i, j = sch.get_loops(sch.get_block("add"))
    i_0, i_1 = sch.split(i, [None, 4])
    j_0, j_1 = sch.split(j, [None, 4])
    sch.reorder(i_0, j_0, i_1, j_1)
    return sch, i_1


def test_loops_are_blockized_first(add4x4: str) -> None:
    sch, loop = tiled(add_plain)
    sch.tensorize(loop, add4x4)
    verify_trace_roundtrip(sch, add_plain)
    expected = add_one_expected.with_attr("global_symbol", "add_plain")
    assert_structural_equal(sch.mod["main"], expected)
    assert sch.get(sch.get_block("add_o")).name_hint == "add_o"  # type: ignore[union-attr]


def test_a_loop_that_does_not_match_is_left_alone(add4x4: str) -> None:
    other = from_source(add_plain.script().replace("T.float32(1)", "T.float32(2)"))
    assert isinstance(other, PrimFunc)
    sch, loop = tiled(other)
    before, steps = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(loop, add4x4)
    why = "expected `T.float32(1)`, found `T.float32(2)`"
    assert str(caught.value) == PREFIX + why + SUFFIX
    assert sch.mod is before
    assert str(sch.trace) == steps
    assert sch.get(loop).loop_var.name == "i_1"  # type: ignore[union-attr]


# --- refusals -----------------------------------------------------------------------------------


def refused(func: PrimFunc, intrin: str, block: str = "add_o") -> str:
    """The one-line message of a refused tensorize, which leaves the schedule alone."""
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    handle = sch.get_block(block)
    before, steps = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(handle, intrin)
    assert sch.mod is before
    assert str(sch.trace) == steps
    return str(caught.value)


PREFIX = (
    "ScheduleError: tensorize: block 'add_o' is not what tensor intrinsic 'test_add4x4' computes: "
)
SUFFIX = "; compare the block with the intrinsic's description, TensorIntrin.get(name).desc"


def changed(old: str, new: str) -> PrimFunc:
    source = add_one.script()
    assert old in source
    func = from_source(source.replace(old, new))
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("+ T.float32(1)", "+ T.float32(2)", "expected `T.float32(1)`, found `T.float32(2)`"),
        (
            "+ T.float32(1)",
            "- T.float32(1)",
            "expected `A[vi, vj] + T.float32(1)`, found "
            "`A[vn, vi_o * 4 + vi, vj_o * 4 + vj] - T.float32(1)`",
        ),
        ("in T.grid(4, 4)", "in T.grid(3, 4)", "the extent of loop 'i_1' is `3`, not `4`"),
        (
            "C[vn, vi_o * 4 + vi, vj_o * 4 + vj] =",
            "C[vn, vi_o * 4 + vj, vj_o * 4 + vi] =",
            "index 1 of C, `vi_o * 4 + vj`, "
            "does not follow the description, which accesses C[vi, vj]",
        ),
        (
            "= A[vn, vi_o * 4 + vi, vj_o * 4 + vj]",
            "= A[vn, vi_o * 2 + vi * 2, vj_o * 4 + vj]",
            "index 1 of A, `vi_o * 2 + vi * 2`, "
            "does not follow the description, which accesses A[vi, vj]",
        ),
        (
            "= A[vn, vi_o * 4 + vi, vj_o * 4 + vj]",
            "= C[vn, vi_o * 4 + vi, vj_o * 4 + vj]",
            "C would stand for both C and A",
        ),
        (
            '"SS", [i_1, j_1]',
            '"SR", [i_1, j_1]',
            "iterator 'vj' of block 'add' is COMM_REDUCE, not DATA_PAR",
        ),
    ],
)
def test_what_differs_is_told(add4x4: str, old: str, new: str, why: str) -> None:
    assert refused(changed(old, new), add4x4) == PREFIX + why + SUFFIX


def test_kinds_of_loops_must_agree(add4x4: str) -> None:
    sch = Schedule(add_one, debug_mask="all", error_render_level="fast")
    sch.parallel(sch.get_loops(sch.get_block("add"))[0])
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(sch.get_block("add_o"), add4x4)
    assert str(caught.value) == PREFIX + "loop 'i_1' is parallel, not serial" + SUFFIX


def test_loops_on_threads_are_no_serial_ones(add4x4: str) -> None:
    sch = Schedule(add_one, debug_mask="all", error_render_level="fast")
    sch.bind(sch.get_loops(sch.get_block("add"))[0], "threadIdx.x")
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(sch.get_block("add_o"), add4x4)
    why = "loop 'i_1' is thread_binding (threadIdx.x), not serial"
    assert str(caught.value) == PREFIX + why + SUFFIX


def test_other_types_and_scopes_are_refused(add4x4: str) -> None:
    @T.prim_func
    def halves(A: T.Buffer((4, 4), "float16"), C: T.Buffer((4, 4), "float32")) -> None:
        with T.block("add_o"):
            T.reads(A[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.Cast("float32", A[vi, vj]) + T.float32(1)

    why = 'expected `A[vi, vj]`, found `T.Cast("float32", A[vi, vj])`'
    assert refused(halves, add4x4) == PREFIX + why + SUFFIX

    @T.prim_func
    def shared(C: T.Buffer((4, 4), "float32")) -> None:
        A = T.alloc_buffer((4, 4), scope="shared")
        with T.block("add_o"):
            T.reads(A[0:4, 0:4])
            T.writes(C[0:4, 0:4])
            for i, j in T.grid(4, 4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + T.float32(1)

    why = "A is in scope 'shared', A of the description in 'global'"
    assert refused(shared, add4x4) == PREFIX + why + SUFFIX


def test_init_must_be_gone(add4x4: str) -> None:
    @T.prim_func
    def with_init(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")) -> None:
        for k in range(2):
            with T.block("add_o"):
                vk = T.axis.reduce(2, k)  # noqa: F841
                T.reads(A[0:4, 0:4])
                T.writes(C[0:4, 0:4])
                with T.init():
                    C[0, 0] = T.float32(0)
                for i, j in T.grid(4, 4):
                    with T.block("add"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = A[vi, vj] + T.float32(1)

    why = "the block still has an init statement; use decompose_reduction first"
    assert refused(with_init, add4x4) == PREFIX + why + SUFFIX


def test_rows_must_be_contiguous_where_the_implementation_needs_it() -> None:
    @T.prim_func
    def strided(
        A: T.Buffer((8,), "uint8"), B: T.Buffer((16, 8), "int8"), C: T.Buffer((16,), "int32")
    ) -> None:
        for k_0 in range(2):
            with T.block("dot_o"):
                vk_o = T.axis.reduce(2, k_0)
                T.reads(C[0:16], A[vk_o * 4 : vk_o * 4 + 4], B[0:16, vk_o * 4 : vk_o * 4 + 4])
                T.writes(C[0:16])
                for i, k in T.grid(16, 4):
                    with T.block("dot"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + T.Cast("int32", A[vk_o * 4 + vk]) * T.Cast(
                            "int32", B[vi, vk_o * 4 + vk]
                        )

    assert refused(strided, "dot_16x4_vnni", "dot_o") == (
        "ScheduleError: tensorize: tensor intrinsic 'dot_16x4_vnni' reads or writes its operand "
        "'B' as one piece of memory, but its rows are not next to each other in 'B'; change the "
        "layout of 'B' first (transform_layout, or a packed copy)"
    )


def test_unknown_intrinsics_are_named() -> None:
    sch = Schedule(add_one, debug_mask="all")
    with pytest.raises(RegistryError) as caught:
        sch.tensorize(sch.get_block("add_o"), "dot_16x4_vnn")
    assert str(caught.value) == (
        "no tensor intrinsic is called 'dot_16x4_vnn'; did you mean 'dot_16x4_vnni'?; the built-in "
        "ones come with `import tilewright.intrin`, others with TensorIntrin.register"
    )


# --- the registry -------------------------------------------------------------------------------


def test_registration_refuses_what_does_not_agree(add4x4: str) -> None:
    with pytest.raises(RegistryError) as caught:
        TensorIntrin.register(add4x4, add_desc, add_impl)
    assert str(caught.value) == (
        "the tensor intrinsic 'test_add4x4' is registered already; pass override=True to replace it"
    )
    vnni = TensorIntrin.get("dot_16x4_vnni")
    assert vnni is not None
    with pytest.raises(RegistryError) as caught:
        TensorIntrin.register("test_other", add_desc, vnni.impl)
    assert str(caught.value) == (
        "tensor intrinsic 'test_other': the description takes 2 buffers, the implementation 3"
    )
    smaller = from_source(add_desc.script().replace("(4, 4)", "(4, 2)"))
    with pytest.raises(RegistryError) as caught:
        TensorIntrin.register("test_other", add_desc, smaller)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "tensor intrinsic 'test_other': parameter 0 is float32[4, 4] in scope 'global' in the "
        "description and float32[4, 2] in scope 'global' in the implementation"
    )
    assert "test_other" not in all_tensor_intrins()


def test_registration_wants_buffers_and_a_root_block() -> None:
    @T.prim_func
    def with_scalar(n: T.int32, A: T.Buffer((4,), "float32")) -> None:
        A[0] = T.float32(0)

    with pytest.raises(RegistryError) as caught:
        TensorIntrin.register("test_other", with_scalar, with_scalar)
    assert str(caught.value) == (
        "the description of tensor intrinsic 'test_other' takes the scalar 'n'; all must be buffers"
    )


def test_descriptions_use_what_they_take() -> None:
    @T.prim_func
    def lazy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        with T.block("root"):
            T.reads()
            T.writes(A[0:4])
            for i in range(4):
                with T.block("fill"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = T.float32(0)

    with pytest.raises(RegistryError) as caught:
        TensorIntrin.register("test_other", lazy, lazy)
    assert str(caught.value) == (
        "tensor intrinsic 'test_other': the description never accesses its parameter 'B', so "
        "nothing could be found to stand for it"
    )


def test_makers_run_once_when_needed() -> None:
    calls = []

    def make() -> tuple[PrimFunc, PrimFunc]:
        calls.append(1)
        return add_desc, add_impl

    TensorIntrin.register_maker("test_lazy", make)
    try:
        assert "test_lazy" in all_tensor_intrins()
        assert not calls
        assert TensorIntrin.get("test_lazy") is TensorIntrin.get("test_lazy")
        assert calls == [1]
    finally:
        _registry.pop("test_lazy", None)
    assert TensorIntrin.get("test_lazy", allow_missing=True) is None


def test_features_are_known_before_an_intrinsic_is_made() -> None:
    TensorIntrin.register_maker(
        "test_lazy", lambda: (add_desc, add_impl), features=["avx2"], value_ranges={"A": (0, 3)}
    )
    try:
        assert features_of_intrin("test_lazy") == {"avx2"}
        made = TensorIntrin.get("test_lazy")
        assert made is not None
        assert made.features == {"avx2"}
        assert made.value_ranges == {"A": (0, 3)}
        assert features_of_intrin("test_lazy") == {"avx2"}
    finally:
        _registry.pop("test_lazy", None)


def test_a_feature_that_llvm_does_not_know_is_refused() -> None:
    with pytest.raises(TargetError) as caught:
        TensorIntrin.register("test_other", add_desc, add_impl, features=["avx512vni"])
    assert str(caught.value) == (
        "tensor intrinsic 'test_other' needs the CPU feature 'avx512vni', which LLVM does not "
        "know; did you mean 'avx512vnni'?"
    )

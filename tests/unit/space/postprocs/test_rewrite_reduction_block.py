# mypy: disable-error-code="valid-type, no-untyped-def"
"""`RewriteReductionBlock`: where initialisations go."""

from __future__ import annotations

from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.ir.annotation_keys import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import RewriteReductionBlock
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func(private=True)
def matmul(
    A: T.Buffer((16, 32), "float32"),
    B: T.Buffer((32, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i, j, k in T.grid(16, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def softmax_like(A: T.Buffer((8, 32), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 32):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(-1)
            B[vi] = T.max(B[vi], A[vi, vk])
    for i, k in T.grid(8, 32):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + (A[vi, vk] - B[vi])


def apply(sch: Schedule) -> None:
    sch.enter_postproc()
    assert RewriteReductionBlock().apply(sch) is True


def block_names(sch: Schedule) -> list[str]:
    return [sref.name for sref in sch.state.srefs.values() if sref.is_block]


def test_at_the_outermost_reduction_loop() -> None:
    @T.prim_func(private=True)
    def expected(
        A: T.Buffer((16, 32), "float32"),
        B: T.Buffer((32, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ):
        for i in range(16):
            for j_init in range(16):
                with T.block("C_init"):
                    vi, vj = T.axis.remap("SS", [i, j_init])
                    C[vi, vj] = T.float32(0)
            for k_0, j, k_1 in T.grid(4, 16, 8):
                with T.block("C_update"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(32, k_0 * 8 + k_1)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    module = IRModule({"main": matmul})
    sch = Schedule(module, debug_mask="all")
    i, j, k = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(k, [4, 8])
    sch.reorder(i, outer, j, inner)
    apply(sch)
    assert_structural_equal(sch.mod["main"], expected)
    verify_trace_roundtrip(sch, module)
    assert_same_result(module, sch.mod)


def test_every_reduction() -> None:
    module = IRModule({"main": softmax_like})
    sch = Schedule(module)
    apply(sch)
    assert set(block_names(sch)) == {"root", "B_init", "B_update", "D_init", "D_update"}
    assert_same_result(module, sch.mod)


def test_reduction_without_a_reduction_loop_stays() -> None:
    @T.prim_func
    def one_step(A: T.Buffer((8, 1), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(1, 0)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(IRModule({"main": one_step}))
    before = sch.mod
    apply(sch)
    assert sch.mod is before


def test_reductions_over_threads_keep_their_init() -> None:
    sch = Schedule(IRModule({"main": matmul}))
    i, _, k = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    before = sch.mod
    apply(sch)
    assert sch.mod is before


def annotated(func: PrimFunc, **notes: str) -> Schedule:
    keys = {"intrin": AUTO_TENSORIZE, "init": AUTO_TENSORIZE_INIT}
    sch = Schedule(IRModule({"main": func}))
    for name, value in notes.items():
        sch.annotate(sch.get_block("C"), keys[name], value)
    apply(sch)
    return sch


def notes_of(sch: Schedule, block: str) -> dict[str, object]:
    return dict(sch.get_sref(sch.get_block(block)).block.annotations)


def test_initialisation_gets_its_own_intrinsic() -> None:
    sch = annotated(matmul, intrin="multiply", init="clear")
    assert notes_of(sch, "C_update") == {AUTO_TENSORIZE: "multiply"}
    assert notes_of(sch, "C_init") == {AUTO_TENSORIZE: "clear"}


def test_initialisation_without_an_intrinsic() -> None:
    sch = annotated(matmul, intrin="multiply")
    assert notes_of(sch, "C_update") == {AUTO_TENSORIZE: "multiply"}
    assert notes_of(sch, "C_init") == {AUTO_TENSORIZE: ""}

"""Names and spellings that programs written for TVM use."""
# mypy: disable-error-code="valid-type"

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.errors import ScheduleError, TargetError, TensorExpressionError
from tilewright.ir import load_json, save_json
from tilewright.script import from_source, tir as T
from tilewright.testing import oracle
from tilewright.testing.temporary_folder import tempdir
from tilewright.tir.schedule import Instruction, InstructionKind
from tilewright.tir.tensor_intrin import cuda, hexagon, rocm
from tilewright.topi import utils


@T.prim_func
def copy(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))) -> None:
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


# --- expressions ---


def test_reducers_combine_several_values() -> None:
    i, j = te.var("i"), te.var("j")
    assert str(te.all(i > 1, j < 2, i < 9)) == "i > 1 and j < 2 and i < 9"
    assert str(tir.any(i > 1, j < 2)) == "i > 1 or j < 2"
    assert str(te.all(i > 1)) == "i > 1"
    assert str(te.max(i, j, 3)) == "T.max(T.max(i, j), 3)"
    assert str(tir.min(i, j)) == "T.min(i, j)"
    assert str(te.sum(i, j)) == "i + j"
    calls: list[Any] = [lambda: te.max(i), te.all]
    for call in calls:
        with pytest.raises(TensorExpressionError, match="give an axis made by"):
            call()


def test_operators_by_name() -> None:
    assert str(tir.isnullptr(tir.Var("p", "handle"))) == "T.isnullptr(p)"  # type: ignore[arg-type]
    assert str(tir.ceildiv(te.var("n"), 4)) == "(n + 4 - 1) // 4"
    with pytest.raises(AttributeError, match=r"module 'tilewright.tir' has no attribute"):
        tir.nothing


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_indices_of_another_type(dtype: str) -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    B = te.compute(
        (4,),
        lambda i: te.sum(te.if_then_else(i < 2, A[i, k], 0.0) + i.astype("float32"), axis=k),
        name="B",
    )
    D = te.compute((4,), lambda i: tir.Select(i > 1, i, -i), name="D")
    func = te.create_prim_func([A, B, D], index_dtype_override=dtype)
    tir.verify_well_formed(func)
    assert {extent.dtype for buffer in func.buffer_map.values() for extent in buffer.shape} == {
        dtype
    }
    a, b, d = np.random.rand(4, 8).astype("float32"), np.zeros(4, "float32"), np.zeros(4, "int32")
    oracle.run(func, a, b, d)
    rows = np.arange(4)
    expected = (a * (rows < 2)[:, None]).sum(1) + 8 * rows
    np.testing.assert_allclose(b, expected.astype("float32"), rtol=1e-6)
    np.testing.assert_array_equal(d, [0, -1, 2, 3])


def test_indices_are_int32_or_int64() -> None:
    with pytest.raises(TensorExpressionError, match="indices are int32 or int64, not 'int8'"):
        te.create_prim_func([te.placeholder((4,))], index_dtype_override="int8")


# --- script ---


def test_buffers_with_brackets() -> None:
    kinds = ('[(4, 8), "int8"]', '((4, 8), "int8")', "[(4, 8), T.int8]")
    text = "@T.prim_func\ndef f(A: T.Buffer{}):\n    A[0, 0] = T.int8(1)\n"
    first, *rest = (from_source(text.format(kind)) for kind in kinds)
    for other in rest:
        tir.assert_structural_equal(first, other)
    assert T.Buffer[4, 8].shape == (4, 8)
    assert T.Buffer[4, "int8"].shape == 4


def test_reducers_and_targets_parse_back() -> None:
    @T.prim_func
    def func(A: T.Buffer((32,)), B: T.Buffer((1,))) -> None:
        T.func_attr({"target": T.target("llvm -num-cores=4")})
        t = T.env_thread("threadIdx.x")
        T.launch_thread(t, 32)
        x = T.decl_buffer([1], "float32", scope="local")
        with T.attr(
            T.comm_reducer(lambda a, b: a + b, [T.float32(0)]),
            "reduce_scope",
            T.reinterpret("handle", T.uint64(0)),
        ):
            T.tvm_thread_allreduce(T.uint32(1), A[t], T.bool(True), x.data, t)
        B[0] = x[0]

    assert "T.comm_reducer(lambda a, b: a + b, [T.float32(0)])" in str(func)
    assert 'T.target({"keys": ["cpu"], "kind": "llvm", "num-cores": 4})' in str(func)
    tir.assert_structural_equal(from_source(str(func)), func)
    tir.assert_structural_equal(load_json(save_json(func)), func)
    with pytest.raises(tw.TilewrightError, match="1 identities need a combiner of 2 parameters"):
        T.comm_reducer(lambda a: a, [T.float32(0)])


def test_headers_of_tvm_parse() -> None:
    header = "# from tvm.script import ir as I\n# from tvm.script import tir as T\n"
    tir.assert_structural_equal(from_source(header + str(copy).split("\n", 1)[1]), copy)
    text = "from tvm.script import tir as Q\n@Q.prim_func\ndef f(n: Q.int32):\n    Q.evaluate(n)\n"
    assert isinstance(from_source(text), tir.PrimFunc)


# --- modules, functions, buffers ---


def test_modules() -> None:
    mod = tw.IRModule.from_expr(copy)
    name = mod.get_global_var("copy")
    assert (name.name_hint, mod[name], name in mod) == ("copy", copy, True)
    assert tw.IRModule({name: copy}).functions == {"copy": copy}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="the module has no function 'other'; it has 'copy'"):
        mod.get_global_var("other")


def test_attributes_of_functions() -> None:
    func = copy.with_attr({"a": 1, "b": 2})
    assert (func.attrs["a"], func.attrs["b"], func.name) == (1, 2, "copy")
    assert dict(copy.with_attrs({"c": 3}).attrs) == {"c": 3}


def test_printing_takes_tvms_options(capsys: pytest.CaptureFixture[str]) -> None:
    copy.show(style="light", black_format=True)
    assert capsys.readouterr().out.strip() == copy.script(show_meta=True)


def test_scopes_may_be_called() -> None:
    buffer = tir.decl_buffer((4,), scope="shared")
    assert buffer.scope() == buffer.scope == "shared"
    twin = tir.decl_buffer((4,), scope=buffer.scope)
    tir.assert_structural_equal(load_json(save_json(tir.Evaluate(twin[0]))), tir.Evaluate(twin[0]),
                                map_free_vars=True)  # fmt: skip


def test_renewed_definitions() -> None:
    again = tir.stmt_functor.renew_defs(copy)
    tir.assert_structural_equal(again, copy)
    assert not {*again.params, *again.buffer_map.values()} & {
        *copy.params,
        *copy.buffer_map.values(),
    }


def test_what_a_block_touches() -> None:
    (block,) = (s.block for s in _realizes(copy) if s.block.name_hint == "B")
    buffers = {buffer.data: buffer for buffer in copy.buffer_map.values()}
    reads, writes, opaque = tir.analysis.get_block_access_region(block, buffers)
    assert [str(region) for region in (*reads, *writes)] == ["A[vi, vj]", "B[vi, vj]"]
    assert opaque == []
    assert {var.name for var in tir.analysis.undefined_vars(block)} == {"A", "B"}
    x = te.var("x")
    assert tir.analysis.expr_deep_equal(x + 1, x + 1)


def _realizes(func: tir.PrimFunc) -> list[tir.BlockRealize]:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(func.body, found.append)
    return [node for node in found if isinstance(node, tir.BlockRealize)]


# --- schedules ---


def test_references_and_statements() -> None:
    sch = tir.Schedule(copy)
    block = sch.get_block("B")
    sref = sch.get_sref(block)
    assert sch.get(sref) is sch.get(block)
    assert sch.get_sref(sch.get(block)).same_as(sref)  # type: ignore[arg-type]
    old = sch.get(sch.get_loops(block)[0])
    sch.unroll(sch.get_loops(block)[0])
    with pytest.raises(ScheduleError, match="the block or loop is no longer part of the module"):
        sch.get_sref(old)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda s: s.get_block(3), "get_block: the name of a block is a text, got 3"),
        (lambda s: s.annotate(s.get_block("B"), 1, 2), "annotate: the key is a text, got 1"),
        (lambda s: s.split("i", [2, 4]), "split: expected a handle of a block or loop, got 'i'"),
        (lambda s: s.vectorize(s.get_block("B")), "expected a loop, found block 'B'"),
    ],
)
def test_wrong_types_are_type_errors(mistake: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        mistake(tir.Schedule(copy))
    assert isinstance(caught.value, ScheduleError)
    assert message in str(caught.value)


def test_instructions_by_hand() -> None:
    kind = InstructionKind.get("GetBlock")
    made = Instruction(kind=kind, inputs=(), attrs=("B", "main"), outputs=(tir.schedule.BlockRV(),))
    assert str(made) == '_ = sch.get_block(name="B", func_name="main")'
    assert (made.kind.name, made.kind.is_pure) == ("GetBlock", True)


# --- instructions, targets, devices, passes ---


@pytest.mark.parametrize(
    "name",
    [
        rocm.AMDGPU_SDOT4_INTRIN,
        hexagon.VRMPY_u8u8i32_INTRIN,
        hexagon.VRMPY_u8i8i32_VTCM_INTRIN,
        hexagon.VDMPY_i16i16i32_INTRIN,
    ],
)
def test_instructions_of_other_machines_describe_dot_products(name: str) -> None:
    intrin = tir.TensorIntrin.get(name)
    assert intrin is not None
    a, b, c = (
        np.random.RandomState(n).randint(0, 9, [int(e) for e in buffer.shape]).astype(buffer.dtype)  # type: ignore[call-overload]
        for n, buffer in enumerate(intrin.desc.buffer_map.values())
    )
    expected = c + (a.astype("int32") * b.astype("int32")).sum(-1)
    oracle.run(intrin.desc, a, b, c)
    np.testing.assert_array_equal(c, np.broadcast_to(expected, c.shape))
    assert "call_llvm_pure_intrin" in str(intrin.impl)


def test_more_matrix_instructions() -> None:
    tile = (16, 16, 16)
    pairs = {
        "wmma_sync_16x16x16_f16f16f32": cuda.get_wmma_sync_intrin(
            *tile, "float16", "float32", False
        ),
        "wmma_load_16x16x16_f16_a_shared": cuda.get_wmma_load_intrin(
            *tile, "float16", "shared", False, False
        ),
        "wmma_fill_16x16x16_f32": cuda.get_wmma_fill_intrin(*tile, "float32"),
        "wmma_store_16x16x16_f32_global": cuda.get_wmma_store_intrin(*tile, "float32", "global"),
        "mma.ldmatrix_32x16_b": cuda.get_ldmatrix_intrin(32, "int8", True, False),
        "mma_i8i8i32_trans": cuda.get_mma_intrin(32, "int32", True),
        "mma_fill_16x16_f32": cuda.get_mma_fill_intrin("float32", 8),
        "mma_store_16x16_f16_global_": cuda.get_mma_store_intrin("float16", 8, "global"),
    }
    for name, made in pairs.items():
        intrin = tir.TensorIntrin.get(name)
        assert intrin is not None
        for mine, theirs in zip(made, (intrin.desc, intrin.impl), strict=True):
            tir.assert_structural_equal(mine, theirs)
    with pytest.raises(ValueError, match="a thread holds 8 elements of a 16x16 accumulator, not 4"):
        cuda.get_mma_fill_intrin("float32", 4)
    with pytest.raises(ValueError, match="over 16 or 32 elements at a time, not over 8"):
        cuda.get_ldmatrix_intrin(8, "int8", True, False)


def test_targets_and_devices() -> None:
    gpu = tw.Target("nvidia/nvidia-a100")
    assert (gpu.arch, gpu.max_num_threads, gpu.thread_warp_size) == ("sm_80", 1024, 32)
    assert (gpu.model, gpu.libs) == ("unknown", ())
    assert "llvm" in tw.Target.list_kinds()
    with pytest.raises(TargetError, match="target 'llvm -keys=cpu' does not say its arch"):
        tw.Target("llvm").arch
    assert str(tw.device("cuda:1")) == str(tw.cuda(1)) == "cuda:1"
    assert not tw.cuda().exist
    assert tw.device("llvm -mcpu=native").exist


def test_functions_get_names() -> None:
    assert list(tw.build(copy, name="mine")) == ["mine"]


def test_passes_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    @tw.transform.module_pass(opt_level=0)
    def noted(mod: Any, ctx: Any) -> Any:
        return mod.with_attr("level", ctx.opt_level)

    timing = tw.transform.PassTimingInstrument()
    steps = tw.transform.Sequential([noted, tir.transform.Simplify(), tw.transform.PrintIR("# x")])
    config = {"tir.Simplify": {"transitively_prove_inequalities": True}}
    with tw.PassContext(3, config=config, instruments=[timing], disabled_pass=["Simplify"]):
        made = steps(tw.IRModule({"copy": copy}))
    assert made.attrs == {"level": 3}
    assert [name for name, _ in timing.times] == ["noted", "PrintIR"]
    assert timing.render().startswith("noted: ")
    assert capsys.readouterr().out.startswith("# x\n# from tilewright.script import ir as I\n")


def test_passes_of_functions() -> None:
    mod = tw.IRModule({"copy": copy, "other": copy.with_attr("keep", True)})
    kept = tir.transform.Filter(lambda func: "keep" in func.attrs)(mod)
    assert list(kept) == ["other"]
    made = tir.transform.Apply(lambda func: func.with_attr("seen", 1))(mod)
    assert [func.attrs["seen"] for func in made.functions.values()] == [1, 1]


def test_instruments_may_object_to_passes() -> None:
    class Nothing:
        entered = 0

        def enter_pass_ctx(self) -> None:
            self.entered += 1

        def exit_pass_ctx(self) -> None:
            self.entered += 10

        def should_run(self, mod: Any, info: Any) -> bool:
            return False

    instrument, mod = Nothing(), tw.IRModule({"copy": copy})
    with tw.PassContext(instruments=[instrument], config=None, required_pass=None):  # type: ignore[arg-type]
        assert tw.transform.Sequential([tir.transform.LowerInitBlock()])(mod) is mod
    assert instrument.entered == 11


def test_temporary_folders(tmp_path: Path) -> None:
    folder = tempdir()
    Path(folder.relpath("a.txt")).write_text("", encoding="utf-8")
    assert folder.listdir() == ["a.txt"]
    folder.remove()
    assert not folder.path.exists()
    assert tempdir(str(tmp_path / "mine")).path.is_dir()


def test_shapes_as_numbers() -> None:
    n = te.var("n")
    assert utils.get_const_tuple((te.const(2) + 3, 4, n)) == (5, 4, n)
    with pytest.raises(ValueError, match="expected a constant integer, got `n`"):
        utils.get_const_int(n)

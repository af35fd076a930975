"""How statements, blocks, functions and modules are written."""

from __future__ import annotations

import textwrap

from tilewright.ir import (
    TRUE,
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    DType,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IRModule,
    IterType,
    IterVar,
    LetStmt,
    PointerType,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    Var,
    const,
    decl_buffer,
    intrinsics,
    replace,
    root_realize,
)

HANDLE = DType("handle")


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def serial(var: Var, extent: int, body: Stmt, kind: ForKind = ForKind.SERIAL) -> For:
    return For(var, const(0), const(extent), kind, body)


def store(buffer: Buffer, index: Var) -> Stmt:
    return BufferStore(buffer, const(1.0), (index,))


def iterator(name: str, extent: int, kind: IterType = IterType.DATA_PAR) -> IterVar:
    return IterVar(Range(const(0), const(extent)), Var(name), kind)


def matmul() -> PrimFunc:
    x, y, z = (decl_buffer((1, 128, 128), name=name) for name in "XYZ")
    loops = [Var(name) for name in "bijk"]
    iters = [iterator(f"v_{var.name}", 128) for var in loops]
    iters[0] = iterator("v_b", 1)
    iters[3] = iterator("v_k", 128, IterType.COMM_REDUCE)
    b, i, j, k = (item.var for item in iters)
    value = z[b, i, j] + x[b, i, k] * y[b, k, j]
    block = Block(
        tuple(iters),
        (BufferRegion.from_point(x, (b, i, k)), BufferRegion.from_point(y, (b, k, j))),
        (BufferRegion.from_point(z, (b, i, j)),),
        "Z",
        BufferStore(z, value, (b, i, j)),
        BufferStore(z, const(0.0), (b, i, j)),
    )
    body: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var, extent in zip(reversed(loops), (128, 128, 128, 1), strict=True):
        body = serial(var, extent, body)
    params = tuple(Var(name, HANDLE) for name in "xyz")
    root = root_realize(Block((), (), (), "root", body))
    attrs = {"global_symbol": "main", "tir.noalias": True}
    return PrimFunc(params, root, dict(zip(params, (x, y, z), strict=True)), attrs)


MATMUL = """
    @T.prim_func
    def main(X: T.Buffer((1, 128, 128), "float32"), Y: T.Buffer((1, 128, 128), "float32"), Z: T.Buffer((1, 128, 128), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        # with T.block("root"):
        for b, i, j, k in T.grid(1, 128, 128, 128):
            with T.block("Z"):
                v_b, v_i, v_j, v_k = T.axis.remap("SSSR", [b, i, j, k])
                T.reads(X[v_b, v_i, v_k], Y[v_b, v_k, v_j])
                T.writes(Z[v_b, v_i, v_j])
                with T.init():
                    Z[v_b, v_i, v_j] = T.float32(0)
                Z[v_b, v_i, v_j] = Z[v_b, v_i, v_j] + X[v_b, v_i, v_k] * Y[v_b, v_k, v_j]
"""  # noqa: E501


def test_function() -> None:
    header = "# from tilewright.script import tir as T\n\n"
    assert matmul().script() == header + lines(MATMUL)


def test_module_lists_functions_by_name() -> None:
    module = IRModule({"main": matmul(), "a": replace(matmul(), attrs={})}, {"k": 1})
    text = module.script().splitlines()
    assert text[:7] == [
        "# from tilewright.script import ir as I",
        "# from tilewright.script import tir as T",
        "",
        "@I.ir_module",
        "class Module:",
        '    I.module_attrs({"k": 1})',
        "",
    ]
    assert text[7] == "    @T.prim_func(private=True)"
    assert text[8].startswith("    def a(")
    assert "    @T.prim_func" in text[9:]


def test_a_symbol_that_is_not_the_name_is_shown() -> None:
    module = IRModule({"f": matmul()})
    assert 'T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})' in str(module)


def test_block_alone_declares_what_it_uses_where_it_uses_it() -> None:
    realize = matmul().body
    assert isinstance(realize, BlockRealize)
    loop = realize.block.body
    while isinstance(loop, For):
        loop = loop.body
    assert isinstance(loop, BlockRealize)
    assert str(loop.block) == lines("""
        with T.block("Z", no_realize=True):
            v_b = T.axis.spatial(1)
            v_i = T.axis.spatial(128)
            v_j = T.axis.spatial(128)
            v_k = T.axis.reduce(128)
            X = T.Buffer((1, 128, 128))
            Y = T.Buffer((1, 128, 128))
            T.reads(X[v_b, v_i, v_k], Y[v_b, v_k, v_j])
            Z = T.Buffer((1, 128, 128))
            T.writes(Z[v_b, v_i, v_j])
            with T.init():
                Z[v_b, v_i, v_j] = T.float32(0)
            Z[v_b, v_i, v_j] = Z[v_b, v_i, v_j] + X[v_b, v_i, v_k] * Y[v_b, v_k, v_j]
    """)


def test_names_are_reused_in_sibling_scopes_and_numbered_in_nested_ones() -> None:
    a = decl_buffer((8,), name="A")
    first, second, inner = Var("i"), Var("i"), Var("i")
    nested = serial(second, 4, serial(inner, 8, store(a, inner), ForKind.UNROLLED))
    assert str(SeqStmt((serial(first, 8, store(a, first)), nested))) == lines("""
        A = T.Buffer((8,))
        for i in range(8):
            A[i] = T.float32(1)
        for i in range(4):
            for i_1 in T.unroll(8):
                A[i_1] = T.float32(1)
    """)


def test_loop_forms() -> None:
    i = Var("i")
    body = Evaluate(intrinsics.call_extern("int32", "f", i))
    n = Var("n")
    thread = IterVar(Range(const(0), const(4)), Var("t"), IterType.THREAD_INDEX, "threadIdx.x")
    shown = [
        For(i, const(2), const(6), ForKind.SERIAL, body),
        For(i, n, const(6), ForKind.VECTORIZED, body),
        For(i, const(0), n, ForKind.PARALLEL, body, None, {"a": (1, 2)}),
        For(i, const(0), const(4), ForKind.THREAD_BINDING, body, thread),
        For(i, const(0, "int64"), const(4, "int64"), ForKind.SERIAL, body),
    ]
    headers = [next(s for s in str(loop).splitlines() if s.startswith("for")) for loop in shown]
    assert headers == [
        "for i in range(2, 8):",
        "for i in T.vectorized(n, n + 6):",
        'for i in T.parallel(n, annotations={"a": [1, 2]}):',
        'for i in T.thread_binding(4, thread="threadIdx.x"):',
        "for i in range(T.int64(4)):",
    ]


def test_grid_stops_where_an_extent_depends_on_an_outer_loop() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")
    a = decl_buffer((8,), name="A")
    inner = For(k, const(0), i + 1, ForKind.SERIAL, store(a, k))
    assert str(serial(i, 8, serial(j, 8, inner))) == lines("""
        for i, j in T.grid(8, 8):
            for k in range(i + 1):
                A = T.Buffer((8,))
                A[k] = T.float32(1)
    """)


def test_bindings_are_plain_lines_at_the_end_of_a_scope_and_nested_elsewhere() -> None:
    x, pointer = Var("x"), Var("P", HANDLE, PointerType(DType("float32"), "local"))
    view = decl_buffer((4,), name="P", data=pointer)
    call = Evaluate(intrinsics.call_extern("int32", "f", x))
    allocate = Allocate(
        pointer, DType("float32"), (const(4),), TRUE, DeclBuffer(view, store(view, x))
    )
    inner = LetStmt(x, Var("n") + 1, SeqStmt((call, AttrStmt(pointer, "key", const(1), call))))
    assert str(SeqStmt((inner, LetStmt(x, Var("m") * 2, allocate)))) == lines("""
        n = T.int32()
        with T.LetStmt(n + 1) as x:
            T.call_extern("int32", "f", x)
            P = T.handle("float32", "local")
            T.attr(P, "key", 1)
            T.call_extern("int32", "f", x)
        m = T.int32()
        x: T.int32 = m * 2
        P = T.allocate([4], "float32", "local")
        P_1 = T.decl_buffer((4,), data=P, scope="local")
        P_1[x] = T.float32(1)
    """)


def test_branches_nest() -> None:
    n, a = Var("n"), decl_buffer((8,), name="A")
    chain = IfThenElse(n < 1, store(a, n), IfThenElse(n < 2, store(a, n)))
    assert str(chain) == lines("""
        n = T.int32()
        A = T.Buffer((8,))
        if n < 1:
            A[n] = T.float32(1)
        else:
            if n < 2:
                A[n] = T.float32(1)
    """)


def test_a_root_block_that_the_parser_would_not_add_is_written_out() -> None:
    plain = PrimFunc((), root_realize(Block((), (), (), "root", Evaluate(const(0)))))
    assert str(plain).splitlines()[2:] == [
        "@T.prim_func(private=True)",
        "def main():",
        '    with T.block("root"):',
        "        T.reads()",
        "        T.writes()",
        "        T.evaluate(0)",
    ]

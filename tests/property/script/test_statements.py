"""Random statements print to text that parses to the same statements."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tilewright.ir import (
    TRUE,
    Allocate,
    AllocateConst,
    AssertStmt,
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
    IterType,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PointerType,
    PrimExpr,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    Var,
    While,
    assert_structural_equal,
    const,
    decl_buffer,
    intrinsics,
)
from tilewright.script import from_source

HANDLE, F32 = DType("handle"), DType("float32")
KINDS = [ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED]
# Few names, so that the printer must tell things apart.
NAMES = st.sampled_from(["i", "x", "A", "T", "for", "a.b"])


class Draw:
    """Draws statements whose variables are all bound."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.param = Var("n")
        self.output = decl_buffer((16,), name="A")

    def integer(self, ints: list[Var]) -> PrimExpr:
        var = self.draw(st.sampled_from([*ints, self.param]))
        shape = self.draw(st.sampled_from(("var", "sum", "product", "constant")))
        other = self.draw(st.integers(0, 9))
        return {"var": var, "sum": var + other, "product": var * other}.get(shape, const(other))

    def one_of(self, choices: list[str]) -> str:
        return self.draw(st.sampled_from(choices))

    def stmt(self, depth: int, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        if depth == 0:
            return self.leaf(ints, buffers)
        kinds = ["leaf", "for", "if", "while", "let", "attr", "assert", "alloc", "const", "block"]
        kind = self.one_of([*kinds, "seq", "seq", "thread"])
        if kind == "seq":
            return self.sequence(depth, ints, buffers)
        if kind in ("for", "thread"):
            return self.loop(kind, depth, ints, buffers)
        if kind in ("alloc", "const"):
            return self.allocation(kind, depth, ints, buffers)
        if kind == "block":
            return self.block(depth, ints, buffers)
        if kind == "leaf":
            return self.leaf(ints, buffers)
        return self.simple(kind, depth, ints, buffers)

    def leaf(self, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        kind = self.one_of(["store", "call", "noop"])
        index = self.integer(ints)
        if kind == "noop":
            return Evaluate(const(0))
        if kind == "call":
            pointer = self.draw(st.sampled_from(buffers)).data
            return Evaluate(intrinsics.call_extern("int32", "f", index, pointer))
        buffer = self.draw(st.sampled_from(buffers))
        return BufferStore(buffer, const(1.0), (index % 16,))

    def sequence(self, depth: int, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        parts = [self.stmt(depth - 1, ints, buffers) for _ in range(self.draw(st.integers(2, 3)))]
        flat: list[Stmt] = []
        for part in parts:
            flat.extend(part.seq if isinstance(part, SeqStmt) else (part,))
        return SeqStmt(tuple(flat))

    def loop(self, kind: str, depth: int, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        var = Var(self.draw(NAMES))
        begin = const(0) if self.draw(st.booleans()) else self.integer(ints)
        extent = self.integer(ints) + 1
        body = self.stmt(depth - 1, [*ints, var], buffers)
        if kind == "thread":
            thread = IterVar(Range(const(0), extent), var, IterType.THREAD_INDEX, "threadIdx.x")
            return AttrStmt(thread, "thread_extent", extent, body)
        notes = {"note": 1} if self.draw(st.booleans()) else {}
        return For(var, begin, extent, self.draw(st.sampled_from(KINDS)), body, None, notes)

    def simple(self, kind: str, depth: int, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        value = self.integer(ints)
        if kind == "let":
            var = Var(self.draw(NAMES))
            return LetStmt(var, value, self.stmt(depth - 1, [*ints, var], buffers))
        body = self.stmt(depth - 1, ints, buffers)
        condition = self.param < value
        if kind == "if":
            other = self.stmt(depth - 1, ints, buffers) if self.draw(st.booleans()) else None
            return IfThenElse(condition, body, other)
        if kind == "while":
            return While(condition, body)
        if kind == "assert":
            return AssertStmt(condition, 'say "no"', body)
        return AttrStmt(self.draw(st.sampled_from(buffers)).data, "key", value, body)

    def allocation(self, kind: str, depth: int, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        name = self.draw(NAMES)
        data = Var(name, HANDLE, PointerType(F32, "global"))
        view = decl_buffer((16,), name=name, data=data)
        body = self.stmt(depth - 1, ints, [*buffers, view])
        if self.draw(st.booleans()):
            body = DeclBuffer(view, body)
        if kind == "const":
            return AllocateConst(data, F32, (const(2),), (1.5, -0.0), body)
        return Allocate(data, F32, (const(16),), TRUE, body)

    def block(self, depth: int, ints: list[Var], buffers: list[Buffer]) -> Stmt:
        """A block without iterators around loops, or with iterators and nothing from outside."""
        iterators = [
            IterVar(Range(const(0), self.integer([]) + 1), Var(self.draw(NAMES)), iter_type)
            for iter_type in self.draw(st.lists(st.sampled_from(BLOCK_KINDS), max_size=3))
        ]
        names: set[str] = set()
        iterators = [it for it in iterators if not (it.var.name in names or names.add(it.var.name))]  # type: ignore[func-returns-value]
        inner = [it.var for it in iterators] or ints
        values = tuple(self.integer(ints) for _ in iterators)
        own = decl_buffer((16,), name=self.draw(NAMES))
        source = self.draw(st.sampled_from(buffers))
        match = decl_buffer((4,), name=self.draw(NAMES), offset_factor=1)
        region = BufferRegion(source, (Range(self.integer(inner), const(4)),))
        body = self.stmt(depth - 1, inner, [source, own])
        return BlockRealize(
            values,
            TRUE if self.draw(st.booleans()) else self.param < self.integer(ints),
            Block(
                tuple(iterators),
                (region,),
                (BufferRegion.from_point(source, (self.integer(inner),)),),
                "b",
                body,
                self.leaf(inner, [own]) if self.draw(st.booleans()) else None,
                (own,),
                (MatchBufferRegion(match, region),),
                {"k": (1, "x")} if self.draw(st.booleans()) else {},
            ),
        )


BLOCK_KINDS = [IterType.DATA_PAR, IterType.COMM_REDUCE, IterType.ORDERED, IterType.OPAQUE]


@st.composite
def functions(draw: st.DrawFn) -> PrimFunc:
    generator = Draw(draw)
    handle = Var("A_handle", HANDLE)
    body = generator.stmt(4, [generator.param], [generator.output])
    root = BlockRealize((), TRUE, Block((), (), (), "root", body))
    params = (handle, generator.param)
    return PrimFunc(params, root, {handle: generator.output}, {"global_symbol": "main"})


@settings(max_examples=150)
@given(functions())
def test_function(original: PrimFunc) -> None:
    text = original.script()
    parsed = from_source(text, check_well_formed=False)
    assert_structural_equal(parsed, original)
    assert parsed.script() == text

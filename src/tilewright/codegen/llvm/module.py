"""A lowered module as LLVM IR text.

Each function `f` becomes a C function `i32 f(pointers and scalars)` that returns 0, or the number
of a failed assertion, and a second one, `i32 f.packed(slots)`, that takes its arguments from an
array of 8-byte slots: callers need no knowledge of the signature to run or time it. The body of a
parallel loop becomes a function of its own: a trampoline with the signature of the thread pool
unpacks the captured values and calls it, so that every pointer is again a parameter that aliases no
other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright import ir
from tilewright.codegen.base import GeneratedSource
from tilewright.codegen.llvm import streaming, tile_state
from tilewright.codegen.llvm.context import ModuleContext, quoted
from tilewright.codegen.llvm.emitter import FunctionEmitter, Value
from tilewright.codegen.llvm.forwarding import read_only
from tilewright.codegen.llvm.index import has_index_type
from tilewright.codegen.llvm.stmt import StmtGenerator, parameter_type
from tilewright.codegen.llvm.symbols import function_symbol
from tilewright.codegen.program_facts import captured_vars
from tilewright.errors import CodegenError
from tilewright.lowering.tile_registers import needs_tiles
from tilewright.native.abi import PACKED_SUFFIX, PARALLEL_LAUNCH
from tilewright.support.nesting import nested_deeply
from tilewright.target import Target
from tilewright.target.vector_types import KNOWN_IN_WORDS, is_known_vector

# What follows `poison` is the list of lanes of a shuffle, and never in a register.
_VECTOR = re.compile(r"(?<!poison, )<(\d+) x (\w+)>")


@dataclass(frozen=True)
class LLVMSource(GeneratedSource):
    """LLVM IR, its functions, and intrinsics that may end the process that compiles them."""

    entry_points: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()

    def doubts(self, *, vectors: bool) -> str:
        """What LLVM may give up on, in words; nothing if it is known to compile the module."""
        if self.untried:
            return f"a module that calls {', '.join(map(repr, dict.fromkeys(self.untried)))}"
        types = self.unknown_vectors() if vectors else ()
        if not types:
            return ""
        names = ", ".join(map(repr, self.entry_points))
        return f"{names} with vectors of {', '.join(types)} (use {KNOWN_IN_WORDS})"

    def unknown_vectors(self) -> tuple[str, ...]:
        """Vector types that may end the process that compiles them, or keep it busy for long."""
        found = sorted(set(_VECTOR.findall(self.text)))
        return tuple(f"<{n} x {of}>" for n, of in found if not is_known_vector(of, int(n)))


def generate(module: ir.IRModule, target: Target) -> LLVMSource:
    """LLVM IR for every function of a lowered module."""
    context = ModuleContext(target, frozenset(map(function_symbol, module.functions)))
    bodies = [_function_text(context, name, func) for name, func in module.functions.items()]
    parts = [
        *context.globals,
        *bodies,
        *context.definitions.values(),
        *context.declarations.values(),
        _ATTRIBUTES.format(width=target.vector_bits or 128),
        *context.metadata_text(),
    ]
    text, names = "\n".join(parts) + "\n", tuple(module.functions)
    return LLVMSource(text, tuple(context.messages), names, tuple(context.untried))


_ATTRIBUTES = (
    'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "no-trapping-math"="true" }}'
)


def _function_text(context: ModuleContext, name: str, func: ir.PrimFunc) -> str:
    if func.buffer_map:
        raise CodegenError(f"function {name!r} still has buffer parameters; run lower() first")
    generator = FunctionGenerator(context, FunctionEmitter(), name)
    no_alias = bool(func.attrs.get("tir.noalias", False))
    symbol = quoted(function_symbol(name))
    with nested_deeply(CodegenError, f"function {name!r}"):
        return generator.function(symbol, func.params, func.body, no_alias)


class FunctionGenerator(StmtGenerator):
    """Emits one function, and the functions that its parallel loops need before it."""

    def __init__(self, context: ModuleContext, emitter: FunctionEmitter, name: str) -> None:
        super().__init__(context, emitter)
        self.name = name
        self.outlined: list[str] = []

    def function(
        self, symbol: str, params: tuple[ir.Var, ...], body: ir.Node, no_alias: bool
    ) -> str:
        """The definition of an entry point."""
        signature = []
        for position, param in enumerate(params):
            type_, text = parameter_type(param), f"%arg{position}"
            is_distinct = no_alias and type_ == "ptr"
            signature.append(f"{type_}{' noalias' if is_distinct else ''} {text}")
            if is_distinct:
                self.distinct.add(param)
            # Integers that indices are made of are 64-bit, as loop variables are.
            value = Value(type_, text)
            is_narrow = has_index_type(param.dtype) and type_ != "i64"
            self.env[param] = self.convert("sext", value, "i64") if is_narrow else value
        self.read_only |= read_only(body, self.distinct)
        self.visit(body)
        self.emitter.line("ret i32 0")
        text = f"define i32 {symbol}({', '.join(signature)}) #0 {{\n{self.emitter.body()}\n}}"
        packed = _packed_entry(self.name, symbol, [parameter_type(param) for param in params])
        return "\n".join([*self.outlined, text, packed])

    def parallel_loop(self, node: ir.For) -> None:
        """Hand the iterations to the thread pool; a loop inside one that is parallel is serial."""
        first, last = self.index(node.min), self.index(node.min + node.extent)
        if self.in_parallel:
            self.serial_loop(node, first, last)
            return
        captured = [var for var in captured_vars(node) if var in self.env]
        constants = {var for var in captured if not self.env[var].text.startswith("%")}
        passed = [var for var in captured if var not in constants]
        symbol = f"{self.name}.parallel{self.context.outlined}"
        self.context.outlined += 1
        self._outline(node, symbol, passed, constants)
        extent = self.index(node.extent)
        workers, step, following = self._share(extent)
        values = [first, extent, step, following, *(self.env[var] for var in passed)]
        frame = self.struct(f"{{ {', '.join(value.type for value in values)} }}", values, 64)
        self.context.declare("i32", PARALLEL_LAUNCH, "ptr, ptr, i64")
        code = self.emitter.here(
            "i32", f"call i32 @{PARALLEL_LAUNCH}(ptr {quoted(symbol)}, {frame}, {workers})"
        )
        tile_state.reconfigure(self)
        self.fail_unless_zero(code)

    def _share(self, extent: Value) -> tuple[Value, Value, Value]:
        """How many workers to ask for, how many iterations each takes at a time, and a counter.

        Workers take the next iterations when they are done with the last: a thread that lost its
        core to another program does not hold up the rest.
        """
        self.context.declare("i32", "tw_num_threads", "")
        threads = self.emitter.here("i32", "call i32 @tw_num_threads()")
        wide = self.convert("zext", threads, "i64")
        workers = self.intrinsic("smin", ir.INT64, wide, extent)
        rounds = self.int_op("mul", wide, Value("i64", str(TURNS_PER_THREAD)))
        part = self.int_op("udiv", extent, rounds)
        step = self.intrinsic("smax", ir.INT64, part, Value("i64", "1"))
        following = self.emitter.alloca("alloca i64, align 64")
        self.emitter.line(f"store i64 0, {following}, align 64")
        return workers, step, following

    def _outline(
        self, node: ir.For, symbol: str, passed: list[ir.Var], constants: set[ir.Var]
    ) -> None:
        worker = FunctionGenerator(self.context, FunctionEmitter(), self.name)
        worker.in_parallel = True
        worker.alignments = dict(self.alignments)
        worker.nonnegative = set(self.nonnegative)
        worker.env = {var: self.env[var] for var in constants}
        # A pointer computed from another one reaches the memory of that one.
        distinct = all(var in self.distinct for var in passed if var.dtype.is_handle)
        types = [self.env[var].type for var in passed]
        signature = ["i64 %begin", "i64 %end"]
        for position, (var, type_) in enumerate(zip(passed, types, strict=True)):
            worker.env[var] = Value(type_, f"%arg{position}")
            attribute = " noalias" if distinct and type_ == "ptr" else ""
            signature.append(f"{type_}{attribute} %arg{position}")
        if distinct:
            pointers = {var for var in passed if var.dtype.is_handle}
            worker.read_only = read_only(node.body, pointers)
        begin, end = Value("i64", "%begin"), Value("i64", "%end")
        if needs_tiles(node.body):
            worker.holding_tiles(lambda: worker.serial_loop(node, begin, end))
        else:
            worker.serial_loop(node, begin, end)
        streaming.fence(worker)
        worker.emitter.line("ret i32 0")
        inner = quoted(f"{symbol}.body")
        self.outlined.append(
            f"define internal i32 {inner}({', '.join(signature)}) noinline #0 "
            f"{{\n{worker.emitter.body()}\n}}"
        )
        self.outlined.append(_trampoline(quoted(symbol), inner, types))


def _packed_entry(name: str, symbol: str, types: list[str]) -> str:
    lines = []
    for position, type_ in enumerate(types):
        lines.append(f"  %p{position} = getelementptr inbounds i64, ptr %slots, i64 {position}")
        # A type of less than a byte cannot be loaded as such from memory that others wrote.
        if type_ in ("i1", "i4"):
            lines.append(f"  %b{position} = load i8, ptr %p{position}, align 8")
            lines.append(f"  %a{position} = trunc i8 %b{position} to {type_}")
        else:
            lines.append(f"  %a{position} = load {type_}, ptr %p{position}, align 8")
    arguments = ", ".join(f"{type_} %a{position}" for position, type_ in enumerate(types))
    lines.append(f"  %code = call i32 {symbol}({arguments})")
    lines.append("  ret i32 %code")
    body = "\n".join(lines)
    return f"define i32 {quoted(name + PACKED_SUFFIX)}(ptr %slots) #0 {{\n{body}\n}}"


# Fewer turns share the work less evenly, more turns lose the advantage of long ones.
TURNS_PER_THREAD = 8
_SHARED_TYPES = ("i64", "i64", "i64", "ptr")  # first iteration, extent, step, counter


def _trampoline(symbol: str, inner: str, types: list[str]) -> str:
    """Unpack the captured values, then take turns until no iterations are left.

    The pool's own share (`begin`, `end`) does not matter: the counter says what is left to do.
    """
    fields = [*_SHARED_TYPES, *types]
    frame = f"{{ {', '.join(fields)} }}"
    lines = ["entry:"]
    for position, type_ in enumerate(fields):
        lines.append(
            f"  %p{position} = getelementptr inbounds {frame}, ptr %frame, i32 0, i32 {position}"
        )
        lines.append(f"  %c{position} = load {type_}, ptr %p{position}")
    passed = "".join(f", {type_} %c{i + len(_SHARED_TYPES)}" for i, type_ in enumerate(types))
    lines += [
        "  br label %turn",
        "turn:",
        "  %at = atomicrmw add ptr %c3, i64 %c2 monotonic, align 8",
        "  %left = icmp slt i64 %at, %c1",
        "  br i1 %left, label %work, label %done",
        "work:",
        "  %until = add i64 %at, %c2",
        "  %short = icmp slt i64 %until, %c1",
        "  %stop = select i1 %short, i64 %until, i64 %c1",
        "  %first = add i64 %c0, %at",
        "  %last = add i64 %c0, %stop",
        f"  %code = call i32 {inner}(i64 %first, i64 %last{passed})",
        "  %ok = icmp eq i32 %code, 0",
        "  br i1 %ok, label %turn, label %failed",
        "failed:",
        "  store atomic i64 %c1, ptr %c3 monotonic, align 8",  # nobody starts another turn
        "  ret i32 %code",
        "done:",
        "  ret i32 0",
    ]
    body = "\n".join(lines)
    return f"define internal i32 {symbol}(ptr %frame, i64 %begin, i64 %end) #0 {{\n{body}\n}}"

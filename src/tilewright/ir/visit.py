"""Walking and rewriting IR.

`Visitor` and `Rewriter` dispatch on the class of a node: a subclass defines `visit_for`,
`visit_buffer_load`, ... for the nodes it cares about and inherits a walk of the children for all
others. A rewriter gives back the same object when nothing changed below it. Buffers, and variables
where they are bound, are not children; rewriters that must change them override the nodes that
define or use them (see `BufferRewriter` and `substitute`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import PrimExpr, Var
from tilewright.ir.node import Node, NodeT, children, map_children, map_tuple, replace
from tilewright.ir.stmt import Allocate, AllocateConst, AttrStmt, Block, SeqStmt, Stmt, flattened

__all__ = [
    "T", "Dispatcher", "Visitor", "Rewriter", "BufferRewriter", "substitute", "post_order_visit",
    "pre_order_visit", "ir_transform", "free_vars", "uses_var",
]  # fmt: skip

Method = Callable[[Any, Any], Any]
T = TypeVar("T")


class Dispatcher:
    """Finds the method for a node class once and remembers it for each visitor class."""

    _methods: ClassVar[dict[type, Method]] = {}

    def __init_subclass__(cls) -> None:
        cls._methods = {}

    @classmethod
    def _find(cls, node_class: type) -> Method:
        for base in node_class.__mro__:
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", base.__name__).lower()
            method: Method = getattr(cls, f"visit_{snake}", cls.generic_visit)
            if method is not cls.generic_visit:
                break
        cls._methods[node_class] = method
        return method

    def generic_visit(self, node: Any) -> Any:
        raise NotImplementedError

    def visit(self, node: Any) -> Any:
        """Hand the node to the method for its class."""
        node_class = type(node)
        method = self._methods.get(node_class) or self._find(node_class)
        return method(self, node)


class Visitor(Dispatcher):
    """Looks at every node, children after the method of their parent asks for them."""

    def generic_visit(self, node: Any) -> None:
        """Visit all children."""
        if node.child_fields:
            for child in children(node):
                self.visit(child)


class Rewriter(Dispatcher):
    """Rebuilds a tree bottom-up, sharing what did not change."""

    def generic_visit(self, node: NodeT) -> NodeT:
        """Rewrite all children; a sequence that took in another one stays flat."""
        if not node.child_fields:
            return node
        result = map_children(node, self.visit)
        if type(result) is SeqStmt and result is not node:
            return flattened(result)  # type: ignore[arg-type, return-value] # a sequence, too
        return result

    def rewrite(self, node: NodeT) -> NodeT:
        """`visit` for a node whose kind stays the same."""
        result: NodeT = self.visit(node)
        return result


class BufferRewriter(Rewriter):
    """A rewriter that passes every buffer it meets through `visit_buffer`.

    `visit_buffer` must give the same answer for the same buffer; memoise it. Override `with_buffer`
    where an access changes in other ways, too: it gets the access with its indices rewritten, so
    that buffers which serve as indices are never left behind.
    """

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def with_buffer(self, node: Any) -> Any:
        """An access, region, view or declaration, its children rewritten, of another buffer."""
        buffer = self.visit_buffer(node.buffer)
        return node if buffer is node.buffer else replace(node, buffer=buffer)

    def _with_buffer(self, node: Any) -> Any:
        return self.with_buffer(map_children(node, self.visit))

    visit_buffer_load = visit_buffer_store = visit_buffer_region = _with_buffer
    visit_match_buffer_region = visit_decl_buffer = _with_buffer

    def visit_block(self, node: Block) -> Block:
        node = map_children(node, self.visit)
        buffers = map_tuple(node.alloc_buffers, self.visit_buffer)
        return node if buffers is node.alloc_buffers else replace(node, alloc_buffers=buffers)


def map_buffer(buffer: Buffer, change: Callable[[Any], Any]) -> Buffer:
    """Apply `change` to the pointer, shape, strides and offset; the same object if none changed."""
    data = change(buffer.data)
    shape = map_tuple(buffer.shape, change)
    strides = map_tuple(buffer.strides, change)
    offset = None if buffer.elem_offset is None else change(buffer.elem_offset)
    if (
        data is buffer.data
        and shape is buffer.shape
        and strides is buffer.strides
        and offset is buffer.elem_offset
    ):
        return buffer
    return replace(buffer, data=data, shape=shape, strides=strides, elem_offset=offset)


class Substituter(BufferRewriter):
    """Replaces variables, also inside the shapes and data pointers of buffers, and `buffers`."""

    def __init__(
        self,
        lookup: Callable[[Var], PrimExpr | None],
        buffers: Iterable[tuple[Buffer, Buffer]] = (),
    ) -> None:
        self._lookup = lookup
        self._buffers: dict[Buffer, Buffer] = dict(buffers) if buffers else {}

    def visit_var(self, node: Var) -> PrimExpr:
        found = self._lookup(node)
        return node if found is None else found

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        known = self._buffers.get(buffer)
        if known is None:
            known = self._buffers[buffer] = map_buffer(buffer, self.visit)
        return known

    def visit_allocate(self, node: Allocate | AllocateConst) -> Stmt:
        node = map_children(node, self.visit)
        data = self.visit(node.buffer_var)
        return node if data is node.buffer_var else replace(node, buffer_var=data)

    visit_allocate_const = visit_allocate

    def visit_attr_stmt(self, node: AttrStmt) -> Any:
        node = map_children(node, self.visit)
        if not isinstance(node.node, Var):
            return node
        target = self.visit(node.node)
        return node if target is node.node else replace(node, node=target)


VarMap = Mapping[Var, PrimExpr]


def substitute(node: NodeT, var_map: VarMap | Callable[[Var], PrimExpr | None]) -> NodeT:
    """Replace free variables; keys that the node does not use are ignored."""
    if isinstance(var_map, Mapping):
        return Substituter(var_map.get).rewrite(node) if var_map else node
    return Substituter(var_map).rewrite(node)


def post_order_visit(node: Node, visit: Callable[[Any], object]) -> None:
    """Call `visit` on every node below and including `node`, children first."""
    for child in children(node):
        post_order_visit(child, visit)
    visit(node)


def pre_order_visit(node: Node, visit: Callable[[Any], bool]) -> None:
    """Call `visit` on every node, parents first; False skips the children."""
    if visit(node) is not False:
        for child in children(node):
            pre_order_visit(child, visit)


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[Any], Any] | None = None,
    postorder: Callable[[Any], Any] | None = None,
    only_enable: Iterable[str] | None = None,
) -> Stmt:
    """Rewrite statements and expressions with two functions.

    `preorder` may return a node that replaces the subtree at once; `postorder` sees a node whose
    children are done. None means "leave it". `only_enable` limits both to the named classes
    ("tir.For" or "For").
    """
    enabled = None if only_enable is None else {name.split(".")[-1] for name in only_enable}

    def transform(node: Any) -> Any:
        active = enabled is None or type(node).__name__ in enabled
        if active and preorder is not None:
            replacement = preorder(node)
            if replacement is not None:
                return replacement
        node = map_children(node, transform)
        if active and postorder is not None:
            replacement = postorder(node)
            if replacement is not None:
                return replacement
        return node

    result: Stmt = transform(stmt)
    return result


def free_vars(node: Node) -> list[Var]:
    """Variables used but not bound below `node`, each once, in order of first use."""
    collector = _FreeVars()
    collector.visit(node)
    return list(collector.found)


class _FreeVars(Visitor):
    def __init__(self) -> None:
        self.found: dict[Var, None] = {}
        self._bound: set[Var] = set()

    def visit_var(self, node: Var) -> None:
        if node not in self._bound:
            self.found[node] = None

    def _visit_binder(self, node: Any, bound: Iterable[Var]) -> None:
        """Only the body of a statement sees what the statement binds."""
        for child in children(node):
            if child is not node.body:
                self.visit(child)
        with self._binding(bound):
            self.visit(node.body)

    @contextmanager
    def _binding(self, variables: Iterable[Var]) -> Iterator[None]:
        new = [var for var in variables if var not in self._bound]
        self._bound.update(new)
        yield
        self._bound.difference_update(new)

    def visit_for(self, node: Any) -> None:
        self._visit_binder(node, (node.loop_var,))

    def visit_let(self, node: Any) -> None:
        self._visit_binder(node, (node.var,))

    visit_let_stmt = visit_let

    def visit_comm_reducer(self, node: Any) -> None:
        with self._binding((*node.lhs, *node.rhs)):
            self.generic_visit(node)

    def visit_allocate(self, node: Any) -> None:
        self._visit_binder(node, (node.buffer_var,))

    visit_allocate_const = visit_allocate

    def visit_block(self, node: Block) -> None:
        buffers = (*node.alloc_buffers, *(match.buffer for match in node.match_buffers))
        bound = [iter_var.var for iter_var in node.iter_vars]
        with self._binding(bound + [buffer.data for buffer in buffers]):
            self.generic_visit(node)


def uses_var(node: Node, test: Callable[[Var], bool]) -> bool:
    """True when some variable that `test` accepts occurs in `node`."""
    if isinstance(node, Var):
        return test(node)
    for child in children(node):  # noqa: SIM110 - a generator at each node would cost half of it
        if uses_var(child, test):
            return True
    return False

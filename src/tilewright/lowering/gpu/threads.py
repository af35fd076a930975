"""Tags of threads, and the launches of a lowered kernel."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import ir

THREAD_EXTENT = "thread_extent"
VIRTUAL_THREAD = "virtual_thread"


def is_grid_tag(tag: str) -> bool:
    """True for a dimension of the grid or of a block of threads; virtual threads are none."""
    return tag.startswith(("blockIdx.", "threadIdx."))


def is_thread_tag(tag: str) -> bool:
    """True for a dimension of a block of threads."""
    return tag.startswith("threadIdx.")


def bound_tag(loop: ir.Stmt) -> str:
    """The tag that a loop is bound to, or nothing."""
    if not isinstance(loop, ir.For) or loop.kind != ir.ForKind.THREAD_BINDING:
        return ""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def launched_tag(stmt: ir.Stmt) -> str:
    """The tag that an attribute launches threads for, or nothing."""
    if not isinstance(stmt, ir.AttrStmt) or stmt.attr_key != THREAD_EXTENT:
        return ""
    return stmt.node.thread_tag if isinstance(stmt.node, ir.IterVar) else ""


def launches_of(stmt: ir.Stmt) -> Iterator[ir.AttrStmt]:
    """The launches that stand right inside each other from `stmt` on."""
    while isinstance(stmt, ir.AttrStmt) and launched_tag(stmt):
        yield stmt
        stmt = stmt.body

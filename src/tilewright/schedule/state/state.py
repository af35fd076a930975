"""The program under a schedule, and the references into it.

The IR is immutable: changing a statement copies the path from it to the function, nothing else.
`replace` keeps every reference whose block or loop survives. What is known of a block (`BlockInfo`)
and of a scope (`BlockScope`) is computed when it is first asked for and stays until a primitive
changes it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.schedule.state.scope import BlockScope, access_of
from tilewright.schedule.state.sref import SchedulableStmt, StmtSRef, leaf_realizes, upwards

if TYPE_CHECKING:
    from tilewright.schedule.moves.compute_at import MovePlan

_Move: TypeAlias = tuple[StmtSRef, StmtSRef, bool, int]  # see primitives/compute_at.py
VERIFY_SREF_TREE = 1
VERIFY_CACHED_FLAGS = 2
VERIFY_PROGRAM = 4


@dataclass(eq=False, slots=True)
class BlockInfo:
    """What is known of a block; None means not asked for yet."""

    affine_binding: bool | None = None
    region_cover: bool | None = None
    stage_pipeline: bool | None = None  # of the scope that this block opens
    # While region_cover is None: the reads of which buffers have to be looked at (None: all).
    in_doubt: frozenset[ir.Buffer] | None = None
    verified: tuple[object, ...] = ()  # what the flags were last checked against, see flag_check.py


class ScheduleState:
    """A module with references to its blocks and loops."""

    __slots__ = ("debug_mask", "enable_check", "infos", "mod", "normal_bindings", "plans", "roots",
                 "scopes", "settles_flow", "srefs")  # fmt: skip

    def __init__(self, mod: ir.IRModule, debug_mask: int = 0, enable_check: bool = True) -> None:
        self.mod = mod.clone()  # its owner may change functions in place
        self.debug_mask = debug_mask
        self.enable_check = enable_check
        self.srefs: dict[SchedulableStmt, StmtSRef] = {}
        self.infos: dict[StmtSRef, BlockInfo] = {}
        self.scopes: dict[StmtSRef, BlockScope] = {}
        self.normal_bindings: set[ir.PrimExpr] = set()  # values of iterators, see bindings.py
        self.plans: tuple[ir.IRModule, dict[_Move, MovePlan]] = (self.mod, {})
        self.roots: dict[str, StmtSRef] = {}  # function -> its root block
        self.settles_flow = True  # see flags.settle_flags
        for name, func in mod.functions.items():
            if isinstance(func.body, ir.BlockRealize):
                self.roots[name] = self._adopt(func.body.block, None, -1, {}, {})

    def copy(self) -> tuple[ScheduleState, dict[StmtSRef, StmtSRef]]:
        """A state of its own over the same IR, and where each reference went."""
        moved: dict[StmtSRef, StmtSRef] = {}
        for sref in self.srefs.values():
            moved[sref] = StmtSRef(sref.stmt, None, sref.seq_index)
        for old, new in moved.items():
            new.parent = None if old.parent is None else moved[old.parent]
        twin = object.__new__(ScheduleState)
        twin.mod, twin.debug_mask, twin.enable_check = self.mod, self.debug_mask, self.enable_check
        twin.srefs = {stmt: moved[sref] for stmt, sref in self.srefs.items()}
        twin.infos = {
            moved[sref]: BlockInfo(
                info.affine_binding,
                info.region_cover,
                info.stage_pipeline,
                info.in_doubt,
                info.verified,
            )
            for sref, info in self.infos.items()
        }
        twin.scopes = {}
        twin.settles_flow = self.settles_flow
        twin.normal_bindings = set(self.normal_bindings)
        twin.plans = (self.mod, {})
        twin.roots = {name: moved[sref] for name, sref in self.roots.items()}
        return twin, moved

    def info(self, block: StmtSRef) -> BlockInfo:
        """What is known of a block."""
        if (found := self.infos.get(block)) is None:
            found = self.infos[block] = BlockInfo()
        return found

    def get_sref(self, stmt: SchedulableStmt) -> StmtSRef:
        """The reference to a block or loop of the program as it is now."""
        if (found := self.srefs.get(stmt)) is None:
            raise ScheduleError("the block or loop is no longer part of the module")
        return found

    def child_blocks(self, sref: StmtSRef) -> list[StmtSRef]:
        """The blocks directly under a block or loop."""
        return [self.srefs[realize.block] for realize in leaf_realizes(sref.body)]

    def scope_of(self, root: StmtSRef) -> BlockScope:
        """The scope that a block opens; kept until one of its leaf blocks changes."""
        body = root.block.body
        known = self.scopes.get(root)
        if known is not None and known.body is body:
            return known
        leaves = [realize.block for realize in leaf_realizes(body)]
        same = known is not None and len(known.leaves) == len(leaves)
        if known is None or not (same and all(map(operator.is_, known.leaves, leaves))):
            known = self.scopes[root] = self.scope_over(leaves, known)
        known.body = body
        return known

    def scope_over(
        self, leaves: Sequence[ir.Block], before: BlockScope | None = None
    ) -> BlockScope:
        """The scope of some leaf blocks; what `before` knows of the same blocks is taken over."""
        known = {} if before is None else dict(zip(before.leaves, before.accesses, strict=True))
        srefs = [self.srefs[leaf] for leaf in leaves]
        return BlockScope(srefs, leaves, [known.get(leaf) or access_of(leaf) for leaf in leaves])

    def function_of(self, sref: StmtSRef) -> str:
        """The name of the function that holds a block or loop."""
        *_, root = upwards(sref)
        for name, candidate in self.roots.items():
            if candidate is root:
                return name
        raise ScheduleError("the block or loop is no longer part of the module")

    # --- changing the program -------------------------------------------------------------------

    def replace(
        self,
        source: StmtSRef,
        target: SchedulableStmt | ir.BlockRealize,
        block_sref_reuse: Mapping[ir.Block, ir.Block] | None = None,
    ) -> None:
        """Put `target` where `source` stands; it may hold what stood there.

        References into parts that `target` shares with the old statement stay; those of loops move
        to the new loop with the same variable, those of blocks as `block_sref_reuse` (old to new)
        says, and `source` from block to block. All others expire.
        """
        old = source.stmt
        if old is None:
            raise ScheduleError("the statement to be replaced no longer exists")
        if target is old:
            return
        parent, seq_index = source.parent, source.seq_index
        written: ir.Stmt = target
        if isinstance(target, ir.BlockRealize):
            target = target.block
            written = written if parent is not None else target  # bindings of a root stay
        intact: set[SchedulableStmt] = set()
        self._find_intact(target, intact)
        loops: dict[ir.Var, StmtSRef] = {}
        blocks: dict[ir.Block, StmtSRef] = {}
        removed: dict[StmtSRef, SchedulableStmt] = {}
        if old not in intact:
            self._retire(old, intact, loops, removed)
        for before, after in (block_sref_reuse or {}).items():
            if (sref := self.srefs.get(before)) is not None:
                blocks[after] = sref
        if isinstance(old, ir.Block) and isinstance(target, ir.Block):
            blocks.setdefault(target, source)
        for stmt in removed.values():
            del self.srefs[stmt]
        self._adopt(target, parent, seq_index, loops, blocks)
        for sref, stmt in removed.items():
            if sref.stmt is stmt:  # nobody took it over
                sref.stmt, sref.parent = None, None
                self.infos.pop(sref, None)
                self.scopes.pop(sref, None)
        self._copy_path(parent, old, written, seq_index)
        if self.debug_mask & VERIFY_SREF_TREE:
            self.verify_sref_tree()

    def set_body(
        self, sref: StmtSRef, body: ir.Stmt, reuse: Mapping[ir.Block, ir.Block] | None = None
    ) -> None:
        """Let a block or loop run something else; `reuse` is that of `replace`."""
        self.replace(sref, sref.with_body(body), reuse)

    def _find_intact(self, stmt: ir.Stmt, intact: set[SchedulableStmt]) -> None:
        for child, _ in _positions_below(stmt):
            if child in self.srefs:
                intact.add(child)
            else:
                self._find_intact(child.body, intact)

    def _retire(
        self,
        stmt: SchedulableStmt,
        intact: set[SchedulableStmt],
        loops: dict[ir.Var, StmtSRef],
        removed: dict[StmtSRef, SchedulableStmt],
    ) -> None:
        sref = self.srefs[stmt]
        removed[sref] = stmt
        if isinstance(stmt, ir.For):
            loops[stmt.loop_var] = sref
        for child, _ in _positions_below(stmt.body):
            if child not in intact:
                self._retire(child, intact, loops, removed)

    def _adopt(
        self,
        stmt: SchedulableStmt,
        parent: StmtSRef | None,
        seq_index: int,
        loops: Mapping[ir.Var, StmtSRef],
        blocks: Mapping[ir.Block, StmtSRef],
    ) -> StmtSRef:
        """Give `stmt` and everything below it references, known ones where there are."""
        if (sref := self.srefs.get(stmt)) is not None:
            sref.parent, sref.seq_index = parent, seq_index
            return sref
        sref = loops.get(stmt.loop_var) if isinstance(stmt, ir.For) else blocks.get(stmt)
        if sref is None:
            sref = StmtSRef(stmt, parent, seq_index)
            if type(stmt) is ir.Block:
                self.infos[sref] = BlockInfo()
        else:
            sref.stmt, sref.parent, sref.seq_index = stmt, parent, seq_index
        self.srefs[stmt] = sref
        for child, position in _positions_below(stmt.body):
            self._adopt(child, sref, position, loops, blocks)
        return sref

    def _copy_path(
        self, parent: StmtSRef | None, old: ir.Stmt, new: ir.Stmt, seq_index: int
    ) -> None:
        while parent is not None:
            before = parent.stmt
            assert before is not None
            after = parent.with_body(_swap(before.body, old, new, seq_index))
            del self.srefs[before]
            self.srefs[after] = parent
            parent.stmt = after
            old, new, seq_index, parent = before, after, parent.seq_index, parent.parent
        for name, root in self.roots.items():
            if root.stmt is new:
                self._set_root(name, root.block)
                return
        raise ScheduleError("the changed statement is not part of any function")

    def _set_root(self, name: str, block: ir.Block) -> None:
        func = self.mod.functions[name]
        body = func.body
        assert isinstance(body, ir.BlockRealize)
        changed = ir.replace(func, body=ir.replace(body, block=block))
        self.mod = ir.replace(self.mod, functions={**self.mod.functions, name: changed})

    def set_function(self, name: str, func: ir.PrimFunc) -> None:
        """Change a function outside its body (parameters, buffers, attributes)."""
        old = self.mod.functions[name]
        if func.body is not old.body:
            raise ScheduleError("set_function keeps the body; use replace for the root block")
        self.mod = ir.replace(self.mod, functions={**self.mod.functions, name: func})

    def check_functions(self) -> None:
        """Refuse to go on with a module in which somebody else put other bodies."""
        for name, root in self.roots.items():
            func = self.mod.functions.get(name)
            body = None if func is None else func.body
            if not isinstance(body, ir.BlockRealize) or body.block is not root.stmt:
                raise ScheduleError(
                    f"the body of function {name!r} was changed outside of the schedule; make a "
                    "new Schedule of the changed module"
                )

    # --- checking ourselves ---------------------------------------------------------------------

    def verify_sref_tree(self) -> None:
        """Check that references and program agree."""
        seen: set[StmtSRef] = set()
        for name, func in self.mod.functions.items():
            if name in self.roots:
                assert isinstance(func.body, ir.BlockRealize)
                self._verify_below(func.body.block, None, -1, seen)
        if len(seen) != len(self.srefs):
            raise AssertionError(f"{len(self.srefs) - len(seen)} references to removed statements")

    def _verify_below(
        self, stmt: SchedulableStmt, parent: StmtSRef | None, position: int, seen: set[StmtSRef]
    ) -> None:
        sref = self.srefs.get(stmt)
        if sref is None or sref.stmt is not stmt:
            raise AssertionError(f"no reference to {stmt}")
        if sref.parent is not parent or sref.seq_index != position:
            raise AssertionError(f"wrong parent or position of {sref}")
        seen.add(sref)
        for child, below in _positions_below(stmt.body):
            self._verify_below(child, sref, below, seen)


def _positions_below(stmt: ir.Stmt, position: int = -1) -> list[tuple[SchedulableStmt, int]]:
    """Nearest blocks and loops in a statement, each with its place in the sequence around it."""
    kind = type(stmt)
    if kind is ir.For or kind is ir.Block:
        return [(stmt, position)]  # type: ignore[list-item]
    if kind is ir.BlockRealize:
        return [(stmt.block, position)]  # type: ignore[attr-defined]
    found: list[tuple[SchedulableStmt, int]] = []
    if kind is ir.SeqStmt:
        for index, child in enumerate(stmt.seq):  # type: ignore[attr-defined]
            if type(child) is ir.For:  # most of a long sequence
                found.append((child, index))
            else:
                found += _positions_below(child, index)
    elif kind is not ir.BufferStore:
        for child in ir.statements_in(stmt):
            found += _positions_below(child, position)
    return found


def _swap(body: ir.Stmt, old: ir.Stmt, new: ir.Stmt, seq_index: int) -> ir.Stmt:
    """`body` with the statement `old` exchanged for `new`."""
    if body is old:
        return new
    kind = type(body)
    if kind is ir.BlockRealize:
        if body.block is old:  # type: ignore[attr-defined]
            return new if type(new) is ir.BlockRealize else ir.replace(body, block=new)
        return body
    if kind is ir.SeqStmt and 0 <= seq_index < len(body.seq):  # type: ignore[attr-defined]
        items: tuple[ir.Stmt, ...] = body.seq  # type: ignore[attr-defined]
        item = items[seq_index]
        changed = _swap(item, old, new, -1)
        if changed is not item:  # else the position is one in another sequence, further inside
            return ir.SeqStmt((*items[:seq_index], changed, *items[seq_index + 1 :]))
    if kind is ir.For or kind is ir.Block:
        return body
    return ir.map_statements(body, lambda child: _swap(child, old, new, seq_index))

"""Finds definitions of `src/` that nothing uses, and fails if there are any.

`python tools/dead_code.py` compares the functions, classes, methods and constants that the source
defines with the names that code reads (in any expression, import, or string, since registries and
tables of names are strings). What only tests use has no user either; in `testing/`, tests are the
users. Pages and examples count: what they show is part of the interface.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = "src/tilewright"
PROGRAMS = ("src", "examples", "benchmarks", "tools")
PAGES = ("docs", "README.md", "pyproject.toml")
WORD = re.compile(r"[A-Za-z_]\w*")

# Prefixes of methods that are called by a name made from a node's class or by a library.
DISPATCHED = ("visit_", "rewrite_", "pytest_", "handle_", "_repr_", "__")

# Files that offer names to others: TVM's module paths, and functions that tests find by name.
OFFERING = (
    "intrin/cuda.py", "meta_schedule/", "testing/faulty_hooks.py", "testing/tvm_testing.py", "tir/",
    "topi/utils.py", "transform.py", "schedule/compose.py", "testing/compare_before_after.py",
)  # fmt: skip

# Members of TVM's classes and functions, and of protocols that others call; nothing of ours does.
ALLOWED = {
    "canonical_simplify", "can_prove_greater_equal", "map_ndarray", "is_equivalent_to",
    "get_flattened_buffer", "while_loop", "scope_attr", "from_min_extent", "with_attrs",
    "from_expr", "get_global_vars", "required_pass", "from_prim_func", "sync", "get_function",
    "asnumpy", "lhs_iters", "remove_rv", "can_decompose_padding", "get_deps_by_dst",
    "get_deps_by_src", "root_mark", "inline_mark", "inverse_nhwc", "inverse_nchw", "with_host",
    "terminate_task", "tasks_", "remaining_tasks_", "database_", "cost_model_",
    "measure_callbacks_", "resize1d", "resize3d", "InstructionKind", "train_verbose",
    "create_module", "_fields_", "cpu_kind", "data_size", "group_hash",
    "run_error_count", "pids", "session_priority", "count_num_servers", "text_summary",
}  # fmt: skip


def definitions(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The names that statements define for others, with their lines; members of classes, too."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not _is_handed_over(node):
                yield node.name, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from definitions(node.body)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((item.id, node.lineno) for item in targets if isinstance(item, ast.Name))


def _is_handed_over(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator calls or registers the definition, so that nobody has to name it."""
    plain = {"dataclass", "property", "staticmethod", "classmethod", "cached_property", "cache"}
    plain |= {"lru_cache", "abstractmethod", "override", "runtime_checkable", "contextmanager"}
    return any(_name_of(item) not in plain for item in node.decorator_list)


def _name_of(node: ast.expr) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def uses(tree: ast.Module) -> Counter[str]:
    """The names that a program reads; docstrings do not count."""
    found: Counter[str] = Counter()
    docstrings = {id(text) for text in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
        elif isinstance(node, ast.keyword) and node.arg:
            found[node.arg] += 1
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            found.update(WORD.findall(node.value))
    return found


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def unused(root: Path) -> list[str]:
    """One line for each definition that nothing reads."""
    used = _uses_of(_files(root, PROGRAMS, ".py"))
    for path in _files(root, PAGES, ".md", ".toml"):
        used.update(WORD.findall(path.read_text(encoding="utf-8")))
    with_tests = used + _uses_of(_files(root, ("tests",), ".py"))
    lines = []
    for path in _files(root, (SOURCE,), ".py"):
        place = path.relative_to(root / SOURCE).as_posix()
        if place.startswith(OFFERING):
            continue
        known = with_tests if place.startswith("testing/") else used
        for name, line in definitions(_parse(path).body):
            if not known[name] and name not in ALLOWED and not name.startswith(DISPATCHED):
                lines.append(f"{path.relative_to(root)}:{line}: nothing uses `{name}`")
    return lines


def _uses_of(paths: Iterator[Path]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths:
        found.update(uses(_parse(path)))
    return found


def _files(root: Path, places: tuple[str, ...], *endings: str) -> Iterator[Path]:
    for place in places:
        path = root / place
        yield from (
            [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in endings)
        )


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def main() -> int:
    """Prints what is unused; 1 if there is anything."""
    lines = unused(Path(__file__).parents[1])
    print("\n".join([*lines, f"{len(lines)} definitions without a user"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

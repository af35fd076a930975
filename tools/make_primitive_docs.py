"""Writes `docs/primitives/*.md`: one page a schedule primitive, from the registry and examples.

    python tools/make_primitive_docs.py [--check]

A page shows the signature, what the primitive does, what it demands (the error classes that its
module can raise), its forms in a trace, and an example as script before and after. The examples of
`docs/primitives/examples.py` are executed for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tilewright.schedule import PrimitiveError, Schedule
from tilewright.schedule.trace.instruction import Primitive, all_primitives

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "primitives"
BUILT_IN = "tilewright.schedule.primitives"
_PLACEHOLDER = re.compile(r"\{(\w+)(?:!r)?\}")


def load_examples() -> ModuleType:
    """The module with the examples."""
    path = FOLDER / "examples.py"
    spec = importlib.util.spec_from_file_location("primitive_examples", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built_in_primitives() -> list[type[Primitive[Any]]]:
    """The primitives that come with Tilewright, by method."""
    found = [p for p in all_primitives() if p.__module__.startswith(BUILT_IN)]
    return sorted(found, key=lambda primitive: primitive.method)


def render_page(
    primitive: type[Primitive[Any]], program: Any, example: Callable[[Schedule], Any]
) -> str:
    """The page of a primitive."""
    sch = Schedule(program, seed=42)
    before = sch.mod["main"].script()
    example(sch)
    after = sch.mod["main"].script()
    parts = [
        f"# {primitive.method}",
        _code(_signature(primitive), "python"),
        inspect.cleandoc(example.__doc__ or ""),
        *_preconditions(primitive),
        "## Example",
        _code(_body(example), "python"),
        "Before:",
        _code(before, "python"),
        "After:" if before != after else "After: the same program.",
        *([_code(after, "python")] if before != after else []),
        "## In a trace",
        *_trace_forms(primitive, sch),
    ]
    return "\n\n".join(parts) + "\n"


def render_index(pages: dict[str, str]) -> str:
    """The list of all pages."""
    lines = ["# Schedule primitives", "", "Made by `tools/make_primitive_docs.py`.", ""]
    for method, text in pages.items():
        summary = text.split("```\n\n", 1)[1].split("\n", 1)[0]
        lines.append(f"- [{method}]({method}.md): {summary}")
    return "\n".join(lines) + "\n"


def _signature(primitive: type[Primitive[Any]]) -> str:
    signature = inspect.signature(getattr(Schedule, primitive.method, None) or primitive.call)
    parameters = [p for name, p in signature.parameters.items() if name not in ("self", "sch")]
    arguments = ", ".join(str(parameter).replace("'", "") for parameter in parameters)
    result = str(signature.return_annotation).replace("'", "")
    return f"sch.{primitive.method}({arguments}) -> {result}"


def _preconditions(primitive: type[Primitive[Any]]) -> list[str]:
    """What a primitive can complain about, its own conditions first."""
    own = primitive.__module__
    classes = reachable_errors(primitive)
    if not classes:
        return []
    lines = []
    for error in sorted(classes, key=lambda c: (c.__module__ != own, c.__name__)):
        text = f"{error.reason}; {error.remedy}" if error.remedy else error.reason
        lines.append(f"- `{error.__name__}`: {_PLACEHOLDER.sub(_named, text)}")
    return ["## Refuses", "\n".join(lines)]


def _named(placeholder: re.Match[str]) -> str:
    return f"*{placeholder[1]}*"


def reachable_errors(function: Callable[..., Any]) -> set[type[PrimitiveError]]:
    """The errors that the code of a function, and what it calls here, names."""
    found: set[type[PrimitiveError]] = set()
    seen: set[Any] = set()
    pending: list[Any] = [function]
    while pending:
        item = pending.pop()
        if item in seen or not getattr(item, "__module__", "").startswith("tilewright.schedule"):
            continue
        seen.add(item)
        if isinstance(item, type):
            if issubclass(item, PrimitiveError) and item is not PrimitiveError:
                found.add(item)
            else:
                pending += [f for f in vars(item).values() if inspect.isfunction(f)]
                pending += item.__bases__
        elif inspect.isfunction(item):
            pending += _mentioned(item)
    return found


def _mentioned(function: FunctionType) -> Iterator[Any]:
    """Functions and classes that the code of a function names, also by module, or closes over."""
    for cell in function.__closure__ or ():
        yield _hashable(cell.cell_contents)
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        named = [function.__globals__.get(name) for name in code.co_names]
        yield from map(_hashable, named)
        for module in (each for each in named if isinstance(each, ModuleType)):
            yield from (_hashable(getattr(module, name, None)) for name in code.co_names)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (type, FunctionType)) else None


def _trace_forms(primitive: type[Primitive[Any]], sch: Schedule) -> list[str]:
    if sch.trace is None:
        return []
    position = max(n for n, inst in enumerate(sch.trace.insts) if inst.primitive is primitive)
    line = sch.trace.as_python()[position]
    instruction = json.dumps(sch.trace.as_json()[0][position])
    return [_code(line, "python"), _code(instruction, "json")]


def _body(function: Callable[..., Any]) -> str:
    """The statements of an example."""
    lines = inspect.getsource(function).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("def ")) + 1
    source = textwrap.dedent("\n".join(lines[start:]))
    closing = source.index('"""', 3) + 3
    return source[closing:].strip("\n")


def _code(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def make_pages() -> dict[str, str]:
    """File names and what they hold."""
    examples: dict[str, Any] = load_examples().EXAMPLES
    pages = {
        primitive.method: render_page(primitive, *examples[primitive.method])
        for primitive in built_in_primitives()
        if primitive.method in examples
    }
    files = {f"{method}.md": text for method, text in pages.items()}
    return {"README.md": render_index(pages), **files}


def main(argv: list[str] | None = None) -> int:
    """Write the pages, or with `--check` only say which are out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(argv).check
    stale = [
        name
        for name, text in make_pages().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text
    ]
    if check:
        print("\n".join(f"out of date: docs/primitives/{name}" for name in stale), end="")
        return 1 if stale else 0
    for name, text in make_pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

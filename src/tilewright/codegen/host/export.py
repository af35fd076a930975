"""Writing a compiled module to a file: a shared library or an object.

A shared library holds three objects: the module's own code, the glue made here (functions under
their C names, the description that `load_module` reads) and, when needed, the native runtime.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.base import Exporter
from tilewright.codegen.host import linker
from tilewright.codegen.host.c_header import example_text, header_text
from tilewright.codegen.host.c_names import CFunction, c_functions, identifier
from tilewright.codegen.host.library_file import LibraryDescription, encode, seal
from tilewright.codegen.host.native import runtime_object
from tilewright.codegen.llvm.compiler import compile_ir, machine_of
from tilewright.codegen.llvm.optimizer import UNOPTIMISED
from tilewright.codegen.llvm.symbols import function_symbol
from tilewright.codegen.module_info import ModuleInfo
from tilewright.native.abi import CALL_PACKED, NO_HANDLER, PACKED_SUFFIX, RUNTIME_PREFIX
from tilewright.support.files import write_whole

DESCRIPTION_SYMBOL = "tw_description"
SET_HANDLER_SYMBOL = "tw_set_packed_handler"


def _write_shared_library(
    path: Path, info: ModuleInfo, artifact: Artifact, symbols: Mapping[str, str]
) -> tuple[Path, ...]:
    packed = CALL_PACKED in artifact.undefined
    threads = any(_is_runtime_name(name) for name in artifact.undefined)
    functions = c_functions(info, path.stem, symbols)
    glue = compile_ir(
        _glue_ir(path.stem, functions, LibraryDescription(info, threads, packed), artifact.kind),
        machine_of(artifact),
        UNOPTIMISED,
    )
    exports = [
        *glue.defined,
        *(function.c_name for function in functions),
        *(function.info.name + PACKED_SUFFIX for function in functions),
    ]
    # An older library of that name may be in use by this very process: replace it, never change it.
    with tempfile.TemporaryDirectory(prefix=".tilewright-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        linker.export_shared_object(draft, [artifact, glue], exports)
        draft.write_bytes(seal(draft.read_bytes()))
        draft.replace(path)
    header, example = path.with_suffix(".h"), path.with_name(f"{path.stem}_example.c")
    write_whole(header, header_text(path.stem, info, functions, threads, packed))
    write_whole(example, example_text(path.stem, functions, threads))
    return path, header, example


def _is_runtime_name(name: str) -> bool:
    return name.startswith(RUNTIME_PREFIX) and name != CALL_PACKED


def _write_object(
    path: Path, info: ModuleInfo, artifact: Artifact, symbols: Mapping[str, str]
) -> tuple[Path, ...]:
    """The object alone; if it wants our native runtime, that goes into a second one."""
    write_whole(path, artifact.data)
    if not any(_is_runtime_name(name) for name in artifact.undefined):
        return (path,)
    runtime = path.with_name(f"{path.stem}_runtime.o")
    write_whole(runtime, runtime_object(machine_of(artifact)).data)
    return path, runtime


EXPORTERS: dict[str, Exporter] = {
    ".so": _write_shared_library,
    ".dylib": _write_shared_library,
    ".o": _write_object,
}


# --- glue ---------------------------------------------------------------------------------------

THREAD_GLUE = """
declare void @tw_set_num_threads(i32)
declare i32 @tw_num_threads()

define void @{stem}_set_num_threads(i32 %count) {{
  call void @tw_set_num_threads(i32 %count)
  ret void
}}

define i32 @{stem}_num_threads() {{
  %count = call i32 @tw_num_threads()
  ret i32 %count
}}
"""

_PACKED_GLUE = f"""
@tw_packed_handler = internal global ptr null

define void @{SET_HANDLER_SYMBOL}(ptr %handler) {{
  store atomic ptr %handler, ptr @tw_packed_handler release, align 8
  ret void
}}

define i32 @{CALL_PACKED}(ptr %name, ptr %slots, ptr %kinds, i32 %count) {{
  %handler = load atomic ptr, ptr @tw_packed_handler acquire, align 8
  %none = icmp eq ptr %handler, null
  br i1 %none, label %missing, label %call
missing:
  ret i32 {NO_HANDLER}
call:
  %status = call i32 %handler(ptr %name, ptr %slots, ptr %kinds, i32 %count)
  ret i32 %status
}}
"""


def _glue_ir(
    stem: str, functions: Sequence[CFunction], description: LibraryDescription, kind: str
) -> str:
    data = encode(description)
    text = "".join(f"\\{byte:02X}" for byte in data)
    parts = [f'@{DESCRIPTION_SYMBOL} = constant [{len(data)} x i8] c"{text}", align 16']
    parts += [_forward(function, kind in _TAKES_BITS) for function in functions]
    if description.has_threads:
        parts.append(THREAD_GLUE.format(stem=identifier(stem)))
    if description.calls_packed:
        parts.append(_PACKED_GLUE)
    return "\n".join(parts) + "\n"


# Backends whose functions take small floats as C passes them, as bits.
_TAKES_BITS = ("c",)


def _forward(function: CFunction, takes_bits: bool) -> str:
    """The function under its C name; types that C passes otherwise are converted."""
    symbol = function_symbol(function.info.name)
    if symbol == function.c_name:
        return ""
    inner = f'@"{symbol}"'
    taken = ", ".join(f"{p.boundary_type} %a{i}" for i, p in enumerate(function.parameters))
    lines, passed = [], []
    for i, parameter in enumerate(function.parameters):
        name, source = f"%a{i}", parameter.boundary_type
        target = source if takes_bits else parameter.inner_type
        if source != target:
            lines.append(f"  %c{i} = bitcast {source} %a{i} to {target}")
            name = f"%c{i}"
        passed.append(f"{target} {name}")
    types = ", ".join(argument.rpartition(" ")[0] for argument in passed)
    lines.append(f"  %status = tail call i32 {inner}({', '.join(passed)})")
    lines.append("  ret i32 %status")
    body = "\n".join(lines)
    return f'declare i32 {inner}({types})\ndefine i32 @"{function.c_name}"({taken}) {{\n{body}\n}}'

"""The C header of an exported library, and a small program that calls it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from tilewright.codegen.c.types import is_small_float
from tilewright.codegen.host.c_names import CFunction, CParameter, element_type, identifier
from tilewright.codegen.module_info import ModuleInfo, needed_features
from tilewright.ir import DType
from tilewright.lowering.host_abi import ArgumentSpec, describe, evaluate_extent
from tilewright.native.abi import NO_HANDLER

# What the example takes for every extent that is left open.
_EXAMPLE_EXTENT = 16

_ACCESS = {"r": "read", "w": "written", "rw": "read and written", "": "not used"}


def header_text(
    stem: str, info: ModuleInfo, functions: Sequence[CFunction], threads: bool, packed: bool
) -> str:
    """The header."""
    guard = f"{identifier(stem).upper()}_H"
    parts = [
        machine_comment(f"{stem}: compiled", info),
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <stdbool.h>\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        _status_comment(info, packed),
        *(_declaration(function) for function in functions),
    ]
    if threads:
        parts.append(_THREADS.format(stem=identifier(stem)))
    if packed:
        parts.append(_PACKED)
    parts.append(f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */")
    return "\n".join(parts) + "\n"


def machine_comment(beginning: str, info: ModuleInfo) -> str:
    """The first comment of a header: which processors can run the library."""
    made = f"{beginning} by Tilewright {info.version} for {info.triple}, {info.cpu}"
    needs = f" with {', '.join(needed_features(info))}" if info.features else ""
    return textwrap.fill(f"/* {made}{needs}. */", 100, subsequent_indent=" * ")


def _status_comment(info: ModuleInfo, packed: bool) -> str:
    lines = ["/* Every function returns a status:", " *   0  all went well"]
    lines += [
        f" *   {code}  {_in_comment(text)}" for code, text in enumerate(info.messages, start=1)
    ]
    if packed:
        lines.append(f" *  {NO_HANDLER}  it calls a packed function and no handler is installed")
    lines += [
        " * Arrays are row-major and compact unless strides are given; an array that is written",
        " * must not overlap another one. */\n",
    ]
    return "\n".join(lines)


def _in_comment(text: str) -> str:
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").split())


def _declaration(function: CFunction) -> str:
    lines = ["/*"]
    for spec in function.info.signature:
        strides = f", strides [{', '.join(map(str, spec.strides))}]" if spec.strides else ""
        access = "" if spec.kind == "scalar" else f"{strides}, {_ACCESS[spec.access]}"
        lines.append(f" * {_in_comment(describe(spec) + access)}")
    notes = [(p.name, p.comment) for p in function.parameters if p.comment]
    lines += [f" * {name}: {_in_comment(note)}" for name, note in notes]
    parameters = ", ".join(map(_parameter_text, function.parameters)) or "void"
    return "\n".join([*lines, " */", f"int32_t {function.c_name}({parameters});\n"])


def _parameter_text(parameter: CParameter) -> str:
    gap = "" if parameter.c_type.endswith("*") else " "
    return f"{parameter.c_type}{gap}{parameter.name}"


_THREADS = """\
/* How many threads parallel loops use, the calling one included. With several libraries in one
 * process, tw_set_num_threads reaches one of them; the functions with a prefix reach this one. */
void tw_set_num_threads(int32_t count);
int32_t tw_num_threads(void);
void {stem}_set_num_threads(int32_t count);
int32_t {stem}_num_threads(void);
"""

_PACKED = """\
/* Answers calls of packed functions. `kinds` has one letter for each of the `count` 8-byte slots:
 * i int64_t, u uint64_t, b bool as int64_t, f double, s const char *, p void *, t DLTensor *.
 * The result, an integer, goes into slots[0]; a status other than 0 ends the kernel with it. */
typedef int32_t (*tw_packed_handler)(
    const char *name, int64_t *slots, const char *kinds, int32_t count);
void tw_set_packed_handler(tw_packed_handler handler);
"""


# --- the example --------------------------------------------------------------------------------


def example_text(stem: str, functions: Sequence[CFunction], threads: bool) -> str:
    """A program that calls every function once with made-up data."""
    build = f"cc {stem}_example.c ./{stem}.so -Wl,-rpath,'$ORIGIN' -o {stem}_example"
    parts = [
        f"/* Calls {stem}.so. Build and run:\n *   {build} && ./{stem}_example\n */",
        f'#include "{stem}.h"\n\n#include <stdio.h>\n#include <stdlib.h>\n',
        *(_example_function(function) for function in functions),
        "int main(void) {",
    ]
    if threads:
        parts.append(f"    {identifier(stem)}_set_num_threads(2);")
    parts += [f"    if (example_{f.c_name}() != 0) return 1;" for f in functions]
    parts.append("    return 0;\n}")
    return "\n".join(parts) + "\n"


def _example_function(function: CFunction) -> str:
    parameters = iter(function.parameters)
    setup: list[str] = []
    cleanup: list[str] = []
    outputs: list[str] = []
    symbols = _example_symbols(function)
    for spec in function.info.signature:
        parameter = next(parameters)
        if spec.kind == "scalar":
            value = symbols.get(spec.name, 1)
            shown = "NULL" if spec.dtype == "handle" else str(value)
            setup.append(f"{_parameter_text(parameter)} = {shown};")
            continue
        c_type, _, _ = element_type(spec.dtype)
        count = _element_count(spec, symbols)
        setup.append(
            f"{c_type} *{parameter.name} = calloc({max(1, count)}, sizeof *{parameter.name});"
        )
        cleanup.append(f"free({parameter.name});")
        if "r" in spec.access and not is_small_float(DType(spec.dtype)):
            fill = f"{parameter.name}[i] = ({c_type})(i % 7)"
            setup.append(f"for (int64_t i = 0; i < {count}; ++i) {fill};")
        if "w" in spec.access and count:
            outputs.append(parameter.name)
        for derived in spec.derived:
            extra = next(parameters)
            setup.append(f"{_parameter_text(extra)} = {symbols[derived.name]};")
    arguments = ", ".join(p.name for p in function.parameters)
    lines = [
        f"static int example_{function.c_name}(void) {{",
        *(f"    {line}" for line in setup),
        f"    int32_t status = {function.c_name}({arguments});",
        f'    printf("{function.c_name}: status %d\\n", (int)status);',
        *(f'    printf("  {name}[0] = %g\\n", (double){name}[0]);' for name in outputs),
        *(f"    {line}" for line in cleanup),
        "    return status;\n}\n",
    ]
    return "\n".join(lines)


def _example_symbols(function: CFunction) -> dict[str, int]:
    """Extents for the example; explicit strides are made compact."""
    symbols: dict[str, int] = {}
    for spec in function.info.signature:
        if spec.kind == "scalar" and DType(spec.dtype).is_integral:
            symbols[spec.name] = _EXAMPLE_EXTENT if DType(spec.dtype).bits > 8 else 1
        for derived in spec.derived:
            if derived.source == "shape":
                symbols[derived.name] = _EXAMPLE_EXTENT
    for spec in function.info.signature:
        for derived in spec.derived:
            if derived.source == "offset":
                symbols[derived.name] = 0
            elif derived.source == "stride":
                inner = spec.shape[derived.axis + 1 :]
                symbols[derived.name] = math.prod(evaluate_extent(n, symbols) for n in inner)
    return symbols


def _element_count(spec: ArgumentSpec, symbols: dict[str, int]) -> int:
    shape = [evaluate_extent(extent, symbols) for extent in spec.shape]
    if 0 in shape:
        return 0
    if not spec.strides:
        return math.prod(shape)
    strides = [evaluate_extent(stride, symbols) for stride in spec.strides]
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))

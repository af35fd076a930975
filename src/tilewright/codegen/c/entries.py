"""Entry points of a C module for our runtime: functions that take their arguments as slots.

They follow the module in the same file. Parallel loops run on the threads of the runtime, which the
lines in front of the module see to.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c.statements import variable_type
from tilewright.codegen.c.types import function_name, string_literal
from tilewright.ir import IRModule, PrimFunc
from tilewright.native.abi import PACKED_SUFFIX, PARALLEL_LAUNCH

THREADS = f"""\
#include <stdint.h>
/* Parallel loops run on the threads of the runtime. */
typedef int32_t (*tw_body)(int64_t begin, int64_t end, void *args);
typedef struct {{ tw_body body; int64_t first; void *args; }} tw_loop;
extern int32_t {PARALLEL_LAUNCH}(
    int32_t (*task)(tw_loop *, int64_t, int64_t), tw_loop *loop, int64_t extent);
static int32_t tw_part(tw_loop *loop, int64_t begin, int64_t end) {{
  return loop->body(loop->first + begin, loop->first + end, loop->args);
}}
static inline int32_t tw_on_threads(tw_body body, int64_t begin, int64_t end, void *args) {{
  tw_loop loop = {{body, begin, args}};
  return {PARALLEL_LAUNCH}(tw_part, &loop, end - begin);
}}
#define TW_PARALLEL_FOR tw_on_threads
"""

_STATUS = """\
static int32_t tw_status(int32_t status) {{
  static const char *const messages[] = {{{messages}}};
  for (int32_t n = 0; status == -1 && n < {count}; ++n)
    if (strcmp(tw_error, messages[n]) == 0) return n + 1;
  return status;
}}
"""


def entries(module: IRModule, messages: Sequence[str]) -> str:
    """A function of slots for each function; a failed assertion gives the number of its message."""
    parts = []
    if messages:
        spelled = ", ".join(map(string_literal, messages))
        parts.append(_STATUS.format(messages=spelled, count=len(messages)))
    for number, (name, func) in enumerate(module.functions.items()):
        parts.append(_entry(name, func, f"tw_entry_{number}", bool(messages)))
    return "\n".join(parts)


def _entry(name: str, func: PrimFunc, entry: str, may_fail: bool) -> str:
    values = [
        f"*({variable_type(param).strip()} *)(slots + {8 * position})"
        for position, param in enumerate(func.params)
    ]
    call = f"{function_name(name)}({', '.join(values)})"
    label = string_literal(name + PACKED_SUFFIX)
    return (
        f"int32_t {entry}(char *slots) __asm__({label});\n"
        f"int32_t {entry}(char *slots) {{\n"
        f"  (void)slots;\n  return {f'tw_status({call})' if may_fail else call};\n}}\n"
    )

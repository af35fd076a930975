"""The C header of an exported model, and a small program that runs it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c.types import is_small_float
from tilewright.codegen.host.c_header import machine_comment
from tilewright.codegen.host.c_names import element_type
from tilewright.codegen.module_info import ModuleInfo
from tilewright.ir import DType
from tilewright.model.program import ModelProgram, ValueInfo

NO_ARRAY, NO_MEMORY = -1, -2  # statuses of a run that did not begin

_HEADER = """\
{machine}
#ifndef {guard}_H
#define {guard}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {guard}_INPUTS {inputs}
#define {guard}_OUTPUTS {outputs}
/* Bytes of each array, to initialise an array of sizes with. */
#define {guard}_INPUT_BYTES {{{input_bytes}}}
#define {guard}_OUTPUT_BYTES {{{output_bytes}}}

/* Runs the model. Arrays are row-major and compact, and aligned as their elements are:
{arrays}
 * No output may overlap another array. Several threads may run the model at a time.
 *
 * Returns 0, or why there is no result: {no_array} if the address of an array is null,
 * {no_memory} if there is no memory left, and any other number if a kernel failed. */
int32_t {name}_run(const void *const *inputs, void *const *outputs);

/* How many threads a run uses, the calling one included. */
void {name}_set_num_threads(int32_t count);
int32_t {name}_num_threads(void);

#ifdef __cplusplus
}}
#endif

#endif /* {guard}_H */
"""


def model_header(name: str, program: ModelProgram, info: ModuleInfo) -> str:
    """The header of a library."""
    arrays = [*_listed("inputs", program.inputs), *_listed("outputs", program.outputs)]
    return _HEADER.format(
        name=name,
        guard=name.upper(),
        machine=machine_comment(f"{name}: a model compiled", info),
        inputs=len(program.inputs),
        outputs=len(program.outputs),
        input_bytes=", ".join(str(info.bytes) for info in program.inputs) or "0",
        output_bytes=", ".join(str(info.bytes) for info in program.outputs) or "0",
        arrays="\n".join(arrays),
        no_array=NO_ARRAY,
        no_memory=NO_MEMORY,
    )


def _listed(role: str, infos: Sequence[ValueInfo]) -> list[str]:
    lines = []
    for number, info in enumerate(infos):
        spelled, _, remark = element_type(info.dtype)
        note = f"{spelled} ({remark})" if remark else spelled
        name = _in_a_comment(info.name)
        lines.append(f" *   {role}[{number}] {name}: {info.type}, {note}, {info.bytes} bytes")
    return lines


def _in_a_comment(name: str) -> str:
    """A name of any characters, in one line that does not end the comment."""
    plain = name.encode("unicode_escape").decode()
    return plain.replace("*/", "* /").replace("/*", "/ *")


_EXAMPLE = """\
/* Runs {stem}.so once. Build and run:
 *   cc {stem}_example.c ./{stem}.so -Wl,-rpath,'$ORIGIN' -o {stem}_example && ./{stem}_example
 */
#include "{stem}.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {{
    static const size_t input_bytes[] = {guard}_INPUT_BYTES, output_bytes[] = {guard}_OUTPUT_BYTES;
    const void *inputs[{guard}_INPUTS + 1];
    void *outputs[{guard}_OUTPUTS + 1];
    for (int i = 0; i < {guard}_INPUTS; ++i) inputs[i] = calloc(input_bytes[i] + 1, 1);
    for (int i = 0; i < {guard}_OUTPUTS; ++i) outputs[i] = calloc(output_bytes[i] + 1, 1);
{fills}
    int32_t status = {name}_run(inputs, outputs);
    printf("{name}_run: status %d\\n", (int)status);
{shown}
    return status;
}}
"""


def model_example(name: str, stem: str, program: ModelProgram) -> str:
    """A program that runs a model on made-up numbers and prints where each output begins."""
    fills = [_fill(n, info) for n, info in enumerate(program.inputs)]
    shown = [_show(n, info) for n, info in enumerate(program.outputs)]
    return _EXAMPLE.format(
        name=name,
        stem=stem,
        guard=name.upper(),
        fills="\n".join(filter(None, fills)),
        shown="\n".join(filter(None, shown)),
    )


def _fill(number: int, info: ValueInfo) -> str:
    spelled = element_type(info.dtype)[0]
    if is_small_float(DType(info.dtype)):
        return ""  # zeros
    count = info.bytes // max(info.element_type.itemsize, 1)
    place = f"(({spelled} *)inputs[{number}])[i]"
    limit = 2 if info.dtype == "bool" else 7
    return f"    for (int64_t i = 0; i < {count}; ++i) {place} = ({spelled})(i % {limit});"


def _show(number: int, info: ValueInfo) -> str:
    spelled = element_type(info.dtype)[0]
    if not info.bytes:
        return ""
    value = f"(double)(({spelled} *)outputs[{number}])[0]"
    return f'    printf("outputs[{number}][0] = %.9g\\n", {value});'

"""A compiled model as a shared library for C: one function, weights inside, nothing of Python.

Intermediate values lie in a block that a run takes from the allocator of the runtime, so that
several threads can run a model at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tilewright.codegen.host.c_names import identifier
from tilewright.codegen.host.export import THREAD_GLUE
from tilewright.codegen.host.native import runtime_object
from tilewright.codegen.llvm.compiler import MachineOptions, compile_ir, host_machine, machine_of
from tilewright.codegen.llvm.optimizer import UNOPTIMISED
from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import RuntimeFailure
from tilewright.graph.graph import Array
from tilewright.model.c_texts import NO_ARRAY, NO_MEMORY, model_example, model_header
from tilewright.model.linking import check_machine, kernel_objects, machine_info, refuse_external
from tilewright.model.planning import Plan
from tilewright.model.program import ArrayPlace, ModelProgram, ModelStep
from tilewright.native.abi import CALL_PACKED
from tilewright.native.elf import link_shared_object
from tilewright.native.elf_object import ObjectFile, data_object
from tilewright.runtime.cpu_device import ALIGNMENT
from tilewright.support.files import write_whole

_WEIGHTS = "tw_model_weights"
_END = "  call void @tw_expect_regions(i32 -1)\n  call void @tw_workspace_free(ptr %arena)"


def export_library(path: Path, plan: Plan) -> tuple[Path, ...]:
    """Write library, header and example; all that they need is in the library."""
    what = f"cannot export {path.name}"
    if path.suffix != ".so":
        raise RuntimeFailure(f"{what}: expected a name that ends in .so")
    refuse_external(plan.program.steps, what)
    check_machine(plan.kernels, what)
    name = identifier(path.stem)
    image = _linked(plan, name, path.name)
    header, example = path.with_suffix(".h"), path.with_name(f"{path.stem}_example.c")
    try:
        write_whole(path, image)
        path.chmod(0o755)
        write_whole(header, model_header(name, plan.program, _machine_info(plan)))
        write_whole(example, model_example(name, path.stem, plan.program))
    except OSError as error:
        raise RuntimeFailure(f"cannot export {path}: {error.strerror or error}") from error
    return path, header, example


def _machine(plan: Plan) -> MachineOptions:
    artifact = plan.kernels[0].module.artifact if plan.kernels else None
    return host_machine() if artifact is None else machine_of(artifact)


def _machine_info(plan: Plan) -> ModuleInfo:
    plain = host_machine()  # what a library without kernels needs
    return machine_info(plan.kernels) or ModuleInfo((), (), "llvm", plain.triple, plain.cpu, ())


def _linked(plan: Plan, name: str, file_name: str) -> bytes:
    machine, objects = _machine(plan), kernel_objects(plan.kernels)
    if CALL_PACKED in objects.imports:
        raise RuntimeFailure(f"cannot export {file_name}: its kernels call Python functions")
    weights, places = _joined(plan.constants)
    source = _RunFunction(plan.program, objects.entries, places).text(name)
    glue = compile_ir(source + THREAD_GLUE.format(stem=name), machine, UNOPTIMISED)
    data = data_object(_WEIGHTS, weights, ALIGNMENT)
    units: list[bytes | ObjectFile] = [*objects.units, data]
    units += [glue.data, runtime_object(machine).data]
    return link_shared_object(units, file_name, glue.defined, stays_loaded=True)


def _joined(constants: Sequence[Array]) -> tuple[bytes, list[int]]:
    """All constants in a row, each at the start of a cache line."""
    data, places = bytearray(), []
    for array in constants:
        places.append(len(data))
        data += array.reshape(-1).view(np.uint8).data
        data += bytes(-len(data) % ALIGNMENT)
    return bytes(data), places


@dataclass
class _RunFunction:
    """The function that runs all steps, as LLVM IR."""

    program: ModelProgram
    entries: Sequence[str]
    weights_at: Sequence[int]
    count: int = field(default=0, init=False)  # of addresses that have a name

    def text(self, name: str) -> str:
        """Declarations and the function."""
        widest = max((len(step.arguments) for step in self.program.steps), default=1)
        return "\n".join(
            [
                "declare ptr @tw_workspace_alloc(i64)",
                "declare void @tw_workspace_free(ptr)",
                "declare void @tw_expect_regions(i32)",
                "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
                f"@{_WEIGHTS} = external constant i8",
                *(f'declare i32 @"{entry}"(ptr)' for entry in self.entries),
                f"define i32 @{name}_run(ptr %inputs, ptr %outputs) {{",
                f"  %slots = alloca [{max(widest, 1)} x ptr], align 8",
                *self._arrays(),
                *self._steps(),
                *self._results(),
                "}\n",
            ]
        )

    def _arrays(self) -> Iterator[str]:
        """The addresses that the caller gives, none of which may be null."""
        lists = {"input": self.program.inputs, "output": self.program.outputs}
        arrays = [f"{kind}{n}" for kind, infos in lists.items() for n in range(len(infos))]
        for kind, infos in lists.items():
            for n in range(len(infos)):
                yield f"  %{kind}{n}.at = getelementptr ptr, ptr %{kind}s, i64 {n}"
                yield f"  %{kind}{n} = load ptr, ptr %{kind}{n}.at"
        missing = "false"
        for name in arrays:
            yield f"  %{name}.null = icmp eq ptr %{name}, null"
            yield f"  %{name}.missing = or i1 {missing}, %{name}.null"
            missing = f"%{name}.missing"
        yield f"  br i1 {missing}, label %no.array, label %take"
        yield f"no.array:\n  ret i32 {NO_ARRAY}"
        yield f"take:\n  %arena = call ptr @tw_workspace_alloc(i64 {self.program.arena_bytes})"
        yield "  %no.arena = icmp eq ptr %arena, null"
        yield "  br i1 %no.arena, label %no.memory, label %begin"
        yield f"no.memory:\n  ret i32 {NO_MEMORY}"
        yield "begin:\n  call void @tw_expect_regions(i32 1)\n  br label %step0"

    def _steps(self) -> Iterator[str]:
        for number, step in enumerate(self.program.steps):
            yield f"step{number}:"
            yield from self._call(number, step)
        yield f"step{len(self.program.steps)}:"

    def _call(self, number: int, step: ModelStep) -> Iterator[str]:
        for position, place in enumerate(step.arguments):
            address, lines = self._address(place)
            yield from lines
            slot = f"%slot{number}.{position}"
            yield f"  {slot} = getelementptr ptr, ptr %slots, i64 {position}"
            yield f"  store ptr {address}, ptr {slot}"
        yield f'  %status{number} = call i32 @"{self.entries[step.kernel]}"(ptr %slots)'
        yield f"  %ok{number} = icmp eq i32 %status{number}, 0"
        yield f"  br i1 %ok{number}, label %step{number + 1}, label %failed"

    def _address(self, place: ArrayPlace) -> tuple[str, list[str]]:
        """The name of an address, and the lines that make it."""
        if place.memory in ("input", "output"):
            return f"%{place.memory}{place.index}", []
        self.count += 1
        name, base = f"%address{self.count}", f"@{_WEIGHTS}"
        offset = place.index
        if place.memory == "arena":
            base = "%arena"
        else:
            offset = self.weights_at[place.index]
        return name, [f"  {name} = getelementptr i8, ptr {base}, i64 {offset}"]

    def _results(self) -> Iterator[str]:
        """Outputs that are copies of something else, and the end of the run."""
        for number, (place, info) in enumerate(
            zip(self.program.results, self.program.outputs, strict=True)
        ):
            if place != ArrayPlace("output", number):
                address, lines = self._address(place)
                yield from lines
                yield (
                    f"  call void @llvm.memcpy.p0.p0.i64(ptr %output{number}, ptr {address}, "
                    f"i64 {info.bytes}, i1 false)"
                )
        yield f"{_END}\n  ret i32 0"
        steps = range(len(self.program.steps))
        if steps:
            sources = ", ".join(f"[ %status{n}, %step{n} ]" for n in steps)
            yield f"failed:\n  %status = phi i32 {sources}"
            yield f"{_END}\n  ret i32 %status"

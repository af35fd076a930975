"""Exporting compiled objects as a shared library, with our own linker or the system's."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.host import system_compiler
from tilewright.codegen.host.native import runtime_object
from tilewright.codegen.llvm.compiler import machine_of
from tilewright.errors import CodegenError
from tilewright.native.abi import RUNTIME_PREFIX
from tilewright.native.elf import link_shared_object
from tilewright.native.platform import is_linux_x86_64

# What a caller of the library may want to set.
_RUNTIME_EXPORTS = ("tw_num_threads", "tw_set_num_threads", "tw_set_spin_ns")


def export_shared_object(
    path: Path, objects: Sequence[Artifact], exports: Collection[str] | None = None
) -> None:
    """Write ``objects`` to ``path`` as a shared library that needs nothing of Tilewright.

    The thread pool and the allocator are linked in when the code uses them.
    """
    if not objects:
        raise CodegenError(f"cannot export {path.name}: there is no compiled object")
    machine = machine_of(objects[0])
    names = set(exports) if exports is not None else {n for unit in objects for n in unit.defined}
    units = list(objects)
    wanted = {n for unit in objects for n in unit.undefined if n.startswith(RUNTIME_PREFIX)}
    if wanted:
        units.append(runtime_object(machine))
        names.update(_RUNTIME_EXPORTS)
    if is_linux_x86_64(machine.triple):
        data = link_shared_object(
            [unit.data for unit in units], path.name, names, stays_loaded=bool(wanted)
        )
        path.write_bytes(data)
        path.chmod(0o755)
    else:
        link_with_compiler(path, [unit.data for unit in units], machine.triple)


def link_with_compiler(
    path: Path,
    objects: Sequence[bytes],
    triple: str,
    compilers: Sequence[str] = system_compiler.NAMES,
) -> None:
    """Link with the system's compiler: for what our own linker does not know."""
    compiler = system_compiler.find(compilers)
    if compiler is None:
        raise CodegenError(
            f"cannot export {path.name} for {triple}: Tilewright links only x86_64 Linux itself,"
            f" and no system compiler was found (looked for {', '.join(compilers)}); install one"
        )
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        files = [Path(folder) / f"{number}.o" for number in range(len(objects))]
        for file, data in zip(files, objects, strict=True):
            file.write_bytes(data)
        command = [compiler, "-shared", "-o", str(path), *map(str, files), "-lm", "-pthread"]
        system_compiler.run(command, f"cannot export {path.name}")

"""Writing a compiled module to a file, in the form that the suffix of its name says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.module_info import ModuleInfo
from tilewright.codegen.registry import find_backend
from tilewright.errors import RuntimeFailure
from tilewright.support.files import write_whole


def export_library(
    path: Path,
    info: ModuleInfo,
    artifact: Artifact,
    symbols: Mapping[str, str],
    source_of: Callable[[str], str],
) -> tuple[Path, ...]:
    """Write a module in the form that the suffix of `path` names; returns the files written."""
    try:
        backend = find_backend(artifact.kind)
        texts, exporters = backend.text_files, backend.exporters
        if path.suffix in texts:
            write_whole(path, source_of(texts[path.suffix]))
            return (path,)
        if path.suffix not in exporters:
            known = ", ".join([*exporters, *texts])
            raise RuntimeFailure(
                f"cannot export {path.name}: expected a name that ends in one of {known}"
            )
        return exporters[path.suffix](path, info, artifact, symbols)
    except OSError as error:
        raise RuntimeFailure(f"cannot export {path}: {error.strerror or error}") from error

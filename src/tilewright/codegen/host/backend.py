"""Loading, keeping and exporting: what backends that make relocatable objects have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from tilewright.codegen.artifact import Artifact, Library
from tilewright.codegen.base import Backend, Exporter
from tilewright.codegen.host.code_store import CodeStore
from tilewright.codegen.host.export import EXPORTERS
from tilewright.codegen.host.kept_code import keep_module, recall_module
from tilewright.codegen.host.loading import load_objects
from tilewright.codegen.module_info import ModuleInfo


class HostBackend(Backend):
    """Loads, keeps and exports relocatable objects; `meta` of an artifact is its machine."""

    exporters: ClassVar[Mapping[str, Exporter]] = EXPORTERS

    def load(self, artifact: Artifact, imports: Mapping[str, int]) -> Library:
        """Link an object into this process."""
        return load_objects([artifact], imports)

    def recall(
        self, store: CodeStore, key: str, symbols: Callable[[], Mapping[str, int]]
    ) -> tuple[ModuleInfo, Library] | None:
        """A stored module, loaded without LLVM."""
        return recall_module(store, key, symbols())

    def keep(self, store: CodeStore, key: str, info: ModuleInfo, artifact: Artifact) -> None:
        """Store a module as a shared library of our own linker."""
        keep_module(store, key, info, artifact)

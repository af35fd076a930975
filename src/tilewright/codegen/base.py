"""Backends as values: passes, source text, an artifact, and loaded code, for one kind of target.

`driver` walks through the steps of the backend that it finds under the kind of a target:

    passes    TensorIR to the form that `generate` takes
    generate  that form to source text
    compile   source text to an artifact: bytes that can be kept, sent and loaded elsewhere
    load      an artifact to functions that `runtime` calls

A package adds a backend with `register_backend`, or with an entry point of the same name as the
kind, in the group "tilewright.backend"; see docs/extending.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tilewright.codegen.artifact import Artifact, Library
from tilewright.codegen.module_info import ModuleInfo
from tilewright.ir import IRModule
from tilewright.lowering import Pass, PassContext
from tilewright.target import Target

if TYPE_CHECKING:
    from tilewright.codegen.host.code_store import CodeStore

# The texts that a module can show, by format, the most telling first; each is made when asked for.
Texts: TypeAlias = Mapping[str, Callable[[], str]]
# Writes a module to a file, with functions renamed as the last argument says; the files written.
Exporter: TypeAlias = Callable[[Path, ModuleInfo, Artifact, Mapping[str, str]], tuple[Path, ...]]


@dataclass(frozen=True)
class GeneratedSource:
    """A module as source text; status n of a function stands for the nth of `messages`."""

    text: str = field(repr=False)
    messages: tuple[str, ...] = ()


class Backend(ABC):
    """The steps from TensorIR to code that runs; a value without state."""

    kind: ClassVar[str]
    device: ClassVar[str] = "cpu"  # where its functions run, as `runtime.device` names it
    stages: ClassVar[tuple[str, ...]] = ()  # the formats of `texts` that a build goes through
    # Suffixes of text files -> the format of `texts` that goes into them.
    text_files: ClassVar[Mapping[str, str]] = MappingProxyType(
        {".ll": "ll", ".s": "asm", ".c": "c"}
    )

    def exporters(self) -> Mapping[str, Exporter]:
        """Writers of files for other programs, by suffix."""
        return {}

    @abstractmethod
    def passes(self, context: PassContext, target: Target | None) -> list[Pass]:
        """The passes that make a program for a target ready for `generate`."""

    @abstractmethod
    def generate(self, lowered: IRModule, target: Target) -> GeneratedSource:
        """Source text for a lowered module."""

    @abstractmethod
    def compile(
        self, source: GeneratedSource, target: Target, *, may_abort: bool = False
    ) -> Artifact:
        """Code for source text; `may_abort`: this process is a worker, and may be ended by it."""

    @abstractmethod
    def load(self, artifact: Artifact, imports: Mapping[str, int]) -> Library:
        """Code in this process; `imports` are the addresses of what the artifact lacks."""

    def texts(self, lowered: IRModule, source: GeneratedSource, target: Target) -> Texts:
        """What `Module.get_source` can show, the default format first."""
        return {self.kind: lambda: source.text}

    def resources(self, artifact: Artifact) -> Mapping[str, Mapping[str, int]]:
        """What each kernel of an artifact takes, if the compiler tells: registers, spills, ..."""
        return {}

    def warm_up(self) -> None:
        """Load what compiling takes, before the first candidate comes."""
        return

    def version(self) -> str:
        """What compiles besides Tilewright and LLVM: another one makes other code."""
        return ""

    def recall(
        self, store: CodeStore, key: str, symbols: Callable[[], Mapping[str, int]]
    ) -> tuple[ModuleInfo, Library] | None:
        """A module that `keep` put into a store; `symbols` gives what the runtime offers to it."""
        return None

    def keep(self, store: CodeStore, key: str, info: ModuleInfo, artifact: Artifact) -> None:
        """Put a module into a store for other processes, if there is a form that suits it."""
        return

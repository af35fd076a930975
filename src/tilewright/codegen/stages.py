"""Every stage of a build as a value: modules after each pass, source texts, machine code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.codegen.artifact import Artifact
from tilewright.errors import CodegenError
from tilewright.lowering.pipeline import Stage, Stages

MACHINE_CODE = "machine-code"
_ROW = 16


@dataclass(frozen=True)
class CodeStage:
    """Source text, or machine code, between a lowered module and one that runs."""

    name: str
    code: str | bytes

    @property
    def text(self) -> str:
        """The text itself; machine code as hexadecimal numbers."""
        if isinstance(self.code, str):
            return self.code
        rows = [self.code[at : at + _ROW].hex(" ") for at in range(0, len(self.code), _ROW)]
        return "\n".join(f"{_ROW * number:08x}  {row}" for number, row in enumerate(rows))

    def __str__(self) -> str:
        return f"# {self.name}\n{self.text}"


@dataclass(frozen=True)
class BuildStages(Stages):
    """The module after every pass, and then its code; prints as all of them."""

    code: tuple[CodeStage, ...]
    artifact: Artifact

    def text(self, name: str) -> str:
        """The text of that name, such as "ll" or "asm"; machine code as hexadecimal numbers."""
        for stage in self.code:
            if stage.name == name:
                return stage.text
        known = ", ".join(repr(stage.name) for stage in self.code)
        raise CodegenError(f"the build has no text {name!r}; there are {known}")

    def __iter__(self) -> Iterator[Stage | CodeStage]:  # type: ignore[override]  # more kinds of stage
        return iter((*self.items, *self.code))

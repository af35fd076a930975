"""Names of variables, in Heron's two ways of writing them.

`L#ST:dense,AX:i.outer` names the stage and the loop; a tunable parameter adds its own name:
`P#ST:dense,AX:i.inner,PA:tileSpatial`. The short form, `dense_i.outer` and `dense_tileSpatial`,
leaves out the loop of a parameter, so that it names all parameters of a kind at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.algebra.constraints import VariableKind

Prefix = Literal["L", "P", "V", "O"]

KINDS: dict[Prefix, VariableKind] = {
    "L": "loop",
    "P": "tunable",
    "V": "derived",
    "O": "auxiliary",
}


@dataclass(frozen=True)
class Key:
    """A loop's extent (L), a parameter (P), a derived quantity (V) or a helper (O)."""

    prefix: Prefix
    stage: str | None
    axis: str | None = None
    parameter: str | None = None
    is_hidden: bool = False  # Heron has no such variable

    @property
    def full(self) -> str:
        """The name that no other variable has."""
        start = f"{self.prefix}#ST:{self.stage},AX:{self.axis}"
        return start if self.parameter is None else f"{start},PA:{self.parameter}"

    @property
    def short(self) -> str:
        """The name of all variables that belong to one parameter of a stage."""
        own = self.axis if self.parameter is None else self.parameter
        return str(own) if self.stage is None else f"{self.stage}_{own}"


def loop_key(stage: str, axis: str) -> Key:
    """The extent of a loop."""
    return Key("L", stage, axis)


def python_name(text: str) -> str:
    """A stage or a loop as a name in a script: `i.inner.outer` is `i_i_o`."""
    parts = []
    for part in text.split("."):
        parts.append({"outer": "o", "inner": "i", "fused": "f"}.get(part, part))
    return "_".join(parts)

"""`Session`: the device of a node, and a folder for what is uploaded to it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tilewright.measure.artifact import load_artifact
from tilewright.runtime.devices import Device, device
from tilewright.runtime.module import Module

_DEVICES = {"llvm": "cpu", "c": "cpu"}  # by kind of target; others have the name of their kind


@dataclass(frozen=True)
class Session:
    """What functions of a runner work with on a server."""

    folder: str

    def device(self, dev_type: str, dev_id: int = 0) -> Device:
        """A device of this node."""
        return device(_DEVICES.get(dev_type, dev_type), dev_id)

    def upload(self, data: str, target: str = "") -> None:
        """Put a file into the folder of the session."""
        shutil.copyfile(data, Path(self.folder) / (target or Path(data).name))

    def load_module(self, path: str) -> Module:
        """A module that was uploaded."""
        return load_artifact(str(Path(self.folder) / path))[0]

    def remove(self, path: str) -> None:
        """Remove what was uploaded."""
        (Path(self.folder) / path).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

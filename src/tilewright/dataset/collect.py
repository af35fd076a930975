"""The first step: models of ONNX in the folder of a dataset."""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.dataset.folder import Dataset, Tell
from tilewright.errors import TuneError
from tilewright.frontend.onnx.loading import load_model
from tilewright.support.files import make_folder

ZOO = Path("benchmarks") / "models" / "zoo.py"


def collect_models(
    folder: str | Path, sources: Sequence[str] = (), zoo: str | Path = ZOO, tell: Tell = print
) -> Dataset:
    """Put models into a dataset: files of ONNX, and networks of a zoo by name; none: all of those.

    A zoo is a program that writes `NAME.onnx` into a folder: `python zoo.py FOLDER [NAME ...]`.
    Models that are there already stay as they are.
    """
    place = make_folder(Path(folder) / "models")
    files = [source for source in sources if source.endswith(".onnx")]
    names = [source for source in sources if not source.endswith(".onnx")]
    for file in files:
        _copy(Path(file), place, tell)
    if names or not files:
        _export(names, place, Path(zoo), tell)
    return Dataset(folder)


def _copy(source: Path, place: Path, tell: Tell) -> None:
    """Add a file; data outside of it go into one file of its name."""
    with tempfile.TemporaryDirectory(dir=place.parent) as draft:
        _write(source, Path(draft) / source.name)
        files = [file.name for file in Path(draft).iterdir()]
        same, _, _ = filecmp.cmpfiles(draft, place, files, shallow=False)
        if not (place / source.name).exists():
            _move(Path(draft), place, tell)
        elif len(same) == len(files):
            tell(f"{source.stem}: there already")
        else:
            raise TuneError(
                f"{source}: the dataset has another model of this name; give the file another one"
            )


def _write(source: Path, to: Path) -> None:
    """Copy a model, and the data that it has in other files, wherever in its folder they are."""
    import onnx

    model, _ = load_model(source)  # refuses what is none
    size = model.ByteSize()
    try:
        onnx.load_external_data_for_model(model, str(source.parent))
    except Exception as error:  # of ONNX's own: paths outside of the folder, missing or short files
        raise TuneError(f"{source}: its external data cannot be read: {error}") from error
    if model.ByteSize() == size:
        to.write_bytes(source.read_bytes())
    else:
        onnx.save(model, str(to), save_as_external_data=True, location=f"{to.name}.data")


def _export(names: Sequence[str], place: Path, zoo: Path, tell: Tell) -> None:
    """Let a zoo write networks, each in a process of its own."""
    if not zoo.is_file():
        raise TuneError(f"there is no model zoo at {zoo}; give its program, or ONNX files")
    if not names:
        _run_zoo(zoo, [], place, tell)
    for name in names:
        if (place / f"{name}.onnx").exists():
            tell(f"{name}: there already")
        else:
            _run_zoo(zoo, [name], place, tell)


def _run_zoo(zoo: Path, names: Sequence[str], place: Path, tell: Tell) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as draft:
        command = [sys.executable, str(zoo), draft, *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise TuneError(f"{zoo} cannot write {' '.join(names) or 'its models'}: {said}")
        _move(Path(draft), place, tell)


def _move(draft: Path, place: Path, tell: Tell) -> None:
    """Put files into place, the model itself last: where it is, all of it is."""
    files = sorted(draft.iterdir(), key=lambda file: file.suffix == ".onnx")
    if not any(file.suffix == ".onnx" for file in files):
        raise TuneError("no ONNX file was written")
    for file in files:
        if not (place / file.name).exists():
            file.replace(place / file.name)
            if file.suffix == ".onnx":
                tell(f"{file.stem}: {(place / file.name).stat().st_size / 1e6:.1f} MB")

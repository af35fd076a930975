"""Files that are written in one piece."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tilewright.support.files import replacing, unchanged_on_failure, write_whole


def test_new_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "new", "grün")
    assert (tmp_path / "new").read_bytes() == "grün".encode()
    assert os.listdir(tmp_path) == ["new"]


def test_old_file_stays_if_the_new_one_fails(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page"]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_rights_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "page", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"


def test_devices_are_written_to() -> None:
    write_whole(os.devnull, b"content")
    assert not Path(os.devnull).is_file()
    with pytest.raises(OSError, match="No space left on device"):
        write_whole("/dev/full", b"content")
    assert not Path("/dev/full").is_file()


def grow(folder: Path, *, fails: bool) -> None:
    """One file grows, another one is new."""
    with unchanged_on_failure(folder):
        folder.mkdir(exist_ok=True)
        with (folder / "old").open("a") as file:
            file.write("2\n")
        (folder / "new").write_text("1")
        if fails:
            raise ValueError("half-way")


def test_folder_whose_files_grow(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with pytest.raises(ValueError, match="half-way"):
        grow(folder, fails=True)
    assert not folder.exists()
    folder.mkdir()
    (folder / "old").write_text("1\n")
    with pytest.raises(ValueError, match="half-way"):
        grow(folder, fails=True)
    assert (folder / "old").read_text() == "1\n"
    assert os.listdir(folder) == ["old"]
    grow(folder, fails=False)
    assert (folder / "old").read_text() == "1\n2\n"

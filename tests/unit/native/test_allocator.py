"""Workspace memory: aligned, reused, bounded, per thread."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.codegen.host import native
from tilewright.native.allocator import CACHED_BLOCKS, CACHED_BYTES

SLACK = 8 << 20  # bytes that have nothing to do with the cache


class Workspace:
    def __init__(self) -> None:
        addresses = native.symbols()
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(
            addresses["tw_workspace_alloc"]
        )
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses["tw_workspace_free"])


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace()


def in_new_thread(work: object) -> None:
    """A new thread starts with an empty cache."""
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    thread.join()


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 100_000, 3 << 20, 40 << 20])
def test_blocks_are_aligned_and_writable(workspace: Workspace, size: int) -> None:
    blocks = [workspace.alloc(size) for _ in range(3)]
    assert all(block % 64 == 0 for block in blocks)
    assert len(set(blocks)) == 3
    for number, block in enumerate(blocks):
        ctypes.memset(block, number + 1, size)
    for number, block in enumerate(blocks):
        if size:
            assert ctypes.string_at(block, 1) == bytes([number + 1])
            assert ctypes.string_at(block + size - 1, 1) == bytes([number + 1])
        workspace.free(block)


def test_a_freed_block_comes_back(workspace: Workspace) -> None:
    def work() -> None:
        block = workspace.alloc(1 << 20)
        workspace.free(block)
        seen.append([block == workspace.alloc(1_000_000), workspace.alloc(1_000_000) != block])

    seen: list[list[bool]] = []
    in_new_thread(work)
    assert seen == [[True, True]]


def test_a_much_larger_block_is_not_wasted_on_a_small_request(workspace: Workspace) -> None:
    def work() -> None:
        block = workspace.alloc(8 << 20)
        workspace.free(block)
        small = workspace.alloc(1 << 20)
        seen.append(small != block)
        seen.append(workspace.alloc(8 << 20) == block)

    seen: list[bool] = []
    in_new_thread(work)
    assert seen == [True, True]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def cache_sizes() -> tuple[int, int]:
    """Bytes kept after much was freed, while the thread lives and once it is gone."""
    workspace = Workspace()

    def work() -> None:
        blocks = [workspace.alloc(size) for size in sizes]
        for block, size in zip(blocks, sizes, strict=True):
            ctypes.memset(block, 1, size)
        for block in blocks:
            workspace.free(block)
        seen.append(resident_bytes())

    seen: list[int] = []
    # More blocks than the cache has room for, and more bytes than it may keep.
    sizes = [4 << 20] * (CACHED_BLOCKS + 4) + [CACHED_BYTES // 2] * 3
    before = resident_bytes()
    in_new_thread(work)
    # `join` returns when the Python part is over; the system thread ends, and frees, a bit later.
    deadline = time.monotonic() + 5
    while resident_bytes() - before > SLACK and time.monotonic() < deadline:
        time.sleep(0.001)
    return seen[0] - before, resident_bytes() - before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_the_cache_is_bounded_and_dies_with_its_thread() -> None:
    # In a process of its own: one that ran other tests keeps freed memory for itself.
    code = "import test_allocator; print(*test_allocator.cache_sizes())"
    here = Path(__file__).parent
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=True
    )
    alive, gone = map(int, answer.stdout.split())
    assert alive <= CACHED_BYTES + SLACK
    assert gone <= SLACK


def test_impossible_requests_return_null(workspace: Workspace) -> None:
    assert workspace.alloc(-1) is None
    assert workspace.alloc((1 << 63) - 1) is None
    workspace.free(None)

"""A headless Chromium for tests of pages, driven through the pipe of its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import Self

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE_SECS = 30.0


def find_chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Chromium:
    """A browser with one page; use it in a `with` statement."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._numbers = itertools.count(1)
        self._session = ""
        self._unread = b""
        self.problems: list[str] = []  # of this page: exceptions of scripts, what was refused

    def __enter__(self) -> Self:
        self._profile = tempfile.mkdtemp(prefix="tilewright-browser-")
        read_end, self._to = os.pipe()
        self._from, write_end = os.pipe()
        command = [self._program, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        # The protocol has the file descriptors 3 and 4; a shell puts the pipes there.
        pipes = f'exec "$@" 3<&{read_end} 4>&{write_end}'
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            ["bash", "-c", pipes, "bash", *command],
            pass_fds=(read_end, write_end), stdout=quiet, stderr=quiet,
        )  # fmt: skip
        os.close(read_end)
        os.close(write_end)
        pages = self._call("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in pages if each["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def look_like(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and the reader's choice of light or dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        choice = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[choice])

    def open(self, address: str, ready: str = "true") -> None:
        """Go to a page and wait until it is there, and an expression is true on it."""
        self.evaluate("window.isLeft = true")
        self.problems.clear()
        self._call("Page.navigate", url=address)
        self.wait_for(f"!window.isLeft && document.readyState === 'complete' && ({ready})")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, or of its promise."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + _PATIENCE_SECS
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A picture of the window, or of all of the page."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    # --- the protocol: JSON, each message ends with a zero byte -----------------------------------

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, msgspec.json.encode(message) + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._from, 1 << 16)
            assert read, "the browser has ended"
            self._unread += read
        first, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = msgspec.json.decode(first)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details)))
        entry = params.get("entry", {}) if event.get("method") == "Log.entryAdded" else {}
        if entry.get("level") == "error":
            self.problems.append(f"{entry.get('text')} {entry.get('url', '')}")

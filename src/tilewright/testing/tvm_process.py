"""Asking TVM, which is installed in an environment of its own, in a process of its own.

Questions and answers are lines of JSON. `TvmProcess` asks a script one question after the other;
`answers_of` runs one to its end.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import IO, Any

_CLOSE_SECONDS = 20
_RUN_SECONDS = 600  # far more than any script needs, but a script that hangs must not stay


class TvmProcess:
    """A script that answers each line on its input with a line; runs in TVM's environment."""

    def __init__(self, python: Path, script: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """The answer to a request, whatever it is."""
        to_tvm, from_tvm = self._pipes
        to_tvm.write(json.dumps(request) + "\n")
        to_tvm.flush()
        return json.loads(from_tvm.readline())

    def ask_without_error(self, **request: Any) -> dict[str, Any]:
        """The answer to a request that TVM can fulfil."""
        answer: dict[str, Any] = self.ask(**request)
        assert "error" not in answer, answer["error"]
        return answer

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def close(self) -> None:
        """End the input, and with it the process."""
        for pipe in self._pipes:
            pipe.close()
        self._process.wait(timeout=_CLOSE_SECONDS)

    def __enter__(self) -> TvmProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def answers_of(python: Path, *arguments: str, asked: object = None) -> list[Any]:
    """What Python prints with these arguments in TVM's environment: one value from each line."""
    done = subprocess.run(
        [str(python), *arguments],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=_RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]

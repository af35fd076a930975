"""Colours: the text stays the same, terminals and notebooks get codes."""

from __future__ import annotations

import html
import re
import sys
import types

import pytest

from tilewright.ir import Evaluate, IRModule, PrimFunc, const
from tilewright.ir.highlight import to_ansi, to_html

TEXT = '@T.prim_func\ndef f():\n    # for x\n    T.evaluate(T.float32(1.5), "a < for")'


def test_ansi_codes_leave_the_text_alone() -> None:
    coloured = to_ansi(TEXT)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == TEXT
    assert "\x1b[1;34mdef\x1b[0m" in coloured
    assert "\x1b[2;3m# for x\x1b[0m" in coloured
    assert '\x1b[32m"a < for"\x1b[0m' in coloured


def test_html_is_escaped() -> None:
    page = to_html(TEXT)
    assert html.unescape(re.sub(r"<[^>]*>", "", page)) == TEXT
    assert "&lt; for" in page


def test_show_is_plain_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    func = PrimFunc((), Evaluate(const(0)))
    func.show()
    assert capsys.readouterr().out == func.script() + "\n"
    func.show(colour=True)
    assert capsys.readouterr().out == to_ansi(func.script()) + "\n"
    assert IRModule({"f": func})._repr_html_().startswith("<pre")


def test_show_uses_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    display = types.SimpleNamespace(HTML=lambda text: text, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    func = PrimFunc((), Evaluate(const(0)))
    func.show()
    assert shown == [to_html(func.script())]

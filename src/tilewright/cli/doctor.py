"""`tilewright doctor`: run all checks and print them, for people or as JSON."""

from __future__ import annotations

from dataclasses import asdict

import msgspec
from rich.console import Console
from rich.text import Text

from tilewright.cli.checks import CHECKS, Finding
from tilewright.cli.console import make_console
from tilewright.version import __version__

_STYLES = {"ok": "green", "missing": "yellow", "broken": "bold red"}


def run(*, as_json: bool) -> int:
    """Print the findings; the exit status is 0 if the CPU path works."""
    findings = [check() for check in CHECKS]
    works = not any(finding.status == "broken" for finding in findings)
    if as_json:
        print(_json(findings, works=works))
    else:
        _print(make_console(), findings, works=works)
    return 0 if works else 1


def _json(findings: list[Finding], *, works: bool) -> str:
    report = {
        "version": __version__,
        "cpu_path_works": works,
        "checks": [asdict(finding) for finding in findings],
    }
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def _print(console: Console, findings: list[Finding], *, works: bool) -> None:
    width = max(len(finding.name) for finding in findings)
    console.print(f"Tilewright {__version__}\n")
    for finding in findings:
        line = Text()
        line.append(f"{finding.status:<8}", style=_STYLES[finding.status])
        line.append(f"{finding.name:<{width}}  {finding.detail}")
        console.print(line)
        if finding.remedy:
            console.print(Text(f"{'':<{width + 10}}-> {finding.remedy}", style="dim"))
    verdict = "The CPU path works." if works else "The CPU path does not work; see `broken` above."
    console.print(f"\n{verdict}", style="green" if works else "bold red")

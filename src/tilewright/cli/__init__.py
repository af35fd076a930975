"""The command line: `tilewright <command>`."""

from tilewright.cli.app import app, main

__all__ = ["app", "main"]

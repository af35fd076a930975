"""Errors of the interpreter."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class OracleError(TilewrightError, RuntimeError):
    """The interpreted program did something that has no meaning."""


class OutOfBoundsError(OracleError, IndexError):
    """An access outside a buffer."""


class UninitializedReadError(OracleError):
    """A read of memory that was allocated but never written."""


class OracleArgumentError(OracleError, TypeError):
    """The arguments of `run` do not fit the function."""


class OracleUnsupportedError(OracleError, NotImplementedError):
    """A construct that the oracle cannot interpret."""

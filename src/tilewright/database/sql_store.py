"""`SQLStore`: a connection to SQLite or to a server, for statements that both understand.

Statements have `?` for their values. On a server transactions may have to be repeated; `atomically`
does that.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from tilewright.database.stored_record import Problem
from tilewright.errors import DatabaseError

_T = TypeVar("_T")


def _nothing(is_kept: bool) -> None:
    """Nobody wants to know how a transaction ended."""


class SQLStore(ABC):
    """A connection, with transactions that may be nested and a lock for threads."""

    begin: ClassVar[str] = "BEGIN"
    errors: ClassVar[tuple[type[Exception], ...]]  # those of the library underneath

    def __init__(self, name: str, read_only: bool) -> None:
        self.name = name  # for people
        self.read_only = read_only
        self.problems: list[Problem] = []  # rows that are lost
        self.lock = threading.RLock()
        self.when_ended: Callable[[bool], None] = _nothing
        self._depth = 0

    @property
    def in_transaction(self) -> bool:
        """Whether what is written now becomes durable later."""
        return self._depth > 0

    @abstractmethod
    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows of a query at once, so that no read transaction stays open."""

    @abstractmethod
    def execute(self, statement: str, parameters: Sequence[object] = ()) -> int:
        """Carry out a statement of a transaction; how many rows it changed."""

    @abstractmethod
    def failure(self, error: Exception) -> DatabaseError:
        """What an error of the library means for the user."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction; those inside another one are part of it."""
        self.refuse_read_only()
        with self.lock:
            if self._depth:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                return
            try:
                self._run(self.begin)
                self._depth = 1
                yield
                self._run("COMMIT")
                self.when_ended(True)
            except BaseException as error:
                self._roll_back()
                self.when_ended(False)
                if isinstance(error, self.errors):
                    raise self.failure(error) from error
                raise
            finally:
                self._depth = 0

    @abstractmethod
    def _run(self, statement: str) -> None:
        """Begin or end a transaction."""

    @abstractmethod
    def _roll_back(self) -> None:
        """Undo what the transaction did, if there is one."""

    def atomically(self, work: Callable[[], _T]) -> _T:
        """What a function returns that is run as one transaction, maybe more than once."""
        with self.transaction():
            return work()

    def refuse_read_only(self) -> None:
        """Say why nothing can be written."""
        if self.read_only:
            raise DatabaseError(f"the database {self.name} was opened read-only")

    def alone(self) -> None:  # noqa: B027 - SQLite has one writer at a time
        """Wait for other writers: what is not found now is not found until the transaction ends."""

    def continue_ids(self, table: str) -> None:  # noqa: B027 - SQLite does that by itself
        """After rows with ids of their own: new rows get higher ones."""

    def reclaim(self) -> None:  # noqa: B027 - servers do that by themselves
        """Give the space of deleted rows back."""


def marks(values: Sequence[object]) -> str:
    """The places of some values in a statement; nothing is in a list that is empty."""
    return ", ".join("?" * len(values)) or "NULL"

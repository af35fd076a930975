"""Members of a family by name: ours register themselves, third parties through entry points.

A family is what users choose from by a string: schedule rules, search strategies, databases.
A package offers a member of its own with an entry point in the group of that family, for example

    [project.entry-points."tilewright.search_strategy"]
    annealing = "my_package.annealing:Annealing"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilewright.errors import RegistryError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MemberT = TypeVar("MemberT")
MakerT = TypeVar("MakerT", bound=Callable[..., Any])


class Family(Generic[MemberT]):
    """The members of one family: name -> class or factory."""

    def __init__(self, what: str, group: str) -> None:
        self.what = what
        self.group = group
        self._members: dict[str, Callable[..., MemberT]] = {}

    def register(self, name: str) -> Callable[[MakerT], MakerT]:
        """Decorator: make a class or a factory known under a name."""

        def add(member: MakerT) -> MakerT:
            if name in self._members and self._members[name] is not member:
                raise RegistryError(f"{self.what} {name!r} is registered already")
            self._members[name] = member
            return member

        return add

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._members, *self._offered()}))

    def __contains__(self, name: str) -> bool:
        return name in self._members or name in self._offered()

    def get(self, name: str) -> Callable[..., MemberT]:
        """The class or factory of that name; ours first, then what installed packages offer."""
        if name in self._members:
            return self._members[name]
        offered = self._offered()
        if name not in offered:
            raise RegistryError(f"unknown {self.what} {name!r}; known: {', '.join(self)}")
        point = offered[name]
        try:
            member: Callable[..., MemberT] = point.load()
        except Exception as error:
            raise RegistryError(
                f"{self.what} {name!r} ({point.value}, of an installed package) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        return member

    def create(self, name: str, *args: object, **kwargs: object) -> MemberT:
        """Make a member by name."""
        return self.get(name)(*args, **kwargs)

    def _offered(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # takes longer to load than most families need

        return {point.name: point for point in entry_points(group=self.group)}

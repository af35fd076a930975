"""Checks that pages are well formed."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "br", "link", "input"}


class HtmlChecker(HTMLParser):
    """Every element is closed by its own name; collects text and attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what has to be closed."""
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of its own."""
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        """The last one that is open must be meant."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text between elements."""
        self.texts.append(data)

    @staticmethod
    def of(page: str) -> HtmlChecker:
        """A page that was read, in which all elements are closed."""
        checker = HtmlChecker()
        checker.feed(page)
        assert checker.open == []
        return checker

    def values(self, attribute: str) -> list[str]:
        """The values of an attribute, in order."""
        return [value or "" for name, value in self.attributes if name == attribute]

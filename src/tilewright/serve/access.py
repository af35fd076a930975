"""Access to the page: the host that it is bound to, names of this machine, and the token."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tilewright.errors import ServeError

LEAST_TOKEN = 16  # characters


@dataclass(frozen=True)
class PageAccess:
    """Where the page is bound to, and the secret that visitors must know."""

    host: str = "127.0.0.1"
    token: str | None = None
    names: frozenset[str] = frozenset()  # of this machine, besides addresses and localhost
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ServeError(
                f"--token has {len(self.token)} characters; give it at least {LEAST_TOKEN}"
            )
        if self.token is None and not _is_loopback(self.host):
            raise ServeError(
                f"--host {self.host} lets other machines in; give --token SECRET, which visitors "
                "have to know"
            )

    def knows_host(self, header: str) -> bool:
        """A name of this machine or an address: others may have been made to lead here."""
        try:
            name = (urlsplit(f"//{header}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self.names or _is_address(name) or name == "localhost"

    def is_token(self, given: str) -> bool:
        """Compare in a time that says nothing of the token."""
        return self.token is None or _same(given, self.token)

    def is_session(self, given: str) -> bool:
        """Whether a cookie is the one that was given to those who knew the token."""
        return _same(given, self.session)

    @staticmethod
    def of(host: str, token: str | None) -> PageAccess:
        """The access to a page that is bound to a host."""
        own = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return PageAccess(host, token, frozenset(name for name in own if name))


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)

"""The guard of the page: it answers to names of this machine only, and to others with a token."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tilewright.errors import ServeError
from tilewright.serve.access import PageAccess
from tilewright.serve.layout import head

MOST_BODY = 64 << 10  # bytes of a request
_LOGIN = "/login"
_OPEN = ("/static/page.css", "/static/icon.svg", _LOGIN)  # the form needs them
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",  # without one, browsers do not tell the origin of forms
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Guard:
    """Asks every request for its host, its origin and its token; answers carry headers."""

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refusal = await self._refusal(request)
        await (refusal or self._app)(scope, receive, _with_headers(send))

    async def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that must not pass."""
        access, host = self._access, request.headers.get("host", "")
        if not access.knows_host(host):
            return _plain(f"the host {host[:100]!r} is not this machine", 421)
        if request.method not in ("GET", "HEAD", "POST"):
            return _plain("only GET and POST are answered", 405)
        if request.method == "POST" and not _is_same_origin(request, host):
            return _plain("requests from other pages are refused", 403)
        if _number(request.headers.get("content-length", "0")) > MOST_BODY:
            return _plain(f"a request has at most {MOST_BODY} bytes", 413)
        if access.token is None:
            return None
        return await self._without_token(request)

    async def _without_token(self, request: Request) -> Response | None:
        """The answer to who has not shown the token: a form, or a cookie for who shows it now."""
        access, path = self._access, request.url.path
        if request.method == "POST" and path == _LOGIN:
            return await self._login(request)
        _, _, bearer = request.headers.get("authorization", "").partition("Bearer ")
        if access.is_session(_cookie(request)) or (bearer and access.is_token(bearer)):
            return None
        if "token" in request.query_params:
            return self._admitted(request.query_params["token"])
        if path in _OPEN:
            return None
        if path.startswith("/api/"):
            return _plain("the token is missing: send it as 'Authorization: Bearer TOKEN'", 401)
        return HTMLResponse(_login_page(), 401)

    async def _login(self, request: Request) -> Response:
        try:
            body = await limited_body(request)
        except ServeError as error:
            return _plain(str(error), 413)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])
        return self._admitted(given[0])

    def _admitted(self, given: str) -> Response:
        if not self._access.is_token(given):
            return HTMLResponse(_login_page("that is not the token"), 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, self._access.session, httponly=True, samesite="strict", max_age=30 * 24 * 3600
        )
        return answer


def _login_page(complaint: str = "") -> str:
    """The form that asks for the token, and what was wrong with the last try."""
    told = f'<p class="complaint" role="alert">{escape(complaint)}</p>' if complaint else ""
    return (
        f"{head('Token')}<body><main id='main' class='login'><h1>Tilewright</h1>"
        "<p>This page is not only for the machine that it runs on. Give the token that "
        f"<code>tilewright serve</code> was started with.</p>{told}"
        '<form method="post" action="/login"><label for="token">Token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required '
        "autofocus><button>Show the page</button></form></main></body></html>\n"
    )


async def limited_body(request: Request) -> bytes:
    """The body of a request; of one that is too long an error."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise ServeError(f"a request has at most {MOST_BODY} bytes")
    return body


COOKIE = "tilewright"


def _cookie(request: Request) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _is_same_origin(request: Request, host: str) -> bool:
    """Browsers say which page a POST comes from; programs that are none say nothing."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return origin.partition("://")[2] == host


def _plain(text: str, status: int) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else MOST_BODY + 1


_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            given: Iterable[tuple[bytes, bytes]] = message.get("headers", [])
            names = {name for name, _ in given}
            added = [(name, value) for name, value in _HEADERS if name not in names]
            message["headers"] = [*given, *added]
        await send(message)

    return answer

"""Hosts, tokens, origins and headers: who is let in, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.errors import ServeError

pytest.importorskip("starlette", reason="the live page needs tilewright[serve]")

from tilewright.serve.access import PageAccess
from tilewright.serve.guard import COOKIE, HEADERS, MOST_BODY

SECRET = "a-long-enough-secret"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "lab", "::"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(ServeError) as refused:
        PageAccess(host)
    assert str(refused.value) == (
        f"--host {host} lets other machines in; give --token SECRET, which visitors have to know"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    assert PageAccess(host).token is None


def test_a_token_that_can_be_guessed() -> None:
    with pytest.raises(ServeError, match=r"^--token has 6 characters; give it at least 16$"):
        PageAccess("0.0.0.0", "secret")


@pytest.mark.parametrize(
    ("header", "is_known"),
    [
        ("localhost:8765", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:8765", True),
        ("10.0.0.7:8765", True),  # no name that somebody made lead here
        ("lab:8765", True),
        ("lab.:8765", True),
        ("evil.example:8765", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_hosts(header: str, is_known: bool) -> None:
    access = PageAccess("0.0.0.0", SECRET, frozenset({"lab"}))
    assert access.knows_host(header) == is_known


def test_rebound_names_are_refused(visitor: Any) -> None:
    answer = visitor.get("/", headers={"host": "evil.example"})
    assert (answer.status, answer.text) == (
        421,
        "the host 'evil.example' is not this machine\n",
    )


def test_every_answer_has_the_headers(visitor: Any) -> None:
    for address in ("/", "/static/page.css", "/nothing", "/api/state"):
        headers = visitor.get(address).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "'unsafe" not in HEADERS["content-security-policy"]


def test_without_the_token_there_is_a_form(stranger: Any) -> None:
    answer = stranger.get("/")
    assert answer.status == 401
    assert 'name="token"' in answer.text
    assert "mm" not in answer.text
    api = stranger.get("/api/state")
    assert (api.status, api.text) == (
        401,
        "the token is missing: send it as 'Authorization: Bearer TOKEN'\n",
    )
    assert stranger.get("/static/page.css").status == 200
    assert stranger.get("/static/live.js").status == 401


def test_the_form_gives_a_cookie(stranger: Any) -> None:
    wrong = stranger.login("another-long-secret")
    assert wrong.status == 401
    assert "that is not the token" in wrong.text
    right = stranger.login(SECRET)
    assert (right.status, right.headers["location"]) == (303, "/")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert SECRET not in cookie
    assert stranger.get("/").status == 200


def test_a_form_that_never_ends(stranger: Any) -> None:
    parts = stranger.ask("POST", "/login", iter([b"token=" * 9000] * 2))
    assert (parts.status, parts.text) == (413, f"a request has at most {MOST_BODY} bytes\n")


def test_a_link_with_the_token_leads_to_an_address_without(stranger: Any) -> None:
    answer = stranger.get(f"/?token={SECRET}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert stranger.get("/").status == 200


def test_scripts_send_a_header(stranger: Any) -> None:
    right = stranger.get("/api/state", headers={"authorization": f"Bearer {SECRET}"})
    assert right.status == 200
    for wrong in (f"Bearer {SECRET}x", f"Basic {SECRET}", "Bearer ", SECRET):
        answer = stranger.get("/api/state", headers={"authorization": wrong})
        assert answer.status == 401


def test_cookies_of_strangers(stranger: Any) -> None:
    for value in ("", "x", SECRET, "\u00e9", '"'):
        answer = stranger.get("/", headers={"cookie": f"{COOKIE}={value}"})
        assert answer.status == 401


def test_other_pages_cannot_post(visitor: Any) -> None:
    origins = ("http://evil.example", "null", "http://[", f"http://{visitor.address}")
    foreign: list[dict[str, str]] = [{"origin": origin} for origin in origins]
    for headers in [*foreign, {"sec-fetch-site": "cross-site"}]:
        answer = visitor.post("/api/replay", json={"record": "abcd"}, headers=headers)
        assert (answer.status, answer.text) == (403, "requests from other pages are refused\n")
    own = visitor.post("/api/replay", json={"record": "abcd"}, headers={"origin": visitor.address})
    assert own.status == 404  # there is no such record


def test_nothing_else_is_answered(visitor: Any) -> None:
    assert visitor.ask("PUT", "/").text == "only GET and POST are answered\n"
    assert visitor.get("/api/replay").status == 405
    long = visitor.ask("POST", "/api/replay", b"x" * (MOST_BODY + 1))
    assert (long.status, long.text) == (413, f"a request has at most {MOST_BODY} bytes\n")
    is_json = {"content-type": "application/json"}
    parts = visitor.ask("POST", "/api/replay", iter([b"x" * MOST_BODY] * 2), is_json)
    assert parts.json() == {"error": f"a request has at most {MOST_BODY} bytes"}

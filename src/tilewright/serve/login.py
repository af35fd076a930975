"""The form that asks visitors for the token."""

from __future__ import annotations

from html import escape

from tilewright.serve.layout import head


def login_page(complaint: str = "") -> str:
    """The form, and what was wrong with the last try."""
    told = f'<p class="complaint" role="alert">{escape(complaint)}</p>' if complaint else ""
    return (
        f"{head('Token')}<body><main id='main' class='login'><h1>Tilewright</h1>"
        "<p>This page is not only for the machine that it runs on. Give the token that "
        f"<code>tilewright serve</code> was started with.</p>{told}"
        '<form method="post" action="/login"><label for="token">Token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required '
        "autofocus><button>Show the page</button></form></main></body></html>\n"
    )

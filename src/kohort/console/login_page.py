"""The page that asks for a name and a password: one form, no script."""

from __future__ import annotations

from html import escape
from urllib.parse import quote


def login_html(wanted: str, wrong: str) -> str:
    """Return the page; ``wanted`` is where one goes then, ``wrong`` what was wrong with the last attempt."""
    told = f'<p role="alert">{escape(wrong)}</p>' if wrong else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kohort console: log in</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="/static/style.css"></head>'
        f'<body><main class="login"><h1>kohort console</h1>{told}'
        f'<form method="post" action="/login?next={quote(wanted, safe="")}">'
        '<p><label>Name <input name="name" autocomplete="username"></label></p>'
        '<p><label>Password <input name="password" type="password" required'
        ' autocomplete="current-password"></label></p>'
        '<p><button type="submit">Log in</button></p></form></main></body></html>\n'
    )

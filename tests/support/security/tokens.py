"""Issuers of OAUTHBEARER tokens: signed with public keys, unsecured; and a token service over HTTP."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

ISSUER = "https://issuer.example"
AUDIENCE = "kafka"
CLIENT, CLIENT_SECRET = "alice", "alice-client-secret"
"""Client credentials for the token service."""
HOUR_S = 3600


class Issuer:
    """An issuer of signed tokens; ``jwks``: the public keys for their verification."""

    def __init__(self, key_id: str = "first") -> None:
        self._key = RSAKey.generate_key(2048, {"kid": key_id, "use": "sig", "alg": "RS256"}, private=True)

    @property
    def jwks(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(KeySet([self._key]).as_dict(private=False))
        return found

    def claims(self, subject: str, **claims: Any) -> dict[str, Any]:
        """Return the claims of a valid token for an hour; a claim of None is left out."""
        now = int(time.time())
        every = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + HOUR_S, **claims}
        return {name: value for name, value in every.items() if value is not None}

    def token(self, subject: str, key_id: str | None = None, **claims: Any) -> str:
        """Return a signed token; ``key_id`` replaces the key id of the signing key."""
        header = {"alg": "RS256", "kid": key_id or self._key.kid}
        return jwt.encode(header, self.claims(subject, **claims), self._key)

    def write_jwks(self, path: Path) -> Path:
        path.write_text(json.dumps(self.jwks))
        return path


def unsecured(subject: str, **claims: Any) -> str:
    """Return an unsigned token (``alg`` none), valid for an hour."""
    now = int(time.time())
    all_claims = {"sub": subject, "iat": now, "exp": now + HOUR_S, **claims}
    return f"{_part({'alg': 'none'})}.{_part({n: v for n, v in all_claims.items() if v is not None})}."


def _part(data: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


@dataclass
class TokenService:
    """HTTP service: ``POST token_url`` returns a token for client credentials, ``GET jwks_url`` the keys."""

    issuer: Issuer
    address: str = ""
    lifetime_s: int = HOUR_S
    forms: list[dict[str, str]] = field(default_factory=list)
    """Posted forms."""
    failures: list[int] = field(default_factory=list)
    """Status codes of the next token requests."""

    @property
    def token_url(self) -> str:
        return f"http://{self.address}/token"

    @property
    def jwks_url(self) -> str:
        return f"http://{self.address}/jwks"

    def give(self, authorization: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the status and body for a token request."""
        self.forms.append(form)
        if self.failures:
            return self.failures.pop(0), {"error": "temporarily_unavailable"}
        expected = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        token = self.issuer.token(CLIENT, exp=int(time.time()) + self.lifetime_s)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}


@contextmanager
def token_service(issuer: Issuer) -> Iterator[TokenService]:
    """Run a service on a free port of 127.0.0.1."""
    service = TokenService(issuer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, issuer.jwks) if self.path == "/jwks" else self._answer(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._answer(*service.give(self.headers.get("Authorization", ""), form))

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Print nothing: requests are in ``asked``."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

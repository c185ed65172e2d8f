"""Marked secrets, and a search for their encodings: plain text, hex, base64 at any alignment."""

from __future__ import annotations

import base64
from hashlib import pbkdf2_hmac
from pathlib import Path

MARK = "p1anted"
"""Part of every secret, so that one search finds all."""
PLAIN = f"{MARK}-plain-5d1c"
SCRAM = f"{MARK}-scram-8e2b"
WRONG = f"{MARK}-wrong-77aa"
STORE = f"{MARK}-store-91f0"
IN_TOKEN = f"{MARK}-token-3c4d"
"""Secret claim of a token."""


def spellings(secret: str | bytes) -> set[bytes]:
    """Return the encodings of a secret: bytes, hex, base64 at each alignment."""
    raw = secret.encode() if isinstance(secret, str) else secret
    found = {raw, raw.hex().encode(), raw.hex().upper().encode()}
    for shift in range(3):  # preceding bytes shift its letters; the letters at both ends depend on the neighbors
        text = base64.b64encode(bytes(shift) + raw).rstrip(b"=")
        found.add(text[(4 if shift else 0) : -3])
        found.add(text.translate(bytes.maketrans(b"+/", b"-_"))[(4 if shift else 0) : -3])
    return found


def salted(password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password of SCRAM-SHA-256: equivalent to the password."""
    return pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def shown(where: str | bytes, *more: bytes) -> list[bytes]:
    """Return the visible secrets in ``where``."""
    text = where.encode(errors="replace") if isinstance(where, str) else where
    every = {s for secret in (MARK, PLAIN, SCRAM, WRONG, STORE, *more) for s in spellings(secret)}
    return [secret for secret in every if secret in text]


def shown_in_files(folder: Path, *more: bytes) -> dict[str, list[bytes]]:
    """Return the files of a folder that contain a secret, and the secrets."""
    found = {str(path): shown(path.read_bytes(), *more) for path in folder.rglob("*") if path.is_file()}
    return {path: secrets for path, secrets in found.items() if secrets}

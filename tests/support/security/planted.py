"""Secrets with a mark in them, and whether anything shows one: plain, in hex, in base64 with anything around it."""

from __future__ import annotations

import base64
from hashlib import pbkdf2_hmac
from pathlib import Path

MARK = "p1anted"
"""In every secret, so that one search finds them all."""
PLAIN = f"{MARK}-plain-5d1c"
SCRAM = f"{MARK}-scram-8e2b"
WRONG = f"{MARK}-wrong-77aa"
STORE = f"{MARK}-store-91f0"
IN_TOKEN = f"{MARK}-token-3c4d"
"""A claim of a token: whoever sees it sees the token."""


def spellings(secret: str | bytes) -> set[bytes]:
    """What a secret may look like: its bytes, hex, base64 wherever it begins in what was encoded."""
    raw = secret.encode() if isinstance(secret, str) else secret
    found = {raw, raw.hex().encode(), raw.hex().upper().encode()}
    for shift in range(3):  # what stands before it moves its letters by so many; those at both ends depend on others
        text = base64.b64encode(bytes(shift) + raw).rstrip(b"=")
        found.add(text[(4 if shift else 0) : -3])
        found.add(text.translate(bytes.maketrans(b"+/", b"-_"))[(4 if shift else 0) : -3])
    return found


def salted(password: str, salt: bytes, iterations: int) -> bytes:
    """What SCRAM-SHA-256 makes of a password: as good as the password itself."""
    return pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def shown(where: str | bytes, *more: bytes) -> list[bytes]:
    """The secrets that are to be seen in ``where``."""
    text = where.encode(errors="replace") if isinstance(where, str) else where
    every = {s for secret in (MARK, PLAIN, SCRAM, WRONG, STORE, *more) for s in spellings(secret)}
    return [secret for secret in every if secret in text]


def shown_in_files(folder: Path, *more: bytes) -> dict[str, list[bytes]]:
    """The files below a folder that show one, and what."""
    found = {str(path): shown(path.read_bytes(), *more) for path in folder.rglob("*") if path.is_file()}
    return {path: secrets for path, secrets in found.items() if secrets}

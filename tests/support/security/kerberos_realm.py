"""A Kerberos realm for tests: MIT's KDC on a free port, its principals and their keytabs.

The library in this process finds it by environment variables, as do ``kinit`` and MIT's other programs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.waiting import eventually

HOW: Final = "`make kerberos` brings them"
SYSTEM: Final = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit", "kvno")


def missing() -> str | None:
    """Return the missing prerequisites and how to install them; None if complete."""
    packages = [name for name in ("gssapi", "k5test") if importlib.util.find_spec(name) is None]
    programs = [name for name in SYSTEM if shutil.which(name) is None]
    lacks = []
    if programs:
        lacks.append(f"{', '.join(programs)} (Debian: krb5-kdc krb5-admin-server krb5-user)")
    if packages:
        lacks.append(f"the Python packages {' and '.join(packages)} (gssapi is built: Debian: libkrb5-dev gcc)")
    return f"Kerberos needs {' and '.join(lacks)}; {HOW}" if lacks else None


def skip_where_missing() -> None:
    """Skip without Kerberos; fail if it is required."""
    lack = missing()
    if os.environ.get("KOHORT_REQUIRE_KERBEROS"):
        assert lack is None, lack
    elif lack:
        pytest.skip(lack)


class Realm:
    """A running realm. ``folder`` is for keytabs and tickets."""

    def __init__(self, made: Any, folder: Path) -> None:
        self._made = made
        self._folder = folder
        self.name: str = made.realm
        self.user: str = made.user_princ
        """A principal with a ticket in the default cache."""
        self.config = Path(made.env["KRB5_CONFIG"])

    def add(self, name: str, password: str | None = None) -> Path:
        """Add a principal with a random key or a password; return its keytab."""
        principal = f"{name}@{self.name}"
        self._made.addprinc(principal, password)
        keytab = self._folder / f"{name.replace('/', '-')}.keytab"
        self._made.extract_keytab(principal, str(keytab))
        return keytab

    def change_key(self, name: str) -> None:
        """Change a principal's key: older keytabs become invalid."""
        self._made.run([shutil.which("kadmin.local"), "change_password", "-randkey", f"{name}@{self.name}"])

    def expired_ticket(self, name: str, password: str) -> Path:
        """Get a ticket, wait until it expires, and return its cache."""
        cache = self._folder / f"{name}.expired"
        command = ["kinit", "-l", "1s", "-c", str(cache), f"{name}@{self.name}"]
        subprocess.run(command, input=f"{password}\n", text=True, check=True, stdout=subprocess.DEVNULL, timeout=30)
        tried = ["kvno", "-q", "-c", str(cache), self._made.host_princ]
        out = subprocess.DEVNULL
        eventually(lambda: subprocess.run(tried, stderr=out, check=False, timeout=30).returncode, "it does not expire")
        return cache

    @contextmanager
    def without_kdc(self) -> Iterator[None]:
        """Stop the KDC during the block."""
        self._made.stop_kdc()
        try:
            yield
        finally:
            self._made.start_kdc()


@contextmanager
def kerberos_realm(folder: Path) -> Iterator[Realm]:
    """Run a realm during the block, also as the realm of this process. Skips without Kerberos."""
    skip_where_missing()
    import k5test

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = k5test.K5Realm(portbase=port)
    try:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in made.env.items():
                environment.setenv(name, value)
            yield Realm(made, folder)
    finally:
        made.stop()
        shutil.rmtree(made.tmpdir, ignore_errors=True)

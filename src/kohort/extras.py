"""Optional packages: a missing one becomes an error with the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kohort.errors import MissingExtra


@contextmanager
def needs(extra: str, feature: str) -> Iterator[None]:
    """Import optional packages of ``kohort[extra]``, which ``feature`` needs.

    Raises MissingExtra, which is an ImportError too, for a missing package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "kohort":
            raise
        raise MissingExtra(
            f"{feature} needs the package {package}: pip install 'kohort[{extra}]'", name=package
        ) from None

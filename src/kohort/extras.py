"""Optional packages: a missing one becomes an error with the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kohort.errors import MissingExtra


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Around the imports of the packages that ``kohort[extra]`` brings, and that ``what`` cannot do without.

    Raises MissingExtra, which is an ImportError too, for one that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "kohort":
            raise
        raise MissingExtra(f"{what} needs the package {package}: pip install 'kohort[{extra}]'", name=package) from None
